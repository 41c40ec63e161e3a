/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices (device/matmul.h), of a matrix and a vector, of two vectors.
 */
#include <tenon/kit/shape.h>

#include "plugins/gpu/gpu.h"

/* How the text is cut: results of one item, items of a group, steps of the sum that are brought to local memory. */
typedef struct shape {
  bool tiled, unit, scaled;
  uint32_t rows, columns, side, depth;
  uint8_t in, out, acc;
} shape;

static void write_defines(gpu_defines *d, const void *ctx) {
  const shape *s = ctx;
  gpu_define(d, "#define NAME product_%s%s\n", gpu_type_name(s->in),
             s->tiled  ? "_tiled"
             : s->unit ? "_unit"
                       : "");
  gpu_define(d, "#define T0 %s\n#define TO %s\n#define A MEM(%s)\n", gpu_type_name(s->in),
             gpu_type_name(s->out), gpu_type_name(s->acc));
  gpu_define(d, "#define IS_FLOAT %d\n#define FROM_FLOAT %d\n", gpu_type_is_float(s->acc),
             gpu_type_is_float(s->acc));
  gpu_define(d, "#define TILED %d\n#define UNIT %d\n#define SCALED %d\n", s->tiled, s->unit, s->scaled);
  gpu_define(d, "#define ROWS %u\n#define COLUMNS %u\n#define SIDE %u\n#define DEPTH %u\n", s->rows,
             s->columns, s->side, s->depth);
}

/* m, n, k and strides (batch, row, column) of a, b, s, r, as device/matmul.h declares them. */
typedef struct product {
  int64_t m, n, k;
  int64_t a[3], b[3], s[3], r[3];
} product;

static shape shape_of(const product *p, const tn_view *in, const tn_view *out, bool scaled,
                      const gpu_caps *caps) {
  shape s = {.in = in->dtype, .out = out->dtype, .scaled = scaled};
  s.acc = gpu_type_is_float(in->dtype) ? gpu_compute_type(in->dtype) : TN_INT64;
  s.tiled = !caps->is_cpu && caps->most_items >= 64;
  s.side = caps->most_items >= 256 ? 16 : 8;
  s.depth = 16;
  s.rows = 4;
  s.columns = s.tiled ? 4 : 16;
  if (s.tiled) return s;
  s.unit = p->b[2] == 1;
  return s;
}

static tn_status run_product(tn_call *call, const product *p, int64_t batches, const tn_view *out,
                             const tn_view *a, const tn_view *b, const tn_view *self, const tn_value *beta,
                             const tn_value *alpha) {
  gpu_caps caps;
  void *kernel;
  TN_TRY(gpu_caps_of(call, &caps));
  if (out->numel == 0) return TN_OK;
  if (!gpu_type_fits(a->dtype, &caps)) return TN_DECLINED;
  const shape s = shape_of(p, a, out, self != NULL, &caps);
  gpu_key key = {.family = GPU_PRODUCT,
                 .flags = {s.tiled, s.unit, s.scaled},
                 .device = (uint16_t)call->device.index,
                 .types = {s.in, s.out, s.acc}};
  const tn_value one = tn_value_int(1);
  const gpu_number scale = gpu_number_of(s.acc, alpha ? alpha : &one),
                   add = gpu_number_of(s.acc, beta ? beta : &one);
  gpu_args args = {.n = 0};
  TN_TRY(gpu_arg_view(&args, out));
  TN_TRY(gpu_arg_view(&args, a));
  TN_TRY(gpu_arg_view(&args, b));
  TN_TRY(gpu_arg_view(&args, self));
  gpu_arg_bytes(&args, p, sizeof *p);
  gpu_arg_bytes(&args, &scale.u, gpu_type_size(s.acc));
  gpu_arg_bytes(&args, &add.u, gpu_type_size(s.acc));
  TN_TRY(gpu_kernel_get(&key, write_defines, &s, &kernel));
  const uint32_t x = s.tiled ? s.side : 4, y = s.tiled ? s.side : 1;
  const int64_t columns = (int64_t)x * s.columns, rows = (int64_t)y * s.rows;
  const gpu_grid grid = {
      {(uint64_t)((p->n + columns - 1) / columns), (uint64_t)((p->m + rows - 1) / rows), (uint64_t)batches},
      {x, y, 1}};
  return gpu_now->launch(call->device.index, call->stream, kernel, &grid, args.list, args.n);
}

/* Strides of a matrix, or of a stack of them. */
static void matrix_strides(const tn_view *v, int64_t *strides) {
  strides[0] = v->ndim == 3 ? v->strides[0] : 0;
  strides[1] = v->strides[v->ndim - 2];
  strides[2] = v->strides[v->ndim - 1];
}

static tn_status multiply(tn_call *call, const tn_view *out, const tn_view *a, const tn_view *b,
                          const tn_view *self, const tn_value *beta, const tn_value *alpha) {
  product p = {.m = a->sizes[a->ndim - 2], .n = b->sizes[b->ndim - 1], .k = a->sizes[a->ndim - 1]};
  matrix_strides(a, p.a);
  matrix_strides(b, p.b);
  matrix_strides(out, p.r);
  if (self) {
    tn_dim spread[TN_MAX_RANK];
    tn_shape_expand_strides(self->ndim, self->sizes, self->strides, out->ndim, out->sizes, spread);
    for (uint32_t d = 0; d < 3; ++d) p.s[d] = d + out->ndim >= 3 ? spread[d + out->ndim - 3] : 0;
  }
  return run_product(call, &p, out->ndim == 3 ? out->sizes[0] : 1, out, a, b, self, beta, alpha);
}

tn_status gpu_op_mm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, args[0].u.v, args[1].u.v, NULL, NULL, NULL);
}
tn_status gpu_op_bmm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, args[0].u.v, args[1].u.v, NULL, NULL, NULL);
}
tn_status gpu_op_addmm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, args[1].u.v, args[2].u.v, args[0].u.v, &args[3], &args[4]);
}
tn_status gpu_op_baddbmm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, args[1].u.v, args[2].u.v, args[0].u.v, &args[3], &args[4]);
}

tn_status gpu_op_mv(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *a = args[0].u.v, *b = args[1].u.v, *r = out[0].u.v;
  const product p = {.m = a->sizes[0],
                     .n = 1,
                     .k = a->sizes[1],
                     .a = {0, a->strides[0], a->strides[1]},
                     .b = {0, b->strides[0], 0},
                     .r = {0, r->strides[0], 0}};
  return run_product(call, &p, 1, r, a, b, NULL, NULL, NULL);
}

/* Products in the accumulator's type, then their sum. */
tn_status gpu_op_dot(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *a = args[0].u.v, *b = args[1].u.v;
  tn_memory memory;
  gpu_caps caps;
  TN_TRY(gpu_caps_of(call, &caps));
  if (!gpu_type_fits(a->dtype, &caps)) return TN_DECLINED;
  const uint8_t type = gpu_wide_type(a->dtype, &caps);
  tn_dim stride;
  TN_TRY(tn_kit_host()->scratch(call, (size_t)(a->numel ? a->numel : 1) * gpu_type_size(type), &memory));
  const tn_view products = gpu_scratch_view(call, &memory, type, 1, a->sizes, &stride),
                *views[] = {&products, a, b};
  gpu_map map = {.name = "dot", .family = GPU_MAP, .op = GPU_OP_DOT, .compute = type};
  map.expr = gpu_type_is_float(type) ? "a0 * a1" : "TN_INT_MUL(T, a0, a1)";
  TN_TRY(gpu_map_run(call, &map, 3, views));
  return gpu_sum_all(call, &products, out[0].u.v);
}
