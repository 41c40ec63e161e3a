/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer with state per thread, and the operator that tells what became of it: keeper::report() -> Tensor is an int64
 * tensor with how many states were made, copied and freed, how many live, and how many calls the asking thread's state
 * has met.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/call.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/operator.h>
#include <tenon/plugin_layer.h>

#define REPORT "keeper::report(Tensor like) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER_NEEDS("keeper", "1.0", "Apache-2.0", 2)
            "layer keeper\nkernel keeper * all 0\noperator " REPORT "\nkernel cpu keeper::report all 0\n"
            "layer asks class trace\nkernel asks neg all 0\nkernel asks add.Tensor all 0\n")

typedef struct state {
  int64_t calls;
} state;

static int64_t made, copied, freed;

static state *state_new(int64_t *count) {
  __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
  return calloc(1, sizeof(state));
}

static void *state_dup(void *from) {
  state *s = state_new(&copied);
  if (s) s->calls = ((const state *)from)->calls;
  return s;
}

static void state_free(void *s) {
  __atomic_add_fetch(&freed, 1, __ATOMIC_RELAXED);
  free(s);
}

static __thread int64_t thread_calls; /* what the slot must agree with */

static tn_status keep(tn_call *call, const tn_value *args, tn_value *out) {
  void **slot;
  TN_TRY(tn_kit_host()->layer_slot(call, &slot));
  if (!*slot) *slot = state_new(&made);
  if (!*slot) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "a state");
  thread_calls = ++((state *)*slot)->calls;
  return tn_kit_host()->redispatch(call, args, out);
}

static tn_status meta(tn_meta *m, const tn_value *args) {
  (void)args;
  m->out[0].dtype = TN_INT64;
  m->out[0].ndim = 1;
  m->out[0].sizes[0] = 5;
  return TN_OK;
}

static tn_status report(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args;
  int64_t *to = out[0].u.v->data;
  to[0] = __atomic_load_n(&made, __ATOMIC_RELAXED);
  to[1] = __atomic_load_n(&copied, __ATOMIC_RELAXED);
  to[2] = __atomic_load_n(&freed, __ATOMIC_RELAXED);
  to[3] = to[0] + to[1] - to[2];
  to[4] = thread_calls;
  return TN_OK;
}

/* ------------------------------------------------------------------ a layer that calls operators for itself */

TN_KIT_OP(op_add, "add.Tensor");
TN_KIT_OP(op_neg, "neg");

/* neg: x + x through a fresh call, which this layer would meet, and a failure where x is empty. */
static tn_status ask(tn_call *call, const tn_value *args, tn_value *out) {
  tn_tensor *sum = NULL, *back;
  if (strcmp(tn_kit_host()->op_name(call->op), "neg") != 0) return TN_FAIL(TN_ERR_STATE, "asks met what was its own call");
  TN_TRY(TN_KIT_CALL(&op_add, &sum, args[0], args[0], tn_value_int(1)));
  tn_status status = TN_KIT_CALL(&op_neg, &back, tn_value_tensor(sum));
  if (status == TN_OK) tn_kit_host()->tensor_release(back);
  tn_kit_host()->tensor_release(sum);
  TN_TRY(status);
  if (!tn_tensor_view(args[0].u.t)->numel) return TN_FAIL(TN_ERR_STATE, "asks fails on purpose");
  return tn_tensor_view(args[0].u.t)->ndim > 1 ? TN_DECLINED : tn_kit_host()->redispatch(call, args, out);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  static const tn_kernel_def kernels[] = {
      TN_KERNEL("keeper", "*", keep, 0, .flags = TN_KERNEL_LAYER_FALLBACK),
      TN_KERNEL("cpu", "keeper::report", report, TN_DTYPES_ALL), TN_KERNEL("asks", "neg", ask, TN_DTYPES_ALL),
      TN_KERNEL("asks", "add.Tensor", ask, TN_DTYPES_ALL)};
  const tn_layer_def keeper = {
      .struct_size = sizeof keeper, .name = "keeper", .state_dup = state_dup, .state_free = state_free};
  const tn_layer_def asks = {.struct_size = sizeof asks, .name = "asks"};
  const tn_operator_def op = {.struct_size = sizeof op,
                              .flags = TN_OP_NONDIFF,
                              .schema = REPORT,
                              .meta = meta,
                              .doc = "States made, copied, freed and alive, and calls met by this thread's."};
  TN_TRY(host->register_layer(reg, &keeper));
  TN_TRY(host->register_layer(reg, &asks));
  TN_TRY(host->register_operator(reg, &op));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "keeper", .version = "1.0", .init = init, .needs_minor = 2)
