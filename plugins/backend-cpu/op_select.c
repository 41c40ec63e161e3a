/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that choose by a mask: where, masked_fill, nonzero. They move bytes, so one loop per size of an
 * element serves every dtype.
 */
#include "plugins/backend-cpu/cpu.h"

typedef struct choose {
  int64_t itemsize;
  cpu_choose_fn fn, grouped; /* grouped: past the caches, or NULL */
} choose;

static inline bool is_true(const char *p, tn_dtype dtype) {
  return dtype == TN_BOOL || dtype == TN_UINT8 ? *(const uint8_t *)p != 0 : cpu_get_double(p, dtype) != 0;
}

/* ------------------------------------------------------------------ where */

/* n elements at data, stride bytes apart, as they lie side by side: their own memory, or the block filled. A
 * repeated one is filled in once, for the first (and longest) block. */
static const void *block_of(const char *data, int64_t stride, int64_t size, int64_t i, int64_t m,
                            void *block) {
  if (stride == size) return data + i * stride;
  if (stride != 0 || i == 0) cpu_gather(block, data + i * stride, stride, m, (size_t)size);
  return block;
}

/* One block: operands side by side. */
static void where_block(const choose *c, char *out, const void *mask, const void *self, const void *other,
                        int64_t n) {
  const int64_t size = c->itemsize;
  const cpu_groups g = c->grouped ? cpu_groups_of(out, size, n) : (cpu_groups){n, 0};
  const int64_t done = g.before + g.grouped;
  c->fn(out, mask, self, other, g.before);
  if (done == n && g.grouped == 0) return;
  c->grouped(out + g.before * size, (const uint8_t *)mask + g.before, (const char *)self + g.before * size,
             (const char *)other + g.before * size, g.grouped);
  c->fn(out + done * size, (const uint8_t *)mask + done, (const char *)self + done * size,
        (const char *)other + done * size, n - done);
}

/* data: out, condition (bytes), self, other */
static void where_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const choose *c = ctx;
  uint64_t blocks[4][CPU_BLOCK] __attribute__((aligned(CPU_LINE)));
  const int64_t size = c->itemsize;
  const bool direct = strides[0] == size,
             flat = direct && strides[1] == 1 && strides[2] == size && strides[3] == size;
  const int64_t most = flat ? n : CPU_BLOCK;
  for (int64_t i = 0; i < n; i += most) {
    int64_t m = TN_DIM_MIN(n - i, most);
    const void *mask = block_of(data[1], strides[1], 1, i, m, blocks[1]),
               *self = block_of(data[2], strides[2], size, i, m, blocks[2]),
               *other = block_of(data[3], strides[3], size, i, m, blocks[3]);
    char *to = data[0] + i * strides[0];
    if (direct) {
      where_block(c, to, mask, self, other, m);
    } else {
      c->fn(blocks[0], mask, self, other, m);
      cpu_scatter(to, strides[0], blocks[0], m, (size_t)size);
    }
  }
}

/* operands: out, condition, self, other */
static tn_status run_where(const tn_view *const *operands) {
  const size_t size = operands[0]->itemsize;
  choose c = {(int64_t)size, cpu_now->move->choose(size, false), NULL};
  if (!cpu_streams(4, operands)) return tn_iter_each(1, 4, operands, CPU_GRAIN, where_row, &c);
  c.grouped = cpu_now->move->choose(size, true);
  return cpu_each_streamed(4, operands, CPU_GRAIN, where_row, &c);
}

tn_status cpu_op_where(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *operands[4] = {out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v};
  return run_where(operands);
}

/* ------------------------------------------------------------------ masked_fill */

/* where(mask, value, self), the value a tensor of one element. */
tn_status cpu_op_masked_fill(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *result = out[0].u.v;
  uint64_t value;
  cpu_scalar s = cpu_scalar_of(&args[2]);
  cpu_put_scalar(&value, result->dtype, &s);
  cpu_local one;
  cpu_local_contiguous(&one, &value, result->dtype, 0, NULL);
  const tn_view *operands[4] = {result, args[1].u.v, &one.view, args[0].u.v};
  return run_where(operands);
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
