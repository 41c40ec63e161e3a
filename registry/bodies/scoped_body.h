/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies as one expression: everything that the tns_ calls make belongs to a scope of the body's own, which also keeps
 * the first failure, so the arithmetic stands without a line of release or check between.
 */
#ifndef TENON_REGISTRY_BODIES_SCOPED_BODY_H
#define TENON_REGISTRY_BODIES_SCOPED_BODY_H

#include <tenon/scoped.h>

#include "registry/bodies/compose.h"

enum { TNI_SCOPED_RESULTS = 3 };

/* results: tensors of the scope, arguments, or NULL after a failure. */
static inline tn_status tni_scoped_end(tn_scope *scope, tn_tensor *const *results, uint32_t n,
                                       tn_value *out) {
  tn_tensor *kept[TNI_SCOPED_RESULTS];
  for (uint32_t i = 0; i < n; i++) kept[i] = tn_scope_keep(results[i]);
  tn_status status = tn_scope_end(scope);
  for (uint32_t i = 0; i < n; i++) {
    if (status == TN_OK)
      out[i] = tn_value_tensor(kept[i]);
    else
      tn_tensor_release(kept[i]);
  }
  return status;
}

/* tn_body_NAME over `static tn_tensor *calculation(const tn_value *args)`. */
#define TN_SCOPED_BODY(NAME, calculation)          \
  TN_BODY(NAME) {                                  \
    tn_scope *scope;                               \
    tn_status begun = tn_scope_begin(&scope);      \
    if (begun != TN_OK) return begun;              \
    tn_tensor *result = calculation(args);         \
    return tni_scoped_end(scope, &result, 1, out); \
  }
/* The same with two results: `static void calculation(const tn_value *args, tn_tensor **results)`. */
#define TN_SCOPED_BODY2(NAME, calculation)         \
  TN_BODY(NAME) {                                  \
    tn_scope *scope;                               \
    tn_tensor *results[2] = {NULL};                \
    tn_status begun = tn_scope_begin(&scope);      \
    if (begun != TN_OK) return begun;              \
    calculation(args, results);                    \
    return tni_scoped_end(scope, results, 2, out); \
  }
/* Writes into its arguments and gives nothing: `static void calculation(const tn_value *args)`. */
#define TN_SCOPED_BODY0(NAME, calculation)    \
  TN_BODY(NAME) {                             \
    tn_scope *scope;                          \
    (void)out;                                \
    tn_status begun = tn_scope_begin(&scope); \
    if (begun != TN_OK) return begun;         \
    calculation(args);                        \
    return tn_scope_end(scope);               \
  }

/* t in another dtype: a copy, or t itself. */
static inline tn_tensor *tni_as(tn_tensor *t, tn_dtype dtype) {
  return t && tn_tensor_dtype(t) != dtype ? tns_to_dtype(t, dtype, false, false, 0) : t;
}
/* Sums of half types need a wider one. */
static inline tn_dtype tni_wide(tn_dtype dtype) {
  return dtype == TN_FLOAT16 || dtype == TN_BFLOAT16 ? TN_FLOAT32 : dtype;
}

#endif
