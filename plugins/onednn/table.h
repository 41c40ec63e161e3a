/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls go to oneDNN and how they are cut: figures measured beforehand and committed. What stands here depends
 * on shapes, layouts, dtypes and the instruction set, never on threads, time or load.
 */
#ifndef TENON_ONEDNN_TABLE_H
#define TENON_ONEDNN_TABLE_H

#include "plugins/onednn/conv_plan.h"

/* Below these others are faster: asked first, so that declining costs little. */
enum { OD_PRODUCT_LEAST = 1 << 20 };
/* Elements that the largest of the three matrices then has at least: the product of their sizes is the square of the
 * multiply-adds. Claimed, so that calls with fewer are not even asked. */
enum { OD_PRODUCT_NUMEL = 10321 };
static inline bool od_too_small(int64_t m, int64_t n, int64_t k) {
  return m == 1 || n == 1 || (double)m * (double)n * (double)k < OD_PRODUCT_LEAST;
}

/* rows first: b transposed means unit stride down its columns. */
typedef struct od_shape {
  int64_t m, n, k, batch;
  bool b_transposed;
} od_shape;

/* A result of m x n is computed in pieces of rows x columns. rows 0: not ours. */
typedef struct od_cut {
  int64_t rows, columns;
} od_cut;
od_cut od_cut_product(od_isa isa, tn_dtype dtype, const od_shape *s);
/* In init: how many processors the machine has. */
void od_cut_open(void);

/* A convolution: channels and work of one image; bytes of both images of one. */
typedef struct od_conv_shape {
  int64_t batch, groups, group_channels; /* channels of the big image in a group */
  int64_t taps;
  bool last;                              /* are the channels of both images innermost? */
  uint32_t products;                      /* what one call computes: bits 1 << od_conv_kind */
  double work, image_bytes, weight_bytes; /* multiply-adds; one image; one sum of weight gradients */
} od_conv_shape;

/* Images a piece, and into how many chunks a weight gradient's sum is cut. images 0: not ours. */
typedef struct od_images {
  int64_t images, chunks;
} od_images;
od_images od_cut_images(od_isa isa, tn_dtype dtype, const od_conv_shape *s);

#endif
