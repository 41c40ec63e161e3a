/* SPDX-License-Identifier: Apache-2.0
 *
 * When a result agrees with the reference: the one place where allowances stand.
 */
#include <math.h>
#include <stdio.h>

#include "make.h"

double ref_tolerance(tn_dtype dtype) {
  switch (dtype) {
    case TN_FLOAT16:
      return 4e-3;
    case TN_BFLOAT16:
      return 3e-2;
    case TN_FLOAT32:
      return 1e-5;
    default:
      return 1e-11;
  }
}

bool ref_agrees(double got, double expected, double tolerance) {
  if (got == expected || (isnan(got) && isnan(expected))) return true;
  return fabs(got - expected) <= tolerance * (1 + fabs(expected));
}

static bool same_shape(const rt *a, const rt *b) {
  if (a->nd != b->nd) return false;
  for (int d = 0; d < a->nd; d++)
    if (a->n[d] != b->n[d]) return false;
  return true;
}

bool ref_judge(const rt *got, const rt *expected, tn_dtype dtype, double tolerance, char *words, size_t size_bytes) {
  if (!same_shape(got, expected)) {
    snprintf(words, size_bytes, "has rank %d and %lld elements, the reference rank %d and %lld", got->nd,
             (long long)got->numel, expected->nd, (long long)expected->numel);
    return false;
  }
  for (int64_t i = 0; i < got->numel && expected->check != REF_SHAPE; i++) {
    double value = *rt_at(got, i), wanted = ref_as_dtype(*rt_at(expected, i), dtype);
    bool ranged = expected->check == REF_RANGE;
    if (ranged ? value >= expected->low && value < expected->high : ref_agrees(value, wanted, tolerance)) continue;
    if (ranged)
      snprintf(words, size_bytes, "at [%lld] is %g, not in [%g, %g)", (long long)i, value, expected->low,
               expected->high);
    else
      snprintf(words, size_bytes, "at [%lld] is %.9g, the reference %.9g", (long long)i, value, wanted);
    return false;
  }
  return true;
}
