/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking things out of the operator table that calls may still hold: kernels of a plugin, operators that it added, and
 * at exit everything. Nothing is freed here: cells, kernels and operators that a running call, a node or an
 * application's handle points to stay until the process ends. Registry lock held throughout.
 */
#include "core/dispatch/dispatch.h"
#include "core/dispatch/row.h"
#include "core/load/load.h"

/* ------------------------------------------------------------------ kernels */

/* Unlinks the plugin's kernels of one operator into *out_list; true if there were any. */
static bool unlink_kernels(tn_op *op, const char *plugin, tni_kernel **out_list) {
  *out_list = NULL;
  for (tni_kernel **at = &op->kernels; *at;) {
    tni_kernel *k = *at;
    if (strcmp(k->plugin, plugin) != 0) {
      at = &k->next;
      continue;
    }
    *at = k->next;
    k->next = *out_list;
    *out_list = k;
  }
  return *out_list != NULL;
}

static void link_kernels(tn_op *op, tni_kernel *list) {
  while (list) {
    tni_kernel *k = list;
    list = k->next;
    k->next = op->kernels;
    op->kernels = k;
  }
}

static tni_kernel *retired_kernels; /* reachable, as the calls that run them may not be */

static void keep_kernels(tni_kernel *list) {
  while (list) {
    tni_kernel *k = list;
    list = k->next;
    k->next = retired_kernels;
    retired_kernels = k;
  }
}

/* Cells that are reset are built again at their next call, so putting the kernels back is all that undoing takes. */
static tn_status reset_rows(tn_op *op, const tni_kernel *list) {
  for (const tni_kernel *k = list; k; k = k->next) TN_TRY(tni_rows_reset(op, k->bit));
  return TN_OK;
}

tn_status tni_kernels_retire(const char *plugin) {
  struct {
    tn_op *op;
    tni_kernel *list;
  } *taken = NULL;
  size_t n = 0, capacity = 0;
  tn_status status = TN_OK;
  for (size_t i = 0; i < tni_op_count() && status == TN_OK; ++i) {
    tni_kernel *list;
    status = tni_grow(&taken, &capacity, n, sizeof *taken);
    if (status != TN_OK || !unlink_kernels(tni_op_at(i), plugin, &list)) continue;
    taken[n].op = tni_op_at(i);
    taken[n++].list = list;
    status = reset_rows(tni_op_at(i), list);
  }
  for (size_t i = 0; status != TN_OK && i < n; ++i) link_kernels(taken[i].op, taken[i].list);
  for (size_t i = 0; status == TN_OK && i < n; ++i) keep_kernels(taken[i].list);
  tni_free(taken);
  return status;
}

size_t tni_kernels_of_others(const tn_op *op, const char *plugin, const char **out_other) {
  size_t n = 0;
  for (const tni_kernel *k = op->kernels; k; k = k->next) {
    if (strcmp(k->plugin, plugin) == 0 || (k->flags & TN_KERNEL_LAYER_FALLBACK)) continue;
    *out_other = k->plugin;
    ++n;
  }
  return n;
}

/* ------------------------------------------------------------------ operators that went */

static tn_status answer_retired(tn_call *call, const tn_value *args, tn_value *out) {
  (void)args, (void)out;
  return tn_fail(TN_ERR_STATE, "operator %s is gone: its plugin was unloaded", call->op->name);
}

static const tni_cell retired_cell = {.fn = answer_retired};
static const tni_row retired_row = {.mask = UINT64_MAX, .cells = {[0 ... 63] = &retired_cell}};
static tn_op **retired_ops; /* reachable, as their holders may not be */
static size_t n_retired, retired_capacity;

tn_status tni_op_retire_prepare(size_t n) {
  for (size_t i = 0; i < n; ++i)
    TN_TRY(tni_grow(&retired_ops, &retired_capacity, n_retired + i, sizeof *retired_ops));
  return TN_OK;
}

void tni_op_retire(tn_op *op) {
  retired_ops[n_retired++] = op;
  tni_op_unlist(op);
  tni_row_retire(op, &retired_row);
}

/* ------------------------------------------------------------------ exit */

static tn_status answer_exiting(tn_call *call, const tn_value *args, tn_value *out) {
  (void)args, (void)out;
  TN_TRY(tni_may_dispatch());
  return tn_fail(TN_ERR_STATE, "the process is ending: %s cannot be called any more", call->op->name);
}

static const tni_cell exit_cell = {.fn = answer_exiting};
const tni_row tni_exit_row = {.mask = UINT64_MAX, .cells = {[0 ... 63] = &exit_cell}};

void tni_rows_end(void) { tni_rows_cover(&tni_exit_row); }
