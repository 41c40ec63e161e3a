/* SPDX-License-Identifier: Apache-2.0
 *
 * What "@NAME@" offers to other plugins: host->find_interface("@NAME@.counts", 1, &table) gives a @IDENT@_counts.
 */
#ifndef @UPPER@_H
#define @UPPER@_H

#include <tenon/types.h>

#define @UPPER@_COUNTS "@NAME@.counts"
#define @UPPER@_COUNTS_VERSION 1

/* Any thread. Calls of all threads since the start or the last reset. */
typedef struct @IDENT@_counts {
  uint32_t struct_size;
  uint32_t reserved;
  /* Calls row(ctx, operator, calls) for each operator that was called, the most called one first. The names live as long
   * as the process. TN_ERR_OUT_OF_MEMORY: nothing was called. */
  tn_status (*read)(void (*row)(void *ctx, const char *op, uint64_t calls), void *ctx);
  void (*reset)(void);
} @IDENT@_counts;

#endif
