/* SPDX-License-Identifier: Apache-2.0
 *
 * A network of two layers that learns for a few steps: what autograd.train and the layer checks compare.
 */
#ifndef TENON_CHECK_TRAIN_H
#define TENON_CHECK_TRAIN_H

#include "frontends/check/check.h"

enum {
  TNI_TRAIN_IN = 8,
  TNI_TRAIN_HIDDEN = 12,
  TNI_TRAIN_OUT = 4,
  TNI_TRAIN_STEPS = 5,
  TNI_TRAIN_N1 = TNI_TRAIN_IN * TNI_TRAIN_HIDDEN,
  TNI_TRAIN_N2 = TNI_TRAIN_HIDDEN * TNI_TRAIN_OUT
};

/* Gradients of each step, then the weights. */
typedef struct tni_train_history {
  float grad1[TNI_TRAIN_STEPS][TNI_TRAIN_N1], grad2[TNI_TRAIN_STEPS][TNI_TRAIN_N2];
  float weight1[TNI_TRAIN_N1], weight2[TNI_TRAIN_N2];
} tni_train_history;

/* The same numbers each time, on a device of float32. */
tn_status tni_train_run(tn_device device, tni_train_history *out_history);

#endif
