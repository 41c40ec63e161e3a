/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers one of each kind, and fails where TENON_TEST_STEP says: a number n: init answers an error after n calls;
 * "drop N": the n-th call gets a definition that is refused, and init hides the status; "bare N": one that tells no size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/operator.h>
#include <tenon/plugin_backend.h>
#include <tenon/plugin_layer.h>

#define SCHEMA "acme::step(Tensor self) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("steps", "1.0", "Apache-2.0") "device steps\n"
                                                             "layer stepper class mode\n"
                                                             "interface acme.steps 1\n"
                                                             "operator " SCHEMA "\n"
                                                             "kernel steps acme::step all 0\n"
                                                             "kernel steps add.Tensor float32 0\n"
                                                             "kernel cpu mul.Tensor float32 3\n"
                                                             "kernel toy mul.Tensor float32 3\n"
                                                             "kernel stepper * all 0\n")

static tn_status count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 1;
  return getenv("TENON_TEST_STEP_NO_DEVICE") ? TN_FAIL(TN_ERR_DEVICE, "the bus is down") : TN_OK;
}
static tn_status give(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  void *address = malloc(size_bytes);
  *out_memory = (tn_memory){(uintptr_t)address, address, size_bytes};
  return address ? TN_OK : TN_ERR_OUT_OF_MEMORY;
}
static void take(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free(memory->address);
}
static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)mem, (void)offset_bytes, (void)host, (void)size_bytes, (void)stream;
  return TN_OK;
}
static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host, uint64_t size_bytes,
                         void *stream) {
  (void)ctx, (void)index, (void)mem, (void)offset_bytes, (void)host, (void)size_bytes, (void)stream;
  return TN_OK;
}

static tn_status pass(tn_call *call, const tn_value *args, tn_value *out) {
  return call->host->redispatch(call, args, out);
}
static tn_status decline(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_DECLINED;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "steps",
                                       .alignment_bytes = 16,
                                       .device_count = count,
                                       .alloc = give,
                                       .free = take,
                                       .from_host = from_host,
                                       .to_host = to_host};
static const tn_layer_def layer = {.struct_size = sizeof layer, .name = "stepper"};
static const tn_operator_def operator_def = {.struct_size = sizeof operator_def, .schema = SCHEMA};
static const tn_kernel_def kernels[] = {
    TN_KERNEL("steps", "acme::step", decline, 0),
    TN_KERNEL("steps", "add.Tensor", decline, TN_DTYPE_BIT(TN_FLOAT32)),
    TN_KERNEL("cpu", "mul.Tensor", decline, TN_DTYPE_BIT(TN_FLOAT32), .priority = 3),
    TN_KERNEL("toy", "mul.Tensor", decline, TN_DTYPE_BIT(TN_FLOAT32), .priority = 3),
    TN_KERNEL("stepper", "*", pass, 0, .flags = TN_KERNEL_LAYER_FALLBACK)};

/* bad: 1: wrong, 2: without a size. */
static tn_status make_step(const tn_host *host, tn_registration *reg, int n, int bad) {
  static const tn_kernel_def bad_kernel = {.struct_size = sizeof bad_kernel, .op = "add.Tensor", .key = "steps"};
  static const uint64_t bare[64];
  static int table;
  const void *const pick[2] = {bad == 2 ? bare : NULL, bad == 2 ? (const void *)bare : &bad_kernel};
  switch (n) {
    case 0: return host->register_backend(reg, bad ? pick[0] : &backend);
    case 1: return host->register_layer(reg, bad ? pick[0] : &layer);
    case 2: return host->register_interface(reg, "acme.steps", 1, bad ? NULL : &table);
    case 3: return host->register_operator(reg, bad ? pick[0] : &operator_def);
    default: return host->register_kernel(reg, bad ? pick[1] : &kernels[n - 4]);
  }
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const char *text = getenv("TENON_TEST_STEP");
  int stop = -1, drop = -1;
  const bool bare = text && sscanf(text, "bare %d", &drop) == 1;
  if (text && *text && !bare && sscanf(text, "drop %d", &drop) != 1) stop = atoi(text);
  for (int n = 0; n < 9; ++n) {
    if (n == stop) return host->fail(TN_ERR_INTERNAL, "stopped after %d steps", n);
    tn_status status = make_step(host, reg, n, n != drop ? 0 : bare ? 2 : 1);
    if (n != drop) TN_TRY(status);
  }
  return stop == 9 ? host->fail(TN_ERR_INTERNAL, "stopped after 9 steps") : TN_OK;
}

TN_PLUGIN(.name = "steps", .version = "1.0", .init = init)
