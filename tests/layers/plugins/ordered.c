/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that does nothing and stands somewhere: built once per LAYER and PLACE (`class C above A below B`).
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_layer.h>

TN_MANIFEST(TN_MANIFEST_HEADER("ordered-" LAYER, "1.0", "Apache-2.0") "layer " LAYER " " PLACE "\nkernel " LAYER
                                                                      " neg all 0\n")

static tn_status pass(tn_call *call, const tn_value *args, tn_value *out) {
  return tn_kit_host()->redispatch(call, args, out);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {.struct_size = sizeof layer, .name = LAYER};
  const tn_kernel_def kernel = TN_KERNEL(LAYER, "neg", pass, TN_DTYPES_ALL);
  TN_TRY(host->register_layer(reg, &layer));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "ordered-" LAYER, .version = "1.0", .init = init)
