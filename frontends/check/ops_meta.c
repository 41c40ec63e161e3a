/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.meta: the same call on the meta device describes the same results: dtype, shape, strides, and which are absent.
 * What the meta rule refuses, the real call refuses, and the other way round. Results share no memory with arguments
 * unless the schema says so.
 */
#include <stdio.h>

#include "frontends/check/opcheck.h"

static void describe(char *to, size_t size, const tn_tensor *t) {
  const tn_view *v = tn_tensor_view(t);
  size_t n = (size_t)snprintf(to, size, "%s of sizes [", tn_dtype_name(v->dtype));
  for (int pass = 0; pass < 2; pass++) {
    for (int d = 0; d < v->ndim && n < size; d++)
      n += (size_t)snprintf(to + n, size - n, "%s%lld", d ? "," : "", (long long)(pass ? v->strides[d] : v->sizes[d]));
    if (n < size) n += (size_t)snprintf(to + n, size - n, "%s", pass ? "]" : "] and strides [");
  }
}

static bool same_geometry(const tn_tensor *a, const tn_tensor *b) {
  const tn_view *x = tn_tensor_view(a), *y = tn_tensor_view(b);
  bool same = x->dtype == y->dtype && x->ndim == y->ndim;
  for (int d = 0; same && d < x->ndim; d++) same = x->sizes[d] == y->sizes[d] && x->strides[d] == y->strides[d];
  return same;
}

static bool shares_memory(const tni_ops_case *c, const tn_tensor *t) {
  for (size_t i = 0; i < c->n_tensors; i++)
    if (tn_tensor_numel(t) && tn_tensor_view(c->tensors[i])->storage == tn_tensor_view(t)->storage) return true;
  return false;
}

/* By its schema, or because it may return its input (`dropout` outside training). */
static bool may_alias(const tni_ops_op *op, uint32_t i) {
  const tni_schema *s = op->schema;
  if (op->report.flags & TN_OP_ALWAYS_BODY) return true;
  return s->results[op->list_result ? 0 : i].alias != 0;
}

static bool result_good(tni_ops_try *t, const tni_ops_case *real, uint32_t i, const tn_tensor *x, const tn_tensor *y) {
  char real_words[160], meta_words[160];
  if (!x != !y) {
    tni_check_fail(t->r, t->item, "result %u is absent %s", i, x ? "on meta only" : "on the device only");
    return false;
  }
  if (!x) return true;
  if (!same_geometry(x, y)) {
    describe(real_words, sizeof real_words, x);
    describe(meta_words, sizeof meta_words, y);
    tni_check_fail(t->r, t->item, "result %u is %s; on meta %s", i, real_words, meta_words);
    return false;
  }
  if (!may_alias(t->op, i) && shares_memory(real, x)) {
    tni_check_fail(t->r, t->item, "result %u shares an argument's memory, which the schema does not say", i);
    return false;
  }
  return true;
}

static void compare(tni_ops_try *t, const tni_ops_case *c, const tni_ops_results *real, const tni_ops_results *meta) {
  if (real->n != meta->n) {
    tni_check_fail(t->r, t->item, "%u results, on meta %u", real->n, meta->n);
    return;
  }
  for (uint32_t i = 0; i < real->n; i++)
    if (!result_good(t, c, i, real->t[i], meta->t[i])) return;
  tni_check_pass(t->r, t->item);
}

static void call_both(tni_ops_try *t, tni_ops_case *real, tni_ops_case *meta) {
  tni_ops_results r, m;
  tn_status real_status = tni_ops_call(real, t->op, &r);
  char words[TNI_OPS_WORDS];
  snprintf(words, sizeof words, "%s", tn_error_message());
  tn_status meta_status = tni_ops_call(meta, t->op, &m);
  if (real_status == TN_OK && meta_status == TN_OK) compare(t, real, &r, &m);
  else if (meta_status == TN_ERR_UNSUPPORTED)
    tni_check_skip(t->r, t->item, "%s", tn_error_message()); /* sizes that only data tell */
  else if (real_status == TN_OK)
    tni_check_fail(t->r, t->item, "the call succeeds; on meta it fails: %s", tn_error_message());
  else if (real_status == meta_status)
    tni_check_pass(t->r, t->item);
  else
    tni_check_skip(t->r, t->item, "the call fails, which ops.forward judges: %s", words);
  if (real_status == TN_OK) tni_ops_results_release(&r);
  if (meta_status == TN_OK) tni_ops_results_release(&m);
}

void tni_ops_try_meta(tni_ops_try *t) {
  tni_ops_case real, meta;
  if (!tni_check_ok(t->r, tni_ops_case_make(&real, t->op, t->sample, t->dtype, t->device, TNI_OPS_AS_SAMPLE), t->item,
                    "its arguments cannot be made"))
    return;
  if (tni_check_ok(t->r, tni_ops_case_make(&meta, t->op, t->sample, t->dtype, t->device, TNI_OPS_META), t->item,
                   "its arguments cannot be made on meta")) {
    call_both(t, &real, &meta);
    tni_ops_case_release(&meta);
  }
  tni_ops_case_release(&real);
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_ops_each(r, c, TN_DTYPES_ALL, tni_ops_try_meta); }

const tni_check tni_check_ops_meta = {"ops.meta", "shape, strides, dtype and aliasing are as the meta rule says",
                                      TNI_CHECK_KERNELS, 60, run};
