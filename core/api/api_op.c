/* SPDX-License-Identifier: Apache-2.0
 *
 * The boxed door: an operator by name, called with values. Defaults are filled and kinds are checked here, so
 * that what runs below can trust its arguments.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"

tn_status tn_op_find(const char *name, const tn_op **out_op) {
  if (!name || !out_op) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_op_find: an argument is NULL");
  *out_op = NULL;
  TN_TRY(tni_load_init());
  *out_op = tni_op_find(name);
  if (!*out_op) {
    TN_TRY(tni_open_operator(name));
    *out_op = tni_op_find(name);
  }
  if (*out_op) return TN_OK;
  return tni_op_unknown(name);
}

static bool is_number(uint8_t kind) {
  return kind == TN_VAL_BOOL || kind == TN_VAL_INT || kind == TN_VAL_FLOAT;
}

static bool elem_fits(const tni_arg *a, uint8_t elem) {
  switch (a->type) {
    case TNI_T_TENSOR: return elem == TN_VAL_TENSOR || elem == TN_VAL_OPTIONAL_TENSOR;
    case TNI_T_SCALAR: return elem == TN_VAL_SCALAR;
    case TNI_T_INT: return elem == TN_VAL_INT;
    case TNI_T_FLOAT: return elem == TN_VAL_FLOAT;
    case TNI_T_BOOL: return elem == TN_VAL_BOOL;
    default: return false;
  }
}

static bool kind_fits(const tni_arg *a, const tn_value *v) {
  if (a->list) return v->kind == TN_VAL_LIST && elem_fits(a, v->elem);
  switch (a->type) {
    case TNI_T_TENSOR: return v->kind == TN_VAL_TENSOR && v->u.t;
    case TNI_T_SCALAR: return is_number(v->kind);
    case TNI_T_INT: return v->kind == TN_VAL_INT;
    case TNI_T_FLOAT: return v->kind == TN_VAL_FLOAT;
    case TNI_T_BOOL: return v->kind == TN_VAL_BOOL;
    case TNI_T_STR: return v->kind == TN_VAL_STRING;
    case TNI_T_DTYPE: return v->kind == TN_VAL_DTYPE;
    case TNI_T_LAYOUT: return v->kind == TN_VAL_LAYOUT;
    case TNI_T_DEVICE: return v->kind == TN_VAL_DEVICE;
    case TNI_T_MEMORY_FORMAT: return v->kind == TN_VAL_MEMORY_FORMAT;
    default: return v->kind == TN_VAL_GENERATOR;
  }
}

/* A list of tensors has no absent entries unless its type says `Tensor?[]`. */
static bool entries_present(const tni_arg *a, const tn_value *v) {
  if (!a->list || a->type != TNI_T_TENSOR || a->optional_elem) return true;
  for (uint32_t i = 0; i < v->count; ++i)
    if (!v->u.ts[i]) return false;
  return true;
}

static tn_status fill_argument(const tn_op *op, uint32_t i, const tn_value *given, tn_value *out) {
  const tni_arg *a = &op->schema->args[i];
  bool absent = !given || given->kind == TN_VAL_NONE;
  if (absent && a->has_default) {
    *out = a->default_value;
    return TN_OK;
  }
  if (absent && a->optional) {
    *out = tn_value_none();
    return TN_OK;
  }
  if (absent) return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: argument '%s' is missing", op->name, a->name);
  if (!kind_fits(a, given) || !entries_present(a, given))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "%s: argument '%s' has a value of the wrong kind (%d); the schema is %s", op->name,
                   a->name, given->kind, op->schema_text);
  *out = *given;
  return TN_OK;
}

tn_status tn_op_call(const tn_op *op, const tn_value *args, size_t n_args, tn_value *out, size_t n_out) {
  tn_value full[TNI_MAX_ARGS];
  if (!op) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_op_call: 'op' is NULL");
  if (n_args > op->n_args)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s takes %d arguments, got %zu", op->name, op->n_args, n_args);
  if (n_out < op->n_outs)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s has %d results, the array holds %zu", op->name, op->n_outs,
                   n_out);
  if (op->list_result && (out[0].kind != TN_VAL_LIST || (out[0].count && !out[0].u.ts)))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s returns a list; out[0] is to be one, with the caller's array",
                   op->name);
  for (uint32_t i = 0; i < op->n_args; ++i)
    TN_TRY(fill_argument(op, i, i < n_args ? &args[i] : NULL, &full[i]));
  for (uint32_t i = 0; i < op->n_outs && !op->list_result; ++i) out[i] = tn_value_none();
  return tni_call(op, full, out);
}
