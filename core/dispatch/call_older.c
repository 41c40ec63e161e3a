/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by whoever knew an operator when it had fewer arguments.
 *
 * Note [Appended arguments]
 * A schema may grow by arguments with defaults. A plugin that was built before passes arrays of the old length, and
 * nothing in an array says how long it is. So host->call means, for ever, the arguments of the schema that was first
 * published; what was appended gets its default here. Who gives more says how many (host->call_n). The targets of an
 * out form stand behind all of them, so values are put in between.
 *
 * A layer hands on either the array that it was given, which is whole, or one of its own, which is as for host->call.
 * Which of the two is told by the address: tni_layer_step keeps the array's in tn_call.core. Operators that never
 * grew, which is the rule, pay one comparison.
 */
#include "core/dispatch/dispatch_int.h"

static tn_status fail_count(const tn_op *op, uint32_t n_args) {
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s takes %d to %d arguments here, got %u", op->name,
                 op->n_args - op->n_appended, op->n_args, n_args);
}

/* Values beyond what this host's operator takes: only absent ones can be left out. */
static tn_status shorten(const tn_op *op, const tn_value *args, uint32_t n_args, uint32_t n_targets, tn_value *out_full) {
  uint32_t n_plain = op->n_args - n_targets, n_beyond = n_args - op->n_args;
  for (uint32_t i = n_plain; i < n_plain + n_beyond; ++i)
    if (args[i].kind != TN_VAL_NONE)
      return tn_fail(TN_ERR_UNSUPPORTED, "%s takes %d arguments in this host; the caller gives argument %u a value",
                     op->name, op->n_args, i);
  memcpy(out_full, args, n_plain * sizeof *args);
  memcpy(out_full + n_plain, args + n_plain + n_beyond, n_targets * sizeof *args);
  return TN_OK;
}

/* All values of op's schema from the n_args that the caller knew. */
static tn_status complete(const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out_full) {
  uint32_t n_targets = op->form == TN_FORM_OUT ? (uint32_t)(op->n_args - op->functional->n_args) : 0;
  if (n_args > op->n_args) return shorten(op, args, n_args, n_targets, out_full);
  uint32_t n_missing = op->n_args - n_args;
  if (n_missing > op->n_appended) return fail_count(op, n_args);
  uint32_t n_plain = n_args - n_targets;
  memcpy(out_full, args, n_plain * sizeof *args);
  for (uint32_t i = n_plain; i < n_plain + n_missing; ++i) out_full[i] = op->schema->args[i].default_value;
  memcpy(out_full + n_plain + n_missing, args + n_plain, n_targets * sizeof *args);
  return TN_OK;
}

tn_status tni_call_n(const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out) {
  if (TNI_LIKELY(n_args == op->n_args)) return tni_call(op, args, out);
  tn_value full[TNI_MAX_ARGS];
  TN_TRY(complete(op, args, n_args, full));
  return tni_call(op, full, out);
}

tn_status tni_call_first(const tn_op *op, const tn_value *args, tn_value *out) {
  return tni_call_n(op, args, (uint32_t)(op->n_args - op->n_appended), out);
}

tn_status tni_redispatch_n(tn_call *call, const tn_value *args, uint32_t n_args, tn_value *out) {
  if (TNI_LIKELY(n_args == call->op->n_args)) return tni_redispatch(call, args, out);
  tn_value full[TNI_MAX_ARGS];
  TN_TRY(complete(call->op, args, n_args, full));
  return tni_redispatch(call, full, out);
}

tn_status tni_redispatch_first(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  if (TNI_LIKELY(!op->n_appended) || args == call->core) return tni_redispatch(call, args, out);
  return tni_redispatch_n(call, args, (uint32_t)(op->n_args - op->n_appended), out);
}

