/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments from a schema alone, for operators that nobody gave samples of.
 */
#include "frontends/check/opcheck.h"

static bool make_list(const tni_arg *a, tn_sample_arg *out) {
  static const int64_t ints[8];
  static const double floats[8];
  static const uint8_t bools[8];
  uint32_t n = a->fixed_size > 0 && a->fixed_size <= 8 ? (uint32_t)a->fixed_size : 1;
  *out = (tn_sample_arg){.kind = TN_SAMPLE_VALUE, .value = {.kind = TN_VAL_LIST, .count = n}};
  switch (a->type) {
    case TNI_T_INT: out->value.elem = TN_VAL_INT, out->value.u.ints = ints; return true;
    case TNI_T_FLOAT: out->value.elem = TN_VAL_FLOAT, out->value.u.floats = floats; return true;
    case TNI_T_BOOL: out->value.elem = TN_VAL_BOOL, out->value.u.bools = bools; return true;
    default: return false;
  }
}

static bool make_argument(const tni_arg *a, tn_sample_arg *out) {
  static const int64_t sizes[] = {2, 3};
  static const tn_sample_tensor tensors[] = {{.sizes = sizes, .ndim = 2}, {.sizes = sizes, .ndim = 2}};
  if (a->has_default) return *out = (tn_sample_arg){.kind = TN_SAMPLE_DEFAULT}, true;
  if (a->optional) return *out = (tn_sample_arg){.kind = TN_SAMPLE_NONE}, true;
  if (a->type == TNI_T_TENSOR) {
    *out = (tn_sample_arg){.kind = a->list ? TN_SAMPLE_TENSORS : TN_SAMPLE_TENSOR, .n_tensors = a->list ? 2 : 1, .tensors = tensors};
    return true;
  }
  if (a->list) return make_list(a, out);
  *out = (tn_sample_arg){.kind = TN_SAMPLE_VALUE};
  switch (a->type) {
    case TNI_T_SCALAR: out->value = tn_value_int(2); return true;
    case TNI_T_INT: out->value = tn_value_int(1); return true;
    case TNI_T_FLOAT: out->value = tn_value_float(0.5); return true;
    case TNI_T_BOOL: out->value = tn_value_bool(false); return true;
    case TNI_T_DTYPE: out->kind = TN_SAMPLE_TESTED_DTYPE; return true;
    default: return false;
  }
}

const tn_sample *tni_opcheck_make_sample(const tni_ops_op *op) {
  static tn_sample_arg args[TNI_OPS_ARGS];
  static tn_sample samples[2];
  if (op->schema->n_args > TNI_OPS_ARGS) return NULL;
  for (uint32_t i = 0; i < op->schema->n_args; i++)
    if (!make_argument(&op->schema->args[i], &args[i])) return NULL;
  samples[0] = (tn_sample){op->report.functional, "made up", args, op->schema->n_args, true};
  return samples;
}
