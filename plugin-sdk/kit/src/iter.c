/* SPDX-License-Identifier: Apache-2.0
 *
 * The iterator's run: from element numbers to pointers, rows and blocks, and the split over threads. One walk
 * serves the three kinds of loop; chunk borders come from the host and need not be row ends.
 */
#include "iter_int.h"

#include <string.h>
#include <tenon/kit/shape.h>

/* Which loop a run calls; exactly one is set. */
typedef struct loop {
  tn_loop_fn row;
  tn_loop2_fn block;
  tn_loop_indexed_fn indexed;
  void *ctx;
} loop;

/* ------------------------------------------------------------------ walking */

/* A place in the iteration. */
typedef struct cursor {
  int64_t index[TN_MAX_RANK]; /* per dim, innermost first */
  char *data[TN_ITER_MAX_OPERANDS];
} cursor;

static void seek(cursor *c, const tn_iter *it, char *const *base, int64_t index) {
  memcpy(c->data, base ? base : it->data, it->n_operands * sizeof c->data[0]);
  for (uint32_t d = 0; d < it->ndim; d++) {
    c->index[d] = index % it->sizes[d];
    index /= it->sizes[d];
    if (c->index[d] == 0) continue;
    for (uint32_t k = 0; k < it->n_operands; k++) c->data[k] += c->index[d] * it->strides[d][k];
  }
}

/* Forward by `count` along dim d, carrying into the outer dims. */
static void advance(cursor *c, const tn_iter *it, uint32_t d, int64_t count) {
  for (; d < it->ndim; d++, count = 1) {
    c->index[d] += count;
    bool carry = c->index[d] == it->sizes[d] && d + 1 < it->ndim;
    int64_t move = carry ? count - it->sizes[d] : count;
    for (uint32_t k = 0; k < it->n_operands; k++) c->data[k] += move * it->strides[d][k];
    if (!carry) return;
    c->index[d] = 0;
  }
}

static void call_loop(const loop *l, const tn_iter *it, const cursor *c, int64_t n, int64_t rows,
                      int64_t at) {
  static const int64_t still[TN_ITER_MAX_OPERANDS];
  const int64_t *inner = it->strides[0], *outer = it->ndim > 1 ? it->strides[1] : still;
  char *data[TN_ITER_MAX_OPERANDS];
  if (l->block) {
    memcpy(data, c->data, sizeof data[0] * it->n_operands);
    l->block(l->ctx, data, inner, outer, n, rows);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    for (uint32_t k = 0; k < it->n_operands; k++) data[k] = c->data[k] + r * outer[k];
    if (l->row)
      l->row(l->ctx, data, inner, n);
    else
      l->indexed(l->ctx, data, inner, n, at + r * n);
  }
}

static void walk(const tn_iter *it, char *const *base, int64_t begin, int64_t end, const loop *l) {
  if (begin >= end) return;
  cursor c;
  seek(&c, it, base, begin);
  while (begin < end) {
    int64_t left = end - begin, row = it->sizes[0] - c.index[0];
    if (c.index[0] == 0 && left >= row && it->ndim > 1) {
      int64_t rows = TN_DIM_MIN(it->sizes[1] - c.index[1], left / row);
      call_loop(l, it, &c, row, rows, begin);
      begin += rows * row;
      if (begin < end) advance(&c, it, 1, rows);
    } else {
      int64_t n = TN_DIM_MIN(row, left);
      call_loop(l, it, &c, n, 1, begin);
      begin += n;
      if (begin < end) advance(&c, it, 0, n);
    }
  }
}

void tn_iter_walk(const tn_iter *it, char *const *base, int64_t begin, int64_t end, tn_loop_fn fn,
                  void *ctx) {
  const loop l = {.row = fn, .ctx = ctx};
  walk(it, base, begin, end, &l);
}

void tn_iter_walk2(const tn_iter *it, char *const *base, int64_t begin, int64_t end, tn_loop2_fn fn,
                   void *ctx) {
  const loop l = {.block = fn, .ctx = ctx};
  walk(it, base, begin, end, &l);
}

void tn_iter_pointers(const tn_iter *it, char *const *base, int64_t index, char **out_data) {
  cursor c;
  seek(&c, it, base, index);
  memcpy(out_data, c.data, it->n_operands * sizeof out_data[0]);
}

/* ------------------------------------------------------------------ running */

typedef struct run_ctx {
  const tn_iter *it;
  const loop *loop;
} run_ctx;

static tn_status run_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const run_ctx *run = (const run_ctx *)ctx;
  (void)worker;
  walk(run->it, NULL, begin, end, run->loop);
  return TN_OK;
}

static tn_status run_loop(const tn_iter *it, int64_t grain, const loop *l) {
  if (grain <= 0 || it->numel <= grain) {
    walk(it, NULL, 0, it->numel, l);
    return TN_OK;
  }
  run_ctx run = {it, l};
  return tn_kit_host()->parallel_for(it->numel, grain, run_chunk, &run);
}

tn_status tn_iter_run(const tn_iter *it, int64_t grain, tn_loop_fn fn, void *ctx) {
  const loop l = {.row = fn, .ctx = ctx};
  return run_loop(it, grain, &l);
}

tn_status tn_iter_run2(const tn_iter *it, int64_t grain, tn_loop2_fn fn, void *ctx) {
  const loop l = {.block = fn, .ctx = ctx};
  return run_loop(it, grain, &l);
}

tn_status tn_iter_run_indexed(const tn_iter *it, int64_t grain, tn_loop_indexed_fn fn, void *ctx) {
  const loop l = {.indexed = fn, .ctx = ctx};
  return run_loop(it, grain, &l);
}

/* ------------------------------------------------------------------ flat operands */

typedef struct flat_ctx {
  uint32_t n_operands;
  char *const *data;
  const int64_t *strides;
  tn_loop_fn fn;
  void *ctx;
} flat_ctx;

static tn_status flat_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const flat_ctx *flat = (const flat_ctx *)ctx;
  char *data[TN_ITER_MAX_OPERANDS];
  (void)worker;
  for (uint32_t k = 0; k < flat->n_operands; k++) data[k] = flat->data[k] + begin * flat->strides[k];
  flat->fn(flat->ctx, data, flat->strides, end - begin);
  return TN_OK;
}

tn_status tn_iter_run_flat(uint32_t n_operands, char *const *data, const int64_t *strides, int64_t n,
                           int64_t grain, tn_loop_fn fn, void *ctx) {
  flat_ctx flat = {n_operands, data, strides, fn, ctx};
  if (n <= 0) return TN_OK;
  if (grain <= 0 || n <= grain) return flat_chunk(0, n, 0, &flat);
  return tn_kit_host()->parallel_for(n, grain, flat_chunk, &flat);
}

tn_status tn_iter_run_views(uint32_t n_outputs, uint32_t n_operands, const tn_view *const *operands,
                            int64_t grain, tn_loop_fn fn, void *ctx) {
  tn_iter it;
  TN_TRY(tn_iter_init(&it, operands[0]->ndim, operands[0]->sizes, n_outputs, n_operands, operands, 0));
  return tn_iter_run(&it, grain, fn, ctx);
}
