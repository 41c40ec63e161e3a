/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and strides of a launch: operands brought to one shape, dims ordered and merged. The kit's iterator does the
 * same for memory with addresses; here a place is a number of elements from the start of an opaque buffer.
 */
#include <tenon/kit/shape.h>

#include "plugins/gpu/gpu.h"

tn_status gpu_place(const tn_view *v, int64_t *out_at) {
  *out_at = v->offset_bytes / v->itemsize;
  return v->offset_bytes % v->itemsize ? TN_DECLINED : TN_OK;
}

static void swap_dims(gpu_geometry *g, uint32_t a, uint32_t b) {
  int64_t size = g->sizes[a];
  g->sizes[a] = g->sizes[b];
  g->sizes[b] = size;
  for (uint32_t k = 0; k < g->n; ++k) {
    int64_t stride = g->strides[k][a];
    g->strides[k][a] = g->strides[k][b];
    g->strides[k][b] = stride;
  }
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* The smallest stride of operand 0 innermost; equal ones stay as they are. */
static void order_dims(gpu_geometry *g) {
  for (uint32_t i = 1; i < g->ndim; ++i)
    for (uint32_t d = i; d > 0 && magnitude(g->strides[0][d]) < magnitude(g->strides[0][d - 1]); --d)
      swap_dims(g, d, d - 1);
}

static bool is_one_dim(const gpu_geometry *g, uint32_t inner, uint32_t outer) {
  for (uint32_t k = 0; k < g->n; ++k)
    if (g->strides[k][outer] != g->strides[k][inner] * g->sizes[inner]) return false;
  return true;
}

static void merge(gpu_geometry *g) {
  uint32_t last = 0;
  for (uint32_t d = 1; d < g->ndim; ++d) {
    if (is_one_dim(g, last, d)) {
      g->sizes[last] *= g->sizes[d];
      continue;
    }
    ++last;
    if (last != d) swap_dims(g, last, d);
  }
  g->ndim = last + 1;
}

static void at_least_one(gpu_geometry *g) {
  if (g->ndim) return;
  g->ndim = 1;
  g->sizes[0] = 1;
  for (uint32_t k = 0; k < g->n; ++k) g->strides[k][0] = 1;
}

tn_status gpu_geometry_make(gpu_geometry *g, uint32_t ndim, const tn_dim *sizes, uint32_t n,
                            const tn_view *const *views, bool in_order) {
  tn_dim strides[TN_MAX_RANK];
  if (n > GPU_OPERANDS)
    return TN_FAIL(TN_ERR_INTERNAL, "%u operands in one launch, expected %d at most", n, GPU_OPERANDS);
  g->n = n;
  g->ndim = 0;
  g->numel = 1;
  for (uint32_t d = ndim; d-- > 0;) {
    g->numel *= sizes[d];
    if (sizes[d] != 1) g->sizes[g->ndim++] = sizes[d];
  }
  for (uint32_t k = 0; k < n; ++k) {
    const tn_view *v = views[k];
    if (v->backend != views[0]->backend || v->device_index != views[0]->device_index) return TN_DECLINED;
    TN_TRY(gpu_place(v, &g->at[k]));
    tn_shape_expand_strides(v->ndim, v->sizes, v->strides, ndim, sizes, strides);
    uint32_t at = 0;
    for (uint32_t d = ndim; d-- > 0;)
      if (sizes[d] != 1) g->strides[k][at++] = strides[d];
  }
  at_least_one(g);
  if (!in_order) order_dims(g);
  merge(g);
  return TN_OK;
}

void gpu_geometry_part(gpu_geometry *g, uint32_t ndim, const tn_dim *sizes, uint64_t mask, bool inside,
                       uint32_t n, const tn_dim *const *strides) {
  g->n = n;
  g->ndim = 0;
  g->numel = 1;
  for (uint32_t d = ndim; d-- > 0;) {
    if (((mask >> d & 1) != 0) != inside) continue;
    g->numel *= sizes[d];
    if (sizes[d] == 1) continue;
    for (uint32_t k = 0; k < n; ++k) g->strides[k][g->ndim] = strides[k][d];
    g->sizes[g->ndim++] = sizes[d];
  }
  at_least_one(g);
  merge(g);
}

bool gpu_geometry_flat(const gpu_geometry *g) {
  for (uint32_t k = 0; k < g->n; ++k)
    if (g->strides[k][0] != 1) return false;
  return g->ndim == 1;
}

int64_t *gpu_geometry_sizes(const gpu_geometry *g, int64_t *words) {
  for (uint32_t d = 0; d < GPU_RANK; ++d) *words++ = d < g->ndim ? g->sizes[d] : 1;
  return words;
}
int64_t *gpu_geometry_strides(const gpu_geometry *g, uint32_t operand, int64_t *words) {
  for (uint32_t d = 0; d < GPU_RANK; ++d) *words++ = d < g->ndim ? g->strides[operand][d] : 0;
  return words;
}

tn_view gpu_scratch_view(const tn_call *call, const tn_memory *memory, tn_dtype dtype, uint32_t ndim,
                         const tn_dim *sizes, tn_dim *strides) {
  tn_shape_contiguous_strides(ndim, sizes, strides);
  tn_view v = {.mem = memory->mem,
               .data = memory->address,
               .sizes = sizes,
               .strides = strides,
               .numel = 1,
               .dtype = dtype,
               .ndim = (uint8_t)ndim,
               .itemsize = (uint8_t)tn_kit_dtype_size(dtype),
               .backend = call->device.backend,
               .device_index = call->device.index,
               .flags = TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE};
  for (uint32_t d = 0; d < ndim; ++d) v.numel *= sizes[d];
  return v;
}
