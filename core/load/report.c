/* SPDX-License-Identifier: Apache-2.0
 *
 * What an application sees of plugins, devices and providers. Nothing here opens a plugin or takes the loader
 * lock: a report never waits for another thread's init. How it is printed is the frontends' business.
 */
#include <stdio.h>
#include <time.h>

#include "core/load/load_int.h"

/* ------------------------------------------------------------------ plugins */

/* A file whose quarantine is remembered is shown so before anybody asks for it. */
static void tell_state(tni_plugin *p, tn_plugin_state *out_state, const char **out_reason) {
  *out_state = tni_plugin_state(p);
  *out_reason = tni_plugin_reason(p);
  if (*out_state != TN_PLUGIN_LOADABLE) return;
  const tni_probe *probe = tni_probe_remembered(p);
  if (!probe || probe->verdict != TNI_PROBE_QUARANTINED) return;
  *out_state = TN_PLUGIN_QUARANTINED;
  *out_reason = probe->advice;
}

size_t tni_report_plugin_count(void) { return tni_plugin_count(); }

tn_status tni_report_plugin(size_t i, tn_plugin_report *out_report) {
  if (i >= tni_plugin_count())
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "plugin %zu: there are %zu", i, tni_plugin_count());
  tni_plugin *p = tni_plugin_at(i);
  *out_report = (tn_plugin_report){.name = p->name, .version = p->version, .path = p->path};
  tell_state(p, &out_report->state, &out_report->reason);
  return TN_OK;
}

tn_status tni_report_details(size_t i, tn_plugin_details *out_details) {
  if (i >= tni_plugin_count())
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "plugin %zu: there are %zu", i, tni_plugin_count());
  tni_plugin *p = tni_plugin_at(i);
  *out_details = (tn_plugin_details){.license = p->manifest ? p->manifest->license : "",
                                     .pinned_sha256 = p->pin,
                                     .trusted = tni_probe_trusts(p),
                                     .n_interfaces = p->manifest ? p->manifest->interfaces.count : 0};
  tni_words words = tni_words_aside();
  if (tni_cache_hash(p, out_details->sha256) != TN_OK) out_details->sha256[0] = 0; /* its state says why */
  tni_words_back(words);
  const tni_probe *probe = tni_probe_remembered(p);
  if (!probe) return TN_OK;
  out_details->probe = probe->verdict == TNI_PROBE_READY ? "ready" : "quarantined";
  out_details->probe_words = probe->words;
  out_details->probe_devices = probe->devices;
  out_details->probe_age_seconds = (int64_t)time(NULL) - probe->when;
  out_details->probe_ms = probe->took_ms;
  return TN_OK;
}

tn_status tni_report_interface(size_t i, size_t k, const char **out_name, uint32_t *out_version) {
  const tni_manifest *m = i < tni_plugin_count() ? tni_plugin_at(i)->manifest : NULL;
  if (!m || k >= m->interfaces.count) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "plugin %zu has no interface %zu", i, k);
  *out_name = m->interfaces.items[k].name;
  *out_version = m->interfaces.items[k].version;
  return TN_OK;
}

/* ------------------------------------------------------------------ devices */

/* The opened backend behind a plugin's device, or NULL. */
static const tni_backend *backend_of(const tni_plugin *p, size_t device) {
  if (tni_plugin_state(p) != TN_PLUGIN_READY) return NULL;
  int bit = tni_key_find(p->manifest->devices.items[device].name);
  return bit < 0 ? NULL : tni_backend_get((uint8_t)bit);
}

/* A rejected plugin's device is shown with its reason, unless another plugin holds the name. */
static bool is_shown(const tni_plugin *p, size_t device) {
  if (tni_plugin_state(p) != TN_PLUGIN_REJECTED) return true;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *q = tni_plugin_at(i);
    if (q->manifest && tni_plugin_state(q) != TN_PLUGIN_REJECTED &&
        tni_manifest_has_device(q->manifest, p->manifest->devices.items[device].name))
      return false;
  }
  return true;
}

/* Walks all lines of the device list. Returns how many there are; *out_plugin etc. are those of line `want`. */
static size_t walk_devices(size_t want, tni_plugin **out_plugin, size_t *out_device,
                           int32_t *out_index) {
  size_t line = 0;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    for (size_t d = 0; p->manifest && d < p->manifest->devices.count; ++d) {
      if (!is_shown(p, d)) continue;
      const tni_backend *b = backend_of(p, d);
      int32_t n = b ? b->n_devices : 1;
      for (int32_t k = 0; k < n; ++k, ++line) {
        if (line != want) continue;
        *out_plugin = p;
        *out_device = d;
        *out_index = k;
      }
    }
  }
  return line;
}

static void ask_backend(const tni_backend *b, int32_t index, tn_device_report *out_report) {
  const tn_backend_def *def = b->def;
  if (b->n_devices > 1) snprintf(out_report->name, sizeof out_report->name, "%s:%d", b->name, (int)index);
  if (tni_exiting()) return;
  if (def->describe) out_report->description = def->describe(def->ctx, index);
  if (!out_report->description) out_report->description = "";
  if (def->locality) out_report->locality = def->locality(def->ctx, index);
  tn_memory_info info = {.struct_size = sizeof info};
  if (!def->memory_info || def->memory_info(def->ctx, index, &info) != TN_OK) return;
  out_report->has_memory = true;
  out_report->memory_total_bytes = info.total_bytes;
  out_report->memory_free_bytes = info.free_bytes;
}

size_t tni_report_device_count(void) {
  tni_plugin *p;
  size_t device;
  int32_t index;
  return walk_devices(SIZE_MAX, &p, &device, &index);
}

tn_status tni_report_device(size_t i, tn_device_report *out_report) {
  tni_plugin *p = NULL;
  size_t device = 0;
  int32_t index = 0;
  size_t count = walk_devices(i, &p, &device, &index);
  if (!p) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "device %zu: there are %zu", i, count);
  *out_report = (tn_device_report){.plugin = p->name, .description = ""};
  tell_state(p, &out_report->state, &out_report->reason);
  snprintf(out_report->name, sizeof out_report->name, "%s", p->manifest->devices.items[device].name);
  const tni_backend *b = backend_of(p, device);
  if (b)
    ask_backend(b, index, out_report);
  else if (out_report->state == TN_PLUGIN_READY)
    out_report->state = TN_PLUGIN_NO_HARDWARE;
  return TN_OK;
}

/* ------------------------------------------------------------------ providers of an operator */

/* Answers are made at the first question, under the registry lock, and kept: manifests never change. */
typedef struct provider_list {
  const tn_op *op;
  size_t n;
  struct provider_list *next;
  const char *names[];
} provider_list;

static bool lists_op(const tni_plugin *p, const char *op) {
  if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED) return false;
  for (size_t i = 0; i < p->manifest->kernels.count; ++i)
    if (strcmp(p->manifest->kernels.items[i].op, op) == 0) return true;
  return false;
}

static provider_list *make_list(const tn_op *op) {
  size_t n = 0;
  for (size_t i = 0; i < tni_plugin_count(); ++i) n += lists_op(tni_plugin_at(i), op->functional->name);
  provider_list *list = tni_alloc(sizeof *list + n * sizeof *list->names);
  if (!list) return NULL;
  *list = (provider_list){.op = op};
  for (size_t i = 0; i < tni_plugin_count() && list->n < n; ++i)
    if (lists_op(tni_plugin_at(i), op->functional->name)) list->names[list->n++] = tni_plugin_at(i)->name;
  return list;
}

tn_status tni_report_providers(const tn_op *op, const char *const **out_names, size_t *out_n) {
  static provider_list *lists;
  tni_registry_lock();
  provider_list *list = lists;
  while (list && list->op != op) list = list->next;
  if (!list && (list = make_list(op)) != NULL) {
    list->next = lists;
    lists = list;
  }
  tni_registry_unlock();
  if (!list) return tni_oom(sizeof *list, "a list of providers");
  *out_names = list->names;
  *out_n = list->n;
  return TN_OK;
}
