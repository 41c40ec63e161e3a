/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for somebody else's GPU: what a GPU plugin offers to plugins that bring device text of their own, a fused operator
 * for instance. The interface is named after the device, `opencl.kernels` for the device `opencl`:
 *
 *   const void *table;
 *   TN_TRY(tn_kit_host()->find_interface("opencl.kernels", TN_GPU_KERNELS_VERSION, &table));
 *
 * in a kernel that is registered under that device's name, not in init. Such a kernel gets views of memory that has no
 * address: of a view v, element [0,...,0] lies v->offset_bytes behind the start of the buffer v->mem. Text is built once
 * a device and dtype, and kept; each call then launches it on call->stream and returns, without waiting.
 *
 * Threads: every row from any thread. Statuses carry words. Rows are only ever appended within a version; a giver whose
 * struct_size ends before a row does not have it.
 */
#ifndef TENON_GPU_KERNELS_H
#define TENON_GPU_KERNELS_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_GPU_KERNELS_VERSION 1

/* One device. Fill struct_size; what the giver does not know stays as it was. */
typedef struct tn_gpu_facts {
  uint32_t struct_size;
  uint32_t flags;      /* TN_GPU_... */
  uint32_t most_items; /* of one group */
  uint32_t reserved;
} tn_gpu_facts;

enum {
  TN_GPU_HAS_DOUBLE = 1u << 0, /* text may use double */
  TN_GPU_IS_CPU = 1u << 1      /* items run one after the other: groups that share a row gain nothing */
};

/* One argument of a kernel: the buffer `mem` if bytes is NULL (mem 0: an absent one), else size bytes by value. */
typedef struct tn_gpu_arg {
  uint64_t mem;
  const void *bytes;
  size_t size;
} tn_gpu_arg;

/* Groups in up to three dims, and items of one group in each; dims that are not used have 1. */
typedef struct tn_gpu_grid {
  uint64_t groups[3];
  uint32_t items[3];
} tn_gpu_grid;

/* A built kernel of one device; lives until it is released. */
typedef struct tn_gpu_kernel tn_gpu_kernel;

typedef struct tn_gpu_kernels {
  uint32_t struct_size;
  uint32_t reserved;
  const char *language; /* of the texts: "OpenCL C 1.2" */
  tn_status (*facts)(int32_t device, tn_gpu_facts *out_facts);
  /* Compiles the texts, one after the other as one, and finds the kernel `name` in them. Takes up to seconds. A text that the
   * device's compiler refuses is a status with the compiler's words. */
  tn_status (*build)(int32_t device, const char *const *texts, uint32_t n, const char *name,
                     tn_gpu_kernel **out_kernel);
  /* Queues one run on a stream of the kernel's device (NULL: its default one). args is borrowed for the call, one for each
   * parameter. Memory that the run uses may be given back at once: that ends in stream order, too. */
  tn_status (*launch)(const tn_gpu_kernel *kernel, void *stream, const tn_gpu_grid *grid,
                      const tn_gpu_arg *args, uint32_t n);
  /* Gives a kernel back, NULL is allowed; runs that are queued still happen. Not while another thread launches it. A plugin that
   * keeps its kernels need not, at the end of the process least of all. */
  void (*release)(tn_gpu_kernel *kernel);
} tn_gpu_kernels;

#ifdef __cplusplus
}
#endif
#endif
