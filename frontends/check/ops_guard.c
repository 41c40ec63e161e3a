/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.guard: a kernel writes its outputs and nothing else. ops.decline: a kernel that declines has written nothing.
 * Both look at every byte of the memory around a direct call.
 */
#include <stdlib.h>

#include "frontends/check/ops_direct.h"
#include "frontends/check/tools.h"

/* Marks the bytes of a tensor's elements. */
static void mark_elements(const tni_direct_tensor *t, unsigned char *marks) {
  const tn_view *v = &t->view;
  rt shape = {.nd = v->ndim, .numel = v->numel};
  int64_t index[RT_RANK];
  for (int d = 0; d < v->ndim; d++) shape.n[d] = v->sizes[d];
  for (int64_t i = 0; i < v->numel; i++) {
    int64_t at = 0;
    rt_unravel(&shape, i, index);
    for (int d = 0; d < v->ndim; d++) at += index[d] * v->strides[d];
    memset(marks + v->offset_bytes + at * v->itemsize, 1, v->itemsize);
  }
}

/* First byte that changed outside the marks (NULL: anywhere); -1: none. */
static int64_t changed(const tni_direct_call *call, const tni_direct_block *block, const unsigned char *marks) {
  unsigned char *bytes = tni_direct_bytes(call, block);
  int64_t found = -1;
  for (uint64_t i = 0; bytes && i < block->size_bytes && found < 0; i++)
    if (bytes[i] != block->image[i] && !(marks && marks[i])) found = (int64_t)i;
  free(bytes);
  return found;
}

static bool is_target(const tni_direct_call *call, const tni_direct_tensor *t) {
  for (uint32_t i = 0; i < call->n_out; i++)
    if (call->targets[i] == t) return true;
  return false;
}

static bool inputs_untouched(tni_direct_call *call, const char *when) {
  for (size_t k = 0; k < call->n_inputs; k++) {
    if (is_target(call, &call->inputs[k])) continue;
    int64_t at = changed(call, &call->inputs[k].block, NULL);
    if (at < 0) continue;
    tni_check_fail(call->d->r, call->item, "input tensor %zu was written%s, at byte %lld from its first element", k, when,
                   (long long)(at - call->inputs[k].view.offset_bytes));
    return false;
  }
  return true;
}

static bool output_kept(tni_direct_call *call, uint32_t i) {
  const tni_direct_tensor *t = call->targets[i];
  if (!t) return true;
  unsigned char *marks = tni_check_alloc(t->block.size_bytes + 1);
  mark_elements(t, marks);
  int64_t at = changed(call, &t->block, marks);
  free(marks);
  if (at < 0) return true;
  int64_t first = at - t->view.offset_bytes, size = t->view.numel * t->view.itemsize;
  tni_check_fail(call->d->r, call->item, "writes outside result %u, at byte %lld from its first element (it has %lld bytes%s)",
                 i, (long long)first, (long long)size, t->view.flags & TN_VIEW_CONTIGUOUS ? "" : ", with gaps between");
  return false;
}

static void visit_guard(tni_direct_call *call) {
  if (call->status != TN_OK) return; /* ops.decline and ops.forward see to it */
  bool good = inputs_untouched(call, "");
  for (uint32_t i = 0; i < call->n_out && good; i++) good = output_kept(call, i);
  if (good) tni_check_pass(call->d->r, call->item);
}

static void visit_decline(tni_direct_call *call) {
  if (call->status != TN_DECLINED) return;
  bool good = inputs_untouched(call, " before declining");
  for (uint32_t i = 0; i < call->n_out && good; i++) {
    if (!call->targets[i] || changed(call, &call->targets[i]->block, NULL) < 0) continue;
    tni_check_fail(call->d->r, call->item, "result %u was written before the kernel declined", i);
    good = false;
  }
  if (good) tni_check_pass(call->d->r, call->item);
}

static void run_guard(tni_check_report *r, const tni_check_context *c) {
  tni_direct_each(r, c, TNI_DIRECT_PLAIN, visit_guard);
}
static void run_decline(tni_check_report *r, const tni_check_context *c) {
  tni_direct_each(r, c, TNI_DIRECT_PLAIN, visit_decline);
}

const tni_check tni_check_ops_guard = {"ops.guard", "a kernel writes its outputs and nothing beside them",
                                       TNI_CHECK_KERNELS, 60, run_guard};
const tni_check tni_check_ops_decline = {"ops.decline", "a kernel that declines has written nothing", TNI_CHECK_KERNELS,
                                         60, run_decline};
