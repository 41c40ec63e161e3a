/* SPDX-License-Identifier: Apache-2.0
 *
 * plugins/onednn on the CPU's key. Results are compared with those in float64, which it does not serve, so the tests
 * hold when it is absent, switched off or declines; that it does not always decline is seen in the library's own
 * log. Sizes lie on both sides of each border of the table.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugins/onednn/cache.h"
#include "tests/unit/test_cpu.h"

/* ------------------------------------------------------------------ comparison */

static tn_tensor *in_double(tn_tensor *t) {
  tn_tensor *wide;
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, false, TN_PRESERVE_FORMAT, &wide));
  return wide;
}

/* got against the same in float64, both consumed. terms: how many products of operands in (-1, 1) an element sums; the
 * library sums them in order, in float32. */
static void check_near(tn_tensor *got, tn_tensor *wanted, double terms) {
  tn_dtype dtype = tn_tensor_dtype(got);
  double relative = dtype == TN_BFLOAT16 ? 0x1p-8 : dtype == TN_FLOAT16 ? 0x1p-11 : 0;
  double absolute = 0x1p-24 * (16 * (1 + sqrt(terms)) + terms) + (relative > 0 ? 1e-6 * sqrt(terms) : 0);
  double *x = cpu_values(got), *y = cpu_values(wanted), worst = 0;
  TN_CHECK_INT(tn_tensor_numel(got), tn_tensor_numel(wanted));
  for (int64_t i = 0; i < tn_tensor_numel(got); ++i) {
    double off = fabs(x[i] - y[i]) / (relative * fabs(y[i]) + absolute);
    if (!(off <= worst)) worst = off;
  }
  if (!(worst <= 1)) fprintf(stderr, "%s: off by %g of what is allowed\n", tn_dtype_name(dtype), worst);
  TN_CHECK(worst <= 1);
  free(x);
  free(y);
  tn_tensor_release(got);
  tn_tensor_release(wanted);
}

/* ------------------------------------------------------------------ products */

enum { ROWS = 0, TRANSPOSED, GAPS, LAYOUTS };

/* rows x columns, batch times; batch 0: a matrix. */
static tn_tensor *stack(int64_t batch, int64_t rows, int64_t columns, tn_dtype dtype, int layout,
                        uint64_t seed) {
  int64_t sizes[3] = {batch, layout == TRANSPOSED ? columns : rows,
                      layout == TRANSPOSED ? rows : columns + (layout == GAPS ? 5 : 0)};
  int skip = batch == 0;
  tn_tensor *whole = cpu_tensor(sizes + skip, (size_t)(3 - skip), dtype, -1, 1, seed), *part = NULL;
  if (layout == TRANSPOSED)
    TN_CHECK_OK(tn_transpose(whole, -2, -1, &part));
  else
    TN_CHECK_OK(tn_slice(whole, -1, NULL, &columns, 1, &part));
  tn_tensor_release(whole);
  return part;
}

typedef struct shape {
  int64_t batch, m, n, k;
} shape;

static tn_tensor *multiply(tn_tensor *a, tn_tensor *b) {
  tn_tensor *c;
  TN_CHECK_OK(tn_tensor_ndim(a) == 3 ? tn_bmm(a, b, &c) : tn_mm(a, b, &c));
  return c;
}

static void check_product(shape s, tn_dtype dtype, int left, int right) {
  tn_tensor *a = stack(s.batch, s.m, s.k, dtype, left, 1), *b = stack(s.batch, s.k, s.n, dtype, right, 2);
  tn_tensor *wide_a = in_double(a), *wide_b = in_double(b);
  check_near(multiply(a, b), multiply(wide_a, wide_b), (double)s.k);
  tn_tensor *all[] = {a, b, wide_a, wide_b};
  for (size_t i = 0; i < 4; ++i) tn_tensor_release(all[i]);
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_BFLOAT16, TN_FLOAT16};

/* Pieces of unequal size in both directions, a sum in parts, one row, one column, few terms. */
TN_TEST(onednn, products_of_odd_shapes_and_all_layouts) {
  static const shape shapes[] = {{0, 63, 64, 64},    {0, 64, 64, 64},    {0, 67, 129, 93},
                                 {0, 257, 301, 65},  {0, 1, 1031, 700},  {0, 1031, 1, 700},
                                 {0, 300, 290, 3},   {0, 300, 900, 1},   {3, 70, 65, 61},
                                 {17, 33, 130, 129}, {2, 520, 250, 130}, {0, 40, 50, 2100}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int left = 0; left < LAYOUTS; ++left)
      for (int right = 0; right < LAYOUTS; ++right)
        for (int d = 0; d < 2; ++d) check_product(shapes[i], dtypes[d], left, right);
  check_product(shapes[3], TN_FLOAT16, ROWS, ROWS);
}

/* Pieces at their largest, sums in three parts. */
TN_TEST(onednn, large_products) {
  check_product((shape){0, 530, 700, 2500}, TN_FLOAT32, ROWS, TRANSPOSED);
  check_product((shape){0, 530, 700, 2500}, TN_BFLOAT16, TRANSPOSED, ROWS);
}

/* m x n from a broadcast row, by value or in place. */
static void check_addmm(shape s, tn_dtype dtype, bool in_place, double beta, double alpha) {
  tn_tensor *a = stack(0, s.m, s.k, dtype, ROWS, 1), *b = stack(0, s.k, s.n, dtype, TRANSPOSED, 2), *c,
            *wanted;
  tn_tensor *row = stack(0, 1, s.n, dtype, ROWS, 3);
  tn_tensor *wide_a = in_double(a), *wide_b = in_double(b), *wide_row = in_double(row);
  if (in_place) {
    tn_tensor *wide;
    TN_CHECK_OK(tn_expand(row, CPU_SIZES(s.m, s.n), false, &wide));
    TN_CHECK_OK(tn_clone(wide, TN_CONTIGUOUS_FORMAT, &c));
    TN_CHECK_OK(tn_addmm_(c, a, b, tn_float(beta), tn_float(alpha)));
    tn_tensor_release(wide);
  } else {
    TN_CHECK_OK(tn_addmm(row, a, b, tn_float(beta), tn_float(alpha), &c));
  }
  TN_CHECK_OK(tn_addmm(wide_row, wide_a, wide_b, tn_float(beta), tn_float(alpha), &wanted));
  check_near(c, wanted, alpha * alpha * (double)s.k);
  tn_tensor *all[] = {a, b, row, wide_a, wide_b, wide_row};
  for (size_t i = 0; i < 6; ++i) tn_tensor_release(all[i]);
}

TN_TEST(onednn, addmm_scales_broadcasts_and_rounds_once) {
  static const shape shapes[] = {{0, 100, 130, 90}, {0, 90, 70, 2100}};
  for (size_t i = 0; i < 2; ++i)
    for (int in_place = 0; in_place < 2; ++in_place)
      for (int d = 0; d < 2; ++d) {
        check_addmm(shapes[i], dtypes[d], in_place, 0.5, -2);
        check_addmm(shapes[i], dtypes[d], in_place, 1, 1);
      }
}

static void check_all(tn_tensor *t, double value) {
  double *z = cpu_values(t);
  for (int64_t i = 0; i < tn_tensor_numel(t); ++i) TN_CHECK_DOUBLE(z[i], value, 0);
  free(z);
}

TN_TEST(onednn, nan_comes_through_where_it_counts_and_nowhere_else) {
  for (int d = 0; d < 2; ++d) {
    tn_tensor *zeros, *nans, *old, *result, *sum;
    TN_CHECK_OK(tn_zeros(CPU_SIZES(80, 80), TN_OPTIONS(.dtype = dtypes[d]), &zeros));
    TN_CHECK_OK(tn_full(CPU_SIZES(80, 80), tn_float(NAN), TN_OPTIONS(.dtype = dtypes[d]), &nans));
    TN_CHECK_OK(tn_mm(nans, zeros, &result)); /* NaN times 0 */
    check_all(result, NAN);
    TN_CHECK_OK(tn_mm_out(zeros, zeros, result)); /* what stood in the target does not count */
    check_all(result, 0);
    TN_CHECK_OK(tn_addmm(nans, zeros, zeros, tn_int(0), tn_int(1), &sum)); /* beta 0 hides self */
    check_all(sum, 0);
    tn_tensor_release(sum);
    TN_CHECK_OK(tn_full_like(zeros, tn_float(INFINITY), NULL, TN_PRESERVE_FORMAT, &old));
    TN_CHECK_OK(
        tn_addmm(zeros, old, zeros, tn_int(1), tn_int(0), &sum)); /* alpha 0 does not hide infinity times 0 */
    check_all(sum, NAN);
    tn_tensor *all[] = {zeros, nans, old, result, sum};
    for (size_t i = 0; i < 5; ++i) tn_tensor_release(all[i]);
  }
}

/* ------------------------------------------------------------------ convolutions */

typedef struct image_case {
  int64_t input[5], weight[5]; /* 0 ends */
  int64_t stride, padding, dilation, groups;
  bool transposed, bias;
} image_case;

/* Small, and so large that it is cut: odd channels, one channel, groups, one channel a group, dilation, padding wider
 * than the kernel's half, 1 x 1, one and three dims, images left over at the end. */
static const image_case image_cases[] = {
    {{2, 3, 5, 6}, {4, 3, 3, 3}, 1, 1, 1, 1, false, true},
    {{9, 1, 28, 28}, {32, 1, 3, 3}, 1, 0, 1, 1, false, true},
    {{7, 17, 13, 15}, {19, 17, 3, 3}, 1, 1, 1, 1, false, true},
    {{5, 32, 26, 26}, {64, 32, 3, 3}, 1, 0, 1, 1, false, false},
    {{3, 16, 20, 21}, {24, 8, 3, 2}, 2, 1, 2, 2, false, true},
    {{4, 32, 20, 20}, {32, 1, 3, 3}, 1, 1, 1, 32, false, true},
    {{3, 6, 17, 16}, {9, 2, 5, 5}, 3, 4, 1, 3, false, true},
    {{4, 40, 14, 14}, {72, 40, 1, 1}, 1, 0, 1, 1, false, true},
    {{4, 40, 15, 14}, {24, 40, 1, 1}, 2, 0, 1, 1, false, false},
    {{6, 12, 200}, {20, 12, 7}, 2, 3, 1, 1, false, true},
    {{2, 8, 7, 9, 8}, {16, 8, 3, 3, 3}, 1, 1, 1, 1, false, true},
    {{3, 16, 9, 8}, {16, 12, 4, 4}, 2, 1, 1, 1, true, false},
    {{3, 16, 9, 8}, {16, 6, 3, 3}, 1, 0, 2, 2, true, true},
};

static size_t rank_of(const int64_t *sizes) {
  size_t n = 0;
  while (n < 5 && sizes[n] > 0) ++n;
  return n;
}

/* With the channels innermost where that is asked for and has a name. */
static tn_tensor *laid(const int64_t *sizes, tn_dtype dtype, bool last, uint64_t seed) {
  size_t n = rank_of(sizes);
  tn_tensor *t = cpu_tensor(sizes, n, dtype, -1, 1, seed), *moved;
  if (!last || n < 4) return t;
  TN_CHECK_OK(tn_contiguous(t, n == 4 ? TN_CHANNELS_LAST : TN_CHANNELS_LAST_3D, &moved));
  tn_tensor_release(t);
  return moved;
}

static const int64_t no_padding[3] = {0, 0, 0};

static tn_tensor *convolve(const image_case *c, tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  size_t n = rank_of(c->input) - 2;
  int64_t s[3] = {c->stride, c->stride, c->stride}, p[3] = {c->padding, c->padding, c->padding},
          d[3] = {c->dilation, c->dilation, c->dilation};
  tn_tensor *y = NULL;
  TN_CHECK_OK(tn_convolution(x, w, b, s, n, p, n, d, n, c->transposed, no_padding, n, c->groups, &y));
  return y;
}

static void gradients(const image_case *c, tn_tensor *g, tn_tensor *x, tn_tensor *w, const uint8_t *mask,
                      tn_tensor **out) {
  size_t n = rank_of(c->input) - 2;
  int64_t s[3] = {c->stride, c->stride, c->stride}, p[3] = {c->padding, c->padding, c->padding},
          d[3] = {c->dilation, c->dilation, c->dilation};
  int64_t channels = c->transposed ? c->weight[1] * c->groups : c->weight[0];
  out[0] = out[1] = out[2] = NULL;
  TN_CHECK_OK(tn_convolution_backward(g, x, w, &channels, 1, s, n, p, n, d, n, c->transposed, no_padding, n,
                                      c->groups, mask, 3, &out[0], &out[1], &out[2]));
}

static double spatial(tn_tensor *t) {
  double n = 1;
  for (int32_t d = 2; d < tn_tensor_ndim(t); ++d) n *= (double)tn_tensor_sizes(t)[d];
  return n;
}

static void check_gradients(const image_case *c, tn_tensor *g, tn_tensor *x, tn_tensor *w,
                            const uint8_t *mask) {
  tn_tensor *wide[] = {in_double(g), in_double(x), in_double(w)}, *got[3], *wanted[3];
  gradients(c, g, x, w, mask, got);
  gradients(c, wide[0], wide[1], wide[2], mask, wanted);
  double taps = (double)tn_tensor_numel(w) / (double)c->weight[1], sums = (double)c->input[0] * spatial(g);
  for (int i = 0; i < 3; ++i)
    if (got[i]) check_near(got[i], wanted[i], i == 0 ? taps : sums);
  for (int i = 0; i < 3; ++i) tn_tensor_release(wide[i]);
}

/* layout: bit 0 the input's, bit 1 the weight's, bit 2 the incoming gradient's */
static void check_convolution(const image_case *c, tn_dtype dtype, int layout) {
  static const uint8_t masks[][3] = {{true, true, true},
                                     {true, false, false},
                                     {false, true, false},
                                     {false, true, true},
                                     {false, false, true}};
  int64_t channels[1] = {c->transposed ? c->weight[1] * c->groups : c->weight[0]};
  tn_tensor *x = laid(c->input, dtype, layout & 1, 1), *w = laid(c->weight, dtype, layout & 2, 2);
  tn_tensor *b = c->bias ? cpu_tensor(channels, 1, dtype, -1, 1, 3) : NULL, *wide_b = b ? in_double(b) : NULL;
  tn_tensor *wide_x = in_double(x), *wide_w = in_double(w);
  tn_tensor *y = convolve(c, x, w, b), *wide_y = convolve(c, wide_x, wide_w, wide_b);
  int64_t sizes[5] = {0};
  for (int32_t d = 0; d < tn_tensor_ndim(y); ++d) sizes[d] = tn_tensor_sizes(y)[d];
  tn_tensor *g = laid(sizes, dtype, layout & 4, 4);
  for (size_t i = 0; i < sizeof masks / sizeof *masks; ++i) check_gradients(c, g, x, w, masks[i]);
  check_near(y, wide_y, (double)tn_tensor_numel(w) / (double)c->weight[c->transposed]);
  tn_tensor *all[] = {x, w, b, wide_b, wide_x, wide_w, g};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

TN_TEST(onednn, convolutions_and_gradients_of_odd_shapes_and_all_layouts) {
  for (size_t i = 0; i < sizeof image_cases / sizeof *image_cases; ++i)
    for (int layout = 0; layout < 8; ++layout)
      for (int d = 0; d < 2; ++d)
        if (layout == 0 || layout == 1 || layout == 6 || layout == 7)
          check_convolution(&image_cases[i], dtypes[d], layout);
  check_convolution(&image_cases[2], TN_FLOAT16, 0);
}

/* A gradient that comes from a sum is one number, stretched. */
TN_TEST(onednn, convolution_of_operands_that_lie_otherwise) {
  const image_case *c = &image_cases[3];
  static const uint8_t mask[3] = {true, true, true};
  tn_tensor *x = cpu_tensor(c->input, 4, TN_FLOAT32, -1, 1, 1),
            *w = cpu_tensor(c->weight, 4, TN_FLOAT32, -1, 1, 2);
  tn_tensor *turned, *one = cpu_tensor(CPU_SIZES(1), TN_FLOAT32, 1, 2, 3), *g;
  TN_CHECK_OK(tn_transpose(x, 2, 3, &turned));
  TN_CHECK_OK(tn_expand(one, CPU_SIZES(5, 64, 24, 24), false, &g));
  check_gradients(c, g, turned, w, mask);
  tn_tensor *all[] = {x, w, turned, one, g};
  for (size_t i = 0; i < 5; ++i) tn_tensor_release(all[i]);
}

/* ------------------------------------------------------------------ threads, fork */

enum { WORKS = 5 };

static tn_tensor *work(int which) {
  if (which < 2) {
    tn_tensor *a = stack(0, 530, 1100, dtypes[which], ROWS, 1),
              *b = stack(0, 1100, 300, dtypes[which], TRANSPOSED, 2);
    tn_tensor *c = multiply(a, b);
    tn_tensor_release(a);
    tn_tensor_release(b);
    return c;
  }
  const image_case *c = &image_cases[which < 4 ? 3 : 2];
  tn_tensor *x = laid(c->input, TN_FLOAT32, which & 1, 1), *w = laid(c->weight, TN_FLOAT32, false, 2);
  tn_tensor *y = convolve(c, x, w, NULL), *grads[3];
  gradients(c, y, x, w, (const uint8_t[]){0, 1, 1}, grads);
  tn_tensor *all[] = {x, w, y, grads[2]};
  for (size_t i = 0; i < 4; ++i) tn_tensor_release(all[i]);
  return grads[1];
}

TN_TEST(onednn, bits_do_not_depend_on_threads) {
  int32_t before = tn_num_threads();
  for (int which = 0; which < WORKS; ++which) {
    TN_CHECK_OK(tn_set_num_threads(1));
    tn_tensor *first = work(which);
    for (int32_t threads = 2; threads <= 5; ++threads) {
      TN_CHECK_OK(tn_set_num_threads(threads));
      tn_tensor *again = work(which);
      cpu_check_same_bits(first, again);
      tn_tensor_release(again);
    }
    tn_tensor_release(first);
  }
  TN_CHECK_OK(tn_set_num_threads(before));
}

#ifndef __SANITIZE_THREAD__ /* TSan does not follow threads across fork */
static bool same_bits(tn_tensor *a, tn_tensor *b) {
  double *x = cpu_values(a), *y = cpu_values(b);
  bool same = memcmp(x, y, (size_t)tn_tensor_numel(a) * sizeof *x) == 0;
  free(x);
  free(y);
  return same;
}
#endif

TN_TEST(onednn, a_forked_child_computes_the_same) {
#ifndef __SANITIZE_THREAD__
  int32_t before = tn_num_threads();
  TN_CHECK_OK(tn_set_num_threads(2));
  for (int which = 0; which < WORKS; ++which) {
    tn_tensor *first = work(which);
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      tn_tensor *again = work(which);
      _exit(same_bits(first, again) ? 0 : 1);
    }
    int result = -1;
    TN_CHECK_INT(waitpid(child, &result, 0), child);
    TN_CHECK_INT(result, 0);
    tn_tensor_release(first);
  }
  TN_CHECK_OK(tn_set_num_threads(before));
#endif
}

/* ------------------------------------------------------------------ cache */

typedef struct made {
  int64_t key;
} made;
static int n_made, n_dropped;

static tn_status make_one(const void *key, void *value) {
  memcpy(value, key, sizeof(int64_t));
  ++n_made;
  return *(const int64_t *)key < 0 ? TN_ERR_OUT_OF_MEMORY : TN_OK;
}
static void drop_one(void *value) { ++n_dropped; }
static const od_kind one_kind = {sizeof(int64_t), sizeof(made), make_one, drop_one};

static const made *take_one(od_cache *cache, int64_t key) {
  const void *value = NULL;
  TN_CHECK_OK(od_cache_take(cache, &one_kind, &key, &value));
  TN_CHECK_INT(((const made *)value)->key, key);
  return value;
}

TN_TEST(onednn, cache_keeps_the_last_used_and_never_drops_what_is_in_use) {
  od_cache cache;
  od_cache_open(&cache, 3);
  n_made = n_dropped = 0;
  for (int64_t key = 0; key < 3; ++key) od_cache_give(&cache, take_one(&cache, key));
  const made *used = take_one(&cache, 0); /* now the newest */
  const made *older = take_one(&cache, 1);
  TN_CHECK_INT(n_made, 3);
  od_cache_give(&cache, take_one(&cache, 3)); /* 2 goes */
  TN_CHECK_INT(n_dropped, 1);
  od_cache_give(&cache, take_one(&cache, 2));
  TN_CHECK_INT(n_made, 5);
  for (int64_t key = 10; key < 30; ++key) od_cache_give(&cache, take_one(&cache, key));
  TN_CHECK_INT(od_cache_count(&cache), 3);
  TN_CHECK_INT(used->key, 0);
  TN_CHECK_INT(older->key, 1);
  const made *held[4];
  for (int i = 0; i < 4; ++i) held[i] = take_one(&cache, 100 + i); /* more in use than it keeps */
  TN_CHECK_INT(od_cache_count(&cache), 6);
  for (int i = 0; i < 4; ++i) od_cache_give(&cache, held[i]);
  TN_CHECK_INT(od_cache_count(&cache), 3);
  od_cache_give(&cache, used);
  od_cache_give(&cache, older);
  od_cache_close(&cache);
  TN_CHECK_INT(n_made, n_dropped);
  od_cache_give(&cache, take_one(&cache, 7)); /* usable again */
  od_cache_close(&cache);
  TN_CHECK_INT(n_made, n_dropped);
}

TN_TEST(onednn, cache_keeps_nothing_of_a_failure) {
  od_cache cache;
  int64_t key = -1;
  const void *value = NULL;
  od_cache_open(&cache, 3);
  TN_CHECK(od_cache_take(&cache, &one_kind, &key, &value) == TN_ERR_OUT_OF_MEMORY);
  TN_CHECK_PTR_NULL(value);
  TN_CHECK_INT(od_cache_count(&cache), 0);
  od_cache_close(&cache);
}

/* ------------------------------------------------------------------ the process */

/* What a command prints under the settings given; the caller frees it. */
static char *cli(const char *settings, const char *command) {
  enum { MOST = 1 << 18 };
  char line[4096], *text = calloc(1, MOST);
  snprintf(line, sizeof line, "env -u TENON_CPU_ISA -u TENON_PROVIDERS %s '%s' %s 2>&1", settings,
           TN_TEST_CLI, command);
  FILE *pipe = popen(line, "r");
  TN_CHECK_NOT_NULL(pipe);
  text[fread(text, 1, MOST - 1, pipe)] = 0;
  while (fgetc(pipe) != EOF) continue;
  pclose(pipe);
  return text;
}

static void check_says(const char *settings, const char *command, const char *words) {
  char *text = cli(settings, command);
  TN_CHECK_CONTAINS(text, words);
  free(text);
}

/* Is the plugin there and usable? It may not have been built, or find an old processor; any other reason is a failure. */
static bool is_ready(void) {
  char *text = cli("", "why mm cpu float32");
  bool listed = strstr(text, "onednn") != NULL, old = strstr(text, "oneDNN is used from AVX2 on") != NULL;
  if (listed && !old) {
    TN_CHECK_CONTAINS(text, "onednn runs (priority 20, oneDNN ");
    TN_CHECK_CONTAINS(text, ", from 10321 elements on");
  }
  free(text);
  return listed && !old;
}

TN_TEST(onednn, says_why_it_does_not_run) {
  if (!is_ready()) return;
  check_says("TENON_CPU_ISA=scalar", "why convolution cpu float32",
             "onednn lists convolution on cpu and is no hardware: oneDNN is used from AVX2 on");
  check_says("TENON_PROVIDERS=onednn:off", "why bmm cpu bfloat16",
             "onednn lists bmm on cpu and is rejected: switched off by TENON_PROVIDERS");
  check_says("TENON_CPU_ISA=avx2", "why convolution_backward cpu float32", ", AVX2, ");
}

/* The library's own log tells what ran, products of float32 excepted. Its other settings change nothing. */
TN_TEST(onednn, runs_what_the_table_gives_it_whatever_the_environment_says) {
  if (!is_ready()) return;
  char *text = cli("", "why mm cpu float32");
  bool halves = strstr(text, "AVX-512 with bfloat16") != NULL;
  free(text);
  if (halves) check_says("ONEDNN_VERBOSE=1", "bench --loop mm_bf16_1024 1", "exec,cpu,matmul,");
  if (halves)
    check_says("ONEDNN_VERBOSE=1 ONEDNN_MAX_CPU_ISA=SSE41", "bench --loop mm_bf16_1024 1",
               "exec,cpu,matmul,");
  check_says("ONEDNN_VERBOSE=1 ONEDNN_DEFAULT_FPMATH_MODE=BF16", "bench --loop cnn_adam_batch64 1",
             ",backward_weights,src_f32");
  text = cli("ONEDNN_VERBOSE=1", "bench --loop mm_2x2 1");
  TN_CHECK(strstr(text, "exec,cpu") == NULL);
  free(text);
}

TN_TEST(onednn, leaves_openmp_as_it_was) {
  tn_tensor_release(work(0));
  void *gomp = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!gomp) return;
  int (*get)(void) = (int (*)(void))dlsym(gomp, "omp_get_max_threads");
  void (*set)(int) = (void (*)(int))dlsym(gomp, "omp_set_num_threads");
  int32_t before = tn_num_threads();
  int openmp_before = get();
  TN_CHECK_OK(tn_set_num_threads(1));
  set(3);
  for (int which = 0; which < WORKS; ++which) tn_tensor_release(work(which));
  TN_CHECK_INT(get(), 3);
  set(openmp_before);
  TN_CHECK_OK(tn_set_num_threads(before));
  dlclose(gomp);
}

/* ------------------------------------------------------------------ a machine without the library */

/* Copies a file and changes the first occurrence of a text to another of its length. */
static bool copy_changed(const char *from, const char *to, const char *text, const char *other) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  struct stat s;
  bool found = false;
  TN_CHECK_NOT_NULL(in);
  TN_CHECK_NOT_NULL(out);
  TN_CHECK_INT(fstat(fileno(in), &s), 0);
  size_t n = (size_t)s.st_size, length = strlen(text);
  char *bytes = malloc(n);
  TN_CHECK_INT(fread(bytes, 1, n, in), n);
  for (size_t i = 0; i + length < n && !found; ++i) {
    found = memcmp(bytes + i, text, length) == 0;
    if (found) memcpy(bytes + i, other, length);
  }
  TN_CHECK_INT(fwrite(bytes, 1, n, out), n);
  fclose(in);
  fclose(out);
  free(bytes);
  return found;
}

TN_TEST(onednn, a_missing_library_is_named_and_others_compute) {
  if (!is_ready()) return;
  char folder[] = "/tmp/tenon-onednn-XXXXXX", file[128], settings[256];
  TN_CHECK_NOT_NULL(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/onednn.so", folder);
  snprintf(settings, sizeof settings, "TENON_PLUGIN_PATH=%s", folder);
  TN_CHECK(copy_changed(TN_TEST_PLUGIN_DIR "/onednn.so", file, "libdnnl.so", "libgone.so"));
  check_says(settings, "why convolution cpu float32", "libgone.so");
  check_says(settings, "why convolution cpu float32", "cpu runs");
  TN_CHECK_INT(unlink(file), 0);
  TN_CHECK_INT(rmdir(folder), 0);
}
