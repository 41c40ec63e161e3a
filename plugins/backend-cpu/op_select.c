/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that choose by a mask: where, masked_fill, nonzero. They move bytes, so one loop per size of an
 * element serves every dtype.
 */
#include "plugins/backend-cpu/cpu.h"

typedef struct choose {
  size_t itemsize;
  uint64_t value; /* masked_fill */
} choose;

static inline bool is_true(const char *p, tn_dtype dtype) {
  return dtype == TN_BOOL || dtype == TN_UINT8 ? *(const uint8_t *)p != 0 : cpu_get_double(p, dtype) != 0;
}

/* ------------------------------------------------------------------ where */

#define WHERE(T)                                                                                          \
  static void where_##T(char **data, const int64_t *s, int64_t n) {                                       \
    if (s[0] == sizeof(T) && s[1] == 1 && s[2] == sizeof(T) && s[3] == sizeof(T)) {                       \
      T *o = (T *)(void *)data[0];                                                                        \
      const uint8_t *c = (const uint8_t *)data[1];                                                        \
      const T *a = (const T *)(void *)data[2], *b = (const T *)(void *)data[3];                           \
      for (int64_t i = 0; i < n; ++i) o[i] = c[i] ? a[i] : b[i];                                          \
      return;                                                                                             \
    }                                                                                                     \
    for (int64_t i = 0; i < n; ++i)                                                                       \
      memcpy(data[0] + i * s[0], data[1][i * s[1]] ? data[2] + i * s[2] : data[3] + i * s[3], sizeof(T)); \
  }
WHERE(uint8_t)
WHERE(uint16_t)
WHERE(uint32_t)
WHERE(uint64_t)

static void where_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const choose *c = ctx;
  switch (c->itemsize) {
    case 1: where_uint8_t(data, strides, n); return;
    case 2: where_uint16_t(data, strides, n); return;
    case 4: where_uint32_t(data, strides, n); return;
    default: where_uint64_t(data, strides, n); return;
  }
}

tn_status cpu_op_where(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *operands[4] = {out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v};
  choose c = {.itemsize = operands[0]->itemsize};
  return tn_iter_each(1, 4, operands, CPU_GRAIN, where_row, &c);
}

/* ------------------------------------------------------------------ masked_fill */

/* data: out, self, mask */
static void masked_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const choose *c = ctx;
  for (int64_t i = 0; i < n; ++i) {
    char *to = data[0] + i * strides[0];
    if (data[2][i * strides[2]])
      memcpy(to, &c->value, c->itemsize);
    else if (data[0] != data[1])
      memcpy(to, data[1] + i * strides[1], c->itemsize);
  }
}

tn_status cpu_op_masked_fill(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *operands[3] = {out[0].u.v, args[0].u.v, args[1].u.v};
  choose c = {.itemsize = operands[0]->itemsize};
  cpu_scalar s = cpu_scalar_of(&args[2]);
  cpu_put_scalar(&c.value, operands[0]->dtype, &s);
  return tn_iter_each(1, 3, operands, CPU_GRAIN, masked_row, &c);
}

/* ------------------------------------------------------------------ nonzero */

typedef struct nonzero {
  tn_dtype dtype;
  int64_t count;
  int64_t *rows; /* NULL: counts only */
  const tn_view *self;
} nonzero;

static void put_coordinates(int64_t *out, const tn_view *v, int64_t index) {
  for (uint32_t d = v->ndim; d-- > 0; index /= v->sizes[d]) out[d] = index % v->sizes[d];
}

static void nonzero_row(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index) {
  nonzero *z = ctx;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_true(data[0] + i * strides[0], z->dtype)) continue;
    if (z->rows) put_coordinates(z->rows + z->count * z->self->ndim, z->self, index + i);
    ++z->count;
  }
}

/* Two passes: the count gives the size of the result, which only then exists. */
tn_status cpu_op_nonzero(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  nonzero z = {.dtype = self->dtype, .self = self};
  tn_iter it;
  TN_TRY(tn_iter_init(&it, self->ndim, self->sizes, 0, 1, &self, TN_ITER_IN_ORDER));
  TN_TRY(tn_iter_run_indexed(&it, 0, nonzero_row, &z));
  tn_dim sizes[2] = {z.count, self->ndim};
  tn_view *result;
  TN_TRY(tn_kit_host()->new_output(call, 0, 2, sizes, &result));
  z.count = 0;
  z.rows = result->data;
  return result->numel ? tn_iter_run_indexed(&it, 0, nonzero_row, &z) : TN_OK;
}
