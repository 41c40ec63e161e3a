/* SPDX-License-Identifier: Apache-2.0
 *
 * plugins/openblas on the CPU's key. What it computes is compared with sums in double, so the same tests hold
 * when it is absent, switched off or declines (CTest runs them both ways); what it says and how it behaves in
 * a process is tested where it can be opened. Sizes lie on both sides of each border of the table.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

#include "tests/unit/test_cpu.h"

/* ------------------------------------------------------------------ results */

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

static double tolerance(tn_dtype dtype, int64_t k) {
  return (dtype == TN_FLOAT32 ? 8e-7 : 4e-15) * (1 + sqrt((double)k));
}

/* z = beta s + alpha (x @ y), in row-major doubles; s has one row; n_checked elements spread over z are
 * compared. */
typedef struct expected {
  int64_t batch, m, n, k;
  const double *x, *y, *s;
  double alpha, beta;
} expected;

static void check_elements(const expected *e, const double *z, double tol) {
  int64_t count = e->batch * e->m * e->n, step = count / 2000 + 1;
  for (int64_t at = 0; at < count; at += step) {
    int64_t b = at / (e->m * e->n), i = at / e->n % e->m, j = at % e->n;
    double sum = 0;
    for (int64_t p = 0; p < e->k; ++p)
      sum += e->x[(b * e->m + i) * e->k + p] * e->y[(b * e->k + p) * e->n + j];
    TN_CHECK_DOUBLE(z[at], (e->s ? e->beta * e->s[j] : 0) + e->alpha * sum, tol);
  }
}

typedef struct shape {
  int64_t batch, m, n, k; /* batch 0: mm */
} shape;

static void check_product(shape s, tn_dtype dtype, int layout_a, int layout_b) {
  tn_tensor *a = stack(s.batch, s.m, s.k, dtype, layout_a, 1),
            *b = stack(s.batch, s.k, s.n, dtype, layout_b, 2), *c;
  TN_CHECK_OK(s.batch ? tn_bmm(a, b, &c) : tn_mm(a, b, &c));
  expected e = {s.batch ? s.batch : 1, s.m, s.n, s.k, cpu_values(a), cpu_values(b), NULL, 1, 0};
  double *z = cpu_values(c);
  check_elements(&e, z, tolerance(dtype, s.k));
  free((void *)e.x);
  free((void *)e.y);
  free(z);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(c);
}

static void check_layouts(shape s) {
  for (int i = 0; i < LAYOUTS * LAYOUTS; ++i) {
    check_product(s, TN_FLOAT32, i % LAYOUTS, i / LAYOUTS);
    check_product(s, TN_FLOAT64, i % LAYOUTS, i / LAYOUTS);
  }
}

TN_TEST(openblas, matrices_around_the_borders_of_the_table) {
  static const shape shapes[] = {{0, 5, 8, 5},    {0, 6, 7, 5},     {0, 12, 201, 9},   {0, 13, 201, 9},
                                 {0, 9, 9, 8},    {0, 9, 9, 9},     {0, 8, 31, 33},    {0, 8, 32, 33},
                                 {0, 64, 8, 17},  {0, 64, 10, 128}, {0, 100, 99, 101}, {0, 100, 101, 101},
                                 {0, 31, 33, 35}, {0, 17, 16, 3}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) check_layouts(shapes[i]);
}

TN_TEST(openblas, stacks) {
  static const shape shapes[] = {
      {3, 16, 24, 8}, {7, 33, 20, 17}, {70, 9, 30, 31}, {2, 1, 40, 30}, {2, 40, 1, 30}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) check_layouts(shapes[i]);
}

TN_TEST(openblas, one_row_or_one_column) {
  static const shape shapes[] = {{0, 1, 40, 30},   {0, 40, 1, 30},   {0, 1, 1, 300},   {0, 700, 1, 512},
                                 {0, 700, 1, 513}, {0, 1, 2100, 70}, {0, 2100, 1, 70}, {0, 300, 1, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) check_layouts(shapes[i]);
}

TN_TEST(openblas, large_products_in_pieces) {
  check_product((shape){0, 2048, 2053, 2048}, TN_FLOAT32, ROWS, ROWS);
  check_product((shape){0, 2151, 2048, 2050}, TN_FLOAT32, TRANSPOSED, GAPS);
  check_product((shape){0, 1030, 1040, 1024}, TN_FLOAT64, GAPS, TRANSPOSED);
}

static void check_vector(int64_t m, int64_t k, tn_dtype dtype, int layout, bool spread) {
  tn_tensor *a = stack(0, m, k, dtype, layout, 1), *both = stack(0, k, 2, dtype, ROWS, 2), *x, *y;
  TN_CHECK_OK(tn_select(both, 1, 1, &x)); /* every second element */
  if (!spread) {
    tn_tensor *dense;
    TN_CHECK_OK(tn_contiguous(x, TN_CONTIGUOUS_FORMAT, &dense));
    tn_tensor_release(x);
    x = dense;
  }
  TN_CHECK_OK(tn_mv(a, x, &y));
  expected e = {1, m, 1, k, cpu_values(a), cpu_values(x), NULL, 1, 0};
  double *z = cpu_values(y);
  check_elements(&e, z, tolerance(dtype, k));
  free((void *)e.x);
  free((void *)e.y);
  free(z);
  tn_tensor_release(a);
  tn_tensor_release(both);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

TN_TEST(openblas, matrix_and_vector) {
  static const int64_t sizes[][2] = {{3, 4},    {4, 4},    {64, 63}, {2100, 130},
                                     {70, 512}, {70, 513}, {1, 40},  {40, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (int layout = 0; layout < LAYOUTS; ++layout)
      for (int spread = 0; spread < 2; ++spread) {
        check_vector(sizes[i][0], sizes[i][1], TN_FLOAT32, layout, spread);
        check_vector(sizes[i][0], sizes[i][1], TN_FLOAT64, layout, spread);
      }
}

/* Strides of 0 mean nothing to a BLAS. */
TN_TEST(openblas, expanded_operands) {
  for (int which = 0; which < 3; ++which) {
    tn_tensor *a = stack(0, which == 0 ? 1 : 40, which == 1 ? 1 : 30, TN_FLOAT32, ROWS, 1), *wide_a, *wide_b,
              *c;
    tn_tensor *b = stack(0, which == 2 ? 1 : 30, 20, TN_FLOAT32, ROWS, 2),
              *vector = stack(0, 1, 1, TN_FLOAT32, ROWS, 3), *x;
    TN_CHECK_OK(tn_expand(a, CPU_SIZES(40, 30), false, &wide_a));
    TN_CHECK_OK(tn_expand(b, CPU_SIZES(30, 20), false, &wide_b));
    TN_CHECK_OK(tn_mm(wide_a, wide_b, &c));
    expected e = {1, 40, 20, 30, cpu_values(wide_a), cpu_values(wide_b), NULL, 1, 0};
    double *z = cpu_values(c);
    check_elements(&e, z, 3 * tolerance(TN_FLOAT32, 30));
    free((void *)e.y);
    free(z);
    tn_tensor_release(c);
    TN_CHECK_OK(tn_expand(vector, CPU_SIZES(1, 30), false, &x));
    tn_tensor_release(vector);
    TN_CHECK_OK(tn_select(x, 0, 0, &vector));
    TN_CHECK_OK(tn_mv(wide_a, vector, &c));
    expected v = {1, 40, 1, 30, e.x, cpu_values(vector), NULL, 1, 0};
    z = cpu_values(c);
    check_elements(&v, z, 3 * tolerance(TN_FLOAT32, 30));
    free((void *)e.x);
    free((void *)v.y);
    free(z);
    tn_tensor *all[] = {a, b, wide_a, wide_b, c, vector, x};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  }
}

/* m x n from a broadcast row, by value or in place. */
static void check_addmm(int64_t m, int64_t n, int64_t k, bool in_place, double beta, double alpha) {
  tn_tensor *a = stack(0, m, k, TN_FLOAT32, ROWS, 1), *b = stack(0, k, n, TN_FLOAT32, ROWS, 2), *c;
  tn_tensor *row = stack(0, 1, n, TN_FLOAT32, ROWS, 3);
  if (in_place) {
    tn_tensor *wide;
    TN_CHECK_OK(tn_expand(row, CPU_SIZES(m, n), false, &wide));
    TN_CHECK_OK(tn_clone(wide, TN_CONTIGUOUS_FORMAT, &c));
    TN_CHECK_OK(tn_addmm_(c, a, b, tn_float(beta), tn_float(alpha)));
    tn_tensor_release(wide);
  } else {
    TN_CHECK_OK(tn_addmm(row, a, b, tn_float(beta), tn_float(alpha), &c));
  }
  expected e = {1, m, n, k, cpu_values(a), cpu_values(b), cpu_values(row), alpha, beta};
  double *z = cpu_values(c);
  check_elements(&e, z, 3 * tolerance(TN_FLOAT32, k));
  free((void *)e.x);
  free((void *)e.y);
  free((void *)e.s);
  free(z);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(row);
  tn_tensor_release(c);
}

TN_TEST(openblas, addmm_scales_and_broadcasts) {
  static const int64_t sizes[][3] = {{20, 37, 50}, {1, 37, 50}, {37, 1, 50}, {2048, 2050, 2048}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (int in_place = 0; in_place < 2; ++in_place) {
      check_addmm(sizes[i][0], sizes[i][1], sizes[i][2], in_place, 0.5, -2);
      check_addmm(sizes[i][0], sizes[i][1], sizes[i][2], in_place, 1, 1);
    }
}

static void check_all(tn_tensor *t, double value) {
  double *z = cpu_values(t);
  for (int64_t i = 0; i < tn_tensor_numel(t); ++i) TN_CHECK_DOUBLE(z[i], value, 0);
  free(z);
}

TN_TEST(openblas, nan_comes_through_where_it_counts_and_nowhere_else) {
  static const int64_t columns[] = {1, 20};
  for (int i = 0; i < 2; ++i) {
    int64_t n = columns[i];
    tn_tensor *zeros, *nans, *result, *t;
    TN_CHECK_OK(tn_zeros(CPU_SIZES(30, n), NULL, &zeros));
    TN_CHECK_OK(tn_full(CPU_SIZES(20, 30), tn_float(NAN), NULL, &nans));
    TN_CHECK_OK(tn_mm(nans, zeros, &result)); /* NaN times 0 */
    check_all(result, NAN);
    TN_CHECK_OK(tn_zero_(nans));
    TN_CHECK_OK(tn_mm_out(nans, zeros, result)); /* what stood in the target does not count */
    check_all(result, 0);
    tn_tensor_release(result);
    TN_CHECK_OK(tn_full(CPU_SIZES(20, n), tn_float(NAN), NULL, &t));
    TN_CHECK_OK(tn_addmm(t, nans, zeros, tn_int(0), tn_int(1), &result)); /* beta 0 hides self */
    check_all(result, 0);
    tn_tensor_release(result);
    TN_CHECK_OK(tn_full_like(nans, tn_float(INFINITY), NULL, TN_PRESERVE_FORMAT, &result));
    tn_tensor_release(t);
    TN_CHECK_OK(tn_zeros(CPU_SIZES(20, n), NULL, &t));
    tn_tensor *sum;
    TN_CHECK_OK(
        tn_addmm(t, result, zeros, tn_int(1), tn_int(0), &sum)); /* alpha 0 does not hide infinity times 0 */
    check_all(sum, NAN);
    tn_tensor_release(sum);
    tn_tensor_release(result);
    tn_tensor_release(t);
    tn_tensor_release(zeros);
    tn_tensor_release(nans);
  }
}

static tn_tensor *some_products(int which) {
  tn_tensor *a, *b, *c;
  switch (which) {
    case 0:
      a = stack(0, 2060, 2048, TN_FLOAT32, ROWS, 1), b = stack(0, 2048, 2050, TN_FLOAT32, ROWS, 2);
      break;
    case 1: a = stack(0, 3000, 260, TN_FLOAT32, ROWS, 1), b = stack(0, 260, 1, TN_FLOAT32, ROWS, 2); break;
    case 2:
      a = stack(0, 5000, 260, TN_FLOAT64, TRANSPOSED, 1), b = stack(0, 260, 1, TN_FLOAT64, ROWS, 2);
      break;
    default: a = stack(90, 40, 60, TN_FLOAT32, ROWS, 1), b = stack(90, 60, 50, TN_FLOAT32, ROWS, 2);
  }
  TN_CHECK_OK(which < 3 ? tn_mm(a, b, &c) : tn_bmm(a, b, &c));
  tn_tensor_release(a);
  tn_tensor_release(b);
  return c;
}

TN_TEST(openblas, bits_do_not_depend_on_threads) {
  int32_t before = tn_num_threads();
  for (int which = 0; which < 4; ++which) {
    TN_CHECK_OK(tn_set_num_threads(1));
    tn_tensor *first = some_products(which);
    for (int32_t threads = 2; threads <= 5; ++threads) {
      TN_CHECK_OK(tn_set_num_threads(threads));
      tn_tensor *c = some_products(which);
      cpu_check_same_bits(first, c);
      tn_tensor_release(c);
    }
    tn_tensor_release(first);
  }
  TN_CHECK_OK(tn_set_num_threads(before));
}

/* ------------------------------------------------------------------ the process */

/* Is the plugin open, once mm has been called? It may be absent, switched off, or find an old processor; any
 * other reason is a failure. */
static bool is_ready(void) {
  check_product((shape){0, 16, 16, 16}, TN_FLOAT32, ROWS, ROWS);
  for (size_t i = 0; i < tn_plugin_count(); ++i) {
    tn_plugin_report report;
    TN_CHECK_OK(tn_plugin_get(i, &report));
    if (!report.name || strcmp(report.name, "openblas") != 0) continue;
    if (report.state == TN_PLUGIN_REJECTED) TN_CHECK_CONTAINS(report.reason, "switched off");
    if (report.state == TN_PLUGIN_NO_HARDWARE)
      TN_CHECK_CONTAINS(report.reason, "is used from AVX2 with FMA on");
    if (report.state == TN_PLUGIN_FAILED) TN_CHECK_STR(report.reason, "");
    return report.state == TN_PLUGIN_READY;
  }
  return false;
}

static int threads_of_process(void) {
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;
  while (tasks && readdir(tasks)) ++n;
  if (tasks) closedir(tasks);
  return n;
}

TN_TEST(openblas, starts_no_threads_and_leaves_openmp_as_it_was) {
  if (!is_ready()) return;
  void *gomp = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!gomp) return;
  int (*get)(void) = (int (*)(void))dlsym(gomp, "omp_get_max_threads");
  void (*set)(int) = (void (*)(int))dlsym(gomp, "omp_set_num_threads");
  int32_t before = tn_num_threads();
  int openmp_before = get();
  TN_CHECK_OK(tn_set_num_threads(1));
  set(3);
  int threads = threads_of_process();
  tn_tensor_release(some_products(0));
  tn_tensor_release(some_products(1));
  TN_CHECK(threads_of_process() <= threads); /* one that was joined before may have been listed still */
  TN_CHECK_INT(get(), 3);
  set(openmp_before);
  TN_CHECK_OK(tn_set_num_threads(before));
  dlclose(gomp);
}

/* What the command line says under the settings given; the caller frees it. */
static char *cli(const char *settings, const char *command) {
  char line[4096], *text = calloc(1, 65536);
  snprintf(line, sizeof line, "env %s '%s' %s 2>&1", settings, TN_TEST_CLI, command);
  FILE *pipe = popen(line, "r");
  TN_CHECK_NOT_NULL(pipe);
  text[fread(text, 1, 65535, pipe)] = 0;
  pclose(pipe);
  return text;
}

TN_TEST(openblas, why_names_the_kernels_whatever_the_environment_says) {
  if (!is_ready()) return;
  static const char *const settings[] = {"-u OPENBLAS_CORETYPE", "OPENBLAS_CORETYPE=Nehalem",
                                         "OPENBLAS_CORETYPE=Zen",
                                         "OPENBLAS_CORETYPE=nonsense OPENBLAS_L2_SIZE=64"};
  char *first = cli("-u OPENBLAS_CORETYPE -u TENON_CPU_ISA TENON_PROVIDERS=onednn:off", "why mm cpu float32");
  TN_CHECK_CONTAINS(first, "openblas runs (priority 10, OpenBLAS ");
  for (size_t i = 0; i < sizeof settings / sizeof *settings; ++i) {
    char line[256];
    snprintf(line, sizeof line, "-u TENON_CPU_ISA %s TENON_PROVIDERS=onednn:off", settings[i]);
    char *text = cli(line, "why mm cpu float32");
    TN_CHECK_STR(text, first);
    free(text);
  }
  free(first);
}

TN_TEST(openblas, says_why_it_does_not_run) {
  if (!is_ready()) return;
  char *text = cli("TENON_CPU_ISA=scalar", "why mv cpu float64");
  TN_CHECK_CONTAINS(text,
                    "openblas lists mv on cpu and is no hardware: OpenBLAS is used from AVX2 with FMA on");
  free(text);
  text = cli("TENON_PROVIDERS=openblas:off,onednn:off", "why bmm cpu float32");
  TN_CHECK_CONTAINS(text, "cpu runs");
  TN_CHECK_CONTAINS(text, "openblas lists bmm on cpu and is rejected: switched off by TENON_PROVIDERS");
  free(text);
}
