/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of "@NAME@". The entries of @NAME@.yaml say what they are; the generated @IDENT@_operators.c registers schemas,
 * bodies, gradients and samples, and this file has what an entry names: meta rules, and kernels for devices.
 *
 * A meta rule says what comes out, from shapes and dtypes alone; it is asked before the result is allocated. A kernel
 * computes into memory that is already there. Neither is needed where the body will do.
 */
#include <math.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/loops.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

#include "@IDENT@_operators.h"

TN_MANIFEST(TN_MANIFEST_HEADER("@NAME@", "0.1.0", "Apache-2.0") @UPPER@_OPERATORS
            "kernel cpu @IDENT@::soft_clip float32,float64 0\n")

/* ------------------------------------------------------------------ meta rules */

tn_status tn_meta_@IDENT@_soft_clip(tn_meta *meta, const tn_value *args) {
  const tn_view *self = args[0].u.v;
  tn_desc *result = &meta->out[0];
  if (!tn_kit_dtype_is_float(self->dtype))
    return TN_FAIL(TN_ERR_DTYPE, "expected a floating dtype, got %s", tn_kit_dtype_name(self->dtype));
  if (!(args[1].u.f > 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a limit above 0, got %g", args[1].u.f);
  result->dtype = self->dtype;
  result->ndim = self->ndim;
  result->layout = TN_DESC_ELEMENTWISE; /* strides as those of the argument */
  memcpy(result->sizes, self->sizes, self->ndim * sizeof(tn_dim));
  return TN_OK;
}

/* ------------------------------------------------------------------ kernels */

TN_LOOP_UNARY(soft_clip_float32, float32, float32, (float)*(const double *)ctx *tanhf(a / (float)*(const double *)ctx))
TN_LOOP_UNARY(soft_clip_float64, float64, float64, *(const double *)ctx *tanh(a / *(const double *)ctx))

static tn_status soft_clip(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *operands[] = {out[0].u.v, args[0].u.v};
  tn_loop_fn loop = operands[0]->dtype == TN_FLOAT32 ? soft_clip_float32 : soft_clip_float64;
  double limit = args[1].u.f;
  return tn_iter_each(1, 2, operands, 4096, loop, &limit);
}

static const tn_kernel_def kernels[] = {TN_KERNEL("cpu", "@IDENT@::soft_clip", soft_clip,
                                                  TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64))};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(@IDENT@_register_operators(host, reg));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "@NAME@", .version = "0.1.0", .init = init)
