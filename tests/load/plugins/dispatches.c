/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: calls an operator inside init, which is forbidden and answered, not a deadlock.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("dispatches", "1.0", "Apache-2.0") "device calls\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)reg;
  const tn_op *op;
  TN_TRY(host->find_op("add.Tensor", &op));
  const tn_value args[3] = {tn_value_none(), tn_value_none(), tn_value_int(1)};
  tn_value out = tn_value_none();
  return host->call(op, args, &out);
}

TN_PLUGIN(.name = "dispatches", .version = "1.0", .init = init)
