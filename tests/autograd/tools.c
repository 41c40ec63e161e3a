/* SPDX-License-Identifier: Apache-2.0
 *
 * See tools.h. Every helper ends the test where something unexpected fails, so that tests read straight.
 */
#include "tools.h"

#include <math.h>
#include <stdlib.h>

tn_scope *open_scope(void) {
  tn_scope *scope;
  TN_CHECK_OK(tn_scope_begin(&scope));
  return scope;
}

void close_scope(tn_scope *scope) { TN_CHECK_OK(tn_scope_end(scope)); }

static tn_tensor *adopt(tn_tensor *t, bool requires_grad) {
  if (requires_grad) TN_CHECK_OK(tn_set_requires_grad(t, true));
  return tn_scope_add(t);
}

tn_tensor *tools_vec(const double *values, size_t n, bool requires_grad) {
  tn_tensor *t;
  const tn_dim size = (tn_dim)n;
  TN_CHECK_OK(tn_tensor_from_host(values, &size, 1, TN_OPTIONS(.dtype = TN_FLOAT64), &t));
  return adopt(t, requires_grad);
}

tn_tensor *tools_number(double value) {
  tn_tensor *t;
  TN_CHECK_OK(tn_tensor_from_host(&value, &(tn_dim){0}, 0, TN_OPTIONS(.dtype = TN_FLOAT64), &t));
  return adopt(t, true);
}

tn_tensor *tools_matrix(const double *values, int64_t rows, int64_t columns, bool requires_grad) {
  tn_tensor *t;
  const tn_dim sizes[2] = {rows, columns};
  TN_CHECK_OK(tn_tensor_from_host(values, sizes, 2, TN_OPTIONS(.dtype = TN_FLOAT64), &t));
  return adopt(t, requires_grad);
}

tn_tensor *tools_of_dtype(const double *values, size_t n, tn_dtype dtype, bool requires_grad) {
  tn_tensor *t = tns_to_dtype(tools_vec(values, n, false), dtype, false, true, TN_MEMORY_FORMAT_NONE);
  TN_CHECK_NOT_NULL(t);
  if (requires_grad) TN_CHECK_OK(tn_set_requires_grad(t, true));
  return t;
}

static void count_one(void *ctx) { ++*(int *)ctx; }

tn_tensor *tools_watched(int *freed) {
  static double memory[3] = {1, 2, 3};
  static const tn_dim size = 3;
  tn_tensor *t;
  TN_CHECK_OK(tn_tensor_from_memory(
      &(tn_foreign){
          .data = memory, .sizes = &size, .ndim = 1, .dtype = TN_FLOAT64, .deleter = count_one, .ctx = freed},
      &t));
  return t;
}

void tools_values(tn_tensor *t, const double *values, size_t n, const char *text, const char *file,
                  int line) {
  if (!t) tn_test_fail(file, line, "%s is NULL", text);
  if (tn_tensor_numel(t) != (int64_t)n)
    tn_test_fail(file, line, "%s has %lld elements, expected %zu", text, (long long)tn_tensor_numel(t), n);
  tn_tensor *wide;
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, true, TN_MEMORY_FORMAT_NONE, &wide));
  double *got = malloc((n ? n : 1) * sizeof *got);
  TN_CHECK_NOT_NULL(got);
  TN_CHECK_OK(tn_tensor_to_host(wide, got, n * sizeof *got));
  tn_tensor_release(wide);
  size_t bad = 0;
  while (bad < n && (fabs(got[bad] - values[bad]) <= 1e-9 * (1 + fabs(values[bad])) ||
                     got[bad] == values[bad] || (isnan(got[bad]) && isnan(values[bad]))))
    ++bad;
  double found = bad < n ? got[bad] : 0;
  free(got);
  if (bad < n) tn_test_fail(file, line, "%s[%zu] is %.12g, expected %.12g", text, bad, found, values[bad]);
}

tn_tensor *total(tn_tensor *t) { return tns_sum(t, TN_DTYPE_NONE); }

void back(tn_tensor *t) { TN_CHECK_OK(tn_backward_run(total(t), NULL)); }

tn_tensor *grad_one(tn_tensor *root, tn_tensor *input, bool create_graph) {
  tn_tensor *grad;
  const tn_backward_options options = {.retain_graph = true, .create_graph = create_graph};
  TN_CHECK_OK(tn_grad_of(&root, NULL, 1, &input, 1, &options, &grad));
  return tn_scope_add(grad);
}
