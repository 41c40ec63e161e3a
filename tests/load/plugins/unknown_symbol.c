/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: calls a function that no library has. RTLD_NOW makes that an error at opening, not a crash in a kernel.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("unknown-symbol", "1.0", "Apache-2.0") "device symbol\n")

tn_status acme_function_of_nobody(const tn_host *host, tn_registration *reg);

TN_PLUGIN(.name = "unknown-symbol", .version = "1.0", .init = acme_function_of_nobody)
