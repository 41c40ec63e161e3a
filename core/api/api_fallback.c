/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of tenon/fallback.h: argument checks; the work is in core/dispatch/fallback*.c.
 */
#include "core/dispatch/fallback.h"
#include "core/load/load.h"

/* *name becomes that of the functional entry. */
static tn_status find_operator(const char **name, const tn_op **out_op) {
  *out_op = NULL;
  if (!*name) return TN_OK;
  TN_TRY(tni_open_operator(*name));
  const tn_op *op = tni_op_find(*name);
  if (!op) return tni_op_unknown(*name);
  *out_op = op->functional;
  *name = op->functional->name;
  return TN_OK;
}

tn_status tn_fallback_set(const char *op, const char *device, tn_fallback_policy policy) {
  const tn_op *found;
  const char *known = NULL;
  if (!tni_fallback_word(policy))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_fallback_set: policy is %d, expected 0 to 4", (int)policy);
  TN_TRY(tni_load_init());
  TN_TRY(find_operator(&op, &found));
  if (device && !(known = tni_device_offered(device)))
    return tn_fail(TN_ERR_NOT_FOUND, "tn_fallback_set: no plugin offers a device %s", device);
  return tni_fallback_rule(op, known, policy);
}

tn_status tn_fallback_get(const char *op, const char *device, tn_fallback_policy *out_policy) {
  const tni_backend *backend;
  const tn_op *found;
  if (!device || !out_policy)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_fallback_get: %s is NULL", device ? "out_policy" : "device");
  *out_policy = TN_FALLBACK_ERROR;
  TN_TRY(tni_backend_open(device, &backend));
  TN_TRY(find_operator(&op, &found));
  tni_fallback_choice choice = tni_fallback_choose(found, backend->id);
  *out_policy = choice.whole && choice.policy == TN_FALLBACK_ALLOW ? TN_FALLBACK_WHOLE
                                                                   : (tn_fallback_policy)choice.policy;
  return TN_OK;
}

size_t tn_fallback_count(void) { return tni_fallback_counters(); }

tn_status tn_fallback_report_get(size_t i, tn_fallback_report *out_report) {
  if (!out_report) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_fallback_report_get: out_report is NULL");
  tni_fallback_count *c = tni_fallback_counter_at(i);
  if (!c)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "fallback report %zu: there are %zu", i, tni_fallback_counters());
  *out_report =
      (tn_fallback_report){.op = c->op->name,
                           .device = tni_backend_name(c->backend),
                           .calls = atomic_load_explicit(&c->calls, memory_order_relaxed),
                           .bytes_to_host = atomic_load_explicit(&c->to_host, memory_order_relaxed),
                           .bytes_from_host = atomic_load_explicit(&c->from_host, memory_order_relaxed)};
  return TN_OK;
}

void tn_fallback_reset(void) {
  for (size_t i = tni_fallback_counters(); i-- > 0;) {
    tni_fallback_count *c = tni_fallback_counter_at(i);
    atomic_store_explicit(&c->calls, 0, memory_order_relaxed);
    atomic_store_explicit(&c->to_host, 0, memory_order_relaxed);
    atomic_store_explicit(&c->from_host, 0, memory_order_relaxed);
    atomic_store_explicit(&c->warned, false, memory_order_relaxed);
  }
}
