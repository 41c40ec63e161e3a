/* SPDX-License-Identifier: Apache-2.0
 *
 * Random fills: maps without operands. Element i, in row-major order, draws counter rng_offset + i, so a device's numbers are the
 * CPU's (device/random.h; normal_ up to the rounding of the device's log and cos).
 */
#include <math.h>

#include "plugins/gpu/gpu.h"

enum { UNIFORM, NORMAL, BERNOULLI, WHOLE };

static gpu_map random_map(const tn_call *call, uint16_t op, const char *name, const char *expr,
                          uint8_t compute) {
  gpu_map map = {
      .name = name, .expr = expr, .family = GPU_RANDOM, .op = op, .compute = compute, .in_order = true};
  map.n_numbers = 2;
  map.numbers[0] = gpu_number_int(GPU_UINT64, (int64_t)call->rng_seed);
  map.numbers[1] = gpu_number_int(GPU_UINT64, (int64_t)call->rng_offset);
  return map;
}
static void add_number(gpu_map *map, gpu_number number) { map->numbers[map->n_numbers++] = number; }

/* Halves draw in float32, float64 in itself. */
tn_status gpu_op_uniform(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  const uint8_t type = gpu_compute_type(v->dtype);
  const double low = gpu_double(&args[1], 0), high = gpu_double(&args[2], 1);
  gpu_map map = random_map(call, UNIFORM, "uniform", "draw_uniform(s0, s1 + (u64)i, s2, s3, s4)", type);
  add_number(&map, gpu_number_float(type, low));
  add_number(&map, gpu_number_float(type, high));
  add_number(&map, gpu_number_float(type, high - low));
  return gpu_map_run(call, &map, 1, &v);
}

tn_status gpu_op_normal(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  const uint8_t type = gpu_compute_type(v->dtype);
  gpu_map map = random_map(call, NORMAL, "normal", "draw_normal(s0, s1 + (u64)i, s2, s3)", type);
  add_number(&map, gpu_number_float(type, gpu_double(&args[1], 0)));
  add_number(&map, gpu_number_float(type, gpu_double(&args[2], 1)));
  return gpu_map_run(call, &map, 1, &v);
}

/* 53 bits x with x / 2^53 < p: those below the next whole number from p 2^53. */
tn_status gpu_op_bernoulli(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  gpu_map map = random_map(call, BERNOULLI, "bernoulli", "draw_53(s0, s1 + (u64)i) < s2", TN_UINT8);
  add_number(&map, gpu_number_int(GPU_UINT64, (int64_t)ceil(gpu_double(&args[1], 0.5) * 0x1p53)));
  return gpu_map_run(call, &map, 1, &v);
}

/* Largest integer up to which every one is exact in dtype. */
static int64_t largest_exact(tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: return 1;
    case TN_UINT8: return UINT8_MAX;
    case TN_INT8: return INT8_MAX;
    case TN_INT16: return INT16_MAX;
    case TN_INT32: return INT32_MAX;
    case TN_FLOAT16: return (int64_t)1 << 11;
    case TN_BFLOAT16: return (int64_t)1 << 8;
    case TN_FLOAT32: return (int64_t)1 << 24;
    case TN_FLOAT64: return (int64_t)1 << 53;
    default: return INT64_MAX;
  }
}

/* [from, to); without to, up to the largest integer of the dtype. */
tn_status gpu_op_random(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  const int64_t low = gpu_int(&args[1], 0);
  const uint64_t range = args[2].kind == TN_VAL_NONE ? (uint64_t)largest_exact(v->dtype) - (uint64_t)low + 1
                                                     : (uint64_t)args[2].u.i - (uint64_t)low;
  gpu_map map = random_map(call, WHOLE, "random", "draw_whole(s0, s1 + (u64)i, s2, s3)", TN_INT64);
  add_number(&map, gpu_number_int(TN_INT64, low));
  add_number(&map, gpu_number_int(GPU_UINT64, (int64_t)range));
  return gpu_map_run(call, &map, 1, &v);
}
