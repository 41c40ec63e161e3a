/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that passes every call on: what a layer costs, `tenon bench --case add_1_layer`.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_layer.h>

TN_MANIFEST(TN_MANIFEST_HEADER("transparent", "1.0", "Apache-2.0") "layer transparent\nkernel transparent * all 0\n")

static tn_status pass(tn_call *call, const tn_value *args, tn_value *out) {
  return tn_kit_host()->redispatch(call, args, out);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {.struct_size = sizeof layer, .name = "transparent"};
  const tn_kernel_def kernel = TN_KERNEL("transparent", "*", pass, 0, .flags = TN_KERNEL_LAYER_FALLBACK);
  TN_TRY(host->register_layer(reg, &layer));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "transparent", .version = "1.0", .init = init)
