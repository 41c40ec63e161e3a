/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operator of the registry, family by family: operators x samples x dtypes under each check. A family is
 * a file of registry/ops. Operators without samples or without a reference fail by name.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/load.h>

#include "case.h"

#define FAMILY(family)                                                                             \
  TN_TEST(ops_##family, forward_matches_float64_reference) { each_case(#family, check_forward); }  \
  TN_TEST(ops_##family, meta_matches_real) { each_case(#family, check_meta); }                     \
  TN_TEST(ops_##family, inplace_and_out_match_functional) { each_case(#family, check_forms); }     \
  TN_TEST(ops_##family, gradient_matches_differences) { each_float64_case(#family, check_gradient); } \
  TN_TEST(ops_##family, second_gradient_matches_differences) {                                     \
    each_float64_case(#family, check_second_gradient);                                             \
  }                                                                                                \
  TN_TEST(ops_##family, failed_allocations_leave_no_trace) {                                       \
    each_first_case(#family, check_failing_allocations);                                           \
  }

FAMILY(create)
FAMILY(random)
FAMILY(view)
FAMILY(copy)
FAMILY(elementwise)
FAMILY(compare)
FAMILY(reduce)
FAMILY(linalg)
FAMILY(factor)
FAMILY(nn)
FAMILY(index)
FAMILY(optim)
FAMILY(attention)
FAMILY(sort)
FAMILY(norm)
FAMILY(loss)
FAMILY(activation)
FAMILY(pool)
FAMILY(conv)

static const char *const families[] = {"create", "random", "view", "copy", "elementwise", "compare",
                                       "reduce", "linalg", "factor", "nn",   "index", "optim", "attention", "sort", "norm", "loss", "activation", "pool", "conv"};

/* Operators that samples cannot describe, and the tests that stand for them. */
static const char *const tested_elsewhere[][2] = {
    {"empty.memory_format", "test_metadata.c"},
    {"empty_strided", "test_metadata.c"},
    {"empty_like", "test_metadata.c"},
    {"new_empty", "test_metadata.c"},
    {"resize_", "test_metadata.c"},
    {"set_.source_Tensor", "test_metadata.c"},
    {"to.device", "test_metadata.c"},
    {"detach_", "tests/autograd"},
};

static bool is_tested_elsewhere(const char *op) {
  for (size_t i = 0; i < sizeof tested_elsewhere / sizeof tested_elsewhere[0]; i++)
    if (strcmp(tested_elsewhere[i][0], op) == 0) return true;
  return false;
}

TN_TEST(ops_coverage, every_operator_has_samples_and_a_reference) {
  int missing = 0;
  TN_CHECK_OK(tn_init());
  for (size_t i = 0; i < tni_op_count(); i++) {
    const tn_op *op = tni_op_at(i);
    if (op->functional != op || is_tested_elsewhere(op->name)) continue;
    if (!first_sample(op)) printf("\n  %s has no samples", op->name), missing++;
    if (!ref_find(op->name)) printf("\n  %s has no reference", op->name), missing++;
  }
  TN_CHECK_INT(missing, 0);
}

TN_TEST(ops_coverage, every_operator_is_in_a_family) {
  TN_CHECK_OK(tn_init());
  for (size_t i = 0; i < tni_op_count(); i++) {
    const tn_op *op = tni_op_at(i);
    size_t f = 0;
    while (f < sizeof families / sizeof families[0] && !in_family(op, families[f])) f++;
    if (f == sizeof families / sizeof families[0]) printf("\n  %s is in no family that is tested", op->name);
    TN_CHECK(f < sizeof families / sizeof families[0]);
  }
}

/* Every operator works for at least one dtype: else the checks above would pass by declining everything. */
TN_TEST(ops_coverage, every_operator_runs) {
  int dead = 0;
  TN_CHECK_OK(tn_init());
  for (size_t i = 0; i < tni_op_count(); i++) {
    const tn_op *op = tni_op_at(i);
    const tn_sample *sample = first_sample(op);
    bool ran = false;
    if (op->functional != op || !sample) continue;
    for (tn_dtype dtype = TN_FLOAT64; dtype >= TN_BOOL && !ran; dtype--) {
      op_case c;
      op_results r;
      case_build(&c, op, sample, dtype, CASE_CPU);
      ran = case_call(&c, op, &r) == TN_OK;
      if (ran) results_release(&r);
      case_release(&c);
    }
    if (!ran) printf("\n  %s runs for no dtype: %s", op->name, tn_error_message()), dead++;
  }
  TN_CHECK_INT(dead, 0);
}
