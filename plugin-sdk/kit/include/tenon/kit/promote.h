/* SPDX-License-Identifier: Apache-2.0
 *
 * The common dtype of operands, by ATen's rules: bool < integer < float < complex; tensors with dims decide,
 * 0-d tensors only raise the category, numbers (and tensors made from numbers) only raise it above both; a
 * float number among integers brings the thread's default dtype.
 *
 * Pure functions of dtypes and values. What an operator does with the common dtype (compare, integers to
 * float) is its meta rule's business.
 */
#ifndef TENON_KIT_PROMOTE_H
#define TENON_KIT_PROMOTE_H

#include <tenon/kit/dtype.h>
#include <tenon/kit/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Smallest dtype that both fit into; NONE and x give x. TN_DTYPE_NONE if there is none (float8 with another
 * dtype; unsigned 16 to 64 bits with another integer). */
tn_dtype tn_promote_types(tn_dtype a, tn_dtype b);

/* Operands seen so far, by kind; start zeroed. */
typedef struct tn_promote_state {
  tn_dtype dims;    /* of tensors with dims */
  tn_dtype zero;    /* of 0-d tensors */
  tn_dtype wrapped; /* of numbers */
  uint8_t clash;    /* 1: two operands had no common dtype, given in clash_a and clash_b */
  tn_dtype clash_a;
  tn_dtype clash_b;
} tn_promote_state;
/* default_dtype: the thread's default float dtype, for numbers. */
void tn_promote_add_view(tn_promote_state *state, const tn_view *view, tn_dtype default_dtype);
void tn_promote_add_scalar(tn_promote_state *state, const tn_scalar *scalar, tn_dtype default_dtype);
tn_status tn_promote_result(const tn_promote_state *state, tn_dtype *out_dtype);

/* The common dtype of args: tensors, tensor lists (absent entries passed over) and numbers count, anything
 * else does not. Pass operands only: an `int dim` or an `alpha` would count as a number. */
tn_status tn_promote_values(const tn_value *args, size_t n, tn_dtype default_dtype, tn_dtype *out_dtype);

/* May a result computed in `from` be stored into a target of dtype `to`? */
static inline bool tn_can_cast(tn_dtype from, tn_dtype to) {
  return tn_kit_dtype_category(from) <= tn_kit_dtype_category(to) &&
         tn_kit_dtype_category(to) != TN_CATEGORY_NONE;
}
/* complex64 for float32 and the halves, complex128 for float64. */
tn_dtype tn_promote_to_complex(tn_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
