/* SPDX-License-Identifier: Apache-2.0
 *
 * Who would run an operator on a device for a dtype, who lost, and why: one sentence a line, in the order in
 * which the providers would be asked. Opens the device and the providers, as the call itself would.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/dispatch/fallback.h"
#include "core/load/load_int.h"

typedef struct answer {
  const tn_op *op;
  const char *device;
  tn_dtype dtype;
  void (*line)(void *ctx, const char *words);
  void *ctx;
  const tni_kernel **chain;
  size_t n_chain;
} answer;

static tn_status say(const answer *a, const char *format, ...) TN_PRINTF(2, 3);
static tn_status say(const answer *a, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *words;
  int n = vasprintf(&words, format, args);
  va_end(args);
  if (n < 0) return tni_oom(0, "a line of words");
  a->line(a->ctx, words);
  free(words);
  return TN_OK;
}

static tn_status collect_chain(answer *a, uint8_t bit) {
  size_t capacity = 0;
  tn_status status = TN_OK;
  tni_registry_lock();
  for (const tni_kernel *k = a->op->functional->kernels; k && status == TN_OK; k = k->next) {
    if (k->bit != bit) continue;
    status = tni_grow(&a->chain, &capacity, a->n_chain, sizeof *a->chain);
    if (status != TN_OK) break;
    size_t at = a->n_chain++;
    for (; at && tni_kernel_before(k, a->chain[at - 1]); --at) a->chain[at] = a->chain[at - 1];
    a->chain[at] = k;
  }
  tni_registry_unlock();
  return status;
}

/* "backend-cpu (priority 0, op_binary.c:12)" */
static tn_status say_kernel(const answer *a, const tni_kernel *k, const char *verdict, const char *why) {
  char limit[32] = "", least[64] = "", most[64] = "";
  if (k->max_rank < TN_MAX_RANK) snprintf(limit, sizeof limit, ", up to rank %u", k->max_rank);
  if (k->min_numel > 1) snprintf(least, sizeof least, ", from %lld elements on", (long long)k->min_numel);
  if (k->max_numel < INT64_MAX) snprintf(most, sizeof most, ", up to %lld elements", (long long)k->max_numel);
  return say(a, "%s on %s for %s: %s%s (priority %d%s, %s:%u)%s%s%s", a->op->name, a->device,
             tn_dtype_name(a->dtype), k->plugin, verdict, (int)k->priority, limit, k->file ? k->file : "?",
             k->line, least, most, why);
}

/* Beyond the greatest size that a kernel claims, the next one runs. */
static tn_status say_chain(const answer *a, bool *out_found) {
  bool any_size = false;
  *out_found = false;
  for (size_t i = 0; i < a->n_chain; ++i) {
    const tni_kernel *k = a->chain[i];
    const char *refusal = tni_kernel_refuses(k, a->dtype, 0, (tni_tls.modes.call_flags & TN_CALL_DETERMINISTIC) != 0);
    char why[128];
    snprintf(why, sizeof why, ": %s", refusal ? refusal : "");
    if (refusal)
      TN_TRY(say_kernel(a, k, " is passed over", why));
    else if (any_size)
      TN_TRY(say_kernel(a, k, " is asked if those before it decline", ""));
    else
      TN_TRY(say_kernel(a, k, " runs", ""));
    any_size |= !refusal && k->max_numel == INT64_MAX;
    *out_found |= !refusal;
  }
  return TN_OK;
}

/* The CPU in place of the device: out_runs is false where the policy or the CPU's own providers say no. */
static tn_status say_cpu(const answer *a, const tni_fallback_choice *choice, bool found, bool *out_runs) {
  bool cpu_can = false;
  tni_open_providers(a->op->functional, TN_BACKEND_CPU);
  tni_registry_lock();
  for (const tni_kernel *k = a->op->functional->kernels; k; k = k->next)
    cpu_can |= k->bit == TN_BACKEND_CPU && !tni_kernel_refuses(k, a->dtype, 0, false);
  tni_registry_unlock();
  *out_runs = cpu_can && choice->policy != TN_FALLBACK_ERROR;
  if (!*out_runs) return TN_OK;
  return say(a, "%s on %s for %s: the CPU %s, with copies both ways (policy %s: %s%s)", a->op->name, a->device,
             tn_dtype_name(a->dtype), found ? "runs it if all decline" : "runs it",
             tni_fallback_word((tn_fallback_policy)choice->policy), choice->said,
             choice->whole && a->op->functional->body ? "; before the composite" : "");
}

static tn_status say_missing(const answer *a, const tni_fallback_choice *choice) {
  if (choice->policy == TN_FALLBACK_ERROR && strcmp(a->device, "cpu") != 0)
    return say(a,
               "%s on %s for %s: missing kernel: no provider claims it, there is no body, and it may not run on the "
               "CPU (policy error: %s; TENON_FALLBACK=%s@%s=allow would allow it)",
               a->op->name, a->device, tn_dtype_name(a->dtype), choice->said, a->op->functional->name, a->device);
  return say(a, "%s on %s for %s: missing kernel: no provider claims it and there is no body", a->op->name,
             a->device, tn_dtype_name(a->dtype));
}

static tn_status say_last(const answer *a, uint8_t bit, bool found) {
  const tn_op *f = a->op->functional;
  const char *file = f->def && f->def->file ? f->def->file : "?";
  unsigned line = f->def ? f->def->line : 0;
  const tni_fallback_choice choice = tni_fallback_choose(f, bit);
  bool copies = bit != TN_BACKEND_CPU && strcmp(f->name, "copy_") == 0, runs = false;
  if (copies) return say(a, "%s: the core copies through host memory%s", a->op->name, found ? " if all decline" : "");
  if (bit != TN_BACKEND_CPU && (choice.whole || !f->body)) TN_TRY(say_cpu(a, &choice, found, &runs));
  if (f->body && !runs)
    return say(a, "%s: the body in other operators (%s:%u) %s", a->op->name, file, line,
               found ? "runs if all decline" : "runs");
  return found || runs ? TN_OK : say_missing(a, &choice);
}

/* Plugins that list the operator and are no part of the chain. */
static tn_status say_unusable(const answer *a) {
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    tn_plugin_state state = tni_plugin_state(p);
    if (!p->manifest || state == TN_PLUGIN_READY) continue;
    if (!tni_manifest_find(p->manifest, a->device, a->op->functional->name)) continue;
    TN_TRY(say(a, "%s lists %s on %s and is %s: %s", p->name, a->op->functional->name, a->device,
               tn_plugin_state_name(state), tni_plugin_reason(p)));
  }
  return TN_OK;
}

static tn_status say_all(answer *a, uint8_t bit) {
  uint32_t flags = a->op->functional->flags;
  if (flags & TN_OP_ALWAYS_BODY) return say(a, "%s: always the body; it accepts no kernel", a->op->name);
  if (flags & TN_OP_VIEW) return say(a, "%s: a view; the core makes it on every device", a->op->name);
  if (bit == TN_BACKEND_META) return say(a, "%s on meta: the meta rule is all", a->op->name);
  if (flags & TN_OP_NO_KERNEL) return say(a, "%s: the core does it on every device", a->op->name);
  TN_TRY(collect_chain(a, bit));
  bool found;
  TN_TRY(say_chain(a, &found));
  TN_TRY(say_last(a, bit, found));
  return say_unusable(a);
}

tn_status tni_why(const tn_op *op, const char *device, tn_dtype dtype,
                  void (*line)(void *ctx, const char *words), void *ctx) {
  const tni_backend *backend;
  TN_TRY(tni_backend_open(device, &backend));
  if (backend->id != TN_BACKEND_META) tni_open_providers(op->functional, backend->id);
  answer a = {.op = op, .device = backend->name, .dtype = dtype, .line = line, .ctx = ctx};
  tn_status status = say_all(&a, backend->id);
  tni_free(a.chain);
  return status;
}
