/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's word about plugins, from the environment (ignored under secure execution):
 *
 *   TENON_PLUGINS="allow:acme*,cpu off:spy require:acme"   items apart by blanks, names and globs by commas
 *   TENON_PROVIDERS="openblas:off,onednn:off"                      the older form of off:
 *   TENON_SAFE_MODE=1                                              only the root beside libtenon, and no layers
 *
 * `allow:` switches off all that it does not match; `off:` wins over it. What is `require:`d must be ready when the
 * first device is opened: start itself never fails because of a plugin (find.c).
 */
#include <fnmatch.h>
#include <stdlib.h>

#include "core/load/load_int.h"

/* Calls look for each pattern of the items of that kind; stops at the first true. */
static tn_status each_pattern(const char *kind, bool (*look)(void *ctx, const char *pattern), void *ctx,
                              bool *out_found) {
  const char *text = secure_getenv("TENON_PLUGINS");
  size_t n_kind = strlen(kind);
  *out_found = false;
  if (!text) return TN_OK;
  char *copy = tni_strdup(text), *rest = copy, *item;
  if (!copy) return tni_oom(strlen(text) + 1, "TENON_PLUGINS");
  while (!*out_found && (item = strsep(&rest, " \t\n")) != NULL) {
    if (strncmp(item, kind, n_kind) != 0 || item[n_kind] != ':') continue;
    char *patterns = item + n_kind + 1, *pattern;
    while (!*out_found && (pattern = strsep(&patterns, ",")) != NULL)
      if (*pattern) *out_found = look(ctx, pattern);
  }
  tni_free(copy);
  return TN_OK;
}

static bool is_name(void *name, const char *pattern) { return fnmatch(pattern, name, 0) == 0; }
static bool is_any(void *ctx, const char *pattern) {
  (void)ctx, (void)pattern;
  return true;
}

/* Does TENON_PROVIDERS say "name:off"? */
static bool switched_off(const char *name) {
  size_t n = strlen(name);
  for (const char *item = secure_getenv("TENON_PROVIDERS"); item && *item;) {
    if (strncmp(item, name, n) == 0 && strncmp(item + n, ":off", 4) == 0 && strchr(",", item[n + 4])) return true;
    item = strchr(item, ',');
    if (item) ++item;
  }
  return false;
}

tn_status tni_policy_check(const char *name) {
  void *ctx = (void *)(uintptr_t)name;
  bool found, any;
  if (switched_off(name)) return TN_FAIL(TN_ERR_STATE, "switched off by TENON_PROVIDERS");
  TN_TRY(each_pattern("off", is_name, ctx, &found));
  if (found) return TN_FAIL(TN_ERR_STATE, "switched off by TENON_PLUGINS (off:)");
  TN_TRY(each_pattern("allow", is_any, NULL, &any));
  TN_TRY(each_pattern("allow", is_name, ctx, &found));
  if (any && !found) return TN_FAIL(TN_ERR_STATE, "not among those that TENON_PLUGINS allows");
  return TN_OK;
}

bool tni_policy_safe(void) {
  const char *mode = secure_getenv("TENON_SAFE_MODE");
  return mode && *mode && strcmp(mode, "0") != 0;
}

/* ------------------------------------------------------------------ what must be there */

typedef struct wanted {
  tn_status (*open)(tni_plugin *p);
  tn_status status;
} wanted;

/* true: something is wrong, and `status` has words. */
static bool fails(void *ctx, const char *pattern) {
  wanted *w = ctx;
  bool known = false;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (fnmatch(pattern, p->name, 0) != 0) continue;
    known = true;
    w->status = w->open(p);
    if (w->status == TN_OK) continue;
    w->status = TN_WRAP(w->status, "TENON_PLUGINS requires %s", pattern);
    return true;
  }
  if (known) return false;
  w->status = TN_FAIL(TN_ERR_NOT_FOUND, "TENON_PLUGINS requires %s, and no plugin of that name was found", pattern);
  return true;
}

tn_status tni_policy_open_required(tn_status (*open)(tni_plugin *p)) {
  wanted w = {.open = open, .status = TN_OK};
  bool failed;
  TN_TRY(each_pattern("require", fails, &w, &failed));
  return w.status;
}

/* ------------------------------------------------------------------ words that mean nothing */

static bool is_item(const char *item) {
  return strncmp(item, "allow:", 6) == 0 || strncmp(item, "off:", 4) == 0 || strncmp(item, "require:", 8) == 0;
}

void tni_policy_warn(void) {
  for (const char *item = secure_getenv("TENON_PROVIDERS"); item && *item;) {
    size_t n = strcspn(item, ",");
    if (n && (n < 5 || strncmp(item + n - 4, ":off", 4) != 0))
      tn_log(TN_LOG_WARN, "TENON_PROVIDERS: \"%.*s\" is not understood; items are NAME:off", (int)n, item);
    item += n;
    if (*item) ++item;
  }
  for (const char *item = secure_getenv("TENON_PLUGINS"); item && *item;) {
    size_t n = strcspn(item, " \t\n");
    if (n && !is_item(item))
      tn_log(TN_LOG_WARN, "TENON_PLUGINS: \"%.*s\" is not understood; items are allow:, off:, require: and names",
             (int)n, item);
    item += n;
    if (*item) ++item;
  }
}
