/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of suite train: parameters, an optimiser, and a function from the batch to the loss.
 */
#ifndef TENON_CLI_BENCH_MODEL_H
#define TENON_CLI_BENCH_MODEL_H

#include <tenon/optim.h>

#include "frontends/cli/bench.h"

enum { TNI_BENCH_PARAMETERS = 64 };

typedef struct tni_bench_model {
  tn_module *module; /* holds the parameters of a model made of modules, or NULL */
  tn_tensor *p[TNI_BENCH_PARAMETERS];
  size_t n; /* of p, which the model owns */
  tn_optimizer *optimizer;
  /* Inside the caller's scope; NULL after a failure, which the scope has noted. */
  tn_tensor *(*loss)(struct tni_bench_model *model, tn_tensor *input, tn_tensor *target);
} tni_bench_model;

/* Each makes model and batch: input in slot 0, targets in slot 1. which->size is the batch. */
tn_status tni_bench_convnet(tni_bench *bench, tni_bench_model *model);
tn_status tni_bench_transformer(tni_bench *bench, tni_bench_model *model);

#endif
