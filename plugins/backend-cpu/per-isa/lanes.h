/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and other folds over contiguous elements, spread over a fixed number of lanes.
 *
 * Note [64 lanes]
 * Element i of a fold goes to lane i % 64 and the lanes are joined as a tree, on every instruction set. So
 * the compiler may vectorise (no lane depends on another), rounding errors grow with n / 64, and the
 * result depends on n alone, not on alignment or vector width. Sums of float32 and halves run in double:
 * loads bound them anyway.
 */
#ifndef CPU_PER_ISA_LANES_H
#define CPU_PER_ISA_LANES_H

#include "plugins/backend-cpu/simd/vec.h"

enum { LANES = 64 };

/* Folds x[0 .. n) of type S into acc of type A: READ(x) widens an element, JOIN(a, b) joins two partial
 * results, ADD(a, v) an element into one; start is what leaves JOIN unchanged. */
#define LANES_FOLD(A, S, READ, ADD, JOIN, start, x, n, acc)                   \
  do {                                                                        \
    const S *lanes_x_ = (x);                                                  \
    int64_t lanes_n_ = (n), lanes_i_ = 0;                                     \
    A lane[LANES];                                                            \
    if (lanes_n_ < LANES) {                                                   \
      lane[0] = (start);                                                      \
      for (; lanes_i_ < lanes_n_; ++lanes_i_) {                               \
        const A lanes_v_ = (A)READ(lanes_x_[lanes_i_]);                       \
        lane[0] = ADD(lane[0], lanes_v_);                                     \
      }                                                                       \
      (acc) = JOIN((acc), lane[0]);                                           \
      break;                                                                  \
    }                                                                         \
    for (int j = 0; j < LANES; ++j) lane[j] = (start);                        \
    for (; lanes_i_ + LANES <= lanes_n_; lanes_i_ += LANES)                   \
      for (int j = 0; j < LANES; ++j) {                                       \
        const A lanes_v_ = (A)READ(lanes_x_[lanes_i_ + j]);                   \
        lane[j] = ADD(lane[j], lanes_v_);                                     \
      }                                                                       \
    for (int j = 0; lanes_i_ + j < lanes_n_; ++j) {                           \
      const A lanes_v_ = (A)READ(lanes_x_[lanes_i_ + j]);                     \
      lane[j] = ADD(lane[j], lanes_v_);                                       \
    }                                                                         \
    for (int half = LANES / 2; half; half /= 2)                               \
      for (int j = 0; j < half; ++j) lane[j] = JOIN(lane[j], lane[j + half]); \
    (acc) = JOIN((acc), lane[0]);                                             \
  } while (0)

#define LANES_PLUS(a, v) ((a) + (v))
#define LANES_PLAIN(x)   (x)

#endif
