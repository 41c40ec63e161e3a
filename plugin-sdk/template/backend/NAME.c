/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend "@NAME@": one device, its memory, copies to and from the host, and a handful of float32 kernels. Whatever
 * has no kernel here is made of other operators, or runs on the CPU with copies both ways (TN_BACKEND_CPU_FALLBACK);
 * autograd, saving, random numbers, caching of memory and statistics are the host's.
 *
 * To make it yours: let the rows of `backend` call your driver, add a kernel and its line in the manifest one at a
 * time, and look at what `tenon check plugin` says. The contract is <tenon/plugin_backend.h> and <tenon/plugin.h>.
 */
#include <stdlib.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/loops.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/kit/shape.h>
#include <tenon/plugin_backend.h>

/* Readable without running the plugin. What init registers must be listed, and nothing else. */
TN_MANIFEST(TN_MANIFEST_HEADER("@NAME@", "0.1.0", "Apache-2.0")
            "device @NAME@ alias privateuse1\n"
            "kernel @NAME@ add.Tensor float32 0\n"
            "kernel @NAME@ mul.Tensor float32 0\n"
            "kernel @NAME@ relu float32 0\n"
            "kernel @NAME@ threshold_backward float32 0\n"
            "kernel @NAME@ fill_.Scalar float32 0\n"
            "kernel @NAME@ sum.dim_IntList float32 0\n"
            "kernel @NAME@ mm float32 0\n")

/* ------------------------------------------------------------------ memory and copies */

static tn_status device_count(void *ctx, int32_t *out_count) {
  *out_count = 1;
  return TN_OK;
}

static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                              tn_memory *out_memory) {
  void *address = size_bytes > SIZE_MAX - 63 ? NULL : aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  if (!address) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "@NAME@: no %llu bytes", (unsigned long long)size_bytes);
  *out_memory = (tn_memory){(uintptr_t)address, address, size_bytes};
  return TN_OK;
}

static void memory_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  free(memory->address);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  memcpy((char *)(uintptr_t)mem + offset_bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  memcpy(host, (const char *)(uintptr_t)mem + offset_bytes, size_bytes);
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .flags = TN_BACKEND_CPU_FALLBACK,
                                       .device_name = "@NAME@",
                                       .alignment_bytes = 64,
                                       .fork = TN_FORK_SAFE,
                                       .device_count = device_count,
                                       .alloc = memory_alloc,
                                       .free = memory_free,
                                       .from_host = from_host,
                                       .to_host = to_host};

/* ------------------------------------------------------------------ elementwise kernels */

/* Inner loops over float32: a and b are the operands' elements, ctx what the kernel passes. */
TN_LOOP_BINARY(add_loop, float32, float32, float32, a + *(const float *)ctx * b)
TN_LOOP_BINARY(mul_loop, float32, float32, float32, a *b)
TN_LOOP_UNARY(relu_loop, float32, float32, a < 0 ? 0 : a) /* a NaN stays one */
TN_LOOP_BINARY(threshold_loop, float32, float32, float32, b <= *(const float *)ctx ? 0 : a)
TN_LOOP_NULLARY(fill_loop, float32, *(const float *)ctx)

/* A kernel of n operands, the result first; the kit walks strides and broadcasts, on the host's threads. */
#define OPERATOR(name, n, number, ...)                                        \
  static tn_status name(tn_call *call, const tn_value *args, tn_value *out) { \
    const tn_view *operands[] = {__VA_ARGS__};                                \
    float ctx = number;                                                       \
    return tn_iter_each(1, n, operands, 16384, name##_loop, &ctx);            \
  }

static float number_of(const tn_value *v) { return v->kind == TN_VAL_FLOAT ? (float)v->u.f : (float)v->u.i; }

OPERATOR(add, 3, number_of(&args[2]), out[0].u.v, args[0].u.v, args[1].u.v)
OPERATOR(mul, 3, 0, out[0].u.v, args[0].u.v, args[1].u.v)
OPERATOR(relu, 2, 0, out[0].u.v, args[0].u.v)
OPERATOR(threshold, 3, number_of(&args[2]), out[0].u.v, args[0].u.v, args[1].u.v)
OPERATOR(fill, 1, number_of(&args[1]), out[0].u.v)

/* ------------------------------------------------------------------ a reduction and a product */

static void add_up(void *ctx, char **data, const int64_t *strides, int64_t n) {
  for (int64_t i = 0; i < n; i++) *(double *)ctx += *(const float *)(const void *)(data[0] + i * strides[0]);
}

/* One row of results; inner describes the elements of each. */
static void sum_row(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) {
  for (int64_t i = 0; i < n; i++) {
    char *first = data[1] + i * strides[1];
    double total = 0;
    tn_iter_walk(inner, &first, 0, inner->numel, add_up, &total);
    *(float *)(void *)(data[0] + i * strides[0]) = (float)total;
  }
}

static tn_status sum(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  uint64_t dims;
  tn_reduce it;
  TN_TRY(tn_shape_dim_mask(args[1].u.ints, args[1].count, self->ndim, true, &dims));
  TN_TRY(tn_reduce_init(&it, dims, 1, &result, self, 0));
  return tn_reduce_run(&it, 16384, sum_row, NULL);
}

/* Rows [begin, end) of the product: each adds the rows of b, so that the inner loop runs along memory. */
static tn_status mm_rows(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const tn_view *const *v = ctx, *r = v[0], *a = v[1], *b = v[2];
  const float *pa = a->data, *pb = b->data;
  for (int64_t i = begin; i < end; i++) {
    float *row = (float *)r->data + i * r->strides[0];
    for (int64_t j = 0; j < r->sizes[1]; j++) row[j * r->strides[1]] = 0;
    for (int64_t k = 0; k < a->sizes[1]; k++)
      for (int64_t j = 0; j < r->sizes[1]; j++)
        row[j * r->strides[1]] +=
            pa[i * a->strides[0] + k * a->strides[1]] * pb[k * b->strides[0] + j * b->strides[1]];
  }
  return TN_OK;
}

static tn_status mm(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *operands[] = {out[0].u.v, args[0].u.v, args[1].u.v};
  return tn_kit_host()->parallel_for(operands[0]->sizes[0], 8, mm_rows, operands);
}

/* ------------------------------------------------------------------ the door */

static const tn_kernel_def kernels[] = {
    TN_KERNEL("@NAME@", "add.Tensor", add, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("@NAME@", "mul.Tensor", mul, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("@NAME@", "relu", relu, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("@NAME@", "threshold_backward", threshold, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("@NAME@", "fill_.Scalar", fill, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("@NAME@", "sum.dim_IntList", sum, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("@NAME@", "mm", mm, TN_DTYPE_BIT(TN_FLOAT32))};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "@NAME@", .version = "0.1.0", .init = init)
