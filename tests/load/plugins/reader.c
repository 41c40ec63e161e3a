/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses another plugin's interface, and offers one itself: two plugins that find each other through the host.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/operator.h>

#include "clock.h"

#define READ "acme::read_clock(Tensor self, int version) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("reader", "1.0", "Apache-2.0") "operator " READ "\ninterface acme.reader 7\n")

static int dummy;

/* self + what the clock says. */
static tn_status read_clock(tn_call *call, const tn_value *args, tn_value *out) {
  const void *table;
  const tn_op *op;
  TN_TRY(tn_kit_host_table->find_interface("acme.clock", (uint32_t)args[1].u.i, &table));
  int64_t now = ((const acme_clock_1 *)table)->now();
  TN_TRY(call->host->find_op("add.Scalar", &op));
  const tn_value add[3] = {args[0], tn_value_int(now), tn_value_int(1)};
  return call->host->call(op, add, out);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const void *table;
  const tn_operator_def def = {.struct_size = sizeof def, .schema = READ, .body = read_clock};
  if (host->find_interface("acme.clock", 1, &table) != TN_ERR_STATE)
    return host->fail(TN_ERR_INTERNAL, "an interface was found inside init");
  TN_TRY(host->register_interface(reg, "acme.reader", 7, &dummy));
  return host->register_operator(reg, &def);
}

TN_PLUGIN(.name = "reader", .version = "1.0", .init = init)
