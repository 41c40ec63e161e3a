/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites gemm and conv: GFLOP/s, a multiply-add counted as two. The ceiling is float32 multiply-adds in
 * registers, for bfloat16 too: a ratio above 1 there comes from matrix or dot-product units.
 */
#include "frontends/cli/bench.h"

/* ------------------------------------------------------------------ gemm */

static tn_status matrices(tni_bench *b, tn_dim m, tn_dim n, tn_dim k) {
  TN_TRY(tni_bench_randn(b, 0, (const tn_dim[]){m, k}, 2));
  TN_TRY(tni_bench_randn(b, 1, (const tn_dim[]){k, n}, 2));
  return tni_bench_full(b, 2, (const tn_dim[]){m, n}, 2, 0.0);
}

static tn_status square(tni_bench *b) { return matrices(b, b->which->size, b->which->size, b->which->size); }
static tn_status mlp_shape(tni_bench *b) { return matrices(b, 64, 128, 784); }
static tn_status wide_shape(tni_bench *b) { return matrices(b, 256, 1024, 1024); }
static tn_status square_bf16(tni_bench *b) {
  const tn_dim sizes[] = {b->which->size, b->which->size};
  for (int i = 0; i < 3; i++)
    TN_TRY(tn_full(sizes, 2, tn_float(0.5), TN_OPTIONS(.dtype = TN_BFLOAT16), &b->t[i]));
  return TN_OK;
}
/* What four heads of sixteen sequences multiply in attention. */
static tn_status heads(tni_bench *b) {
  TN_TRY(tni_bench_randn(b, 0, (const tn_dim[]){64, 64, 32}, 3));
  TN_TRY(tni_bench_randn(b, 1, (const tn_dim[]){64, 32, 64}, 3));
  return tni_bench_full(b, 2, (const tn_dim[]){64, 64, 64}, 3, 0.0);
}

static tn_status mm_out(tni_bench *b) { return tn_mm_out(b->t[0], b->t[1], b->t[2]); }
static tn_status bmm_out(tni_bench *b) { return tn_bmm_out(b->t[0], b->t[1], b->t[2]); }

#define GEMM(name, m, n, k, setup, call) \
  { name, "GFLOP/s", 2.0 * (m) * (n) * (k), true, m, setup, NULL, call, TNI_CEILING_FMA, 0 }

static const tni_bench_case gemm[] = {GEMM("mm_f32_32", 32, 32, 32, square, mm_out),
                                      GEMM("mm_f32_64x128x784", 64, 128, 784, mlp_shape, mm_out),
                                      GEMM("mm_f32_256x1024x1024", 256, 1024, 1024, wide_shape, mm_out),
                                      GEMM("mm_f32_256", 256, 256, 256, square, mm_out),
                                      GEMM("mm_f32_512", 512, 512, 512, square, mm_out),
                                      GEMM("mm_f32_1024", 1024, 1024, 1024, square, mm_out),
                                      GEMM("mm_f32_2048", 2048, 2048, 2048, square, mm_out),
                                      GEMM("mm_f32_4096", 4096, 4096, 4096, square, mm_out),
                                      GEMM("bmm_f32_64x64x64x32", 64 * 64, 64, 32, heads, bmm_out),
                                      GEMM("mm_bf16_1024", 1024, 1024, 1024, square_bf16, mm_out),
                                      {0}};
const tni_bench_suite tni_bench_gemm = {"gemm", gemm};

/* ------------------------------------------------------------------ conv */

/* One layer of the convnet of suite train: 3 x 3, batch 64, no padding. */
typedef struct layer {
  tn_dim in, out, side;
} layer;

static const layer layers[] = {{1, 32, 28}, {32, 64, 26}};

#define OUTPUTS(l)    (64.0 * ((l) == 0 ? 32 * 26 * 26 : 64 * 24 * 24))
#define LAYER_WORK(l) (2.0 * OUTPUTS(l) * 9 * ((l) == 0 ? 1 : 32))

/* A case's size is its layer, and from LAST on the same with channels innermost. */
enum { LAST = 2 };
static const layer *layer_of(const tni_bench *b) { return &layers[b->which->size % LAST]; }

/* Random images in the order that the case asks for. */
static tn_status images(tni_bench *b, int slot, const tn_dim *sizes) {
  tn_tensor *t = NULL;
  TN_TRY(tni_bench_randn(b, slot, sizes, 4));
  if (b->which->size < LAST) return TN_OK;
  TN_TRY(tn_contiguous(b->t[slot], TN_CHANNELS_LAST, &t));
  tn_tensor_release(b->t[slot]);
  b->t[slot] = t;
  return TN_OK;
}

/* Input, weight, bias, gradient of the output. */
static tn_status layer_setup(tni_bench *b) {
  const layer *l = layer_of(b);
  TN_TRY(images(b, 0, (const tn_dim[]){64, l->in, l->side, l->side}));
  TN_TRY(images(b, 1, (const tn_dim[]){l->out, l->in, 3, 3}));
  TN_TRY(tni_bench_randn(b, 2, &l->out, 1));
  return images(b, 3, (const tn_dim[]){64, l->out, l->side - 2, l->side - 2});
}

static const int64_t ones[] = {1, 1}, zeros[] = {0, 0}, twos[] = {2, 2};

static tn_status forward(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_conv2d(b->t[0], b->t[1], b->t[2], ones, 2, zeros, 2, ones, 2, 1, &r), &r);
}

static tn_status backward(tni_bench *b) {
  static const uint8_t all[] = {1, 1, 1};
  const int64_t bias = layer_of(b)->out;
  tn_tensor *r[3];
  TN_TRY(tn_convolution_backward(b->t[3], b->t[0], b->t[1], &bias, 1, ones, 2, zeros, 2, ones, 2, false,
                                 zeros, 2, 1, all, 3, &r[0], &r[1], &r[2]));
  for (int i = 0; i < 3; i++) tn_tensor_release(r[i]);
  return TN_OK;
}

/* Images, and what pooling them gave: a gradient and the indices. */
static tn_status pool_setup(tni_bench *b) {
  TN_TRY(images(b, 0, (const tn_dim[]){64, 64, 24, 24}));
  return tn_max_pool2d_with_indices(b->t[0], twos, 2, twos, 2, zeros, 2, ones, 2, false, &b->t[1], &b->t[2]);
}
static tn_status pool(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_max_pool2d(b->t[0], twos, 2, twos, 2, zeros, 2, ones, 2, false, &r), &r);
}
static tn_status pool_backward(tni_bench *b) {
  tn_tensor *r;
  return tni_bench_made(tn_max_pool2d_with_indices_backward(b->t[1], b->t[0], twos, 2, twos, 2, zeros, 2,
                                                            ones, 2, false, b->t[2], &r),
                        &r);
}

#define CONV(name, l, times, call) \
  { name, "GFLOP/s", (times)*LAYER_WORK((l) % LAST), true, l, layer_setup, NULL, call, TNI_CEILING_FMA, 0 }
#define POOL(name, l, call) \
  { name, "GB/s", 5.0 * OUTPUTS(1), true, l, pool_setup, NULL, call, TNI_CEILING_COPY, 0 }

static const tni_bench_case conv[] = {CONV("conv_1_32", 0, 1, forward),
                                      CONV("conv_1_32_backward", 0, 2, backward),
                                      CONV("conv_32_64", 1, 1, forward),
                                      CONV("conv_32_64_backward", 1, 2, backward),
                                      CONV("conv_1_32_last", LAST, 1, forward),
                                      CONV("conv_1_32_last_backward", LAST, 2, backward),
                                      CONV("conv_32_64_last", LAST + 1, 1, forward),
                                      CONV("conv_32_64_last_backward", LAST + 1, 2, backward),
                                      POOL("max_pool_2", 0, pool),
                                      POOL("max_pool_2_backward", 0, pool_backward),
                                      POOL("max_pool_2_last", LAST, pool),
                                      POOL("max_pool_2_last_backward", LAST, pool_backward),
                                      {0}};
const tni_bench_suite tni_bench_conv = {"conv", conv};
