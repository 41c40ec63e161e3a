/* SPDX-License-Identifier: Apache-2.0
 *
 * The module object and the walk over its tree, for the files of this folder.
 */
#ifndef TENON_NN_MODULE_INT_H
#define TENON_NN_MODULE_INT_H

#include <stdatomic.h>
#include <tenon/nn.h>

#include "frontends/c/src/support.h"

enum { TNI_NN_PARAMETER = 0, TNI_NN_BUFFER = 1, TNI_NN_BUFFER_TRANSIENT = 2 };

typedef struct tni_nn_entry {
  char *name;
  tn_tensor *tensor; /* NULL: registered as absent */
  int32_t kind;      /* TNI_NN_... */
} tni_nn_entry;

typedef struct tni_nn_child {
  char *name;
  tn_module *module;
} tni_nn_child;

struct tn_module {
  _Atomic uint32_t refs;
  bool training;
  tn_module_def def;
  void *ctx;
  tni_nn_entry *entries; /* parameters and buffers in order of registration */
  size_t n_entries, entries_capacity;
  tni_nn_child *children;
  size_t n_children, children_capacity;
  tn_tensor **parameters; /* what tn_module_parameters lent last */
};

/* Calls fn for every present entry of the tree, own ones before children's; name is the full one. */
typedef tn_status (*tni_nn_walk_fn)(void *ctx, const char *name, tni_nn_entry *entry);
tn_status tni_nn_walk(tn_module *module, tni_nn_walk_fn fn, void *ctx);

/* What tn_module_load_state_dict checks before it copies. */
tn_status tni_nn_state_dict_fits(tn_module *module, const tn_state_dict *dict, bool strict);

/* For forward functions: TN_ERR_INVALID_ARGUMENT unless n_inputs is 1. */
tn_status tni_nn_one_input(const tn_module *self, size_t n_inputs);
/* For forward functions: ends a scope and hands its result (NULL after a failure) out as an owned handle. */
tn_status tni_nn_scope_result(tn_scope *scope, tn_tensor *result, tn_tensor **out_result);

/* ------------------------------------------------------------------ for constructors (layers.c) */

/* Makes an uninitialised tensor, gives it to the module as a parameter, and lends it for initialising. */
tn_status tni_nn_make_parameter(tn_module *m, const char *name, const tn_dim *sizes, size_t ndim,
                                const tn_options *options, tn_tensor **out_borrowed);
/* The end of every constructor: hands the module out or drops it. */
tn_status tni_nn_finish(tn_status status, tn_module *m, tn_module **out_module);
/* TN_ERR_INVALID_ARGUMENT unless value >= least. */
tn_status tni_nn_at_least(const char *module, const char *what, int64_t value, int64_t least);
/* "weight" of ones and "bias" of zeros, of the given sizes; affine false: both absent; with_bias false: no entry
 * "bias" at all. */
tn_status tni_nn_add_affine(tn_module *m, const tn_dim *sizes, size_t ndim, bool affine, bool with_bias,
                            const tn_options *options);
/* Makes an owned child under a name of m. child is consumed (NULL after a failed status, which is handed on). */
tn_status tni_nn_take_child(tn_status status, tn_module *m, const char *name, tn_module *child);

#endif
