/* SPDX-License-Identifier: Apache-2.0
 *
 * Offers an interface in two versions, lends memory that it owns, and adds operators with a gradient: everything
 * that keeps a plugin from being unloaded.
 */
#include <stdlib.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/operator.h>

#include "clock.h"

#define LEND "acme::lend(Tensor self) -> Tensor"
#define TICK "acme::tick(Tensor self) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("clock", "1.0", "Apache-2.0") "interface acme.clock 1\n"
                                                             "interface acme.clock 2\n"
                                                             "operator " LEND "\n"
                                                             "operator " TICK "\n")

static int64_t n_given_back;
static int64_t now(void) { return n_given_back; }
static int64_t half(void) { return n_given_back / 2; }
static const acme_clock_1 version_1 = {now};
static const acme_clock_2 version_2 = {now, half};

static void give_back(void *memory) {
  ++n_given_back;
  free(memory);
}

/* Three floats of this plugin's own memory, where self is. */
static tn_status lend(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *self = (const tn_view *)args[0].u.v;
  float *memory = malloc(4 * sizeof *memory);
  if (!memory) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "lend");
  for (int i = 0; i < 4; ++i) memory[i] = (float)(6 + i);
  const tn_dim size = self->ndim ? self->sizes[0] : 3;
  const tn_foreign_def def = {.struct_size = sizeof def,
                              .dtype = TN_FLOAT32,
                              .ndim = 1,
                              .device = {.backend = self->backend, .index = self->device_index},
                              .mem = (uint64_t)(uintptr_t)memory,
                              .address = memory,
                              .offset_bytes = sizeof *memory,
                              .sizes = &size,
                              .deleter = give_back,
                              .ctx = memory};
  tn_tensor *t;
  TN_TRY(tn_kit_host_table->tensor_from_memory(&def, &t));
  out[0] = tn_value_tensor(t);
  return TN_OK;
}

static tn_status tick(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op;
  const tn_value add[3] = {args[0], args[0], tn_value_int(1)};
  TN_TRY(call->host->find_op("add.Tensor", &op));
  return call->host->call(op, add, out);
}

static tn_status tick_grad(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins) {
  (void)ctx, (void)grad_outs, (void)grad_ins;
  return TN_OK;
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  static const uint8_t input = 0;
  static const tn_saves saves = {0};
  const tn_grad_def gradient = {.struct_size = sizeof gradient,
                                .fn = tick_grad,
                                .n_inputs = 1,
                                .input_args = &input,
                                .saves = &saves,
                                .node_name = "TickBackward0"};
  const tn_operator_def lends = {.struct_size = sizeof lends, .schema = LEND, .body = lend};
  const tn_operator_def ticks = {.struct_size = sizeof ticks, .schema = TICK, .body = tick, .grad = &gradient};
  TN_TRY(host->register_interface(reg, "acme.clock", 1, &version_1));
  TN_TRY(host->register_interface(reg, "acme.clock", 2, &version_2));
  TN_TRY(host->register_operator(reg, &lends));
  return host->register_operator(reg, &ticks);
}

TN_PLUGIN(.name = "clock", .version = "1.0", .init = init)
