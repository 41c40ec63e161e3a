/* SPDX-License-Identifier: Apache-2.0
 *
 * gather and scatter_add: every element of the index names a place along one dim; in all other dims it stands where it
 * stands. All indices are looked at before anything is written.
 */
#include <string.h>

#include "forty.h"

/* Where element i of the index lies in a tensor; dim's own coordinate is `there`. */
static int64_t offset_of(const tn_view *v, const tn_view *index, int64_t i, int dim, int64_t there) {
  int64_t at = 0;
  for (int d = index->ndim; d-- > 0; i /= index->sizes[d])
    if (d < v->ndim) at += (d == dim ? there : i % index->sizes[d]) * v->strides[d];
  return at;
}

static int64_t coordinate(const tn_view *index, int64_t i, int dim) {
  for (int d = index->ndim; d-- > dim + 1;) i /= index->sizes[d];
  return index->ndim ? i % index->sizes[dim] : 0;
}

static int64_t index_at(const tn_view *index, int64_t i, int dim) {
  const char *p = forty_bytes(index->data) + 8 * offset_of(index, index, i, dim, coordinate(index, i, dim));
  return *(const int64_t *)(const void *)p;
}

static tn_status check(const tn_view *index, const tn_view *self, int dim) {
  int64_t size = self->ndim ? self->sizes[dim] : 1;
  for (int64_t i = 0; i < index->numel; i++) {
    int64_t there = index_at(index, i, dim);
    if (there < 0 || there >= size)
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "index %lld is out of range for dim %d of size %lld",
                     (long long)there, dim, (long long)size);
  }
  return TN_OK;
}

static int dim_of(const tn_value *v, const tn_view *self) {
  return (int)(v->u.i < 0 ? v->u.i + (self->ndim ? self->ndim : 1) : v->u.i);
}

typedef struct gather_job {
  const tn_view *self, *index, *result;
  int dim;
} gather_job;

static tn_status gather_some(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const gather_job *j = ctx;
  const size_t size = j->self->itemsize;
  const char *from = forty_bytes(j->self->data);
  char *to = forty_bytes(j->result->data);
  for (int64_t i = begin; i < end; i++) {
    int64_t source = offset_of(j->self, j->index, i, j->dim, index_at(j->index, i, j->dim));
    int64_t target = offset_of(j->result, j->index, i, j->dim, coordinate(j->index, i, j->dim));
    memcpy(to + target * (int64_t)size, from + source * (int64_t)size, size);
  }
  return TN_OK;
}

/* args: self dim index sparse_grad */
tn_status forty_gather(tn_call *call, const tn_value *args, tn_value *out) {
  gather_job j = {args[0].u.v, args[2].u.v, out[0].u.v, dim_of(&args[1], args[0].u.v)};
  if (j.index->dtype != TN_INT64) return TN_DECLINED;
  TN_TRY(check(j.index, j.self, j.dim));
  return tn_kit_host()->parallel_for(j.index->numel, FORTY_GRAIN / 4, gather_some, &j);
}

#define ADD(name, ctype, sum)                                                                        \
  static void add_##name(const tn_view *result, const tn_view *index, const tn_view *src, int dim) { \
    ctype *to = (ctype *)(void *)forty_bytes(result->data);                                          \
    const ctype *from = (const ctype *)(const void *)forty_bytes(src->data);                         \
    for (int64_t i = 0; i < index->numel; i++) {                                                     \
      ctype *x = &to[offset_of(result, index, i, dim, index_at(index, i, dim))];                     \
      const ctype y = from[offset_of(src, index, i, dim, coordinate(index, i, dim))];                \
      *x = sum;                                                                                      \
    }                                                                                                \
  }
ADD(float32, float, *x + y)
ADD(float64, double, *x + y)
ADD(int64, int64_t, (int64_t)((uint64_t)*x + (uint64_t)y))

/* args: self dim index src. One place may be named often, so one thread adds, in order. */
tn_status forty_scatter_add(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *src = args[3].u.v, *result = out[0].u.v;
  int dim = dim_of(&args[1], self);
  if (index->dtype != TN_INT64) return TN_DECLINED;
  TN_TRY(check(index, self, dim));
  if (!(call->flags & TN_CALL_IN_PLACE)) {
    const tn_value copied[] = {out[0], args[0]};
    TN_TRY(forty_copy(call, copied, out));
  }
  (self->dtype == TN_FLOAT32   ? add_float32
   : self->dtype == TN_FLOAT64 ? add_float64
                               : add_int64)(result, index, src, dim);
  return TN_OK;
}
