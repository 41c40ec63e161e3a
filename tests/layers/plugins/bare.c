/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators by hand, each with less than it could have: `text` is schema text alone, `twice` has a kernel and no
 * gradient, `cube` has a gradient in C that calls operators by name.
 */
#include <string.h>
#include <tenon/kit/call.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/operator.h>

#define TEXT "bare::text(Tensor self, int n=1) -> Tensor"
#define TWICE "bare::twice(Tensor self) -> Tensor"
#define CUBE "bare::cube(Tensor self) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("bare", "1.0", "Apache-2.0") "operator " TEXT "\noperator " TWICE "\noperator " CUBE
                                                            "\nkernel cpu bare::twice float32 0\n")

TN_KIT_OP(op_mul, "mul.Tensor");
TN_KIT_OP(op_scale, "mul.Scalar");

static tn_status meta(tn_meta *m, const tn_value *args) {
  const tn_view *v = args[0].u.v;
  m->out[0].dtype = v->dtype;
  m->out[0].ndim = v->ndim;
  memcpy(m->out[0].sizes, v->sizes, v->ndim * sizeof *v->sizes);
  return TN_OK;
}

static tn_status twice(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *x = args[0].u.v, *y = out[0].u.v;
  for (int64_t i = 0; i < x->numel; i++) ((float *)y->data)[i] = 2 * ((const float *)x->data)[i];
  return TN_OK;
}

/* x * x * x */
static tn_status cube(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  tn_tensor *square, *result;
  TN_TRY(TN_KIT_CALL(&op_mul, &square, args[0], args[0]));
  tn_status status = TN_KIT_CALL(&op_mul, &result, tn_value_tensor(square), args[0]);
  tn_kit_host()->tensor_release(square);
  if (status == TN_OK) out[0] = tn_value_tensor(result);
  return status;
}

/* grad * 3 * x * x, so that a second derivative is that of these calls. */
static tn_status cube_backward(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins) {
  tn_tensor *square, *scaled = NULL;
  if (!(ctx->wanted & 1)) return TN_OK;
  TN_TRY(TN_KIT_CALL(&op_mul, &square, ctx->args[0], ctx->args[0]));
  tn_status status = TN_KIT_CALL(&op_scale, &scaled, tn_value_tensor(square), tn_value_int(3));
  if (status == TN_OK)
    status = TN_KIT_CALL(&op_mul, &grad_ins[0], tn_value_tensor(scaled), tn_value_tensor(grad_outs[0]));
  tn_kit_host()->tensor_release(scaled);
  tn_kit_host()->tensor_release(square);
  return status;
}

static const uint8_t inputs[] = {0};
static const tn_saves saves[] = {{.args = 1}};
static const tn_grad_def cube_grad = {.struct_size = sizeof cube_grad,
                                      .n_inputs = 1,
                                      .input_args = inputs,
                                      .saves = saves,
                                      .fn = cube_backward,
                                      .node_name = "CubeBackward0"};

static tn_status init(const tn_host *host, tn_registration *reg) {
  static const tn_operator_def ops[] = {
      {.struct_size = sizeof *ops, .schema = TEXT},
      {.struct_size = sizeof *ops, .schema = TWICE, .meta = meta},
      {.struct_size = sizeof *ops, .schema = CUBE, .meta = meta, .body = cube, .grad = &cube_grad}};
  const tn_kernel_def kernel = TN_KERNEL("cpu", "bare::twice", twice, TN_DTYPE_BIT(TN_FLOAT32));
  for (size_t i = 0; i < TN_COUNT(ops); i++) TN_TRY(host->register_operator(reg, &ops[i]));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "bare", .version = "1.0", .init = init)
