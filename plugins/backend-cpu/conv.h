/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of convolution share. A convolution goes from a `big` image to a `small` one; the weight is
 * [channels of small, channels of big / groups, taps]. Three products serve everything: to small (the
 * forward, and the input gradient of the transposed form), to big (the other way round), to weight.
 *
 * Images, weight and results are row-major or have their channels innermost, all the same way (`last`).
 *
 * op_conv.c decides who computes: conv_direct.c (register tiles over the images themselves) where sizes suit
 * it, conv_columns.c (products over columns) else. Sizes alone decide, so bits do not depend on anything
 * else.
 */
#ifndef CPU_CONV_H
#define CPU_CONV_H

#include "plugins/backend-cpu/images.h"

typedef struct cpu_conv {
  cpu_window window; /* of one group */
  int64_t batch, groups;
  int64_t big_channels, small_channels, rows; /* rows: channels of small in a group */
  int64_t taps, columns;                      /* columns: taps * channels of big in a group */
  int64_t big_positions, small_positions, block;
  bool last, pointwise;
  tn_dtype dtype; /* float32 or float64 */
  size_t size;
  const cpu_gemm_kernel *gemm;
  const cpu_conv_fns *fns;
  const cpu_conv_tile *tile;
} cpu_conv;

/* What one of the three products runs over. */
typedef struct cpu_conv_work {
  cpu_conv c;
  const char *from, *other, *bias; /* bias: of what is written, or NULL */
  char *to;
} cpu_conv_work;

static inline const char *cpu_conv_weight_of(const cpu_conv *c, const char *weight, int64_t group) {
  return weight + (size_t)(group * c->rows * c->columns) * c->size;
}
/* Part i of n of the bytes that come `at` bytes after data. */
static inline cpu_ahead cpu_conv_ahead(const char *data, int64_t at, int64_t bytes, int64_t i, int64_t n) {
  return (cpu_ahead){(uintptr_t)data + (uintptr_t)(at + bytes * i / n), bytes * (i + 1) / n - bytes * i / n};
}
/* Tasks of `positions` positions of one group of small that are worth a thread. */
int64_t cpu_conv_grain(const cpu_conv *c, int64_t positions);

/* ------------------------------------------------------------------ by columns: anything */

tn_status cpu_conv_columns(tn_call *call, const cpu_conv_work *work, bool up); /* up: to big */
/* Adds the products of images [first, until) of one group to `to`, [rows][columns] in the layout's own order.
 */
size_t cpu_conv_columns_weight_scratch(const cpu_conv *c);
void cpu_conv_columns_weight(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
                             char *scratch);

/* ------------------------------------------------------------------ by tiles */

bool cpu_conv_direct_suits(const cpu_conv *c, bool up);
tn_status cpu_conv_direct(tn_call *call, const cpu_conv_work *work, bool up);
/* As with columns, but `to` is [rows][taps][channels] whatever the layout. */
bool cpu_conv_direct_weight_suits(const cpu_conv *c);
size_t cpu_conv_direct_weight_scratch(const cpu_conv *c);
void cpu_conv_direct_weight(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
                            char *scratch);
/* The same for few channels of big. */
bool cpu_conv_direct_few_suits(const cpu_conv *c);
size_t cpu_conv_direct_few_scratch(const cpu_conv *c);
void cpu_conv_direct_few(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
                         char *scratch);

#endif
