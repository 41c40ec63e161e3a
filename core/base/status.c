/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a failure, one record per thread, and logging.
 *
 * A record grows with its words and is freed at thread exit. When even that memory is missing, the words are
 * lost but the code is not: a static sentence stands in, so tn_error_message never lies about success.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"

struct tni_error {
  char *words;
};
static const uint32_t WORDS_COUNT = ~(uint32_t)(TNI_WORDS_ONE - 1);

static const char lost_words[] = "(out of memory while describing the failure)";

/* The record is not made through tni_alloc: an injected allocation failure must not eat its own report. */
static struct tni_error *record(void) {
  if (!tni_tls.error) {
    tni_tls.error = calloc(1, sizeof *tni_tls.error);
    tni_thread_arm();
  }
  return tni_tls.error;
}

void tni_error_release(struct tni_error *error) {
  if (!error) return;
  free(error->words);
  free(error);
}

/* New words of this thread: see Note [Whose words]. NULL: none. */
static void put_words(struct tni_error *e, char *words) {
  free(e->words);
  e->words = words;
  tni_tls.modes.call_flags += TNI_WORDS_ONE;
}

/* Formats into fresh memory; NULL when there is none. */
static char *format_words(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *words = n < 0 ? NULL : malloc((size_t)n + 1);
  if (words) vsnprintf(words, (size_t)n + 1, format, args);
  return words;
}

tn_status tni_vfail(tn_status code, const char *format, va_list args) {
  struct tni_error *e = record();
  if (!e) return code;
  put_words(e, format ? format_words(format, args) : NULL);
  return code;
}

/* What a plugin answers may be no status at all; an application can rely on the list. */
static tn_status listed(tn_status code) {
  if (code >= TN_OK && code <= TN_ERR_INTERNAL) return code;
  const struct tni_error *e = record();
  if (e && e->words) return tn_wrap(TN_ERR_PLUGIN, "a plugin answered %d, which is no status", code);
  return tn_fail(TN_ERR_PLUGIN, "a plugin answered %d, which is no status", code);
}

tn_status tni_vwrap(tn_status code, const char *format, va_list args) {
  code = listed(code);
  struct tni_error *e = record();
  char *front = e ? format_words(format, args) : NULL;
  if (!front) return code;
  /* Who answered with a bare code is at least named by it. */
  const char *rest = e->words ? e->words : code == TN_OK ? "" : tn_status_name(code);
  size_t a = strlen(front), b = strlen(rest);
  char *both = realloc(front, a + b + 3);
  if (!both) {
    free(front);
    return code;
  }
  if (b) {
    memcpy(both + a, ": ", 2);
    memcpy(both + a + 2, rest, b + 1);
  }
  put_words(e, both);
  return code;
}

tn_status tn_fail(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tni_vfail(code, format, args);
  va_end(args);
  return code;
}

tn_status tn_wrap(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  code = tni_vwrap(code, format, args);
  va_end(args);
  return code;
}

const char *tn_error_message(void) {
  const struct tni_error *e = tni_tls.error;
  if (!e) return "";
  return e->words ? e->words : "";
}

void tn_error_clear(void) { free(tni_error_take()); }

char *tni_error_take(void) {
  if (!tni_tls.error) return NULL;
  char *words = tni_tls.error->words;
  tni_tls.error->words = NULL;
  return words;
}

char *tni_error_copy(void) {
  return tni_tls.error && tni_tls.error->words ? strdup(tni_tls.error->words) : NULL;
}

void tni_error_give(char *words) {
  struct tni_error *e = record();
  if (!e) {
    free(words);
    return;
  }
  put_words(e, words);
}

tni_words tni_words_aside(void) {
  return (tni_words){.age = tni_tls.modes.call_flags & WORDS_COUNT, .text = tni_error_take()};
}

void tni_words_back(tni_words words) {
  struct tni_error *e = words.text ? record() : tni_tls.error;
  if (!e) {
    free(words.text);
    return;
  }
  free(e->words);
  e->words = words.text;
  tni_tls.modes.call_flags = (tni_tls.modes.call_flags & ~WORDS_COUNT) | words.age;
}

void tni_words_drop(tni_words words) { free(words.text); }

tn_status tni_oom(size_t size_bytes, const char *what) {
  struct tni_error *e = record();
  if (!e) return TN_ERR_OUT_OF_MEMORY;
  tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for %s", size_bytes, what);
  if (!e->words) e->words = strdup(lost_words);
  return TN_ERR_OUT_OF_MEMORY;
}

const char *tn_status_name(tn_status status) {
  static const char *const names[] = {
      "ok",           "declined",      "invalid argument",   "wrong dtype",
      "wrong device", "overlap",       "out of memory",      "not found",
      "unavailable",  "missing kernel", "not differentiable", "version mismatch",
      "wrong state",  "input/output",  "malformed data",     "plugin contract broken",
      "unsupported",  "interrupted",   "internal error"};
  if (status < 0 || (size_t)status >= sizeof names / sizeof *names) return "unknown status";
  return names[status];
}

/* ------------------------------------------------------------------ logging */

static struct {
  tni_mutex mutex;
  tn_log_fn fn;
  void *ctx;
  _Atomic int32_t level; /* 0: TENON_LOG not read yet */
} logger = {.mutex = TNI_MUTEX_INIT};
TNI_FORK_LOCK(logger, TNI_FORK_LOG, logger.mutex);

static int32_t log_level(void) {
  int32_t level = atomic_load_explicit(&logger.level, memory_order_relaxed);
  if (level) return level;
  static const char *const names[] = {"error", "warn", "info", "debug"};
  const char *wish = getenv("TENON_LOG");
  level = TN_LOG_WARN;
  for (int32_t i = 0; wish && i < 4; ++i)
    if (!strcmp(wish, names[i])) level = i + 1;
  atomic_store_explicit(&logger.level, level, memory_order_relaxed);
  return level;
}

bool tni_log_wanted(int32_t level) { return level <= log_level(); }

void tni_vlog(int32_t level, const char *format, va_list args) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  if (!tni_log_wanted(level)) return;
  char *words = format_words(format, args);
  if (!words) return;
  tni_mutex_lock(&logger.mutex);
  if (logger.fn)
    logger.fn(logger.ctx, level, words);
  else
    fprintf(stderr, "tenon: %s: %s\n", names[level < 1 ? 0 : level > 4 ? 3 : level - 1], words);
  tni_mutex_unlock(&logger.mutex);
  free(words);
}

void tn_log(int32_t level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tni_vlog(level, format, args);
  va_end(args);
}

void tn_log_set(tn_log_fn fn, void *ctx) {
  tni_mutex_lock(&logger.mutex);
  logger.fn = fn;
  logger.ctx = ctx;
  tni_mutex_unlock(&logger.mutex);
}
