/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax with their gradients (device/rows.h), nll_loss and its gradient (device/loss.h).
 */
#include "plugins/gpu/gpu.h"

/* ------------------------------------------------------------------ rows */

typedef struct rows {
  bool logs, backward;
  uint32_t group;
  const tn_view *out, *x, *y; /* y NULL in forward */
} rows;

static void write_rows(gpu_defines *d, const void *ctx) {
  const rows *r = ctx;
  const uint8_t compute = gpu_compute_type(r->x->dtype);
  gpu_define(d, "#define NAME %ssoftmax%s_%s\n", r->logs ? "log_" : "", r->backward ? "_backward" : "",
             gpu_type_name(r->x->dtype));
  gpu_define(d, "#define LOGS %d\n#define BACKWARD %d\n#define GROUP %u\n", r->logs, r->backward, r->group);
  gpu_define(d, "#define T MEM(%s)\n#define FROM_FLOAT 1\n", gpu_type_name(compute));
  gpu_define(d, "#define T0 %s\n#define T1 %s\n#define TO %s\n", gpu_type_name(r->x->dtype),
             gpu_type_name(r->y ? r->y->dtype : r->x->dtype), gpu_type_name(r->out->dtype));
}

enum { GROUP = 128 };

static tn_status run_rows(tn_call *call, rows r, uint32_t dim) {
  const tn_view *x = r.x, *y = r.y ? r.y : r.x;
  const tn_dim *const strides[] = {r.out->strides, x->strides, y->strides};
  gpu_geometry g;
  gpu_caps caps;
  void *kernel;
  TN_TRY(gpu_caps_of(call, &caps));
  if (r.out->numel == 0) return TN_OK;
  gpu_geometry_part(&g, x->ndim, x->sizes, x->ndim ? (uint64_t)1 << dim : 0, false, 3, strides);
  if (g.ndim > GPU_RANK || !gpu_type_fits(x->dtype, &caps) || !gpu_type_fits(r.out->dtype, &caps))
    return TN_DECLINED;
  const int64_t n = x->ndim ? x->sizes[dim] : 1;
  r.group = caps.is_cpu || n < GROUP / 2 || caps.most_items < GROUP ? 1 : GROUP;
  gpu_key key = {.family = GPU_ROWS,
                 .flags = {r.logs, r.backward, (uint8_t)(r.group > 1)},
                 .device = (uint16_t)call->device.index,
                 .types = {x->dtype, y->dtype, r.out->dtype}};
  int64_t words[6 + 4 * GPU_RANK] = {g.numel, n, g.ndim}, *end = words + 6;
  for (uint32_t k = 0; k < 3; ++k) words[3 + k] = x->ndim ? strides[k][dim] : 0;
  end = gpu_geometry_sizes(&g, end);
  for (uint32_t k = 0; k < 3; ++k) end = gpu_geometry_strides(&g, k, end);
  gpu_args args = {.n = 0};
  TN_TRY(gpu_arg_view(&args, r.out));
  TN_TRY(gpu_arg_view(&args, x));
  TN_TRY(gpu_arg_view(&args, y));
  gpu_arg_bytes(&args, words, sizeof words);
  TN_TRY(gpu_kernel_get(&key, write_rows, &r, &kernel));
  return gpu_launch_groups(call, kernel, g.numel, r.group, &args);
}

static tn_status forward(tn_call *call, const tn_value *args, tn_value *out, bool logs) {
  const tn_view *x = args[0].u.v;
  return run_rows(call, (rows){.logs = logs, .out = out[0].u.v, .x = x}, gpu_dim(args[1].u.i, x->ndim));
}
static tn_status backward(tn_call *call, const tn_value *args, tn_value *out, bool logs) {
  const tn_view *x = args[0].u.v;
  return run_rows(call, (rows){.logs = logs, .backward = true, .out = out[0].u.v, .x = x, .y = args[1].u.v},
                  gpu_dim(args[2].u.i, x->ndim));
}
tn_status gpu_op_softmax(tn_call *call, const tn_value *args, tn_value *out) {
  return forward(call, args, out, false);
}
tn_status gpu_op_log_softmax(tn_call *call, const tn_value *args, tn_value *out) {
  return forward(call, args, out, true);
}
tn_status gpu_op_softmax_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return backward(call, args, out, false);
}
tn_status gpu_op_log_softmax_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return backward(call, args, out, true);
}

/* ------------------------------------------------------------------ nll_loss */

typedef struct nll {
  const tn_view *self, *target, *weight; /* weight NULL: 1 */
  int64_t reduction, ignore;
  uint8_t acc;
  bool backward;
  uint32_t group;
} nll;

static void write_nll(gpu_defines *d, const void *ctx) {
  const nll *l = ctx;
  gpu_define(d, "#define NAME nll_loss%s_%s\n", l->backward ? "_backward" : "",
             gpu_type_name(l->self->dtype));
  gpu_define(d, "#define BACKWARD %d\n#define WEIGHTED %d\n#define REDUCTION %d\n#define GROUP %u\n",
             l->backward, l->weight != NULL, (int)l->reduction, l->group);
  gpu_define(d, "#define T0 %s\n#define TT %s\n#define A MEM(%s)\n#define FROM_FLOAT 1\n",
             gpu_type_name(l->self->dtype), gpu_type_name(l->target->dtype), gpu_type_name(l->acc));
}

static tn_status prepare_nll(tn_call *call, nll *l, void **out_kernel, uint64_t *out_fault) {
  gpu_caps caps;
  TN_TRY(gpu_caps_of(call, &caps));
  if (!gpu_type_fits(l->self->dtype, &caps)) return TN_DECLINED;
  l->acc = gpu_wide_type(l->self->dtype, &caps);
  l->group = 1;
  while (l->group < GROUP && 2 * l->group <= caps.most_items) l->group *= 2;
  gpu_key key = {.family = GPU_LOSS,
                 .flags = {l->backward, l->weight != NULL, (uint8_t)l->reduction},
                 .device = (uint16_t)call->device.index,
                 .types = {l->self->dtype, l->target->dtype}};
  TN_TRY(gpu_kernel_get(&key, write_nll, l, out_kernel));
  return gpu_fault_words(call, l->backward ? "nll_loss_backward" : "nll_loss_forward", out_fault);
}

/* rows, classes, ignore | strides: places' row and class, target's row, weight's class, out's row */
static void nll_words(const nll *l, const tn_view *places, const tn_view *out, int64_t *words) {
  const bool batch = l->self->ndim == 2;
  words[0] = batch ? l->self->sizes[0] : 1;
  words[1] = l->self->sizes[l->self->ndim - 1];
  words[2] = l->ignore;
  words[3] = batch ? places->strides[0] : 0;
  words[4] = places->strides[places->ndim - 1];
  words[5] = l->target->ndim ? l->target->strides[0] : 0;
  words[6] = l->weight ? l->weight->strides[0] : 0;
  words[7] = out->ndim ? out->strides[0] : 0;
}
enum { NLL_WORDS = 8 };

tn_status gpu_op_nll_loss_forward(tn_call *call, const tn_value *args, tn_value *out) {
  nll l = {.self = args[0].u.v, .target = args[1].u.v, .weight = gpu_view(&args[2])};
  int64_t words[NLL_WORDS];
  uint64_t fault;
  void *kernel;
  gpu_args a = {.n = 0};
  l.reduction = gpu_int(&args[3], 1);
  l.ignore = gpu_int(&args[4], -100);
  nll_words(&l, l.self, out[0].u.v, words);
  TN_TRY(gpu_arg_view(&a, out[0].u.v));
  TN_TRY(gpu_arg_view(&a, out[1].u.v));
  TN_TRY(gpu_arg_view(&a, l.self));
  TN_TRY(gpu_arg_view(&a, l.target));
  TN_TRY(gpu_arg_view(&a, l.weight));
  TN_TRY(prepare_nll(call, &l, &kernel, &fault));
  gpu_arg_place(&a, fault, 0);
  gpu_arg_bytes(&a, words, sizeof words);
  const gpu_grid grid = {{1, 1, 1}, {l.group, 1, 1}};
  return gpu_now->launch(call->device.index, call->stream, kernel, &grid, a.list, a.n);
}

/* args: grad_output self target weight reduction ignore_index total_weight */
tn_status gpu_op_nll_loss_backward(tn_call *call, const tn_value *args, tn_value *out) {
  nll l = {.self = args[1].u.v, .target = args[2].u.v, .weight = gpu_view(&args[3]), .backward = true};
  const tn_view *grad = args[0].u.v, *result = out[0].u.v;
  int64_t words[NLL_WORDS];
  uint64_t fault;
  void *kernel;
  gpu_args a = {.n = 0};
  if (result->numel == 0) return TN_OK;
  l.reduction = gpu_int(&args[4], 1);
  l.ignore = gpu_int(&args[5], -100);
  nll_words(&l, result, grad, words);
  TN_TRY(gpu_arg_view(&a, result));
  TN_TRY(gpu_arg_view(&a, grad));
  TN_TRY(gpu_arg_view(&a, l.target));
  TN_TRY(gpu_arg_view(&a, l.weight));
  TN_TRY(gpu_arg_view(&a, args[6].u.v));
  TN_TRY(prepare_nll(call, &l, &kernel, &fault));
  gpu_arg_place(&a, fault, 0);
  gpu_arg_bytes(&a, words, sizeof words);
  return gpu_launch_items(call, kernel, result->numel, &a);
}
