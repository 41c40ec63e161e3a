/* SPDX-License-Identifier: Apache-2.0
 *
 * The primitives of one convolution, kept by what it is. A convolution goes from a `big` image to a `small` one; three
 * products serve everything: to_small (the forward, and the input gradient of the transposed form), to_big (the other
 * way round), to_weight.
 *
 * Note [Layouts]
 * oneDNN's kernels for channels innermost run at the multiply-add ceiling, those for row-major images at half of it.
 * So images are computed with channels innermost: a row-major operand is turned a piece at a time, which then
 * lies in the second cache. Weights, which are small, are turned into the layout that the library asks for, once a call.
 */
#ifndef TENON_ONEDNN_CONV_PLAN_H
#define TENON_ONEDNN_CONV_PLAN_H

#include "plugins/onednn/library.h"

typedef enum od_conv_kind { OD_TO_SMALL = 0, OD_TO_BIG, OD_TO_WEIGHT } od_conv_kind;

enum { OD_SPATIAL = 3 };

/* A key of the cache: no holes, unused entries 0. */
typedef struct od_conv {
  int64_t kind;            /* od_conv_kind */
  int64_t dtype;           /* TN_FLOAT32 or TN_BFLOAT16 */
  int64_t spatial;         /* 1 to OD_SPATIAL dims */
  int64_t batch;           /* images of this piece */
  int64_t batch_of_layout; /* images of the piece that decides the layout of the weights */
  int64_t groups;
  int64_t big_channels, small_channels;
  int64_t big[OD_SPATIAL], small[OD_SPATIAL], kernel[OD_SPATIAL];
  int64_t stride[OD_SPATIAL], padding[OD_SPATIAL], dilation[OD_SPATIAL];
  int64_t big_last, small_last; /* are the channels innermost in the operands as they lie? */
  int64_t weight_strides[OD_SPATIAL +
                         2]; /* of [small channels, big channels of a group, kernel...], in elements */
  int64_t bias;              /* to_small: is added; to_weight: its gradient is wanted */
} od_conv;

/* Order of run.mds. The weight gradient and the bias's are float32 there. */
enum { OD_BIG = 0, OD_SMALL, OD_WEIGHT, OD_BIAS };

typedef struct od_conv_plan {
  od_primitive run; /* handle NULL: the library has no good code for this */
  od_primitive big,
      small;           /* turn an image: into run's layout, or out of it for a result; handle NULL: lies so */
  od_primitive weight; /* into run's layout; to_weight: out of it */
} od_conv_plan;

extern const od_kind od_conv_kind_of_cache;

#endif
