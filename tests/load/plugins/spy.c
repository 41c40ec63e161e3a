/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that sees every operator: it refuses mul.Tensor by name and lets all others pass below itself.
 */
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_layer.h>

TN_MANIFEST(TN_MANIFEST_HEADER("spy", "1.0",
                               "Apache-2.0") "layer spy class mode above autocast\nkernel spy * all 0\n")

static tn_status see(tn_call *call, const tn_value *args, tn_value *out) {
  const char *name = call->host->op_name(call->op);
  if (strcmp(name, "mul.Tensor") == 0) return TN_FAIL(TN_ERR_UNSUPPORTED, "the spy saw %s", name);
  /* As a layer that was built when this operator had two arguments. */
  if (strcmp(name, "acme::grown") == 0 && args[1].u.i == 100) {
    const tn_value own[2] = {args[0], tn_value_int(3)};
    return call->host->redispatch(call, own, out);
  }
  return call->host->redispatch(call, args, out);
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {.struct_size = sizeof layer, .name = "spy"};
  const tn_kernel_def kernel = TN_KERNEL("spy", "*", see, 0, .flags = TN_KERNEL_LAYER_FALLBACK);
  TN_TRY(host->register_layer(reg, &layer));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "spy", .version = "1.0", .init = init)
