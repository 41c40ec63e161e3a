/* SPDX-License-Identifier: Apache-2.0
 *
 * Free blocks by size: eight bins a doubling, found through bit masks, so a request looks at one or two bins.
 *
 * Within a bin the search is bounded: a bin full of blocks that are a little too small costs no more than that.
 * What follows from it is a fit that is at most a bin's width worse than the best.
 */
#include "core/memory/memory_int.h"

enum { SCANNED_MOST = 32, ROW_FIRST = 8 /* 256 bytes */ };

static unsigned bin_of(uint64_t size) {
  unsigned log = 63 - (unsigned)__builtin_clzll(size | 256);
  if (log - ROW_FIRST >= TNI_BIN_ROWS) return TNI_BIN_ROWS * TNI_BIN_COLUMNS - 1;
  return (log - ROW_FIRST) * TNI_BIN_COLUMNS + (unsigned)(size >> (log - 3) & (TNI_BIN_COLUMNS - 1));
}

void tni_bins_put(tni_bins *bins, tni_memory_block *block) {
  unsigned bin = bin_of(block->size), row = bin / TNI_BIN_COLUMNS, column = bin % TNI_BIN_COLUMNS;
  tni_memory_block **head = &bins->heads[row][column];
  block->previous = NULL;
  block->next = *head;
  if (*head) (*head)->previous = block;
  *head = block;
  bins->columns[row] |= (uint8_t)(1u << column);
  bins->rows |= (uint64_t)1 << row;
  atomic_store_explicit(&block->state, TNI_MEMORY_FREE, memory_order_relaxed);
}

void tni_bins_take(tni_bins *bins, tni_memory_block *block) {
  unsigned bin = bin_of(block->size), row = bin / TNI_BIN_COLUMNS, column = bin % TNI_BIN_COLUMNS;
  if (block->next) block->next->previous = block->previous;
  if (block->previous) {
    block->previous->next = block->next;
  } else {
    bins->heads[row][column] = block->next;
    if (!block->next) bins->columns[row] &= (uint8_t) ~(1u << column);
    if (!bins->columns[row]) bins->rows &= ~((uint64_t)1 << row);
  }
  block->next = block->previous = NULL;
  atomic_store_explicit(&block->state, TNI_MEMORY_LIVE, memory_order_relaxed);
}

/* First bin from `bin` on that has a block; -1: none. */
static int next_bin(const tni_bins *bins, unsigned bin) {
  unsigned row = bin / TNI_BIN_COLUMNS, column = bin % TNI_BIN_COLUMNS;
  if (row >= TNI_BIN_ROWS) return -1;
  unsigned columns = bins->columns[row] & (0xffu << column);
  if (!columns) {
    uint64_t rows = bins->rows & ~(((uint64_t)2 << row) - 1);
    if (!rows) return -1;
    row = (unsigned)__builtin_ctzll(rows);
    columns = bins->columns[row];
  }
  return (int)(row * TNI_BIN_COLUMNS) + __builtin_ctz(columns);
}

static tni_memory_block *best_of(tni_memory_block *block, uint64_t size, uint64_t freed) {
  tni_memory_block *best = NULL;
  for (int n = 0; block && n < SCANNED_MOST; ++n, block = block->next) {
    if (block->size < size || block->freed > freed || (best && best->size <= block->size)) continue;
    best = block;
    if (best->size == size) break;
  }
  return best;
}

tni_memory_block *tni_bins_find(const tni_bins *bins, uint64_t size, uint64_t most, uint64_t freed) {
  for (int bin = next_bin(bins, bin_of(size)); bin >= 0; bin = next_bin(bins, (unsigned)bin + 1)) {
    tni_memory_block *best = best_of(bins->heads[bin / TNI_BIN_COLUMNS][bin % TNI_BIN_COLUMNS], size, freed);
    if (best) return best->size <= most ? best : NULL;
  }
  return NULL;
}
