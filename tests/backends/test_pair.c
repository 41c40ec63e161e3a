/* SPDX-License-Identifier: Apache-2.0
 *
 * Two backends of other people in one process, beside the CPU. Neither has a line about autograd, saving, random
 * numbers, caching or statistics: all of that is the core's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/files.h>
#include <tenon/tenon.h>

#include "tn_test.h"

/* Before the first call of the process reads it. */
__attribute__((constructor)) static void choose_plugins(void) {
  setenv("TENON_PLUGIN_PATH", TN_EXAMPLE_PLUGIN_DIR, 1);
}

static const char *const places[] = {"cpu", "attic", "forty"};
enum { N_PLACES = 3, N = 12 };

static tn_device named(const char *name) {
  tn_device device;
  TN_CHECK_OK(tn_device_open(name, &device));
  return device;
}

static tn_tensor *counting(const char *device) {
  float values[N];
  const tn_dim sizes[] = {3, 4};
  tn_tensor *t = NULL;
  for (int i = 0; i < N; i++) values[i] = (float)i;
  TN_CHECK_OK(tn_tensor_from_host(
      values, sizes, 2, TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true, .device = named(device)), &t));
  return t;
}

static void check_values(tn_tensor *t, const float *expected, size_t n) {
  float got[N];
  TN_CHECK_OK(tn_tensor_to_host(t, got, n * sizeof *got));
  for (size_t i = 0; i < n; i++) TN_CHECK_DOUBLE(got[i], expected[i], 0);
}

/* Copies between each pair, strided and with a cast, whichever was opened first. */
static void check_pairs(const int *order) {
  static const float turned[N] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
  for (int i = 0; i < N_PLACES; i++) named(places[order[i]]);
  for (int i = 0; i < N_PLACES; i++)
    for (int k = 0; k < N_PLACES; k++) {
      tn_tensor *a = counting(places[i]), *t = NULL, *there = NULL, *ints = NULL;
      TN_CHECK_OK(tn_t(a, &t));
      TN_CHECK_OK(tn_to_device(t, named(places[k]), TN_FLOAT32, false, true, TN_CONTIGUOUS_FORMAT, &there));
      TN_CHECK_INT(tn_tensor_device(there).backend, named(places[k]).backend);
      check_values(there, turned, N);
      TN_CHECK_OK(tn_to_device(there, named(places[i]), TN_INT64, false, true, TN_PRESERVE_FORMAT, &ints));
      int64_t got[N];
      TN_CHECK_OK(tn_tensor_to_host(ints, got, sizeof got));
      TN_CHECK_INT(got[1], 4);
      tn_tensor_release(ints);
      tn_tensor_release(there);
      tn_tensor_release(t);
      tn_tensor_release(a);
    }
}
TN_TEST(pair_copies, opened_forwards) { check_pairs((const int[]){0, 1, 2}); }
TN_TEST(pair_copies, opened_backwards) { check_pairs((const int[]){2, 1, 0}); }
TN_TEST(pair_copies, opened_from_the_middle) { check_pairs((const int[]){1, 2, 0}); }

TN_TEST(pair_random, the_same_numbers_everywhere) {
  float expected[N];
  for (int i = 0; i < N_PLACES; i++) {
    tn_tensor *t = counting(places[i]);
    float got[N];
    TN_CHECK_OK(tn_manual_seed(7));
    TN_CHECK_OK(tn_uniform_(t, -1, 2, NULL));
    TN_CHECK_OK(tn_normal_(t, 0, 1, NULL));
    TN_CHECK_OK(tn_bernoulli_(t, 0.4, NULL));
    TN_CHECK_OK(tn_tensor_to_host(t, got, sizeof got));
    if (i == 0) memcpy(expected, got, sizeof got);
    TN_CHECK_INT(memcmp(expected, got, sizeof got), 0);
    tn_tensor_release(t);
  }
}

TN_TEST(pair_files, an_array_travels) {
  char path[] = "/tmp/tenon-pair-XXXXXX";
  int fd = mkstemp(path);
  TN_CHECK(fd >= 0);
  for (int i = 0; i < N_PLACES; i++) {
    tn_tensor *t = counting(places[i]), *back = NULL, *read = NULL;
    TN_CHECK_OK(tn_npy_write(path, t));
    TN_CHECK_OK(tn_npy_read(path, &read));
    TN_CHECK_OK(tn_to_device(read, named(places[(i + 1) % N_PLACES]), TN_FLOAT32, false, true,
                             TN_PRESERVE_FORMAT, &back));
    check_values(back, (const float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, N);
    tn_tensor_release(read);
    tn_tensor_release(back);
    tn_tensor_release(t);
  }
  remove(path);
}

TN_TEST(pair_statistics, the_cache_counts_for_each) {
  for (int i = 1; i < N_PLACES; i++) {
    tn_memory_stats before, during, after;
    TN_CHECK_OK(tn_memory_get_stats(named(places[i]), &before));
    tn_tensor *t = counting(places[i]);
    TN_CHECK_OK(tn_memory_get_stats(named(places[i]), &during));
    tn_tensor_release(t);
    TN_CHECK_OK(tn_memory_get_stats(named(places[i]), &after));
    TN_CHECK(during.current_bytes >= before.current_bytes + N * sizeof(float));
    TN_CHECK_INT(after.current_bytes, before.current_bytes);
    TN_CHECK_INT(after.n_allocs - before.n_allocs, after.n_frees - before.n_frees);
  }
}

/* d/dx of sum(gelu(x @ x.t)) on each, against the CPU's. */
TN_TEST(pair_autograd, the_same_gradient) {
  float expected[N] = {0};
  for (int i = 0; i < N_PLACES; i++) {
    tn_tensor *x = counting(places[i]), *scaled = NULL, *t = NULL, *product = NULL, *y = NULL, *sum = NULL;
    float got[N];
    TN_CHECK_OK(tn_mul_scalar(x, tn_float(0.1), &scaled));
    TN_CHECK_OK(tn_set_requires_grad(scaled, true));
    TN_CHECK_OK(tn_t(scaled, &t));
    TN_CHECK_OK(tn_mm(scaled, t, &product));
    TN_CHECK_OK(tn_gelu(product, "none", &y));
    TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &sum));
    TN_CHECK_OK(tn_backward_run(sum, NULL));
    TN_CHECK_OK(tn_tensor_to_host(tn_grad(scaled), got, sizeof got));
    if (i == 0) memcpy(expected, got, sizeof got);
    for (int k = 0; k < N; k++) TN_CHECK_DOUBLE(got[k], expected[k], 1e-5);
    tn_tensor *all[] = {sum, y, product, t, scaled, x};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tn_tensor_release(all[k]);
  }
}

static tn_fallback_report report_of(const char *op, const char *device) {
  tn_fallback_report r = {0};
  for (size_t i = 0; i < tn_fallback_count(); i++) {
    TN_CHECK_OK(tn_fallback_report_get(i, &r));
    if (strcmp(r.op, op) == 0 && strcmp(r.device, device) == 0) return r;
  }
  return (tn_fallback_report){.op = op, .device = device};
}

TN_TEST(pair_fallback, counted_for_the_device_that_needed_it) {
  tn_tensor *a = counting("attic"), *f = counting("forty"), *r = NULL;
  tn_fallback_reset();
  TN_CHECK_OK(tn_exp(a, &r));
  tn_tensor_release(r);
  TN_CHECK_OK(tn_exp(f, &r));
  tn_tensor_release(r);
  tn_fallback_report attic = report_of("exp", "attic"), forty = report_of("exp", "forty");
  TN_CHECK_INT(attic.calls, 1);
  TN_CHECK_INT(attic.bytes_to_host, N * sizeof(float));
  TN_CHECK_INT(attic.bytes_from_host, N * sizeof(float));
  TN_CHECK_INT(forty.calls, 0);
  TN_CHECK_FAILS(tn_cumsum(f, 0, TN_DTYPE_NONE, &r), TN_ERR_MISSING_KERNEL,
                 "TENON_FALLBACK=cumsum@forty=allow");
  TN_CHECK_OK(tn_fallback_set("cumsum", "forty", TN_FALLBACK_ALLOW));
  TN_CHECK_OK(tn_cumsum(f, 0, TN_DTYPE_NONE, &r));
  tn_tensor_release(r);
  TN_CHECK_INT(report_of("cumsum", "forty").calls, 1);
  TN_CHECK_OK(tn_fallback_set("cumsum", "forty", TN_FALLBACK_DEFAULT));
  tn_fallback_reset();
  tn_tensor_release(f);
  tn_tensor_release(a);
}
