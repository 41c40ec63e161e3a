/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move, fill and select elements: maps whose elements are bits of a size, so that ten dtypes share four
 * kernels. Casts alone know types.
 */
#include <tenon/kit/shape.h>

#include "plugins/gpu/gpu.h"

static bool here(const tn_call *call, const tn_view *v) {
  return v->backend == call->device.backend && v->device_index == call->device.index;
}

/* Both contiguous in one order and of one dtype: bytes. */
static tn_status copy_bytes(tn_call *call, const tn_view *to, const tn_view *from, bool *out_done) {
  const tn_view *views[] = {to, from};
  const tn_backend_def *b = gpu_now->backend;
  gpu_geometry g;
  *out_done = false;
  if (to->dtype != from->dtype) return TN_OK;
  TN_TRY(gpu_geometry_make(&g, to->ndim, to->sizes, 2, views, false));
  if (!gpu_geometry_flat(&g)) return TN_OK;
  *out_done = true;
  if (to->mem == from->mem && to->offset_bytes == from->offset_bytes) return TN_OK;
  return b->copy(b->ctx, to->device_index, to->mem, to->offset_bytes, from->device_index, from->mem,
                 from->offset_bytes, (uint64_t)to->numel * to->itemsize, call->stream);
}

static gpu_map move_map(const tn_view *v, uint16_t op, const char *name, const char *expr) {
  const uint8_t bits = gpu_bits_type(v->itemsize);
  return (gpu_map){
      .name = name, .expr = expr, .family = GPU_MAP, .op = op, .compute = bits, .types = {bits, bits}};
}

tn_status gpu_copy(tn_call *call, const tn_view *to, const tn_view *from) {
  const tn_view *views[] = {to, from};
  bool done;
  if (to->numel == 0) return TN_OK;
  TN_TRY(copy_bytes(call, to, from, &done));
  if (done) return TN_OK;
  gpu_map map = move_map(to, GPU_OP_MOVE, "copy", "a0");
  if (to->dtype != from->dtype) {
    map.compute = gpu_compute_type(from->dtype);
    map.types[0] = map.types[1] = 0;
  }
  return gpu_map_run(call, &map, 2, views);
}

tn_status gpu_fill(tn_call *call, const tn_view *to, const tn_value *number) {
  gpu_geometry g;
  gpu_map map = move_map(to, GPU_OP_FILL, "fill", "s0");
  if (to->numel == 0) return TN_OK;
  map.n_numbers = 1;
  map.numbers[0] = gpu_number_of(to->dtype, number);
  map.numbers[0].type = map.compute;
  TN_TRY(gpu_geometry_make(&g, to->ndim, to->sizes, 1, &to, false));
  if (!gpu_geometry_flat(&g)) return gpu_map_run(call, &map, 1, &to);
  return gpu_now->fill(call->device.index, call->stream, to->mem, to->offset_bytes,
                       (uint64_t)to->numel * to->itemsize, &map.numbers[0].u, to->itemsize);
}

/* ------------------------------------------------------------------ operators */

tn_status gpu_op_copy(tn_call *call, const tn_value *args, tn_value *out) {
  if (!here(call, args[1].u.v)) return TN_DECLINED; /* the other side's backend, or the host, does it */
  return gpu_copy(call, out[0].u.v, args[1].u.v);
}
tn_status gpu_op_clone(tn_call *call, const tn_value *args, tn_value *out) {
  return gpu_copy(call, out[0].u.v, args[0].u.v);
}
tn_status gpu_op_fill(tn_call *call, const tn_value *args, tn_value *out) {
  return gpu_fill(call, out[0].u.v, &args[1]);
}
tn_status gpu_op_zero(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_value zero = tn_value_int(0);
  return gpu_fill(call, out[0].u.v, &zero);
}

/* The part of `whole` that begins at `at` along dim and is `size` long. sizes: the part's own. */
static tn_view narrow(const tn_view *whole, uint32_t dim, int64_t at, int64_t size, tn_dim *sizes) {
  tn_view part = *whole;
  part.numel = 1;
  for (uint32_t d = 0; d < whole->ndim; ++d) {
    sizes[d] = d == dim ? size : whole->sizes[d];
    part.numel *= sizes[d];
  }
  part.sizes = sizes;
  part.offset_bytes += at * whole->strides[dim] * whole->itemsize;
  part.data = NULL;
  part.flags = 0;
  return part;
}

tn_status gpu_op_cat(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *result = out[0].u.v;
  const uint32_t dim = gpu_dim(gpu_int(&args[1], 0), result->ndim);
  tn_dim sizes[TN_MAX_RANK];
  int64_t at = 0, place;
  TN_TRY(gpu_place(result, &place));
  for (uint32_t i = 0; i < args[0].count; ++i) { /* declines before the first launch */
    if (!here(call, args[0].u.vs[i]) || args[0].u.vs[i]->dtype != result->dtype) return TN_DECLINED;
    TN_TRY(gpu_place(args[0].u.vs[i], &place));
  }
  for (uint32_t i = 0; i < args[0].count; ++i) {
    const tn_view *v = args[0].u.vs[i];
    if (v->numel == 0) continue; /* 1-d empty ones fit any shape */
    const tn_view part = narrow(result, dim, at, v->sizes[dim], sizes);
    TN_TRY(gpu_copy(call, &part, v));
    at += v->sizes[dim];
  }
  return TN_OK;
}

/* i numbers the elements in row-major order: column i % s0, row i / s0 % s1. */
static tn_status triangle(tn_call *call, const tn_value *args, tn_value *out, uint16_t op, const char *expr) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v};
  if (views[0]->numel == 0) return TN_OK;
  gpu_map map = move_map(views[0], op, op == GPU_OP_TRIL ? "tril" : "triu", expr);
  const int64_t rows = views[0]->sizes[views[0]->ndim - 2], columns = views[0]->sizes[views[0]->ndim - 1];
  const int64_t most = rows + columns; /* beyond the matrix every diagonal is the same one */
  int64_t diagonal = gpu_int(&args[1], 0);
  diagonal = diagonal > most ? most : diagonal < -most ? -most : diagonal;
  map.in_order = true;
  map.n_numbers = 3;
  map.numbers[0] = gpu_number_int(TN_INT64, columns);
  map.numbers[1] = gpu_number_int(TN_INT64, rows);
  map.numbers[2] = gpu_number_int(TN_INT64, diagonal);
  return gpu_map_run(call, &map, 2, views);
}
tn_status gpu_op_tril(tn_call *call, const tn_value *args, tn_value *out) {
  return triangle(call, args, out, GPU_OP_TRIL, "i % s0 - i / s0 % s1 <= s2 ? a0 : (T)0");
}
tn_status gpu_op_triu(tn_call *call, const tn_value *args, tn_value *out) {
  return triangle(call, args, out, GPU_OP_TRIU, "i % s0 - i / s0 % s1 >= s2 ? a0 : (T)0");
}

tn_status gpu_op_where(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v};
  gpu_map map = move_map(views[0], GPU_OP_WHERE, "where", "a0 != 0 ? a1 : a2");
  map.types[1] = TN_UINT8;
  map.types[2] = map.types[3] = map.compute;
  return gpu_map_run(call, &map, 4, views);
}

tn_status gpu_op_masked_fill(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, args[1].u.v};
  gpu_map map = move_map(views[0], GPU_OP_MASKED_FILL, "masked_fill", "a1 != 0 ? s0 : a0");
  map.types[2] = TN_UINT8;
  map.n_numbers = 1;
  map.numbers[0] = gpu_number_of(views[0]->dtype, &args[2]);
  map.numbers[0].type = map.compute;
  return gpu_map_run(call, &map, 3, views);
}

/* Element i is start + i * step, never a running sum. */
tn_status gpu_op_arange(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  const tn_value one = tn_value_int(1);
  gpu_caps caps;
  TN_TRY(gpu_caps_of(call, &caps));
  const uint8_t type = gpu_wide_type(v->dtype, &caps);
  gpu_map map = {.name = "arange",
                 .family = GPU_MAP,
                 .op = GPU_OP_ARANGE,
                 .compute = type,
                 .in_order = true,
                 .n_numbers = 2};
  map.expr = gpu_type_is_float(type) ? "s0 + (T)i * s1" : "(T)((u64)s0 + (u64)i * (u64)s1)";
  map.numbers[0] = gpu_number_of(type, &args[0]);
  map.numbers[1] = gpu_number_of(type, args[2].kind == TN_VAL_NONE ? &one : &args[2]);
  return gpu_map_run(call, &map, 1, &v);
}
