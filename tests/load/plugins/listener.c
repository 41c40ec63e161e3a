/* SPDX-License-Identifier: Apache-2.0
 *
 * Attaches a profiler and never detaches it: whoever calls that after shutdown ends the process.
 */
#include <stdlib.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/operator.h>
#include <tenon/plugin_profiler.h>

#define LISTEN "acme::listen(Tensor self) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("listener", "1.0", "Apache-2.0") "operator " LISTEN "\n")

static bool over;

static void begin(void *ctx, const tn_profile_event *event) {
  (void)ctx, (void)event;
  if (over) abort();
}

/* self + self */
static tn_status listen(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_profiler_def def = {.struct_size = sizeof def, .begin = begin};
  const tn_value add[3] = {args[0], args[0], tn_value_int(1)};
  const tn_op *op;
  uint64_t handle;
  TN_TRY(tn_kit_host_table->profiler_attach(&def, &handle));
  TN_TRY(call->host->find_op("add.Tensor", &op));
  return call->host->call(op, add, out);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_operator_def listens = {.struct_size = sizeof listens, .schema = LISTEN, .body = listen};
  over = false;
  return host->register_operator(reg, &listens);
}

static void shut_down(void) { over = true; }

TN_PLUGIN(.name = "listener", .version = "1.0", .init = init, .shutdown = shut_down)
