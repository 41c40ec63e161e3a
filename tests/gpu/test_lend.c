/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface opencl.kernels: the rows themselves, and a stranger who lives on them, examples/operators-softmax.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/gpu_kernels.h>
#include <tenon/load.h>
#include <tenon/stream.h>

#include "core/load/load.h"
#include "devices.h"

/* ------------------------------------------------------------------ the rows */

static const tn_gpu_kernels *lent(void) {
  const void *table = NULL;
  TN_CHECK_OK(tni_host()->find_interface("opencl.kernels", TN_GPU_KERNELS_VERSION, &table));
  return table;
}

static const char scale[] =
    "__kernel void scale(__global float *x, long at, float by) { x[at + get_global_id(0)] *= by; }\n";

TN_TEST(gpu_lend, a_text_runs_on_a_buffer_and_a_stream) {
  GPU_NEEDS("opencl", device);
  const tn_gpu_kernels *gpu = lent();
  const tn_backend_def *b = tni_backend_get(device.backend)->def;
  tn_memory memory;
  tn_gpu_kernel *kernel;
  void *stream;
  float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float by = 2;
  const int64_t at = 2;
  TN_CHECK_STR(gpu->language, "OpenCL C 1.2");
  const char *const texts[] = {"#define UNUSED\n", scale};
  TN_CHECK_OK(gpu->build(0, texts, 2, "scale", &kernel));
  TN_CHECK_OK(b->stream_new(b->ctx, 0, &stream));
  TN_CHECK_OK(b->alloc(b->ctx, 0, sizeof values, stream, &memory));
  TN_CHECK_OK(b->from_host(b->ctx, 0, memory.mem, 0, values, sizeof values, stream));
  const tn_gpu_arg args[] = {{.mem = memory.mem}, {.bytes = &at, .size = sizeof at}, {.bytes = &by, .size = sizeof by}};
  const tn_gpu_grid grid = {{2, 1, 1}, {2, 1, 1}};
  TN_CHECK_OK(gpu->launch(kernel, stream, &grid, args, 3));
  TN_CHECK_FAILS(gpu->launch(kernel, stream, &grid, args, 2), TN_ERR_INVALID_ARGUMENT, "3 parameters, got 2");
  gpu->release(kernel); /* what is queued happens */
  gpu->release(NULL);
  TN_CHECK_OK(b->to_host(b->ctx, 0, memory.mem, 0, values, sizeof values, stream));
  for (int i = 0; i < 8; ++i) TN_CHECK_DOUBLE(values[i], i >= 2 && i < 6 ? 2 * (i + 1) : i + 1, 0);
  b->free(b->ctx, 0, &memory, stream);
  b->stream_free(b->ctx, 0, stream);
}

TN_TEST(gpu_lend, what_cannot_be_built_is_a_status_in_words) {
  GPU_NEEDS("opencl", device);
  (void)device;
  const tn_gpu_kernels *gpu = lent();
  const char *const good[] = {scale}, *const bad[] = {"__kernel void scale(", scale};
  tn_gpu_kernel *kernel = NULL;
  TN_CHECK_FAILS(gpu->build(0, bad, 2, "scale", &kernel), TN_ERR_INTERNAL, "device kernel scale");
  TN_CHECK_CONTAINS(tn_error_message(), "refused the text");
  TN_CHECK_FAILS(gpu->build(0, good, 1, "scales", &kernel), TN_ERR_INTERNAL, "finding kernel scales");
  TN_CHECK_FAILS(gpu->build(0, good, 0, "scale", &kernel), TN_ERR_INVALID_ARGUMENT, "a text");
  TN_CHECK_FAILS(gpu->build(1000, good, 1, "scale", &kernel), TN_ERR_INVALID_ARGUMENT, "no device opencl:1000");
  TN_CHECK_FAILS(gpu->build(-1, good, 1, "scale", &kernel), TN_ERR_INVALID_ARGUMENT, "no device opencl:-1");
  TN_CHECK_PTR_NULL(kernel);
}

TN_TEST(gpu_lend, facts_fill_what_the_asker_knows) {
  GPU_NEEDS("opencl", device);
  (void)device;
  tn_gpu_facts facts = {.struct_size = sizeof facts};
  TN_CHECK_OK(lent()->facts(0, &facts));
  TN_CHECK(facts.most_items >= 1);
  TN_CHECK_INT(facts.struct_size, sizeof facts);
  tn_gpu_facts shorter = {.struct_size = offsetof(tn_gpu_facts, most_items), .most_items = 77};
  TN_CHECK_OK(lent()->facts(0, &shorter));
  TN_CHECK_INT(shorter.flags, facts.flags);
  TN_CHECK_INT(shorter.most_items, 77);
}

/* ------------------------------------------------------------------ a stranger's operator */

static tn_tensor *call(const char *name, tn_tensor *in) {
  const tn_op *op;
  tn_value arg = tn_value_tensor(in), out = tn_value_none();
  TN_CHECK_OK(tn_op_find(name, &op));
  TN_CHECK_OK(tn_op_call(op, &arg, 1, &out, 1));
  return out.u.t;
}

/* The largest difference of two tensors on the CPU. */
static double distance(tn_tensor *a, tn_tensor *b) {
  tn_tensor *difference, *size, *most, *wide;
  double value = 0;
  TN_CHECK_OK(tn_sub(a, b, tn_int(1), &difference));
  TN_CHECK_OK(tn_abs(difference, &size));
  TN_CHECK_OK(tn_amax(size, NULL, 0, false, &most));
  TN_CHECK_OK(tn_to(most, TN_OPTIONS(.dtype = TN_FLOAT64), false, false, TN_MEMORY_FORMAT_NONE, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, &value, sizeof value));
  tn_tensor *const all[] = {wide, most, size, difference};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  return value;
}

/* x's softmax by rows, and the gradient of its product with weights; both brought home. */
static void both_ways(const char *name, tn_tensor *x, tn_tensor *weights, tn_tensor **out_y, tn_tensor **out_grad) {
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  tn_tensor *y = call(name, x), *grad;
  TN_CHECK_OK(tn_grad_of(&y, &weights, 1, &x, 1, NULL, &grad));
  tn_tensor *plain;
  TN_CHECK_OK(tn_detach(y, &plain));
  *out_y = gpu_home(plain);
  *out_grad = gpu_home(grad);
  tn_tensor_release(plain);
  tn_tensor_release(grad);
  tn_tensor_release(y);
}

static void compare(tn_device device, tn_dtype dtype, const tn_dim *sizes, size_t ndim, bool transposed, double tolerance) {
  tn_tensor *made, *x, *weights, *y[2], *grad[2];
  TN_CHECK_OK(tn_randn(sizes, ndim, TN_OPTIONS(.dtype = dtype), &made));
  TN_CHECK_OK(tn_mul_scalar_(made, tn_int(5)));
  if (transposed)
    TN_CHECK_OK(tn_transpose(made, 0, 1, &x));
  else
    TN_CHECK_OK(tn_detach(made, &x));
  TN_CHECK_OK(tn_randn_like(x, NULL, TN_MEMORY_FORMAT_NONE, &weights));
  tn_tensor *there = gpu_like(x, device), *weights_there = gpu_like(weights, device);
  both_ways("acme::row_softmax", x, weights, &y[0], &grad[0]);
  both_ways("acme::row_softmax", there, weights_there, &y[1], &grad[1]);
  TN_CHECK(distance(y[0], y[1]) <= tolerance);
  TN_CHECK(distance(grad[0], grad[1]) <= 8 * tolerance);
  tn_tensor *const all[] = {y[0], y[1], grad[0], grad[1], there, weights_there, weights, x, made};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

static void keep_line(void *ctx, const char *words) {
  char *text = ctx;
  snprintf(text + strlen(text), 1024 - strlen(text), "%s\n", words);
}

TN_TEST(gpu_lend, a_fused_softmax_of_somebody_else_agrees_with_the_cpus) {
  GPU_NEEDS("opencl", device);
  char words[1024] = "";
  TN_CHECK_OK(tn_op_why("acme::row_softmax", "opencl", TN_BFLOAT16, keep_line, words));
  TN_CHECK_CONTAINS(words, "row-softmax runs");
  compare(device, TN_FLOAT32, (const tn_dim[]){7, 100}, 2, false, 1e-6);
  compare(device, TN_FLOAT32, (const tn_dim[]){40, 6}, 2, true, 1e-6);
  compare(device, TN_FLOAT32, (const tn_dim[]){3, 5, 1000}, 3, false, 1e-6);
  compare(device, TN_FLOAT32, (const tn_dim[]){300, 1}, 2, false, 1e-6);
  compare(device, TN_FLOAT64, (const tn_dim[]){7, 33}, 2, false, 1e-14);
  compare(device, TN_FLOAT16, (const tn_dim[]){5, 130}, 2, false, 1e-3);
  compare(device, TN_BFLOAT16, (const tn_dim[]){5, 130}, 2, true, 8e-3);
  tn_device second;
  if (tn_device_open("opencl:1", &second) == TN_OK) compare(second, TN_FLOAT32, (const tn_dim[]){9, 9}, 2, false, 1e-6);
}

TN_TEST(gpu_lend, a_fused_softmax_runs_on_the_current_stream) {
  GPU_NEEDS("opencl", device);
  tn_stream *stream;
  TN_CHECK_OK(tn_stream_new(device, &stream));
  TN_CHECK_OK(tn_stream_set(device, stream));
  compare(device, TN_FLOAT32, (const tn_dim[]){64, 500}, 2, false, 1e-6);
  TN_CHECK_OK(tn_stream_set(device, NULL));
  tn_stream_release(stream);
}

TN_TEST(gpu_lend, a_fused_softmax_keeps_zeros_nans_and_nothing) {
  GPU_NEEDS("opencl", device);
  const float values[] = {0, -INFINITY, -200, 1, NAN, 2, -INFINITY, -INFINITY, -INFINITY};
  float got[9];
  tn_tensor *x = gpu_floats(values, (const tn_dim[]){3, 3}, 2, device), *y = call("acme::row_softmax", x);
  TN_CHECK_OK(tn_tensor_to_host(y, got, sizeof got));
  TN_CHECK(got[0] == 1 && got[1] == 0 && got[2] == 0);
  for (int i = 3; i < 9; ++i) TN_CHECK(isnan(got[i]));
  tn_tensor_release(y);
  tn_tensor_release(x);
  x = gpu_floats(NULL, (const tn_dim[]){0, 3}, 2, device);
  y = call("acme::row_softmax", x);
  TN_CHECK_INT(tn_tensor_view(y)->numel, 0);
  tn_tensor_release(y);
  tn_tensor_release(x);
}
