/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thin plugin (OpenCL; CUDA and HIP alike) gives so that the kernels of plugins/gpu run on its devices. Memory, streams,
 * events and copies are the rows of its tn_backend_def, which the host calls as well; the table below adds what only
 * kernels need: facts about a device, compilation, launch, fill.
 *
 * Statuses carry words. Threads: every row from any thread. A stream is what stream_new of the backend gave; NULL is the
 * device's default stream.
 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <tenon/gpu_kernels.h>
#include <tenon/kit/status.h>
#include <tenon/plugin_backend.h>

typedef struct gpu_caps {
  bool has_double;     /* the device computes in float64 */
  bool is_cpu;         /* items run one after the other; local memory and barriers gain nothing */
  uint32_t most_items; /* items of one group, at most */
} gpu_caps;

/* Arguments and grids are those of the interface that other plugins get. */
typedef tn_gpu_arg gpu_arg;
typedef tn_gpu_grid gpu_grid;

typedef struct gpu_driver {
  const tn_backend_def *backend; /* registered by gpu_register; `copy` and `alloc` of it are used here, too */
  const char *interface;         /* "DEVICE.kernels", as the manifest lists it (tenon/gpu_kernels.h) */
  const char *language;          /* of the texts that `build` takes, for other plugins */
  tn_status (*caps)(int32_t device, gpu_caps *out_caps);
  /* Compiles the texts, one after the other, and finds the kernel `name` in them. The kernel is owned (`release`). A text
   * that the compiler refuses is a status with the compiler's log. */
  tn_status (*build)(int32_t device, const char *const *texts, uint32_t n, const char *name,
                     void **out_kernel);
  /* Frees a kernel; runs that are queued still happen. */
  void (*release)(void *kernel);
  /* Queues one run of a kernel that build gave for this device. */
  tn_status (*launch)(int32_t device, void *stream, void *kernel, const gpu_grid *grid, const gpu_arg *args,
                      uint32_t n);
  /* Queues size_bytes of a repeated pattern of 1, 2, 4 or 8 bytes. The offset is a multiple of the pattern's size. */
  tn_status (*fill)(int32_t device, void *stream, uint64_t mem, int64_t offset_bytes, uint64_t size_bytes,
                    const void *pattern, size_t pattern_bytes);
  /* to_host, without looking for faults. */
  tn_status (*read)(int32_t device, void *stream, uint64_t mem, int64_t offset_bytes, void *host,
                    uint64_t size_bytes);
} gpu_driver;

/* Inside init, once: registers the backend, every kernel under its device's name, and the interface. driver is kept. */
tn_status gpu_register(const tn_host *host, tn_registration *reg, const gpu_driver *driver);

/* For the plugin's rows that wait, when they have waited for `stream`, or for the whole device: an error if a kernel met an
 * index outside its bounds since the last call (a kernel cannot return a status). Costs nothing where no such kernel ran. */
tn_status gpu_check_faults(int32_t device, void *stream, bool whole_device);

#endif
