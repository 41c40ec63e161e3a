/* SPDX-License-Identifier: Apache-2.0
 *
 * The C of acme::row_softmax: meta rules, the CPU's kernels, and what init registers; those for OpenCL devices are in
 * row_softmax_opencl.c. Everything else (schemas, bodies, gradients) is generated from row_softmax.yaml.
 *
 * A row is read once from memory: its maximum, then exponentials and their sum into the result, then the scale, while
 * the row is in the cache. Sums run in LANES partial sums, so that compilers may use vectors and the result depends
 * on the row alone, not on threads.
 */
#include <float.h>
#include <math.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/kit/shape.h>

#include "row_softmax.h"
#include "row_softmax_operators.h"

TN_MANIFEST(TN_MANIFEST_HEADER("row-softmax", "1.0", "Apache-2.0") ROW_SOFTMAX_OPERATORS
            "kernel cpu acme::row_softmax float32,float64 0\n"
            "kernel cpu acme::row_softmax_backward float32,float64 0\n"
            "kernel opencl acme::row_softmax float 0\n"
            "kernel opencl acme::row_softmax_backward float 0\n")

enum { LANES = 16, GRAIN_ELEMENTS = 16384 };

/* ------------------------------------------------------------------ meta rules */

static tn_status like(tn_meta *m, const tn_view *v) {
  if (!(TN_DTYPES_FLOAT & TN_DTYPE_BIT(v->dtype)))
    return TN_FAIL(TN_ERR_DTYPE, "expected a floating tensor, got %s", m->host->dtype_name(v->dtype));
  if (v->ndim == 0) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected rows: a tensor of at least 1 dimension, got 0");
  m->out[0].dtype = v->dtype;
  m->out[0].ndim = v->ndim;
  memcpy(m->out[0].sizes, v->sizes, v->ndim * sizeof *v->sizes);
  return TN_OK;
}

tn_status tn_meta_acme_row_softmax(tn_meta *m, const tn_value *args) { return like(m, args[0].u.v); }

tn_status tn_meta_acme_row_softmax_backward(tn_meta *m, const tn_value *args) {
  const tn_view *grad = args[0].u.v, *output = args[1].u.v;
  if (grad->dtype != output->dtype || !tn_shape_equal(grad->ndim, grad->sizes, output->ndim, output->sizes))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected grad_output of output's dtype and shape %s, got shape %s",
                   tn_shape_format(output->ndim, output->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(grad->ndim, grad->sizes, TN_SHAPE_TEXT));
  return like(m, output);
}

/* ------------------------------------------------------------------ exponentials */

/* exp(x) for x <= 0 without a branch: 2^n times a polynomial on [-ln2/2, ln2/2]. What would be subnormal is 0. */
static inline float exp_float(float x) {
  float at = x < -87.0f ? -87.0f : x;
  float n = at * 1.44269504f + 12582912.0f; /* adding 1.5 * 2^23 rounds: the whole number stands in the low bits */
  uint32_t bits;
  memcpy(&bits, &n, sizeof bits);
  n -= 12582912.0f;
  float r = (at - n * 0.693145752f) - n * 1.42860677e-6f;
  float p = 1.0f / 720 + r * (1.0f / 5040);
  p = 1.0f / 120 + r * p;
  p = 1.0f / 24 + r * p;
  p = 1.0f / 6 + r * p;
  p = 0.5f + r * p;
  p = 1.0f + r * p;
  p = 1.0f + r * p;
  bits = (bits + 127) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return x < -87.0f ? 0.0f : p * scale; /* a NaN stays one: p is one */
}

static inline double exp_double(double x) { return exp(x); }

/* ------------------------------------------------------------------ rows */

/* The functions of one dtype; TYPE is its C type, EXP its exponential. A row of NaN or of -infinity gives NaN. */
#define ROWS(TYPE, NAME, EXP)                                                                       \
  static TYPE max_##NAME(const TYPE *x, int64_t n) {                                                \
    TYPE lanes[LANES];                                                                              \
    for (int k = 0; k < LANES; k++) lanes[k] = (TYPE)-INFINITY;                                     \
    int64_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES)                                                              \
      for (int k = 0; k < LANES; k++) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];         \
    for (; i < n; i++) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];                                \
    for (int k = 1; k < LANES; k++) lanes[0] = lanes[k] > lanes[0] ? lanes[k] : lanes[0];           \
    return lanes[0];                                                                                \
  }                                                                                                 \
  static void softmax_##NAME(const TYPE *x, TYPE *y, int64_t n) {                                   \
    TYPE most = max_##NAME(x, n), lanes[LANES] = {0};                                               \
    int64_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES)                                                              \
      for (int k = 0; k < LANES; k++) lanes[k] += y[i + k] = EXP(x[i + k] - most);                  \
    for (; i < n; i++) lanes[0] += y[i] = EXP(x[i] - most);                                         \
    TYPE sum = 0;                                                                                   \
    for (int k = 0; k < LANES; k++) sum += lanes[k];                                                \
    for (i = 0; i < n; i++) y[i] /= sum;                                                            \
  }                                                                                                 \
  static void backward_##NAME(const TYPE *g, const TYPE *y, TYPE *to, int64_t n) {                  \
    TYPE lanes[LANES] = {0}, dot = 0;                                                               \
    int64_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES)                                                              \
      for (int k = 0; k < LANES; k++) lanes[k] += g[i + k] * y[i + k];                              \
    for (; i < n; i++) lanes[0] += g[i] * y[i];                                                     \
    for (int k = 0; k < LANES; k++) dot += lanes[k];                                                \
    for (i = 0; i < n; i++) to[i] = (g[i] - dot) * y[i];                                            \
  }

ROWS(float, float, exp_float)
ROWS(double, double, exp_double)

/* ------------------------------------------------------------------ kernels */

/* What the chunks of one call share; all of it contiguous (TN_KERNEL_CONTIGUOUS). */
typedef struct rows {
  const tn_view *in[2];
  const tn_view *out;
  int64_t length;
} rows;

static tn_status softmax_rows(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const rows *r = ctx;
  (void)worker;
  for (int64_t at = begin * r->length; at < end * r->length; at += r->length)
    if (r->out->dtype == TN_FLOAT32)
      softmax_float((const float *)r->in[0]->data + at, (float *)r->out->data + at, r->length);
    else
      softmax_double((const double *)r->in[0]->data + at, (double *)r->out->data + at, r->length);
  return TN_OK;
}

static tn_status backward_rows(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const rows *r = ctx;
  (void)worker;
  for (int64_t at = begin * r->length; at < end * r->length; at += r->length)
    if (r->out->dtype == TN_FLOAT32)
      backward_float((const float *)r->in[0]->data + at, (const float *)r->in[1]->data + at,
                     (float *)r->out->data + at, r->length);
    else
      backward_double((const double *)r->in[0]->data + at, (const double *)r->in[1]->data + at,
                      (double *)r->out->data + at, r->length);
  return TN_OK;
}

static tn_status each_row(rows *r, tn_parallel_fn fn) {
  if (!r->out->numel) return TN_OK;
  r->length = r->out->sizes[r->out->ndim - 1];
  int64_t grain = GRAIN_ELEMENTS / r->length;
  return tn_kit_host()->parallel_for(r->out->numel / r->length, grain > 0 ? grain : 1, fn, r);
}

static tn_status cpu_softmax(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  return each_row(&(rows){{args[0].u.v, NULL}, out[0].u.v, 0}, softmax_rows);
}

static tn_status cpu_backward(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  return each_row(&(rows){{args[0].u.v, args[1].u.v}, out[0].u.v, 0}, backward_rows);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  static const tn_dtype_mask both = TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64);
  const tn_kernel_def kernels[] = {
      TN_KERNEL("cpu", "acme::row_softmax", cpu_softmax, both, .flags = TN_KERNEL_CONTIGUOUS),
      TN_KERNEL("cpu", "acme::row_softmax_backward", cpu_backward, both, .flags = TN_KERNEL_CONTIGUOUS),
      TN_KERNEL("opencl", "acme::row_softmax", opencl_softmax, TN_DTYPES_FLOAT, .flags = TN_KERNEL_CONTIGUOUS),
      TN_KERNEL("opencl", "acme::row_softmax_backward", opencl_backward, TN_DTYPES_FLOAT, .flags = TN_KERNEL_CONTIGUOUS)};
  TN_TRY(row_softmax_register_operators(host, reg));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "row-softmax", .version = "1.0", .init = init)
