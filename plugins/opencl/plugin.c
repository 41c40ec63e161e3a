/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the OpenCL backend: device "opencl". The manifest, like the registration, is made from the lists of plugins/gpu.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

#include "elementwise.inc"
#include "plugins/gpu/kernels.inc"
#include "plugins/opencl/opencl.h"

#define OCL_INTERFACE                                      "opencl.kernels"
#define MANIFEST_KERNEL(op, fn, words, mask)               "kernel opencl " op " " words " 0\n"
#define MANIFEST_EW(id, name, nt, ns, mask, result, words) "kernel opencl " name " " words " 0\n"
TN_MANIFEST(TN_MANIFEST_HEADER("opencl", OCL_VERSION_TEXT,
                               "Apache-2.0") "device opencl alias privateuse1\n"
                                             "interface " OCL_INTERFACE " 1\n" GPU_KERNELS(MANIFEST_KERNEL)
                TN_EW_LIST(MANIFEST_EW))
_Static_assert(TN_GPU_KERNELS_VERSION == 1, "the manifest's line says so");

static const tn_backend_def backend = {
    .struct_size = sizeof(tn_backend_def),
    .flags = TN_BACKEND_CPU_FALLBACK,
    .device_name = "opencl",
    .alignment_bytes = 64,
    .fork = TN_FORK_POISONED, /* drivers have threads, which a child lacks */
    .device_count = ocl_devices_count,
    .alloc = ocl_alloc,
    .free = ocl_free,
    .from_host = ocl_from_host,
    .to_host = ocl_to_host,
    .memory_info = ocl_memory_info,
    .synchronize = ocl_synchronize,
    .describe = ocl_device_describe,
    .event_new = ocl_event_new,
    .event_free = ocl_event_free,
    .event_record = ocl_event_record,
    .event_query = ocl_event_query,
    .event_wait = ocl_event_wait,
    .stream_new = ocl_stream_new,
    .stream_free = ocl_stream_free,
    .stream_synchronize = ocl_stream_synchronize,
    .event_elapsed = ocl_event_elapsed,
    .host_alloc = ocl_host_alloc,
    .host_free = ocl_host_free,
    .copy = ocl_copy,
};

static const gpu_driver driver = {.backend = &backend,
                                  .interface = OCL_INTERFACE,
                                  .language = "OpenCL C 1.2",
                                  .caps = ocl_caps,
                                  .build = ocl_build,
                                  .release = ocl_release,
                                  .launch = ocl_launch,
                                  .fill = ocl_fill,
                                  .read = ocl_read};

static tn_status init(const tn_host *host, tn_registration *reg) { return gpu_register(host, reg, &driver); }

TN_PLUGIN(.name = "opencl", .version = OCL_VERSION_TEXT, .init = init)
