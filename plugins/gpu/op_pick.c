/* SPDX-License-Identifier: Apache-2.0
 *
 * gather, index_select and embedding: elements picked by an index (device/pick.h). Their gradients add up at places, which would
 * need atomic additions whose order differs from run to run; those run elsewhere.
 */
#include "plugins/gpu/gpu.h"

typedef struct pick {
  const char *op;
  const tn_view *out, *index, *from;
  int64_t picked, step;              /* size and stride of the dim that the index counts in */
  tn_dim index_strides[TN_MAX_RANK]; /* for every dim of out */
  tn_dim from_strides[TN_MAX_RANK];  /* the same; 0 in the picked dim */
} pick;

static void write_defines(gpu_defines *d, const void *ctx) {
  const pick *p = ctx;
  const char *bits = gpu_type_name(gpu_bits_type(p->out->itemsize));
  gpu_define(d, "#define NAME pick_%s\n#define T0 %s\n#define TI %s\n#define FROM_FLOAT 0\n", bits, bits,
             gpu_type_name(p->index->dtype));
}

static tn_status run(tn_call *call, const pick *p) {
  const tn_view *out = p->out;
  const tn_dim *const strides[] = {out->strides, p->index_strides, p->from_strides};
  gpu_geometry g;
  void *kernel;
  uint64_t fault;
  gpu_args args = {.n = 0};
  if (out->numel == 0) return p->index->numel ? TN_DECLINED : TN_OK; /* who looks at the index is the body */
  gpu_geometry_part(&g, out->ndim, out->sizes, 0, false, 3, strides);
  if (g.ndim > GPU_RANK) return TN_DECLINED;
  int64_t words[4 + 4 * GPU_RANK] = {g.numel, g.ndim, p->picked, p->step},
                        *end = gpu_geometry_sizes(&g, words + 4);
  for (uint32_t k = 0; k < 3; ++k) end = gpu_geometry_strides(&g, k, end);
  gpu_key key = {.family = GPU_PICK,
                 .device = (uint16_t)call->device.index,
                 .types = {gpu_bits_type(out->itemsize), p->index->dtype}};
  TN_TRY(gpu_arg_view(&args, out));
  TN_TRY(gpu_arg_view(&args, p->index));
  TN_TRY(gpu_arg_view(&args, p->from));
  TN_TRY(gpu_kernel_get(&key, write_defines, p, &kernel));
  TN_TRY(gpu_fault_words(call, p->op, &fault));
  gpu_arg_place(&args, fault, 0);
  gpu_arg_bytes(&args, words, sizeof words);
  return gpu_launch_items(call, kernel, g.numel, &args);
}

tn_status gpu_op_gather(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v;
  const uint32_t dim = gpu_dim(args[1].u.i, self->ndim);
  pick p = {.op = "gather", .out = out[0].u.v, .index = index, .from = self, .picked = 1};
  for (uint32_t d = 0; d < index->ndim; ++d) {
    p.index_strides[d] = index->strides[d];
    p.from_strides[d] = d == dim || d >= self->ndim ? 0 : self->strides[d];
  }
  if (self->ndim) {
    p.picked = self->sizes[dim];
    p.step = self->strides[dim];
  }
  return run(call, &p);
}

tn_status gpu_op_index_select(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *result = out[0].u.v;
  const uint32_t dim = gpu_dim(args[1].u.i, self->ndim);
  pick p = {.op = "index_select", .out = result, .index = index, .from = self, .picked = 1};
  for (uint32_t d = 0; d < result->ndim; ++d) {
    p.index_strides[d] = d == dim && index->ndim ? index->strides[0] : 0;
    p.from_strides[d] = d == dim || d >= self->ndim ? 0 : self->strides[d];
  }
  if (self->ndim) {
    p.picked = self->sizes[dim];
    p.step = self->strides[dim];
  }
  return run(call, &p);
}

/* Rows of a table: the last dim of the result lies within a row. */
tn_status gpu_op_embedding(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *weight = args[0].u.v, *index = args[1].u.v, *result = out[0].u.v;
  pick p = {.op = "embedding",
            .out = result,
            .index = index,
            .from = weight,
            .picked = weight->sizes[0],
            .step = weight->strides[0]};
  for (uint32_t d = 0; d < index->ndim; ++d) p.index_strides[d] = index->strides[d];
  p.from_strides[result->ndim - 1u] = weight->strides[1];
  return run(call, &p);
}
