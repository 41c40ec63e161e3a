/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over chosen dims: two iterations, kept dims outside and reduced dims inside. Outputs are never
 * shared between threads, so that the order of each sum is fixed by shapes alone.
 */
#include "iter_int.h"

#include <tenon/kit/shape.h>

/* Strides of the outputs for kept dim number `kept` that is input dim d, or refuses the output's shape. */
static tn_status output_strides(uint32_t n_outputs, const tn_view *const *outputs, const tn_view *input,
                                uint32_t d, uint32_t kept, int64_t *strides) {
  for (uint32_t k = 0; k < n_outputs; k++) {
    const tn_view *v = outputs[k];
    uint32_t at = v->ndim == input->ndim ? d : kept;
    if (v->sizes[at] != input->sizes[d]) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                     "a reduction's output of shape %s does not fit an input of shape %s",
                     tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT),
                     tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT));
    }
    strides[k] = v->strides[at] * v->itemsize;
  }
  return TN_OK;
}

static tn_status check_outputs(uint64_t mask, uint32_t n_outputs, const tn_view *const *outputs,
                               const tn_view *input) {
  tn_dim kept[TN_MAX_RANK], flat[TN_MAX_RANK];
  uint32_t n_kept, n_flat;
  if (n_outputs == 0 || n_outputs >= TN_ITER_MAX_OPERANDS) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "a reduction takes 1 to %d outputs, found %u",
                   TN_ITER_MAX_OPERANDS - 1, n_outputs);
  }
  tn_shape_reduce(input->ndim, input->sizes, mask, true, &n_kept, kept);
  tn_shape_reduce(input->ndim, input->sizes, mask, false, &n_flat, flat);
  for (uint32_t k = 0; k < n_outputs; k++) {
    const tn_view *v = outputs[k];
    if (!tn_shape_equal(v->ndim, v->sizes, n_kept, kept) &&
        !tn_shape_equal(v->ndim, v->sizes, n_flat, flat)) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "a reduction of shape %s gives %s, the output has %s",
                     tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT),
                     tn_shape_format(n_flat, flat, TN_SHAPE_TEXT),
                     tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT));
    }
    if (v->numel > 0 && (!v->data || (input->numel > 0 && !input->data))) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                     "a reduction was asked for over memory that host code cannot read");
    }
  }
  return TN_OK;
}

tn_status tn_reduce_init(tn_reduce *r, uint64_t mask, uint32_t n_outputs, const tn_view *const *outputs,
                         const tn_view *input, uint32_t flags) {
  TN_TRY(check_outputs(mask, n_outputs, outputs, input));
  tni_iter_begin(&r->outer, n_outputs, n_outputs + 1, 0);
  tni_iter_begin(&r->inner, 0, 1, flags);
  for (uint32_t k = 0; k < n_outputs; k++) r->outer.data[k] = (char *)outputs[k]->data;
  r->outer.data[n_outputs] = (char *)input->data;
  r->inner.data[0] = (char *)input->data;
  uint32_t kept = 0;
  for (uint32_t d = 0; d < input->ndim; d++) {
    /* An empty input is never read; its address may be NULL, which may not move. */
    int64_t stride = input->numel ? input->strides[d] * input->itemsize : 0;
    if (mask >> d & 1) {
      tni_iter_add_dim(&r->inner, input->sizes[d], &stride);
      continue;
    }
    int64_t strides[TN_ITER_MAX_OPERANDS];
    TN_TRY(output_strides(n_outputs, outputs, input, d, kept++, strides));
    strides[n_outputs] = stride;
    tni_iter_add_dim(&r->outer, input->sizes[d], strides);
  }
  tni_iter_finish(&r->outer);
  tni_iter_finish(&r->inner);
  /* A reduced dim that walks backwards was turned, so that it begins elsewhere: for every output alike. */
  r->outer.data[n_outputs] += r->inner.data[0] - (char *)input->data;
  r->inner.data[0] = NULL;
  return TN_OK;
}

typedef struct reduce_ctx {
  const tn_iter *inner;
  tn_reduce_fn fn;
  void *ctx;
} reduce_ctx;

static void reduce_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const reduce_ctx *r = (const reduce_ctx *)ctx;
  r->fn(r->ctx, data, strides, n, r->inner);
}

tn_status tn_reduce_run(const tn_reduce *r, int64_t grain, tn_reduce_fn fn, void *ctx) {
  reduce_ctx run = {&r->inner, fn, ctx};
  int64_t inner = r->inner.numel > 0 ? r->inner.numel : 1;
  if (grain > 0) grain = grain / inner > 0 ? grain / inner : 1;
  return tn_iter_run(&r->outer, grain, reduce_row, &run);
}
