/* SPDX-License-Identifier: Apache-2.0
 *
 * Suite reduction: GB/s of float32 sums, extremes and row norms at about 4M and 16M elements. Where the result
 * is as large as the input (softmax, layer_norm) it counts too, and is fresh.
 */
#include "frontends/cli/bench.h"

/* Sizes, one after another in a case's own parameter. */
#define SIZES(rows, columns) ((int64_t)(rows) << 32 | (columns))

static tn_status matrix(tni_bench *b) {
  const tn_dim sizes[] = {b->which->size >> 32, b->which->size & 0xffffffff};
  return tni_bench_randn(b, 0, sizes, 2);
}

/* The rows as a square, so three dims. */
static tn_status cube(tni_bench *b) {
  const tn_dim side = b->which->size >> 32;
  return tni_bench_randn(b, 0, (const tn_dim[]){side, b->which->size & 0xffffffff, side}, 3);
}

/* A matrix, and weight and bias of its rows. */
static tn_status affine(tni_bench *b) {
  const tn_dim columns = b->which->size & 0xffffffff;
  TN_TRY(matrix(b));
  TN_TRY(tni_bench_full(b, 1, &columns, 1, 1.0));
  return tni_bench_full(b, 2, &columns, 1, 0.0);
}

static tn_status sum_all(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_sum(b->t[0], TN_DTYPE_NONE, &r), &r);
}
static tn_status sum_over(tni_bench *b, int64_t dim) {
  tn_tensor *r;
  return tni_bench_made(tn_sum_dim(b->t[0], &dim, 1, false, TN_DTYPE_NONE, &r), &r);
}
static tn_status sum_0(tni_bench *b) { return sum_over(b, 0); }
static tn_status sum_1(tni_bench *b) { return sum_over(b, 1); }
static tn_status max_1(tni_bench *b) {
  tn_tensor *values, *indices;
  TN_TRY(tn_max_dim(b->t[0], 1, false, &values, &indices));
  tn_tensor_release(values);
  tn_tensor_release(indices);
  return TN_OK;
}
static tn_status argmax_1(tni_bench *b) {
  const int64_t dim = 1;
  tn_tensor *r;
  return tni_bench_made(tn_argmax(b->t[0], &dim, false, &r), &r);
}
static tn_status softmax(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_softmax(b->t[0], 1, TN_DTYPE_NONE, &r), &r);
}
static tn_status log_softmax(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_log_softmax(b->t[0], 1, TN_DTYPE_NONE, &r), &r);
}
static tn_status layer_norm(tni_bench *b) {
  const int64_t columns = b->which->size & 0xffffffff;
  tn_tensor *r;
  return tni_bench_made(tn_layer_norm(b->t[0], &columns, 1, b->t[1], b->t[2], 1e-5, true, &r), &r);
}

#define ROW(name, rows, columns, setup, call)                                                                \
  {                                                                                                          \
    name, "GB/s", 4.0 * (rows) * (columns), true, SIZES(rows, columns), setup, NULL, call, TNI_CEILING_READ, \
        0                                                                                                    \
  }
#define MAP(name, rows, columns, setup, call)                                                                \
  {                                                                                                          \
    name, "GB/s", 8.0 * (rows) * (columns), true, SIZES(rows, columns), setup, NULL, call, TNI_CEILING_COPY, \
        0                                                                                                    \
  }
#define CUBE(name, side, middle, call)                                                           \
  {                                                                                              \
    name, "GB/s", 4.0 * (side) * (side) * (middle), true, SIZES(side, middle), cube, NULL, call, \
        TNI_CEILING_READ, 0                                                                      \
  }

static const tni_bench_case cases[] = {ROW("sum_4M", 2048, 2048, matrix, sum_all),
                                       ROW("sum_16M", 4096, 4096, matrix, sum_all),
                                       ROW("sum_dim0_4M", 2048, 2048, matrix, sum_0),
                                       ROW("sum_dim0_16M", 4096, 4096, matrix, sum_0),
                                       ROW("sum_dim1_4M", 2048, 2048, matrix, sum_1),
                                       ROW("sum_dim1_16M", 4096, 4096, matrix, sum_1),
                                       CUBE("sum_middle_4M", 128, 256, sum_1),
                                       CUBE("sum_middle_16M", 256, 256, sum_1),
                                       ROW("max_dim1_4M", 2048, 2048, matrix, max_1),
                                       ROW("max_dim1_16M", 4096, 4096, matrix, max_1),
                                       ROW("argmax_dim1_16M", 4096, 4096, matrix, argmax_1),
                                       MAP("softmax_4096x1000", 4096, 1000, matrix, softmax),
                                       MAP("softmax_256x32000", 256, 32000, matrix, softmax),
                                       MAP("softmax_16384x1024", 16384, 1024, matrix, softmax),
                                       MAP("log_softmax_4096x1000", 4096, 1000, matrix, log_softmax),
                                       MAP("log_softmax_16384x1024", 16384, 1024, matrix, log_softmax),
                                       MAP("layer_norm_4096x1000", 4096, 1000, affine, layer_norm),
                                       MAP("layer_norm_256x32000", 256, 32000, affine, layer_norm),
                                       MAP("layer_norm_16384x1024", 16384, 1024, affine, layer_norm),
                                       {0}};
const tni_bench_suite tni_bench_reduction = {"reduction", cases};
