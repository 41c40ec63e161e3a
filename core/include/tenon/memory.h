/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory as an application sees it: what is in use, by whom, a limit, and giving unused memory back.
 *
 * Every device has one cache between its backend's raw allocations and tensors. Freed memory stays in it for the
 * next tensor. Sizes are counted as rounded by the cache; data that lives inside the tensor object (up to 640 bytes
 * on the CPU) and foreign memory are not counted.
 */
#ifndef TENON_MEMORY_H
#define TENON_MEMORY_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_memory_stats {
  uint64_t current_bytes;  /* in use by tensors and kernels */
  uint64_t peak_bytes;     /* highest current_bytes since start or tn_memory_reset_peak; other threads' small
                                 * blocks may be counted late (up to 8 MiB a thread) */
  uint64_t reserved_bytes; /* taken from the backend: in use or cached */
  uint64_t reserved_peak_bytes;
  uint64_t limit_bytes; /* of reserved_bytes; 0: none */
  uint64_t n_allocs;    /* requests, ever */
  uint64_t n_frees;
  uint64_t n_segments;   /* raw allocations held now */
  uint64_t n_raw_allocs; /* ... made, ever */
  uint64_t n_raw_frees;
  uint64_t n_retries;  /* requests for which the cache had to be emptied */
  uint64_t n_failures; /* requests that ended in TN_ERR_OUT_OF_MEMORY */
} tn_memory_stats;

/* All functions of a device: TN_ERR_DEVICE if it is not open; meta has no memory. Any thread. */
TN_EXPORT tn_status tn_memory_get_stats(tn_device device, tn_memory_stats *out_stats);
TN_EXPORT tn_status tn_memory_reset_peak(tn_device device); /* peaks become what is now; of tags as well */
/* Most bytes that the cache may hold of a device; 0: no limit. A request beyond it empties the cache, then fails
 * with TN_ERR_OUT_OF_MEMORY. What is in use already stays. */
TN_EXPORT tn_status tn_memory_set_limit(tn_device device, uint64_t bytes);
/* Gives all memory that no tensor uses back to the backends. Small blocks that other threads keep for themselves
 * come back when those threads next ask for memory. */
TN_EXPORT tn_status tn_empty_cache(void);
/* Writes one JSON object a line: the device with its totals, then each segment followed by its blocks. `file` must
 * not make or free tensors of the device while it is written to. TN_ERR_IO if writing fails. */
TN_EXPORT tn_status tn_memory_snapshot(tn_device device, FILE *file);

/* Memory that this thread allocates from now on is counted under the tag (until it is freed, by whomever). NULL:
 * untagged. The tag travels to backward workers. *out_before (may be NULL) gets the tag before, to put it back;
 * names live as long as the process. There may be 255 names, of at most 63 characters. */
TN_EXPORT tn_status tn_memory_set_tag(const char *name, const char **out_before);
typedef struct tn_memory_tag_stats {
  const char *name;
  uint64_t current_bytes;
  uint64_t peak_bytes;
  uint64_t n_allocs;
} tn_memory_tag_stats;
TN_EXPORT size_t tn_memory_tag_count(void);
TN_EXPORT tn_status tn_memory_get_tag_stats(tn_device device, size_t i, tn_memory_tag_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
