/* SPDX-License-Identifier: Apache-2.0
 *
 * Interfaces: tables of functions that plugins offer each other by name and version, through the host and never by
 * linking. Manifests list them, so finding one opens the plugin that has it. Versions match exactly: what a later
 * version means is between the two plugins. A table that was given out is never taken back, so its plugin stays.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/load/load_int.h"

/* Position in the manifest's list, or its count. */
static size_t position(const tni_manifest *m, const char *name, uint32_t version) {
  size_t i = 0;
  while (i < m->interfaces.count &&
         (m->interfaces.items[i].version != version || strcmp(m->interfaces.items[i].name, name) != 0))
    ++i;
  return i;
}

tn_status tni_interface_add(tn_registration *reg, const char *name, uint32_t version, const void *table) {
  const tni_manifest *m = reg->plugin->manifest;
  size_t at = position(m, name, version);
  if (at == m->interfaces.count)
    return TN_FAIL(TN_ERR_PLUGIN, "manifest contradicts registration: it lists no interface %s %u", name, version);
  if (!table) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "interface %s %u: the table is NULL", name, version);
  if (reg->tables[at]) return TN_FAIL(TN_ERR_PLUGIN, "interface %s %u is registered twice", name, version);
  reg->tables[at] = table;
  return TN_OK;
}

tn_status tni_interfaces_check(const tn_registration *reg) {
  const tni_manifest *m = reg->plugin->manifest;
  for (size_t i = 0; i < m->interfaces.count; ++i)
    if (!reg->tables[i])
      return TN_FAIL(TN_ERR_PLUGIN,
                     "manifest contradicts registration: it lists the interface %s %u, init did not register it",
                     m->interfaces.items[i].name, m->interfaces.items[i].version);
  return TN_OK;
}

/* ------------------------------------------------------------------ finding */

/* What there is of that name, as the thread's words. */
static tn_status fail_unknown(const char *name, uint32_t version) {
  char *all = NULL;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED) continue;
    for (size_t k = 0; k < p->manifest->interfaces.count; ++k) {
      if (strcmp(p->manifest->interfaces.items[k].name, name) != 0) continue;
      char *more;
      int n = asprintf(&more, "%s%splugin %s has version %u", all ? all : "", all ? ", " : "", p->name,
                       p->manifest->interfaces.items[k].version);
      free(all);
      if (n < 0) return tni_oom(0, "words about an interface");
      all = more;
    }
  }
  tn_status status = TN_FAIL(TN_ERR_NOT_FOUND, "no plugin offers interface %s %u: %s", name, version,
                             all ? all : "none has that name");
  free(all);
  return status;
}

/* TN_OK and a table, or the reason that this plugin gives none. Loader lock held. */
static tn_status take(tni_plugin *p, size_t at, const void **out_table) {
  TN_TRY(tni_plugin_open(p));
  *out_table = p->tables[at];
  atomic_fetch_add_explicit(&p->n_given, 1, memory_order_relaxed);
  return TN_OK;
}

static tn_status find(const char *name, uint32_t version, const void **out_table) {
  tn_status status = TN_ERR_NOT_FOUND;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED) continue;
    size_t at = position(p->manifest, name, version);
    if (at == p->manifest->interfaces.count) continue;
    status = take(p, at, out_table);
    if (status == TN_OK || status == TN_ERR_OUT_OF_MEMORY) return status;
  }
  if (status == TN_ERR_NOT_FOUND) return fail_unknown(name, version);
  return TN_WRAP(status, "interface %s %u", name, version);
}

tn_status tni_interface_plugin(const char *name, uint32_t version, const tni_plugin **out_plugin) {
  TN_TRY(tni_load_init());
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED) continue;
    if (position(p->manifest, name, version) == p->manifest->interfaces.count) continue;
    *out_plugin = p;
    return TN_OK;
  }
  return fail_unknown(name, version);
}

tn_status tni_interface_find(const char *name, uint32_t version, const void **out_table) {
  if (!name || !out_table) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "find_interface: the name or out_table is NULL");
  *out_table = NULL;
  TN_TRY(tni_load_init());
  TN_TRY(tni_load_lock());
  tn_status status = find(name, version, out_table);
  tni_load_unlock();
  return status;
}
