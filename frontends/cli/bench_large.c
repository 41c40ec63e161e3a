/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites elementwise (GB/s, inputs and outputs counted once) and gemm (GFLOP/s): what large operators reach.
 */
#include "frontends/cli/bench.h"

enum { LARGE = 1 << 24 }; /* 64 MiB of float32: past the caches */

/* ------------------------------------------------------------------ elementwise */

static tn_status three(tni_bench *b) {
  const tn_dim size = b->which->size;
  for (int i = 0; i < 3; i++) TN_TRY(tni_bench_full(b, i, &size, 1, 0.5));
  return TN_OK;
}

static tn_status many(tni_bench *b, int64_t n, tn_status (*call)(tni_bench *), double *out_ns) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) TN_TRY(call(b));
  *out_ns = tni_bench_now() - begin;
  return TN_OK;
}

static tn_status add_out(tni_bench *b) { return tn_add_out(b->t[0], b->t[1], tn_int(1), b->t[2]); }
static tn_status copy(tni_bench *b) { return tn_copy_(b->t[0], b->t[1], false); }
static tn_status exp_out(tni_bench *b) { return tn_exp_out(b->t[0], b->t[1]); }
static tn_status relu_out(tni_bench *b) { return tn_relu_out(b->t[0], b->t[1]); }

static tn_status add_fresh(tni_bench *b) {
  tn_tensor *r = NULL;
  TN_TRY(tn_add(b->t[0], b->t[1], tn_int(1), &r));
  tn_tensor_release(r);
  return TN_OK;
}

static tn_status sum(tni_bench *b) {
  tn_tensor *r = NULL;
  TN_TRY(tn_sum(b->t[0], TN_DTYPE_NONE, &r));
  tn_tensor_release(r);
  return TN_OK;
}

static tn_status run_add_out(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, add_out, out_ns); }
static tn_status run_add(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, add_fresh, out_ns); }
static tn_status run_copy(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, copy, out_ns); }
static tn_status run_exp(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, exp_out, out_ns); }
static tn_status run_relu(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, relu_out, out_ns); }
static tn_status run_sum(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, sum, out_ns); }

static const tni_bench_case elementwise[] = {
    {"copy_16M", "GB/s", 8.0 * LARGE, true, LARGE, three, run_copy},
    {"add_out_16M", "GB/s", 12.0 * LARGE, true, LARGE, three, run_add_out},
    {"add_16M", "GB/s", 12.0 * LARGE, true, LARGE, three, run_add},
    {"relu_out_16M", "GB/s", 8.0 * LARGE, true, LARGE, three, run_relu},
    {"exp_out_16M", "GB/s", 8.0 * LARGE, true, LARGE, three, run_exp},
    {"sum_16M", "GB/s", 4.0 * LARGE, true, LARGE, three, run_sum},
    {0}};
const tni_bench_suite tni_bench_elementwise = {"elementwise", elementwise};

/* ------------------------------------------------------------------ gemm */

static tn_status matrices(tni_bench *b, tn_dim m, tn_dim n, tn_dim k) {
  TN_TRY(tni_bench_full(b, 0, (const tn_dim[]){m, k}, 2, 0.5));
  TN_TRY(tni_bench_full(b, 1, (const tn_dim[]){k, n}, 2, 0.25));
  return tni_bench_full(b, 2, (const tn_dim[]){m, n}, 2, 0.0);
}

static tn_status square(tni_bench *b) { return matrices(b, b->which->size, b->which->size, b->which->size); }
static tn_status mlp_shape(tni_bench *b) { return matrices(b, 64, 128, 784); }
static tn_status mm_out(tni_bench *b) { return tn_mm_out(b->t[0], b->t[1], b->t[2]); }
static tn_status run_mm(tni_bench *b, int64_t n, double *out_ns) { return many(b, n, mm_out, out_ns); }

static const tni_bench_case gemm[] = {
    {"mm_f32_32", "GFLOP/s", 2.0 * 32 * 32 * 32, true, 32, square, run_mm},
    {"mm_f32_64x128x784", "GFLOP/s", 2.0 * 64 * 128 * 784, true, 0, mlp_shape, run_mm},
    {"mm_f32_256", "GFLOP/s", 2.0 * 256 * 256 * 256, true, 256, square, run_mm},
    {"mm_f32_1024", "GFLOP/s", 2.0 * 1024 * 1024 * 1024, true, 1024, square, run_mm},
    {0}};
const tni_bench_suite tni_bench_gemm = {"gemm", gemm};
