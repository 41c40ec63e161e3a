/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any dims (device/reduce.h): which elements go to which job, and the memory between the stages.
 */
#include "plugins/gpu/gpu.h"

/* As device/reduce.h numbers them. */
enum { SUM, MEAN, PROD, MAX, MIN, ANY, ALL, SQUARES, ARG_MAX, ARG_MIN };

static bool is_arg(uint8_t kind) { return kind >= ARG_MAX; }

typedef struct reduction {
  uint8_t kind;
  float correction;
  const tn_view *value; /* result of the kind; of arg kinds the element itself, or NULL */
  const tn_view *index; /* of arg kinds, else NULL */
  const tn_view *self;
  const tn_memory *centres; /* of SQUARES */
  /* Filled on the way. */
  uint8_t acc;
  uint32_t group; /* items that share a job */
  bool second;
  int64_t outputs, count, chunk, chunks;
  gpu_geometry outer; /* value, index, self */
  gpu_geometry inner; /* self */
} reduction;

static uint8_t acc_type(uint8_t kind, tn_dtype in, const gpu_caps *caps) {
  if (kind == ANY || kind == ALL) return TN_INT32;
  if (!gpu_type_is_float(in)) return TN_INT64;
  return kind == MAX || kind == MIN || is_arg(kind) ? gpu_compute_type(in) : gpu_wide_type(in, caps);
}

/* Bytes of what lies between the stages: an accumulator, with a number beside it for arg kinds. */
static size_t acc_bytes(const reduction *r) { return is_arg(r->kind) ? 16 : gpu_type_size(r->acc); }

static void write_defines(gpu_defines *d, const void *ctx) {
  static const char *const names[] = {"sum", "mean", "prod",    "max",    "min",
                                      "any", "all",  "squares", "argmax", "argmin"};
  const reduction *r = ctx;
  const char *in = gpu_type_name(r->self->dtype);
  gpu_define(d, "#define NAME %s_%s%s\n#define KIND %d\n", names[r->kind], in, r->second ? "_second" : "",
             r->kind);
  gpu_define(d, "#define T0 %s\n#define TO %s\n", in, gpu_type_name(r->value ? r->value->dtype : TN_INT64));
  gpu_define(d, "#define A MEM(%s)\n#define IS_FLOAT %d\n", gpu_type_name(r->acc), gpu_type_is_float(r->acc));
  gpu_define(d, "#define FROM_FLOAT %d\n#define GROUP %u\n", gpu_type_is_float(r->acc), r->group);
  gpu_define(d, "#define SECOND %d\n#define KEEP_VALUE %d\n", r->second, r->value != NULL);
}

static tn_status get_kernel(const tn_call *call, const reduction *r, void **out_kernel) {
  gpu_key key = {.family = GPU_REDUCE,
                 .flags = {r->kind, r->second, (uint8_t)(r->group > 1)},
                 .device = (uint16_t)call->device.index,
                 .types = {r->self->dtype, r->value ? r->value->dtype : 0, r->acc}};
  return gpu_kernel_get(&key, write_defines, r, out_kernel);
}

/* ------------------------------------------------------------------ who folds what */

/* Note [Chunks of a reduction]
 * On a GPU a group of 128 folds a job; outputs that are few are split into chunks so that there are jobs for all of it. On a CPU
 * an item folds a job, and chunks are there for its few cores. The numbers depend on sizes and on the kind of device. */
enum { GROUP = 128, ENOUGH_JOBS = 512, MOST_CHUNKS = 512, CHUNK = 4096 };

static void share_out(reduction *r, const gpu_caps *caps) {
  r->group = caps->is_cpu || r->count < GROUP / 2 || caps->most_items < GROUP ? 1 : GROUP;
  r->chunk = r->count > 0 ? r->count : 1;
  r->chunks = 1;
  if (r->outputs >= ENOUGH_JOBS || r->count <= CHUNK) return;
  int64_t chunks = (r->count + CHUNK - 1) / CHUNK;
  if (chunks > MOST_CHUNKS) chunks = MOST_CHUNKS;
  r->chunk = (r->count + chunks - 1) / chunks;
  r->chunks = (r->count + r->chunk - 1) / r->chunk;
}

/* Strides of a result for every dim of self: 0 where it was reduced. */
static void spread_strides(const tn_view *out, const tn_view *self, uint64_t mask, tn_dim *strides) {
  uint32_t at = 0;
  for (uint32_t d = 0; d < self->ndim; ++d) {
    const bool reduced = mask >> d & 1, kept = !reduced || (out && out->ndim == self->ndim);
    strides[d] = reduced || !out ? 0 : out->strides[at];
    at += kept;
  }
}

static tn_status make_geometry(reduction *r, uint64_t mask) {
  tn_dim value[TN_MAX_RANK], index[TN_MAX_RANK];
  const tn_view *self = r->self;
  const tn_dim *const outer[] = {value, index, self->strides};
  spread_strides(r->value, self, mask, value);
  spread_strides(r->index, self, mask, index);
  gpu_geometry_part(&r->outer, self->ndim, self->sizes, mask, false, 3, outer);
  gpu_geometry_part(&r->inner, self->ndim, self->sizes, mask, true, 1, &outer[2]);
  r->outputs = r->outer.numel;
  r->count = r->inner.numel;
  return r->outer.ndim > GPU_RANK || r->inner.ndim > GPU_RANK ? TN_DECLINED : TN_OK;
}

/* ------------------------------------------------------------------ launches */

static tn_status launch(const tn_call *call, const reduction *r, const tn_memory *parts) {
  int64_t words[6 + 6 * GPU_RANK] = {r->outputs, r->count, r->chunk, r->chunks, r->outer.ndim, r->inner.ndim};
  int64_t *end = gpu_geometry_sizes(&r->outer, words + 6);
  for (uint32_t k = 0; k < 3; ++k) end = gpu_geometry_strides(&r->outer, k, end);
  end = gpu_geometry_sizes(&r->inner, end);
  gpu_geometry_strides(&r->inner, 0, end);
  gpu_args args = {.n = 0};
  void *kernel;
  TN_TRY(get_kernel(call, r, &kernel));
  TN_TRY(gpu_arg_view(&args, r->value));
  TN_TRY(gpu_arg_view(&args, r->index));
  if (!r->second) {
    TN_TRY(gpu_arg_view(&args, r->self));
    gpu_arg_place(&args, r->centres ? r->centres->mem : 0, 0);
  }
  gpu_arg_place(&args, parts->mem, 0);
  gpu_arg_bytes(&args, words, sizeof words);
  gpu_arg_bytes(&args, &r->correction, sizeof r->correction);
  if (r->second) return gpu_launch_items(call, kernel, r->outputs, &args);
  return gpu_launch_groups(call, kernel, r->outputs * r->chunks, r->group, &args);
}

static tn_status reduce(tn_call *call, reduction *r, uint64_t mask) {
  gpu_caps caps;
  tn_memory parts = {0};
  TN_TRY(gpu_caps_of(call, &caps));
  if (!gpu_type_fits(r->self->dtype, &caps) || (r->value && !gpu_type_fits(r->value->dtype, &caps)))
    return TN_DECLINED;
  r->acc = acc_type(r->kind, r->self->dtype, &caps);
  TN_TRY(make_geometry(r, mask));
  if (r->outputs == 0) return TN_OK;
  share_out(r, &caps);
  if (r->chunks > 1)
    TN_TRY(tn_kit_host()->scratch(call, (size_t)(r->outputs * r->chunks) * acc_bytes(r), &parts));
  r->second = false;
  TN_TRY(launch(call, r, &parts));
  if (r->chunks == 1) return TN_OK;
  r->second = true;
  return launch(call, r, &parts);
}

/* ------------------------------------------------------------------ operators */

static uint64_t all_dims(const tn_view *v) {
  return v->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << v->ndim) - 1;
}

/* Dims of a list or a number; none or an empty list: all. */
static uint64_t dims_of(const tn_value *dims, const tn_view *v) {
  uint64_t mask = 0;
  if (v->ndim == 0) return 0;
  if (dims->kind == TN_VAL_INT) return (uint64_t)1 << gpu_dim(dims->u.i, v->ndim);
  if (dims->kind == TN_VAL_NONE || dims->count == 0) return all_dims(v);
  for (uint32_t i = 0; i < dims->count; ++i) mask |= (uint64_t)1 << gpu_dim(dims->u.ints[i], v->ndim);
  return mask;
}

static tn_status reduce_to(tn_call *call, uint8_t kind, const tn_view *self, const tn_view *out,
                           uint64_t mask) {
  reduction r = {.kind = kind, .self = self, .value = out};
  return reduce(call, &r, mask);
}

tn_status gpu_sum_all(tn_call *call, const tn_view *from, const tn_view *to) {
  return reduce_to(call, SUM, from, to, all_dims(from));
}

#define OVER_ALL(name, kind)                                                      \
  tn_status gpu_op_##name(tn_call *call, const tn_value *args, tn_value *out) {   \
    return reduce_to(call, kind, args[0].u.v, out[0].u.v, all_dims(args[0].u.v)); \
  }
#define OVER_DIMS(name, kind)                                                              \
  tn_status gpu_op_##name(tn_call *call, const tn_value *args, tn_value *out) {            \
    return reduce_to(call, kind, args[0].u.v, out[0].u.v, dims_of(&args[1], args[0].u.v)); \
  }
OVER_ALL(sum, SUM)
OVER_DIMS(sum_dim, SUM)
OVER_ALL(mean, MEAN)
OVER_DIMS(mean_dim, MEAN)
OVER_ALL(prod, PROD)
OVER_DIMS(prod_dim, PROD)
OVER_DIMS(amax, MAX)
OVER_DIMS(amin, MIN)
OVER_ALL(any, ANY)
OVER_DIMS(any_dim, ANY)
OVER_ALL(all, ALL)
OVER_DIMS(all_dim, ALL)

static tn_status arg_dim(tn_call *call, uint8_t kind, const tn_value *args, const tn_view *value,
                         const tn_view *index) {
  reduction r = {.kind = kind, .self = args[0].u.v, .value = value, .index = index};
  return reduce(call, &r, dims_of(&args[1], args[0].u.v));
}
tn_status gpu_op_max_dim(tn_call *call, const tn_value *args, tn_value *out) {
  return arg_dim(call, ARG_MAX, args, out[0].u.v, out[1].u.v);
}
tn_status gpu_op_min_dim(tn_call *call, const tn_value *args, tn_value *out) {
  return arg_dim(call, ARG_MIN, args, out[0].u.v, out[1].u.v);
}
tn_status gpu_op_argmax(tn_call *call, const tn_value *args, tn_value *out) {
  return arg_dim(call, ARG_MAX, args, NULL, out[0].u.v);
}
tn_status gpu_op_argmin(tn_call *call, const tn_value *args, tn_value *out) {
  return arg_dim(call, ARG_MIN, args, NULL, out[0].u.v);
}

/* Means first, in the accumulator's type, then squares about them. The means lie as the outputs are numbered: row-major over
 * the kept dims. */
tn_status gpu_op_var(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  const uint64_t mask = dims_of(&args[1], self);
  tn_memory memory;
  tn_dim sizes[TN_MAX_RANK], strides[TN_MAX_RANK];
  gpu_caps caps;
  TN_TRY(gpu_caps_of(call, &caps));
  if (result->numel == 0) return TN_OK;
  if (!gpu_type_fits(self->dtype, &caps)) return TN_DECLINED;
  const tn_dtype type = gpu_wide_type(self->dtype, &caps);
  for (uint32_t d = 0; d < self->ndim; ++d) sizes[d] = mask >> d & 1 ? 1 : self->sizes[d];
  TN_TRY(tn_kit_host()->scratch(call, (size_t)result->numel * gpu_type_size(type), &memory));
  const tn_view means = gpu_scratch_view(call, &memory, type, self->ndim, sizes, strides);
  TN_TRY(reduce_to(call, MEAN, self, &means, mask));
  reduction r = {.kind = SQUARES,
                 .self = self,
                 .value = result,
                 .centres = &memory,
                 .correction = (float)gpu_double(&args[2], 1)};
  return reduce(call, &r, mask);
}
