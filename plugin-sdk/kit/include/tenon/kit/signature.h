/* SPDX-License-Identifier: Apache-2.0
 *
 * What a layer needs to know of an operator that it never heard of: how many results stand in `out`, which arguments
 * are written, and where the tensors of a value are. Read from the schema's text.
 */
#ifndef TENON_KIT_SIGNATURE_H
#define TENON_KIT_SIGNATURE_H

#include <tenon/plugin.h>

typedef struct tn_kit_signature {
  uint32_t n_args;    /* entries of args */
  uint32_t n_results; /* entries of out that a layer finds filled; 0 for in-place and out= forms and `()` */
  uint64_t written;   /* bit i: argument i is written */
  uint64_t targets;   /* bit i: ... and its old elements do not matter (out=) */
} tn_kit_signature;

/* Of host->op_schema's text. Costs a walk over it: keep the answer where that matters. */
tn_kit_signature tn_kit_signature_read(const char *schema);

/* The tensors of a value: *out_tensors has as many entries as answered, and may have NULL ones where the schema says
 * `Tensor?[]`. Borrowed as the value is. */
static inline uint32_t tn_kit_tensors(const tn_value *v, tn_tensor *const **out_tensors) {
  bool list = v->kind == TN_VAL_LIST && (v->elem == TN_VAL_TENSOR || v->elem == TN_VAL_OPTIONAL_TENSOR);
  *out_tensors = list ? v->u.ts : &v->u.t;
  return list ? v->count : v->kind == TN_VAL_TENSOR;
}

#endif
