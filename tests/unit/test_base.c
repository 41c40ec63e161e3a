/* SPDX-License-Identifier: Apache-2.0
 *
 * core/base: words of failures, blocks, maps, the thread pool's chunk borders and what a fork leaves of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"
#include "tn_test.h"

TN_TEST(base_status, words_gather_on_the_way_up) {
  TN_CHECK_INT(tn_fail(TN_ERR_DTYPE, "expected %s, got %s", "float32", "bool"), TN_ERR_DTYPE);
  TN_CHECK_INT(tn_wrap(TN_ERR_DTYPE, "in %s", "exp"), TN_ERR_DTYPE);
  TN_CHECK_STR(tn_error_message(), "in exp: expected float32, got bool");
  tn_error_clear();
  TN_CHECK_STR(tn_error_message(), "");
}

/* A plugin may answer a bare code. */
TN_TEST(base_status, a_failure_without_words_is_named) {
  tn_error_clear();
  TN_CHECK_INT(tn_wrap(TN_ERR_IO, "in exp"), TN_ERR_IO);
  TN_CHECK_STR(tn_error_message(), "in exp: input/output");
  tn_error_clear();
  TN_CHECK_INT(tn_wrap(TN_OK, "a remark"), TN_OK);
  TN_CHECK_STR(tn_error_message(), "a remark");
  tn_error_clear();
}

TN_TEST(base_status, what_is_no_status_becomes_a_broken_contract) {
  tn_error_clear();
  TN_CHECK_INT(tn_wrap(9999, "in exp"), TN_ERR_PLUGIN);
  TN_CHECK_STR(tn_error_message(), "in exp: a plugin answered 9999, which is no status");
  tn_fail(-3, "no paper");
  TN_CHECK_INT(tn_wrap(-3, "in exp"), TN_ERR_PLUGIN);
  TN_CHECK_STR(tn_error_message(), "in exp: a plugin answered -3, which is no status: no paper");
  tn_error_clear();
}

/* The age: what tells a call's own words from earlier ones (Note [Whose words]). */
TN_TEST(base_status, words_put_back_are_as_old_as_they_were_however_deep) {
  tn_fail(TN_ERR_IO, "old");
  const uint32_t age = tni_tls.modes.call_flags;
  tni_words outer = tni_words_aside();
  tn_fail(TN_ERR_OUT_OF_MEMORY, "refused");
  const uint32_t later = tni_tls.modes.call_flags;
  TN_CHECK(age != later);
  tni_words inner = tni_words_aside();
  tn_fail(TN_ERR_OUT_OF_MEMORY, "refused again");
  tn_error_clear();
  tni_words_back(inner);
  TN_CHECK_STR(tn_error_message(), "refused");
  TN_CHECK(tni_tls.modes.call_flags == later);
  tni_words_back(outer);
  TN_CHECK_STR(tn_error_message(), "old");
  TN_CHECK(tni_tls.modes.call_flags == age);
  tn_error_clear();
}

TN_TEST(base_status, every_code_has_a_name) {
  for (tn_status s = TN_OK; s <= TN_ERR_INTERNAL; ++s) TN_CHECK(strcmp(tn_status_name(s), "unknown status") != 0);
  TN_CHECK_STR(tn_status_name(-1), "unknown status");
  TN_CHECK_STR(tn_status_name(9999), "unknown status");
}

static char logged[256];
static void take_line(void *ctx, int32_t level, const char *words) {
  snprintf(logged, sizeof logged, "%d %s", level, words);
  ++*(int *)ctx;
}

TN_TEST(base_status, an_application_takes_the_log_lines) {
  int lines = 0;
  tn_log_set(take_line, &lines);
  tn_log(TN_LOG_WARN, "disk at %d %%", 93);
  tn_log(TN_LOG_DEBUG, "not wanted at the default level");
  tn_log_set(NULL, NULL);
  TN_CHECK_INT(lines, 1);
  TN_CHECK_STR(logged, "2 disk at 93 %");
}

TN_TEST(base_alloc, blocks_are_aligned_and_classes_fit) {
  for (size_t bytes = 1; bytes <= TNI_BLOCK_MAX; bytes += 7) {
    unsigned c = tni_block_class(bytes);
    TN_CHECK(tni_block_bytes[c] >= bytes);
    TN_CHECK(c == 0 || tni_block_bytes[c - 1] < bytes);
    void *block = tni_block_alloc(c);
    TN_CHECK_NOT_NULL(block);
    TN_CHECK_INT((uintptr_t)block % 64, 0);
    memset(block, 0xa5, tni_block_bytes[c]);
    tni_block_free(block, c);
  }
}

TN_TEST(base_map, finds_what_was_put_and_forgets_what_was_removed) {
  tni_map map = {0};
  char keys[500][8];
  for (int i = 0; i < 500; ++i) {
    snprintf(keys[i], sizeof keys[i], "k%d", i);
    TN_CHECK_OK(tni_map_put(&map, keys[i], keys[i]));
  }
  for (int i = 0; i < 500; i += 3) tni_map_remove(&map, keys[i]);
  for (int i = 0; i < 500; ++i) TN_CHECK(tni_map_get(&map, keys[i]) == (i % 3 ? keys[i] : NULL));
  TN_CHECK_PTR_NULL(tni_map_get(&map, "absent"));
  TN_CHECK_INT(map.count, 500 - 167);
  tni_map_deinit(&map);
}

/* ------------------------------------------------------------------ parallel_for */

typedef struct borders {
  _Atomic int chunks;
  _Atomic int64_t sum;
  int64_t begins[64];
} borders;

static tn_status note_borders(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  borders *b = ctx;
  b->begins[atomic_fetch_add(&b->chunks, 1)] = begin;
  for (int64_t i = begin; i < end; ++i) atomic_fetch_add(&b->sum, i);
  return TN_OK;
}

TN_TEST(base_parallel, covers_the_range_once_for_any_thread_count) {
  int32_t before = tni_parallel_threads();
  for (int32_t threads = 1; threads <= 5; ++threads) {
    TN_CHECK_OK(tni_parallel_set_threads(threads));
    for (int64_t n = 0; n < 40; n += 3) {
      borders b = {0};
      TN_CHECK_OK(tni_parallel_for(n, 4, note_borders, &b));
      TN_CHECK_INT(b.sum, n * (n - 1) / 2);
      TN_CHECK(b.chunks <= threads);
    }
  }
  TN_CHECK_OK(tni_parallel_set_threads(before));
}

static tn_status nested(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  for (int64_t i = begin; i < end; ++i) TN_TRY(tni_parallel_for(10, 1, note_borders, ctx));
  return TN_OK;
}

TN_TEST(base_parallel, nested_regions_run_inline) {
  TN_CHECK_OK(tni_parallel_set_threads(3));
  borders b = {0};
  TN_CHECK_OK(tni_parallel_for(5, 1, nested, &b));
  TN_CHECK_INT(b.sum, 5 * 45);
}

static tn_status fail_in_second(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  return begin ? tn_fail(TN_ERR_DATA, "chunk at %lld is bad", (long long)begin) : TN_OK;
}

TN_TEST(base_parallel, a_workers_error_reaches_the_caller_with_its_words) {
  TN_CHECK_OK(tni_parallel_set_threads(2));
  TN_CHECK_FAILS(tni_parallel_for(8, 1, fail_in_second, NULL), TN_ERR_DATA, "chunk at 4 is bad");
}

TN_TEST(base_parallel, thread_counts_out_of_range_are_refused) {
  TN_CHECK_FAILS(tni_parallel_set_threads(0), TN_ERR_INVALID_ARGUMENT, "expected 1 to 1024, got 0");
  TN_CHECK_FAILS(tni_parallel_set_threads(10000), TN_ERR_INVALID_ARGUMENT, "got 10000");
}

TN_TEST(base_parallel, many_short_regions_from_many_threads) {
  TN_CHECK_OK(tni_parallel_set_threads(3));
  for (int i = 0; i < 300; ++i) {
    borders b = {0};
    TN_CHECK_OK(tni_parallel_for(9, 1, note_borders, &b));
    TN_CHECK_INT(b.sum, 36);
  }
  tni_parallel_stop();
  borders b = {0};
  TN_CHECK_OK(tni_parallel_for(9, 1, note_borders, &b)); /* workers start again */
  TN_CHECK_INT(b.sum, 36);
  tni_parallel_stop();
}

TN_TEST(base_parallel, a_forked_child_computes_and_does_not_hang) {
#ifdef __SANITIZE_THREAD__
  return; /* TSan does not follow threads across fork; the name stays, so that the lists of all presets agree */
#endif
  TN_CHECK_OK(tni_parallel_set_threads(2));
  borders b = {0};
  TN_CHECK_OK(tni_parallel_for(9, 1, note_borders, &b));
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    borders c = {0};
    bool good = tni_parallel_for(9, 1, note_borders, &c) == TN_OK && c.sum == 36;
    _exit(good ? 0 : 1);
  }
  int result = -1;
  TN_CHECK(waitpid(child, &result, 0) == child);
  TN_CHECK_INT(result, 0);
  tni_parallel_stop();
}
