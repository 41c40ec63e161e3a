/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the CPU backend: manifest, negotiation, and a registration that repeats the manifest because
 * both come from the same lists (kernels.inc and the registry's expressions).
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

#include "plugins/backend-cpu/cpu.h"
#include "plugins/backend-cpu/ew_index.h"

#define MANIFEST_KERNEL(op, fn, word, mask)                "kernel cpu " op " " word " 0\n"
#define MANIFEST_SMALL(op, fn, word, mask)                 "kernel cpu " op " " word " " TN_MANIFEST_QUOTE(CPU_SMALL_PRIORITY) "\n"
#define MANIFEST_EW(id, name, nt, ns, mask, result, words) "kernel cpu " name " " words " 0\n"
TN_MANIFEST(TN_MANIFEST_HEADER("cpu", CPU_VERSION_TEXT,
                               "Apache-2.0") "device cpu\n" CPU_KERNELS(MANIFEST_KERNEL)
                CPU_SMALL_KERNELS(MANIFEST_SMALL) TN_EW_LIST(MANIFEST_EW))

#define KERNEL_DEF(op, fn, word, mask) TN_KERNEL("cpu", op, fn, mask),
#define SMALL_DEF(op, fn, word, mask) \
  TN_KERNEL("cpu", op, fn, mask, .priority = CPU_SMALL_PRIORITY, .max_numel = CPU_SMALL_NUMEL),
static const tn_kernel_def kernels[] = {CPU_KERNELS(KERNEL_DEF) CPU_SMALL_KERNELS(SMALL_DEF)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(cpu_select());
  cpu_describe();
  TN_TRY(host->register_backend(reg, &cpu_backend));
  TN_TRY(cpu_register_elementwise(reg));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "cpu", .version = CPU_VERSION_TEXT, .init = init)
