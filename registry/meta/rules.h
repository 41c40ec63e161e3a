/* SPDX-License-Identifier: Apache-2.0
 *
 * What the meta rules share: the head of a rule, and the few ways in which they describe a result
 * or refuse an argument. For files in this folder only. Rules see descriptors; no data pointer is
 * read here, and sizes go through the TN_DIM_ macros of tenon/kit/dim.h.
 */
#ifndef TENON_REGISTRY_META_RULES_H
#define TENON_REGISTRY_META_RULES_H

#include <string.h>
#include <tenon/kit/promote.h>
#include <tenon/kit/shape.h>
#include <tenon/operator.h>

/* Head of a rule that the entries name NAME: prototype (the generated table declares it too) and
 * definition. */
#define TN_META(NAME)                                            \
  tn_status tn_meta_##NAME(tn_meta *meta, const tn_value *args); \
  tn_status tn_meta_##NAME(tn_meta *meta __attribute__((unused)), const tn_value *args)

static inline bool tni_given(const tn_value *value) { return value->kind != TN_VAL_NONE; }
static inline bool tni_is_tensor(const tn_value *value) { return value->kind == TN_VAL_TENSOR; }
static inline tn_dtype tni_dtype_or(const tn_value *value, tn_dtype otherwise) {
  return tni_given(value) ? (tn_dtype)value->u.i : otherwise;
}
static inline double tni_number(const tn_value *value) {
  return value->kind == TN_VAL_FLOAT ? value->u.f : (double)value->u.i;
}
/* Reductions and sums: integers and bool add up in int64. */
static inline tn_dtype tni_sum_dtype(tn_dtype dtype) {
  return tn_kit_dtype_category(dtype) <= TN_CATEGORY_INT ? TN_INT64 : dtype;
}

/* A row-major result; the sizes follow (tni_desc_sizes) unless ndim is 0. dtype, ndim and layout in one store, which
 * also says that the result is there and its sizes are known. */
static inline void tni_desc_head(tn_desc *desc, tn_dtype dtype, uint32_t ndim, uint8_t layout) {
  const uint64_t word = (uint64_t)dtype | (uint64_t)(uint8_t)ndim << 8 | (uint64_t)layout << 16;
  memcpy(&desc->dtype, &word, sizeof word);
  desc->offset = TN_DIM(0);
}
_Static_assert(offsetof(tn_desc, dtype) == 0 && offsetof(tn_desc, ndim) == 1 && offsetof(tn_desc, layout) == 2 &&
                   offsetof(tn_desc, offset) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tni_desc_head knows the layout");
static inline void tni_desc_set(tn_desc *desc, tn_dtype dtype, uint32_t ndim, const tn_dim *sizes,
                                uint8_t layout) {
  tni_desc_head(desc, dtype, ndim, layout);
  for (uint32_t i = 0; i < ndim; i++) desc->sizes[i] = sizes[i];
}
static inline void tni_desc_like(tn_desc *desc, const tn_view *self, uint8_t layout) {
  tni_desc_set(desc, self->dtype, self->ndim, self->sizes, layout);
}
/* A view with self's geometry, to be changed by the rule. */
static inline void tni_desc_view(tn_desc *desc, const tn_view *self) {
  tni_desc_set(desc, self->dtype, self->ndim, self->sizes, TN_DESC_STRIDES);
  for (uint32_t i = 0; i < self->ndim; i++) desc->strides[i] = self->strides[i];
}
static inline void tni_desc_drop_dim(tn_desc *desc, uint32_t dim) {
  for (uint32_t i = dim; i + 1 < desc->ndim; i++) {
    desc->sizes[i] = desc->sizes[i + 1];
    desc->strides[i] = desc->strides[i + 1];
  }
  desc->ndim--;
}

/* The size of a dim; a 0-d tensor counts as one of a single element. */
static inline tn_dim tni_size(const tn_view *view, uint32_t dim) {
  return view->ndim ? view->sizes[dim] : TN_DIM(1);
}

/* Do the strides say that the channels of a [N, C, H, W] view vary fastest? As ATen decides; where both orders
 * fit, row-major. */
bool tni_suggests_channels_last(const tn_view *view);
/* Strides of a result whose dim 1 varies fastest. */
void tni_desc_channels_last(tn_desc *desc);

/* A memory format argument: preserve (or absent) keeps self's dense strides. */
tn_status tni_desc_format(tn_desc *desc, const tn_value *format, const tn_view *self);

tn_status tni_check_rank(size_t n);
/* Sizes given by the caller: a rank that fits, none negative, a product that fits. Most are few and small, of which that
 * is true. */
tn_status tni_check_large_sizes(const tn_value *sizes);
static inline tn_status tni_check_sizes(const tn_value *sizes) {
  if (sizes->count > 4) return tni_check_large_sizes(sizes);
  for (uint32_t i = 0; i < sizes->count; i++)
    if (TN_DIM_LT(sizes->u.ints[i], 0) || TN_DIM_GT(sizes->u.ints[i], INT16_MAX)) return tni_check_large_sizes(sizes);
  return TN_OK;
}
tn_status tni_check_ndim(const char *name, const tn_view *view, uint32_t ndim);
tn_status tni_check_float(const char *name, tn_dtype dtype);
tn_status tni_check_bool(const char *name, const tn_view *view);
/* int64, or also int32 where or_int32 says so. */
tn_status tni_check_index(const char *name, const tn_view *view, bool or_int32);
tn_status tni_check_dtype_is(const char *name, const tn_view *view, tn_dtype dtype);
tn_status tni_check_shape_is(const char *name, const tn_view *view, uint32_t ndim, const tn_dim *sizes);

/* Norms: normalized_shape is the tail of input's shape; weight and bias, if given, have it and input's dtype. */
tn_status tni_check_norm(const tn_view *input, const tn_value *shape, const tn_value *weight,
                         const tn_value *bias);
/* Statistics of half types are float32. */
static inline tn_dtype tni_statistics_dtype(tn_dtype dtype) {
  return dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
}
/* One value per normalized part: input's shape with ones for its last n dims; and a check of such an argument. */
void tni_desc_statistics(tn_desc *desc, const tn_view *input, uint32_t n);
tn_status tni_check_statistics(const char *name, const tn_view *view, const tn_view *input, uint32_t n);

/* A floating number cannot enter a computation in integers. */
tn_status tni_check_number_fits(const tn_value *number, tn_dtype compute);
/* What is written as it is must not become another number. name: of the argument. */
tn_status tni_check_number_held(const char *name, const tn_value *number, tn_dtype dtype);

#endif
