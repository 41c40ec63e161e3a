/* SPDX-License-Identifier: Apache-2.0
 *
 * What bodies and gradient functions share: their heads, the step that leaves at the first failure,
 * and the release of temporaries. For registry/bodies and registry/grads only.
 *
 * The pattern: `tn_tensor *t[N] = {NULL}` owns every temporary, each call is a TNI_STEP, the result
 * is taken out of the array, and `done:` releases what is left. Operators only: no data pointer is
 * read here, and the only tensors written are those that the function made.
 */
#ifndef TENON_REGISTRY_BODIES_COMPOSE_H
#define TENON_REGISTRY_BODIES_COMPOSE_H

#include <tenon/kit/shape.h>
#include <tenon/autograd.h>
#include <tenon/operator.h>
#include <tenon/ops.h>

/* Heads: prototype (the generated table declares it too) and definition. */
#define TN_BODY(NAME)                                                           \
  tn_status tn_body_##NAME(tn_call *call, const tn_value *args, tn_value *out); \
  tn_status tn_body_##NAME(tn_call *call __attribute__((unused)), const tn_value *args, tn_value *out)
#define TN_GRAD(NAME)                                                                                  \
  tn_status tn_grad_##NAME(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins); \
  tn_status tn_grad_##NAME(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins)

/* One call of a function that has `tn_status status` and a `done:` label. */
#define TNI_STEP(expr)              \
  do {                              \
    status = (expr);                \
    if (status != TN_OK) goto done; \
  } while (0)

static inline void tni_release_all(tn_tensor **tensors, size_t n) {
  for (size_t i = 0; i < n; i++) tn_tensor_release(tensors[i]);
}
#define TNI_RELEASE(array) tni_release_all(array, sizeof(array) / sizeof(array[0]))

/* Moves a temporary out of the array. */
static inline tn_tensor *tni_take(tn_tensor **slot) {
  tn_tensor *tensor = *slot;
  *slot = NULL;
  return tensor;
}

/* The end of a body that is one call: status is the call's, result where it stored its tensor (by
 * address, since the call stands in the same argument list). */
static inline tn_status tni_result(tn_status status, tn_tensor **result, tn_value *out) {
  if (status == TN_OK) out[0] = tn_value_tensor(*result);
  return status;
}
/* A body that hands an argument back. */
static inline tn_status tni_same(tn_tensor *tensor, tn_value *out) {
  out[0] = tn_value_tensor(tn_tensor_retain(tensor));
  return TN_OK;
}

/* The end of a gradient function that makes several: on failure those made so far go. */
static inline tn_status tni_grads(tn_status status, tn_tensor **grad_ins, size_t n) {
  for (size_t i = 0; status != TN_OK && i < n; i++) tn_tensor_release(tni_take(&grad_ins[i]));
  return status;
}

/* ------------------------------------------------------------------ reading arguments */

static inline bool tni_has(const tn_value *value) { return value->kind != TN_VAL_NONE; }
static inline tn_tensor *tni_tensor_or_null(const tn_value *value) {
  return tni_has(value) ? value->u.t : NULL;
}
static inline const int64_t *tni_int_or_null(const tn_value *value) {
  return tni_has(value) ? &value->u.i : NULL;
}
static inline tn_dtype tni_dtype_of(const tn_value *value) {
  return tni_has(value) ? (tn_dtype)value->u.i : TN_DTYPE_NONE;
}
static inline tn_memory_format tni_format_of(const tn_value *value) {
  return tni_has(value) ? (tn_memory_format)value->u.i : TN_MEMORY_FORMAT_NONE;
}
static inline double tni_double_of(const tn_value *value) {
  return value->kind == TN_VAL_FLOAT ? value->u.f : (double)value->u.i;
}
/* dtype, layout, device, pin_memory as they stand in a factory's schema. */
static inline tn_options tni_options_of(const tn_value *four) {
  tn_options options = {.dtype = tni_dtype_of(&four[0])};
  if (tni_has(&four[1])) options.layout = (tn_layout)four[1].u.i;
  options.has_device = tni_has(&four[2]);
  if (options.has_device) options.device = four[2].u.d;
  options.pin_memory = tni_has(&four[3]) && four[3].u.i;
  return options;
}
static inline uint32_t tni_ndim(const tn_tensor *tensor) { return (uint32_t)tn_tensor_ndim(tensor); }
static inline bool tni_same_shape(const tn_tensor *a, const tn_tensor *b) {
  return tn_shape_equal(tni_ndim(a), tn_tensor_sizes(a), tni_ndim(b), tn_tensor_sizes(b));
}
static inline const char *tni_shape_text(const tn_tensor *tensor, char *buffer, size_t size_bytes) {
  return tn_shape_format(tni_ndim(tensor), tn_tensor_sizes(tensor), buffer, size_bytes);
}

/* ------------------------------------------------------------------ shapes that several need */

/* Elements along the dims in mask. */
static inline tn_dim tni_count_along(const tn_tensor *tensor, uint64_t mask) {
  tn_dim n = TN_DIM(1);
  for (uint32_t i = 0; i < tni_ndim(tensor); i++)
    if (mask >> i & 1) n = TN_DIM_MUL(n, tn_tensor_sizes(tensor)[i]);
  return n;
}
/* Is b, beside the matrices a, a stack of vectors: one dim, or the shape of a without its columns? */
static inline bool tni_is_vectors(const tn_tensor *a, const tn_tensor *b) {
  uint32_t na = tni_ndim(a), nb = tni_ndim(b);
  return nb == 1 || (na == nb + 1 && tn_shape_equal(nb, tn_tensor_sizes(a), nb, tn_tensor_sizes(b)));
}
/* The dims of a list argument as bits; absent or empty: all. */
static inline tn_status tni_mask_of(const tn_value *dims, uint32_t ndim, uint64_t *out_mask) {
  return tn_shape_dim_mask(dims->u.ints, tni_has(dims) ? dims->count : 0, ndim, true, out_mask);
}

#endif
