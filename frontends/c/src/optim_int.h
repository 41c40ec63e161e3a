/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimiser object, for the files of this folder.
 *
 * One flat array of parameters; a group is a range of it. What differs between kinds is a table of option
 * fields, the names of the state slots, and one function that runs the fused operator.
 */
#ifndef TENON_NN_OPTIM_INT_H
#define TENON_NN_OPTIM_INT_H

#include <tenon/optim.h>

#include "frontends/c/src/support.h"

enum { TNI_NN_SLOTS = 3 };

typedef struct tni_nn_param {
  tn_tensor *tensor;              /* owned handle */
  tn_tensor *slots[TNI_NN_SLOTS]; /* NULL until the first step that needs them */
  tn_tensor *step_tensor;         /* 0-d float32, what the fused operator reads */
  int64_t step;                   /* steps done */
} tni_nn_param;

typedef union tni_nn_options {
  tn_sgd_options sgd;
  tn_adam_options adam;
  tn_rmsprop_options rmsprop;
} tni_nn_options;

typedef struct tni_nn_group {
  tni_nn_options options;
  double initial_lr;
  size_t first, count;
} tni_nn_group;

/* One option as state dicts and checks see it. */
typedef struct tni_nn_field {
  const char *name;
  size_t offset;    /* in tni_nn_options */
  bool is_bool;     /* else a double */
  double low, high; /* allowed: low <= value, value < high (or infinite high) */
} tni_nn_field;

typedef struct tni_nn_kind {
  const char *name;
  const tni_nn_field *fields; /* ends with name NULL; the first is lr */
  const char *slots[TNI_NN_SLOTS];
  /* Makes the state that a step of the group needs: those slots of parameters with gradients, and step tensors. */
  tn_status (*prepare)(tn_optimizer *optimizer, tni_nn_group *group);
  /* Updates the parameters of one group that have gradients, after prepare. */
  tn_status (*step)(tn_optimizer *optimizer, tni_nn_group *group);
  tn_status (*check)(const tni_nn_options *options); /* beyond ranges; may be NULL */
} tni_nn_kind;

struct tn_optimizer {
  const tni_nn_kind *kind;
  tni_nn_group *groups;
  size_t n_groups, groups_capacity;
  tni_nn_param *params;
  size_t n_params, params_capacity;
  /* Argument lists of the fused operator, n_params entries each: made when a group is added. */
  tn_tensor **lists[3 + TNI_NN_SLOTS];
};

extern const tni_nn_kind tni_nn_sgd, tni_nn_adam, tni_nn_adamw, tni_nn_rmsprop;

static inline double tni_nn_field_get(const tni_nn_field *f, const tni_nn_options *o) {
  const char *p = (const char *)o + f->offset;
  return f->is_bool ? (double)*(const bool *)p : *(const double *)(const void *)p;
}

/* Range checks of every field, then the kind's own. */
tn_status tni_nn_options_check(const tni_nn_kind *kind, const tni_nn_options *options);

#endif
