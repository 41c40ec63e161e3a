/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes: broadcasting, strides, dims that count from the end, reshapes without a copy, reduced dims, and
 * whether two views touch the same memory. Works on tn_dim arrays and tn_views; allocates nothing; writes
 * only the first ndim entries of an array. Arrays that a function fills hold TN_MAX_RANK entries unless it
 * says otherwise. Failures say what was expected and found; the caller adds the operator's name.
 */
#ifndef TENON_KIT_SHAPE_H
#define TENON_KIT_SHAPE_H

#include <tenon/kit/dim.h>
#include <tenon/kit/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ words */

/* Holds any shape, 64 dims of 20 digits with separators. */
#define TN_SHAPE_TEXT_BYTES 1472
/* "[2, 3]"; returns buffer. A smaller buffer gets a shortened text that ends in "...]". */
const char *tn_shape_format(uint32_t ndim, const tn_dim *sizes, char *buffer, size_t buffer_bytes);
/* For messages: tn_shape_format(ndim, sizes, TN_SHAPE_TEXT); the buffer lives until the block ends. */
#define TN_SHAPE_TEXT ((char[TN_SHAPE_TEXT_BYTES]){0}), TN_SHAPE_TEXT_BYTES

/* ------------------------------------------------------------------ sizes and strides */

bool tn_shape_equal(uint32_t ndim_a, const tn_dim *a, uint32_t ndim_b, const tn_dim *b);
/* Product of sizes. Refuses negative sizes, more than TN_MAX_RANK dims, and products over 2^63 - 1 (a zero
 * among the sizes makes the product zero, whatever the others are). */
tn_status tn_shape_numel(uint32_t ndim, const tn_dim *sizes, tn_dim *out_numel);
/* Row-major strides in elements; a size of 0 counts as 1, as ATen does. */
void tn_shape_contiguous_strides(uint32_t ndim, const tn_dim *sizes, tn_dim *out_strides);
/* Row-major without gaps; strides of dims of size 1 do not count, an empty shape always is. */
bool tn_shape_is_contiguous(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides);
/* Non-overlapping and without gaps in some order of the dims. */
bool tn_shape_is_dense(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides);
/* Strides of a dense memory whose dims lie in the order of `like` (largest stride outermost, ties by
 * position). */
void tn_shape_dense_strides_like(uint32_t ndim, const tn_dim *sizes, const tn_dim *like, tn_dim *out_strides);

/* ------------------------------------------------------------------ dims */

/* dim in [-ndim, ndim - 1] to [0, ndim - 1]; for a 0-d tensor -1 and 0 give 0. */
tn_status tn_shape_wrap_dim(int64_t dim, uint32_t ndim, uint32_t *out_dim);
/* The set of dims as bits. n = 0: all dims if empty_is_all, else none. A dim given twice is refused. */
tn_status tn_shape_dim_mask(const int64_t *dims, size_t n, uint32_t ndim, bool empty_is_all,
                            uint64_t *out_mask);
/* The shape after reducing the dims in mask: they become 1 (keepdim) or vanish. */
void tn_shape_reduce(uint32_t ndim, const tn_dim *sizes, uint64_t mask, bool keepdim, uint32_t *out_ndim,
                     tn_dim *out_sizes);

/* ------------------------------------------------------------------ broadcasting */

tn_status tn_shape_broadcast(uint32_t ndim_a, const tn_dim *a, uint32_t ndim_b, const tn_dim *b,
                             uint32_t *out_ndim, tn_dim *out_sizes);
/* Broadcasts b into the shape collected so far; start with *ndim = 0. */
tn_status tn_shape_broadcast_into(uint32_t *ndim, tn_dim *sizes, uint32_t ndim_b, const tn_dim *b);
/* Of n views; NULL entries are passed over. */
tn_status tn_shape_broadcast_views(uint32_t n, const tn_view *const *views, uint32_t *out_ndim,
                                   tn_dim *out_sizes);
/* May `from` be expanded to `to`? The words name both. */
tn_status tn_shape_check_expand(uint32_t ndim_from, const tn_dim *from, uint32_t ndim_to, const tn_dim *to);
/* Strides of a view expanded to a shape (that it broadcasts to): 0 in new and in stretched dims. */
void tn_shape_expand_strides(uint32_t ndim_from, const tn_dim *sizes, const tn_dim *strides, uint32_t ndim_to,
                             const tn_dim *to, tn_dim *out_strides);

/* ------------------------------------------------------------------ reshape */

/* Resolves one -1 in a requested shape (view, reshape). out_sizes may be sizes. */
tn_status tn_shape_infer(uint32_t ndim, const tn_dim *sizes, tn_dim numel, tn_dim *out_sizes);
/* Strides of the new shape over the same memory. false: not possible without a copy. Both shapes hold the
 * same number of elements. */
bool tn_shape_view_strides(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, uint32_t new_ndim,
                           const tn_dim *new_sizes, tn_dim *out_strides);

/* ------------------------------------------------------------------ overlap */

enum {
  TN_OVERLAP_NONE = 0,
  TN_OVERLAP_EXACT = 1,   /* the same elements under the same indices */
  TN_OVERLAP_PARTIAL = 2, /* some byte is shared otherwise */
  TN_OVERLAP_UNKNOWN = 3  /* the search gave up (adversarial strides): treat as partial */
};

/* Do two elements of one view share memory? NONE, PARTIAL or UNKNOWN. */
int tn_view_self_overlap(const tn_view *view);
/* How two views lie to each other. Views of different devices never overlap. */
int tn_view_overlap(const tn_view *a, const tn_view *b);
/* First byte and end byte of a view, from where its element [0,...,0] lies (begin <= 0 with negative
 * strides). An empty view gives 0, 0. */
void tn_view_byte_range(const tn_view *view, int64_t *out_begin, int64_t *out_end);

#ifdef __cplusplus
}
#endif
#endif
