/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin that was frozen: built once from the SDK of ABI 1.1, the first that plugins could be built against, and
 * kept as fossil-1.1-x86_64.so (see README.md). It does a bit of everything that minor 1 has: a backend, kernels that
 * were built with schema texts, the kit's loops, scratch memory, a layer, an operator with a meta rule and a gradient.
 * Built anew from the present SDK and from the future's, it is the other rows of the version matrix.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/loops.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/operator.h>
#include <tenon/plugin_backend.h>
#include <tenon/plugin_layer.h>

#define ADD "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
#define MUL "mul.Tensor(Tensor self, Tensor other) -> Tensor"
#define CUBE "fossil::cube(Tensor self) -> Tensor"

#ifdef TN_ABI_FUTURE
#define FUTURE_LINES "kernel fossil sub.Tensor future8,float32 0\n"
#else
#define FUTURE_LINES
#endif

TN_MANIFEST(TN_MANIFEST_HEADER("fossil", "1.1", "Apache-2.0") "device fossil\n"
                                                              "layer amber class mode above autocast\n"
                                                              "kernel amber * all 0\n"
                                                              "kernel fossil add.Tensor float32 0\n"
                                                              "kernel fossil mul.Tensor float32 0\n"
                                                              "kernel fossil fossil::cube float32 0\n"
                                                              "operator " CUBE "\n" FUTURE_LINES)

/* ------------------------------------------------------------------ the backend */

static tn_status count(void *ctx, int32_t *out_count) {
  *out_count = ctx ? -1 : 1;
  return TN_OK;
}

static tn_status fossil_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  void *address = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  if (!address)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "fossil: no %llu bytes", (unsigned long long)size_bytes);
  *out_memory = (tn_memory){(uintptr_t)address, address, size_bytes};
  return TN_OK;
}

static void fossil_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free((void *)(uintptr_t)memory->mem);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy((char *)(uintptr_t)mem + offset_bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(host, (const char *)(uintptr_t)mem + offset_bytes, size_bytes);
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "fossil",
                                       .alignment_bytes = 64,
                                       .device_count = count,
                                       .alloc = fossil_alloc,
                                       .free = fossil_free,
                                       .from_host = from_host,
                                       .to_host = to_host};

/* ------------------------------------------------------------------ kernels */

TN_LOOP_BINARY(mul_loop, float32, float32, float32, a *b)

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *operands[] = {out[0].u.v, args[0].u.v, args[1].u.v};
  return tn_iter_each(1, 3, operands, 16384, mul_loop, NULL);
}

/* Through scratch memory, to have used that row. */
static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *a = args[0].u.v, *b = args[1].u.v, *result = out[0].u.v;
  float alpha = args[2].kind == TN_VAL_FLOAT ? (float)args[2].u.f : (float)args[2].u.i;
  tn_memory scratch;
  TN_TRY(tn_kit_host()->scratch(call, (size_t)result->numel * sizeof(float) + 1, &scratch));
  float *scaled = scratch.address;
  for (int64_t i = 0; i < result->numel; i++) scaled[i] = alpha * ((const float *)b->data)[i];
  for (int64_t i = 0; i < result->numel; i++)
    ((float *)result->data)[i] = ((const float *)a->data)[i] + scaled[i];
  return TN_OK;
}

static tn_status cube(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const float *x = args[0].u.v->data;
  for (int64_t i = 0; i < out[0].u.v->numel; i++) ((float *)out[0].u.v->data)[i] = x[i] * x[i] * x[i];
  return TN_OK;
}

/* ------------------------------------------------------------------ the operator's rule and gradient */

static tn_status cube_meta(tn_meta *meta, const tn_value *args) {
  const tn_view *x = args[0].u.v;
  meta->out[0].dtype = x->dtype;
  meta->out[0].ndim = x->ndim;
  meta->out[0].layout = TN_DESC_CONTIGUOUS;
  for (uint32_t i = 0; i < x->ndim; i++) meta->out[0].sizes[i] = x->sizes[i];
  return TN_OK;
}

static tn_status times(const tn_host *host, tn_tensor *a, tn_tensor *b, tn_tensor **out_product) {
  const tn_op *op;
  TN_TRY(host->find_op("mul.Tensor", &op));
  const tn_value args[2] = {tn_value_tensor(a), tn_value_tensor(b)};
  tn_value out = tn_value_none();
  TN_TRY(host->call(op, args, &out));
  *out_product = out.u.t;
  return TN_OK;
}

/* 3 x^2 g as g x x + g x x + g x x: multiplication and addition are what the device has. */
static tn_status cube_backward(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins) {
  const tn_op *add_op;
  tn_tensor *gx = NULL, *gxx = NULL;
  TN_TRY(ctx->host->find_op("add.Tensor", &add_op));
  tn_status status = times(ctx->host, grad_outs[0], ctx->args[0].u.t, &gx);
  if (status == TN_OK) status = times(ctx->host, gx, ctx->args[0].u.t, &gxx);
  if (status == TN_OK) {
    const tn_value args[3] = {tn_value_tensor(gxx), tn_value_tensor(gxx), tn_value_int(2)};
    tn_value out = tn_value_none();
    status = ctx->host->call(add_op, args, &out);
    grad_ins[0] = out.u.t;
  }
  ctx->host->tensor_release(gx);
  ctx->host->tensor_release(gxx);
  return status;
}

static tn_status register_cube(const tn_host *host, tn_registration *reg) {
  static const uint8_t inputs[] = {0};
  static const tn_saves saves[] = {{.args = 1}};
  static const tn_grad_def grad = {.struct_size = sizeof grad,
                                   .n_inputs = 1,
                                   .input_args = inputs,
                                   .saves = saves,
                                   .fn = cube_backward,
                                   .node_name = "CubeBackward0"};
  const tn_operator_def def = {.struct_size = sizeof def,
                               .schema = CUBE,
                               .meta = cube_meta,
                               .grad = &grad,
                               .doc = "self * self * self"};
  return host->register_operator(reg, &def);
}

/* ------------------------------------------------------------------ the layer, and the door */

static tn_status amber(tn_call *call, const tn_value *args, tn_value *out) {
  return call->host->redispatch(call, args, out);
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL("fossil", "add.Tensor", add, TN_DTYPE_BIT(TN_FLOAT32), .schema = ADD, .flags = TN_KERNEL_CONTIGUOUS),
    TN_KERNEL("fossil", "mul.Tensor", mul, TN_DTYPE_BIT(TN_FLOAT32), .schema = MUL),
    TN_KERNEL("fossil", "fossil::cube", cube, TN_DTYPE_BIT(TN_FLOAT32), .schema = CUBE, .flags = TN_KERNEL_CONTIGUOUS),
    TN_KERNEL("amber", "*", amber, 0, .flags = TN_KERNEL_LAYER_FALLBACK),
#ifdef TN_ABI_FUTURE
    TN_KERNEL("fossil", "sub.Tensor", mul, TN_DTYPE_BIT(TN_FUTURE8) | TN_DTYPE_BIT(TN_FLOAT32),
              .flags = TN_KERNEL_FUTURE, .future = 1),
#endif
};

/* What the host has of the future: a row that an older one answers in words. */
static void ask_the_future(const tn_host *host) {
#ifdef TN_ABI_FUTURE
  int32_t answer = 0;
  tn_status status = host->future(&answer);
  host->log(TN_LOG_WARN, "fossil: the future answers %d (status %d: %s)", answer, status,
            status == TN_OK ? "" : host->error_message());
#else
  (void)host;
#endif
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {.struct_size = sizeof layer, .name = "amber"};
  TN_TRY(host->register_backend(reg, &backend));
  TN_TRY(host->register_layer(reg, &layer));
  TN_TRY(register_cube(host, reg));
  ask_the_future(host);
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "fossil", .version = "1.1", .init = init)
