/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory beside the threads that work on it. The system places a page on the node of the thread that first writes it;
 * regions give chunk i of a large operand to worker i each time, so each worker first writes its part of a fresh block.
 */
#include "core/base/parallel_int.h"
#include "core/base/topology.h"

/* Below this a block fits a cache, and one thread often does the whole operator. Pages are at least this large. */
enum { TOUCH_LEAST_BYTES = 4 << 20, PAGE_BYTES = 4096, GRAIN_PAGES = 512 };

static tn_status touch(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)worker;
  volatile char *at = ctx;
  for (int64_t i = begin; i < end; ++i) at[i * PAGE_BYTES] = 0;
  return TN_OK;
}

void tni_parallel_first_touch(void *address, uint64_t bytes) {
  if (!address || bytes < TOUCH_LEAST_BYTES || tni_parallel_threads() < 2 || tni_topology_get()->n_nodes < 2)
    return;
  (void)tni_parallel_for((int64_t)(bytes / PAGE_BYTES), GRAIN_PAGES, touch, address); /* touch cannot fail */
}
