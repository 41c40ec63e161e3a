/* SPDX-License-Identifier: Apache-2.0
 *
 * Suite elementwise: GB/s at 4M and 16M elements of float32, inputs and outputs counted once. A name without
 * _out has a fresh result, made and freed in each run.
 */
#include "frontends/cli/bench.h"

enum { M4 = 1 << 22, M16 = 1 << 24 };

/* ------------------------------------------------------------------ set-ups */

/* Three vectors of which's size: two random ones and one for results. */
static tn_status vectors(tni_bench *b) {
  const tn_dim size = b->which->size;
  TN_TRY(tni_bench_randn(b, 0, &size, 1));
  TN_TRY(tni_bench_randn(b, 1, &size, 1));
  return tni_bench_full(b, 2, &size, 1, 0.0);
}

/* The same, and in slot 3 where the first is positive. */
static tn_status vectors_mask(tni_bench *b) {
  TN_TRY(vectors(b));
  return tn_gt_scalar(b->t[0], tn_float(0.0), &b->t[3]);
}

static tn_status vectors_bf16(tni_bench *b) {
  const tn_dim size = b->which->size;
  for (int i = 0; i < 3; i++)
    TN_TRY(tn_full(&size, 1, tn_float(0.5), TN_OPTIONS(.dtype = TN_BFLOAT16), &b->t[i]));
  return TN_OK;
}

/* The side of a square matrix of which's size, which is a power of 4. */
static tn_dim side_of(int64_t n) {
  tn_dim side = 1;
  while (side * side < n) side *= 2;
  return side;
}

/* A square result, and the transposed view of another square. */
static tn_status transposed(tni_bench *b) {
  tn_dim side = side_of(b->which->size);
  const tn_dim sizes[] = {side, side};
  TN_TRY(tni_bench_full(b, 0, sizes, 2, 0.0));
  TN_TRY(tni_bench_randn(b, 1, sizes, 2));
  return tn_transpose(b->t[1], 0, 1, &b->t[2]);
}

/* A result, and the view (2, 0, 1) of a cube-like tensor. */
static tn_status permuted(tni_bench *b) {
  tn_dim last = b->which->size >> 16; /* 256 x 256 x last */
  TN_TRY(tni_bench_randn(b, 1, (const tn_dim[]){256, 256, last}, 3));
  TN_TRY(tni_bench_full(b, 0, (const tn_dim[]){last, 256, 256}, 3, 0.0));
  return tn_permute(b->t[1], (const int64_t[]){2, 0, 1}, 3, &b->t[2]);
}

/* A square, a row, a square for the result. */
static tn_status rows(tni_bench *b) {
  tn_dim side = side_of(b->which->size);
  const tn_dim sizes[] = {side, side};
  TN_TRY(tni_bench_randn(b, 0, sizes, 2));
  TN_TRY(tni_bench_randn(b, 1, &side, 1));
  return tni_bench_full(b, 2, sizes, 2, 0.0);
}

/* ------------------------------------------------------------------ calls */

static tn_status copy(tni_bench *b) { return tn_copy_(b->t[2], b->t[1], false); }
static tn_status copy_view(tni_bench *b) { return tn_copy_(b->t[0], b->t[2], false); }
static tn_status fill(tni_bench *b) { return tn_fill_(b->t[2], tn_float(0.5)); }
static tn_status add_out(tni_bench *b) { return tn_add_out(b->t[0], b->t[1], tn_int(1), b->t[2]); }
static tn_status exp_out(tni_bench *b) { return tn_exp_out(b->t[0], b->t[2]); }
static tn_status sigmoid_out(tni_bench *b) { return tn_sigmoid_out(b->t[0], b->t[2]); }

static tn_status add(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_add(b->t[0], b->t[1], tn_int(1), &r), &r);
}
static tn_status relu(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_relu(b->t[0], &r), &r);
}
static tn_status cast(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_to_dtype(b->t[0], TN_BFLOAT16, false, false, TN_MEMORY_FORMAT_NONE, &r), &r);
}
static tn_status expo(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_exp(b->t[0], &r), &r);
}
static tn_status tangent(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_tanh(b->t[0], &r), &r);
}
static tn_status gelu(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_gelu(b->t[0], "none", &r), &r);
}
static tn_status where(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_where(b->t[3], b->t[0], b->t[1], &r), &r);
}

/* ------------------------------------------------------------------ the table */

#define ONE(name, bytes, n, setup, call, ceiling) \
  { name, "GB/s", (bytes) * (double)(n), true, n, setup, NULL, call, ceiling, 0 }
#define BOTH(name, bytes, setup, call, ceiling) \
  ONE(name "_4M", bytes, M4, setup, call, ceiling), ONE(name "_16M", bytes, M16, setup, call, ceiling)

static const tni_bench_case cases[] = {BOTH("copy", 8, vectors, copy, TNI_CEILING_COPY),
                                       BOTH("fill", 4, vectors, fill, TNI_CEILING_FILL),
                                       BOTH("add", 12, vectors, add, TNI_CEILING_ADD),
                                       BOTH("add_out", 12, vectors, add_out, TNI_CEILING_ADD),
                                       BOTH("relu", 8, vectors, relu, TNI_CEILING_COPY),
                                       BOTH("cast_bf16", 6, vectors, cast, TNI_CEILING_ADD),
                                       BOTH("exp", 8, vectors, expo, TNI_CEILING_COPY),
                                       BOTH("exp_out", 8, vectors, exp_out, TNI_CEILING_COPY),
                                       BOTH("tanh", 8, vectors, tangent, TNI_CEILING_COPY),
                                       BOTH("gelu", 8, vectors, gelu, TNI_CEILING_COPY),
                                       BOTH("sigmoid_out", 8, vectors, sigmoid_out, TNI_CEILING_COPY),
                                       BOTH("where", 13, vectors_mask, where, TNI_CEILING_ADD),
                                       BOTH("add_row_out", 8, rows, add_out, TNI_CEILING_COPY),
                                       BOTH("add_bf16_out", 6, vectors_bf16, add_out, TNI_CEILING_ADD),
                                       BOTH("copy_transposed", 8, transposed, copy_view, TNI_CEILING_COPY),
                                       BOTH("copy_permuted", 8, permuted, copy_view, TNI_CEILING_COPY),
                                       {0}};
const tni_bench_suite tni_bench_elementwise = {"elementwise", cases};
