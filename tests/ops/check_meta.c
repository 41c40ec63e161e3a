/* SPDX-License-Identifier: Apache-2.0
 *
 * The same call on the meta device describes the same results: dtype, shape, strides, and which are absent.
 * What the meta rule refuses, the real call refuses, and the other way round.
 */
#include <tenon/tenon.h>

#include "case.h"

static bool same_geometry(const tn_tensor *a, const tn_tensor *b) {
  const tn_view *x = tn_tensor_view(a), *y = tn_tensor_view(b);
  bool same = x->dtype == y->dtype && x->ndim == y->ndim;
  for (int d = 0; same && d < x->ndim; d++) same = x->sizes[d] == y->sizes[d] && x->strides[d] == y->strides[d];
  return same;
}

static void compare_all(const op_case *c, const op_results *real, const op_results *meta) {
  if (real->n != meta->n) {
    finding(c, "%u results, on meta %u", real->n, meta->n);
    return;
  }
  for (uint32_t i = 0; i < real->n; i++) {
    if (!real->t[i] != !meta->t[i]) finding(c, "result %u is absent on one device only", i);
    if (!real->t[i] || !meta->t[i]) continue;
    if (!same_geometry(real->t[i], meta->t[i])) {
      const tn_view *x = tn_tensor_view(real->t[i]), *y = tn_tensor_view(meta->t[i]);
      finding(c, "result %u: %s of rank %d, first stride %lld; on meta %s of rank %d, first stride %lld", i,
              tn_dtype_name(x->dtype), x->ndim, x->ndim ? (long long)x->strides[0] : 0, tn_dtype_name(y->dtype),
              y->ndim, y->ndim ? (long long)y->strides[0] : 0);
    }
    if (tn_tensor_device(meta->t[i]).backend != TN_BACKEND_META) finding(c, "result %u left the meta device", i);
  }
}

/* Statuses that one of the two may have alone: no kernel for a dtype; sizes that only data tell. */
static bool may_differ(const op_case *c, tn_status real, tn_status meta) {
  if (meta == TN_OK) return may_decline(c->op, c->dtype, real);
  return real == TN_OK && meta == TN_ERR_UNSUPPORTED;
}

void check_meta(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  op_case real, meta;
  op_results real_out, meta_out;
  case_build(&real, op, sample, dtype, CASE_CPU);
  case_build(&meta, op, sample, dtype, CASE_META);
  tn_status real_status = case_call(&real, op, &real_out);
  tn_status meta_status = case_call(&meta, op, &meta_out);
  if (real_status == TN_OK && meta_status == TN_OK) compare_all(&real, &real_out, &meta_out);
  else if (real_status != meta_status && !may_differ(&real, real_status, meta_status))
    finding(&real, "status %d, on meta %d; last words: %s", (int)real_status, (int)meta_status, tn_error_message());
  if (real_status == TN_OK) results_release(&real_out);
  if (meta_status == TN_OK) results_release(&meta_out);
  case_release(&real);
  case_release(&meta);
}
