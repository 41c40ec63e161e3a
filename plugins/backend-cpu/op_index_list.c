/* SPDX-License-Identifier: Apache-2.0
 *
 * index.Tensor and index_put: places given by a list of index tensors, one a dim, or masks that stand for several. The
 * list becomes one offset into self for each combination; what is not indexed is copied whole at each of them.
 * Everything is checked before the first write. Additions to one place come in the order of the index.
 */
#include <tenon/kit/shape.h>

#include "plugins/backend-cpu/cpu.h"

/* The combinations of one list. */
typedef struct places {
  const tn_view *self;
  uint64_t indexed;            /* dims of self */
  int64_t *index[TN_MAX_RANK]; /* of each indexed dim: its own elements, row-major */
  uint32_t ndim[TN_MAX_RANK];  /* and their shape */
  tn_dim sizes[TN_MAX_RANK][TN_MAX_RANK];
  uint32_t n_dims; /* broadcast */
  tn_dim shape[TN_MAX_RANK];
  int64_t n;
  int64_t *offsets; /* bytes, n of them */
} places;

/* ------------------------------------------------------------------ lists to indices */

/* The indices of a mask's true elements, for each of its dims. */
static tn_status read_mask(tn_call *call, const tn_view *mask, uint32_t dim, places *p) {
  const void *data;
  void *memory;
  int64_t n = 0, at[TN_MAX_RANK] = {0};
  TN_TRY(cpu_contiguous_data(call, mask, mask->dtype, &data));
  const uint8_t *bytes = data;
  for (int64_t i = 0; i < mask->numel; ++i) n += bytes[i] != 0;
  TN_TRY(cpu_scratch(call, (size_t)n * mask->ndim * sizeof(int64_t), &memory));
  for (uint32_t d = 0; d < mask->ndim; ++d) {
    p->index[dim + d] = n ? (int64_t *)memory + d * n : NULL;
    p->ndim[dim + d] = 1;
    p->sizes[dim + d][0] = n;
    p->indexed |= (uint64_t)1 << (dim + d);
  }
  for (int64_t i = 0, k = 0; i < mask->numel; ++i) {
    if (bytes[i]) {
      for (uint32_t d = 0; d < mask->ndim; ++d) p->index[dim + d][k] = at[d];
      ++k;
    }
    for (uint32_t d = mask->ndim; d-- > 0 && ++at[d] == mask->sizes[d];) at[d] = 0;
  }
  return TN_OK;
}

static tn_status read_index(tn_call *call, const tn_view *index, uint32_t dim, places *p) {
  const void *data;
  int64_t size = p->self->sizes[dim];
  TN_TRY(cpu_check_index(index, size, true));
  TN_TRY(cpu_contiguous_data(call, index, TN_INT64, &data));
  p->index[dim] = (int64_t *)(uintptr_t)data; /* read only */
  p->ndim[dim] = index->ndim;
  for (uint32_t d = 0; d < index->ndim; ++d) p->sizes[dim][d] = index->sizes[d];
  p->indexed |= (uint64_t)1 << dim;
  return TN_OK;
}

/* Adds an index tensor's part to every offset, broadcast. */
static void add_offsets(places *p, uint32_t dim) {
  tn_dim own[TN_MAX_RANK], strides[TN_MAX_RANK];
  int64_t at[TN_MAX_RANK] = {0}, from = 0, size = p->self->sizes[dim], step = cpu_stride_bytes(p->self, dim);
  tn_shape_contiguous_strides(p->ndim[dim], p->sizes[dim], own);
  tn_shape_expand_strides(p->ndim[dim], p->sizes[dim], own, p->n_dims, p->shape, strides);
  for (int64_t i = 0; i < p->n; ++i) {
    int64_t index = p->index[dim][from];
    p->offsets[i] += (index < 0 ? index + size : index) * step;
    for (uint32_t d = p->n_dims; d-- > 0;) {
      from += strides[d];
      if (++at[d] < p->shape[d]) break;
      from -= strides[d] * p->shape[d];
      at[d] = 0;
    }
  }
}

/* offsets are into a tensor with the strides of `self`. */
static tn_status read_list(tn_call *call, const tn_view *self, const tn_value *list, places *p) {
  uint32_t dim = 0;
  void *memory;
  p->self = self;
  p->indexed = 0;
  p->n_dims = 0;
  for (uint32_t i = 0; i < list->count; ++i) {
    const tn_view *index = list->u.vs[i];
    bool mask = index && (index->dtype == TN_BOOL || index->dtype == TN_UINT8);
    if (mask) TN_TRY(read_mask(call, index, dim, p));
    if (index && !mask) TN_TRY(read_index(call, index, dim, p));
    dim += mask ? index->ndim : 1;
  }
  for (uint64_t m = p->indexed; m; m &= m - 1) {
    uint32_t d = (uint32_t)__builtin_ctzll(m);
    TN_TRY(tn_shape_broadcast_into(&p->n_dims, p->shape, p->ndim[d], p->sizes[d]));
  }
  TN_TRY(tn_shape_numel(p->n_dims, p->shape, &p->n));
  TN_TRY(cpu_scratch(call, (size_t)p->n * sizeof(int64_t), &memory));
  p->offsets = memory;
  if (p->n == 0) return TN_OK;
  memset(memory, 0, (size_t)p->n * sizeof(int64_t));
  for (uint64_t m = p->indexed; m; m &= m - 1) add_offsets(p, (uint32_t)__builtin_ctzll(m));
  return TN_OK;
}

/* ------------------------------------------------------------------ shapes */

/* Where the broadcast dims stand in the result: among neighbours, else in front. */
static uint32_t place_of(const places *p) {
  uint32_t first = (uint32_t)__builtin_ctzll(p->indexed);
  uint64_t run = p->indexed >> first;
  return (run & (run + 1)) == 0 ? first : 0;
}

static tn_status result_shape(const places *p, uint32_t *out_ndim, tn_dim *sizes) {
  uint32_t n = 0, place = place_of(p),
           kept = (uint32_t)p->self->ndim - (uint32_t)__builtin_popcountll(p->indexed);
  if (kept + p->n_dims > TN_MAX_RANK)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at most %d dims, got %u", TN_MAX_RANK,
                   kept + p->n_dims);
  for (uint32_t d = 0; d < place; ++d) sizes[n++] = p->self->sizes[d];
  for (uint32_t d = 0; d < p->n_dims; ++d) sizes[n++] = p->shape[d];
  for (uint32_t d = place; d < p->self->ndim; ++d)
    if (!(p->indexed >> d & 1)) sizes[n++] = p->self->sizes[d];
  *out_ndim = n;
  return TN_OK;
}

/* self without its indexed dims, at offset 0. */
static void kept_part(cpu_local *out, const places *p, const tn_view *self) {
  cpu_local next;
  cpu_local_copy(out, self);
  for (uint32_t d = self->ndim; d-- > 0;)
    if (p->indexed >> d & 1) {
      cpu_local_drop(&next, &out->view, d);
      cpu_local_copy(out, &next.view);
    }
}

/* The result's part for one combination, and the way to the others: v is the result, or values expanded to it. */
static void combination_part(cpu_local *out, const places *p, const tn_view *v) {
  cpu_local next;
  uint32_t place = place_of(p);
  cpu_local_copy(out, v);
  for (uint32_t d = 0; d < p->n_dims; ++d) {
    cpu_local_drop(&next, &out->view, place);
    cpu_local_copy(out, &next.view);
  }
}

/* ------------------------------------------------------------------ moving */

typedef struct move {
  const places *p;
  const tn_view *flat; /* the result or values */
  cpu_local kept, part;
  cpu_add_fn add; /* NULL: stores */
  bool read;      /* from self to the result */
} move;

static void add_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const move *m = ctx;
  const cpu_scalar one = {1, 1};
  for (int64_t i = 0; i < n; ++i) m->add(data[0] + i * strides[0], data[1] + i * strides[1], &one);
}

static tn_status move_one(move *m, char *self, char *flat) {
  m->kept.view.data = self;
  m->part.view.data = flat;
  const tn_view *operands[2] = {&m->kept.view, &m->part.view};
  if (m->kept.view.ndim == 0 && !m->add) {
    memcpy(m->read ? flat : self, m->read ? self : flat, m->p->self->itemsize);
    return TN_OK;
  }
  if (m->read) return cpu_copy(&m->part.view, &m->kept.view);
  if (!m->add) return cpu_copy(&m->kept.view, &m->part.view);
  return tn_iter_each(1, 2, operands, CPU_GRAIN_HEAVY, add_row, m);
}

/* self: what is read, or written. flat has the result's shape. */
static tn_status move_all(move *m, const tn_view *self) {
  const places *p = m->p;
  uint32_t place = place_of(p);
  int64_t at[TN_MAX_RANK] = {0}, from = 0;
  kept_part(&m->kept, p, self);
  combination_part(&m->part, p, m->flat);
  if (m->kept.view.numel == 0) return TN_OK;
  for (int64_t i = 0; i < p->n; ++i) {
    TN_TRY(move_one(m, (char *)self->data + p->offsets[i], (char *)m->flat->data + from));
    for (uint32_t d = p->n_dims; d-- > 0;) {
      int64_t stride = cpu_stride_bytes(m->flat, place + d);
      from += stride;
      if (++at[d] < p->shape[d]) break;
      from -= stride * p->shape[d];
      at[d] = 0;
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ operators */

/* args: self indices */
tn_status cpu_op_index(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = cpu_view(&out[0]);
  places p;
  TN_TRY(read_list(call, self, &args[1], &p));
  if (!result) { /* masks: only now is the size known */
    tn_dim sizes[2 * TN_MAX_RANK];
    uint32_t ndim;
    tn_view *made;
    TN_TRY(result_shape(&p, &ndim, sizes));
    TN_TRY(tn_kit_host()->new_output(call, 0, ndim, sizes, &made));
    result = made;
  }
  move m = {.p = &p, .flat = result, .read = true};
  return move_all(&m, self);
}

/* args: self indices values accumulate */
tn_status cpu_op_index_put(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *values = args[2].u.v, *result = out[0].u.v;
  tn_dim sizes[2 * TN_MAX_RANK];
  uint32_t ndim;
  places p;
  cpu_local wide;
  TN_TRY(read_list(call, result, &args[1], &p));
  TN_TRY(result_shape(&p, &ndim, sizes));
  TN_TRY(tn_shape_check_expand(values->ndim, values->sizes, ndim, sizes));
  cpu_local_expand(&wide, values, ndim, sizes);
  if (result->data != self->data) TN_TRY(cpu_copy(result, self));
  move m = {.p = &p, .flat = &wide.view, .add = args[3].u.i ? cpu_adders[result->dtype] : NULL};
  return move_all(&m, result);
}
