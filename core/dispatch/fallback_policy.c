/* SPDX-License-Identifier: Apache-2.0
 *
 * What may happen where a backend has no kernel: rules of the user (TENON_FALLBACK), rules of the program, and what
 * holds without any. Looked at in the missing path only, so a list behind a lock is enough.
 *
 * The grammar of TENON_FALLBACK: items between commas, each a policy for everything, or NAME=POLICY, where NAME is an
 * operator, a device, or OPERATOR@DEVICE. The most specific item holds; among equals the last.
 */
#include <stdlib.h>

#include "core/dispatch/fallback.h"
#include "core/load/load.h"

typedef struct rule {
  char *op;     /* NULL: all; owned */
  char *device; /* NULL: all; owned */
  bool either;  /* a name of the environment: op and device are the same word, and either may match */
  bool env;
  uint8_t policy;
} rule;

static struct {
  tni_mutex mutex;
  rule *items;
  size_t count, capacity;
} rules = {.mutex = TNI_MUTEX_INIT};
TNI_FORK_LOCK(rules, TNI_FORK_LOADER, rules.mutex); /* the registry's is taken inside it */

static const char *const words[] = {"default", "error", "warn", "allow", "whole"};

const char *tni_fallback_word(tn_fallback_policy policy) {
  return (unsigned)policy < sizeof words / sizeof *words ? words[policy] : NULL;
}

/* ------------------------------------------------------------------ changing the list */

static void rule_clear(rule *r) {
  tni_free(r->op);
  tni_free(r->device);
}

static bool same_name(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Would a word about exactly (op, device) replace r? */
static bool is_about(const rule *r, const char *op, const char *device) {
  if (r->either)
    return (op && !device && same_name(op, r->op)) || (device && !op && same_name(device, r->device));
  return same_name(op, r->op) && same_name(device, r->device);
}

static tn_status rule_make(rule *r, const char *op, const char *device) {
  r->op = op ? tni_strdup(op) : NULL;
  r->device = device ? tni_strdup(device) : NULL;
  if ((!op || r->op) && (!device || r->device)) return TN_OK;
  rule_clear(r);
  return tni_oom(0, "a rule about missing kernels");
}

/* Behind all others, so that it is the last word. Lock held. */
static tn_status rule_add(const char *op, const char *device, rule r) {
  TN_TRY(tni_grow(&rules.items, &rules.capacity, rules.count, sizeof *rules.items));
  TN_TRY(rule_make(&r, op, device));
  rules.items[rules.count++] = r;
  return TN_OK;
}

static void rules_drop(const char *op, const char *device, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < rules.count; ++i) {
    if (i < n && is_about(&rules.items[i], op, device))
      rule_clear(&rules.items[i]);
    else
      rules.items[kept++] = rules.items[i];
  }
  rules.count = kept;
}

tn_status tni_fallback_rule(const char *op, const char *device, tn_fallback_policy policy) {
  tn_status status = TN_OK;
  tni_mutex_lock(&rules.mutex);
  size_t before = rules.count;
  if (policy != TN_FALLBACK_DEFAULT) status = rule_add(op, device, (rule){.policy = (uint8_t)policy});
  if (status == TN_OK) rules_drop(op, device, before);
  tni_mutex_unlock(&rules.mutex);
  return status;
}

/* ------------------------------------------------------------------ asking */

/* How specific r is about (op, device): 0 to 3; -1: it says nothing. */
static int rank_of(const rule *r, const char *op, const char *device) {
  bool op_matches = r->op && op && strcmp(r->op, op) == 0;
  bool device_matches = r->device && strcmp(r->device, device) == 0;
  if (r->either) return op_matches ? 2 : device_matches ? 1 : -1;
  if ((r->op && !op_matches) || (r->device && !device_matches)) return -1;
  return 2 * op_matches + device_matches;
}

/* What words say; DEFAULT: nothing. */
static tn_fallback_policy said(const char *op, const char *device, const char **out_by) {
  tn_fallback_policy policy = TN_FALLBACK_DEFAULT;
  int best = -1;
  tni_mutex_lock(&rules.mutex);
  for (size_t i = 0; i < rules.count; ++i) {
    const rule *r = &rules.items[i];
    int rank = rank_of(r, op, device);
    if (rank < best || rank < 0) continue;
    best = rank;
    policy = (tn_fallback_policy)r->policy;
    *out_by = r->env ? "TENON_FALLBACK says so" : "the program says so";
  }
  tni_mutex_unlock(&rules.mutex);
  return policy;
}

tni_fallback_choice tni_fallback_choose(const tn_op *op, uint8_t backend) {
  const tni_backend *b = tni_backend_get(backend);
  tni_fallback_choice c = {TN_FALLBACK_ERROR, false, false, "nobody has allowed more"};
  if (!b || backend == TN_BACKEND_CPU || backend == TN_BACKEND_META) return c;
  tn_fallback_policy policy = said(op ? op->functional->name : NULL, b->name, &c.said);
  c.by_word = policy != TN_FALLBACK_DEFAULT;
  if (policy == TN_FALLBACK_DEFAULT && (b->def->flags & TN_BACKEND_CPU_FALLBACK)) {
    policy = TN_FALLBACK_ALLOW;
    c.said = "the backend says that it may";
  }
  if (policy == TN_FALLBACK_DEFAULT) return c;
  /* A composite has nothing to run on where no plugin has a kernel for the device: its parts would all come to the
   * CPU, one round trip each. */
  c.whole = policy == TN_FALLBACK_WHOLE || (policy != TN_FALLBACK_ERROR && !tni_device_has_kernels(b->name));
  c.policy = policy == TN_FALLBACK_WHOLE ? TN_FALLBACK_ALLOW : (uint8_t)policy;
  return c;
}

/* ------------------------------------------------------------------ TENON_FALLBACK */

static tn_fallback_policy policy_of(const char *word) {
  for (unsigned i = TN_FALLBACK_ERROR; i < sizeof words / sizeof *words; ++i)
    if (strcmp(word, words[i]) == 0) return (tn_fallback_policy)i;
  return TN_FALLBACK_DEFAULT;
}

static void complain(const char *item, const char *why) {
  tn_log(TN_LOG_WARN,
         "TENON_FALLBACK: \"%s\" %s and is passed over (expected error, warn, allow or whole, alone or after "
         "NAME=, where NAME is an operator, a device, or OPERATOR@DEVICE)",
         item, why);
}

/* An operator's in-place and out forms follow it. */
static const char *functional_name(const char *name) {
  const tn_op *op = tni_op_find(name);
  return op ? op->functional->name : name;
}

/* NAME of an item, NULL for all. Cuts it in place. */
static tn_status add_item(char *name, tn_fallback_policy policy) {
  rule r = {.env = true, .policy = (uint8_t)policy};
  if (!name) return rule_add(NULL, NULL, r);
  char *at = strchr(name, '@');
  if (at) {
    *at = 0;
    const char *device = tni_device_offered(at + 1);
    const char *op = functional_name(name);
    if (!device || !tni_operator_offered(op)) {
      complain(device ? name : at + 1, device ? "is no operator" : "is no device of any plugin");
      return TN_OK;
    }
    return rule_add(op, device, r);
  }
  const char *device = tni_device_offered(name);
  const char *op = functional_name(name);
  r.either = true;
  if (tni_operator_offered(op)) return rule_add(op, device ? device : op, r);
  if (device) return rule_add(device, device, r);
  complain(name, "is neither an operator nor a device of any plugin");
  return TN_OK;
}

static tn_status read_item(char *item) {
  char *equals = strchr(item, '=');
  char *name = equals ? item : NULL;
  tn_fallback_policy policy = policy_of(equals ? equals + 1 : item);
  if (policy == TN_FALLBACK_DEFAULT || (name && equals == name)) {
    complain(item, "is not understood");
    return TN_OK;
  }
  if (equals) *equals = 0;
  return add_item(name, policy);
}

tn_status tni_fallback_read(void) {
  const char *text = secure_getenv("TENON_FALLBACK");
  if (!text || !*text) return TN_OK;
  char *copy = tni_strdup(text), *rest = copy, *item;
  if (!copy) return tni_oom(strlen(text) + 1, "TENON_FALLBACK");
  tn_status status = TN_OK;
  tni_mutex_lock(&rules.mutex);
  while (status == TN_OK && (item = strsep(&rest, ", \t")))
    if (*item) status = read_item(item);
  while (status != TN_OK && rules.count) rule_clear(&rules.items[--rules.count]);
  tni_mutex_unlock(&rules.mutex);
  tni_free(copy);
  return status;
}
