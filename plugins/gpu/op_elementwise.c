/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operator that the registry has an expression for. The expressions themselves are device text (elementwise.inc, which
 * the device's compiler reads); here are only their names, and which argument is an operand and which a number.
 */
#include <stdio.h>
#include <tenon/kit/register.h>

#include "elementwise.inc"
#include "plugins/gpu/gpu.h"

typedef struct gpu_ew {
  const char *op;
  const char *id; /* in TN_EXPR_FLT_id, TN_EXPR_INT_id */
  tn_dtype_mask dtypes;
  uint8_t n_tensors, n_numbers;
  bool to_bool;
} gpu_ew;

#define EW_BOOL_SAME                                   false
#define EW_BOOL_BOOL                                   true
#define EW_RECORD(id, op, nt, ns, mask, result, words) {op, #id, mask, nt, ns, EW_BOOL_##result},
static const gpu_ew records[] = {TN_EW_LIST(EW_RECORD)};

#define EW_FITS(id, op, nt, ns, mask, result, words) \
  _Static_assert((nt) >= 1 && (nt) <= GPU_INPUTS && (ns) <= GPU_NUMBERS, op " has too many arguments");
TN_EW_LIST(EW_FITS)

/* TN_EXPR_FLT_add_Tensor(T, F, a0, a1, s0): 24 bytes and a name, at most 9 arguments of 4. */
static void write_call(char *text, size_t size, const gpu_ew *ew, bool is_float) {
  int n = snprintf(text, size, "TN_EXPR_%s_%s(T, F", is_float ? "FLT" : "INT", ew->id);
  for (uint32_t k = 0; k < ew->n_tensors; ++k) n += snprintf(text + n, size - (size_t)n, ", a%u", k);
  for (uint32_t k = 0; k < ew->n_numbers; ++k) n += snprintf(text + n, size - (size_t)n, ", s%u", k);
  snprintf(text + n, size - (size_t)n, ")");
}

static tn_status run(tn_call *call, const tn_value *args, tn_value *out) {
  const gpu_ew *ew = call->user;
  const tn_view *views[1 + GPU_INPUTS] = {out[0].u.v};
  const tn_value *numbers[GPU_NUMBERS];
  uint32_t tensors = 0, n = 0;
  for (const tn_value *a = args; tensors < ew->n_tensors || n < ew->n_numbers; ++a) {
    if (a->kind == TN_VAL_TENSOR)
      views[1 + tensors++] = a->u.v;
    else
      numbers[n++] = a;
  }
  const tn_dtype dtype = views[1]->dtype;
  char expr[128];
  gpu_map map = {.name = ew->id,
                 .expr = expr,
                 .family = GPU_MAP,
                 .op = (uint16_t)(ew - records),
                 .compute = gpu_compute_type(dtype),
                 .is_bool = dtype == TN_BOOL,
                 .n_numbers = n};
  write_call(expr, sizeof expr, ew, gpu_type_is_float(map.compute));
  for (uint32_t k = 0; k < n; ++k) map.numbers[k] = gpu_number_of(map.compute, numbers[k]);
  return gpu_map_run(call, &map, 1 + tensors, views);
}

/* The longest name leaves room in write_call's text. */
#define EW_SHORT(id, op, nt, ns, mask, result, words) \
  _Static_assert(sizeof #id < 48, #id " is too long a name");
TN_EW_LIST(EW_SHORT)

tn_status gpu_register_elementwise(tn_registration *reg, const char *key) {
  for (size_t i = 0; i < TN_COUNT(records); ++i) {
    tn_kernel_def def = TN_KERNEL(key, records[i].op, run, records[i].dtypes, .user = (void *)&records[i]);
    TN_TRY(tn_kit_host()->register_kernel(reg, &def));
  }
  return TN_OK;
}
