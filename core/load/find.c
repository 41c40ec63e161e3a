/* SPDX-License-Identifier: Apache-2.0
 *
 * From a name that a caller has (a device, an operator, a cell's key) to the plugin that must be open for it.
 */
#include <stdlib.h>

#include "core/load/load_int.h"

static tn_status open_locked(tni_plugin *p) {
  TN_TRY(tni_load_lock());
  tn_status status = tni_plugin_open(p);
  tni_load_unlock();
  return status;
}

/* ------------------------------------------------------------------ devices */

/* The plugin that holds a device name; else one that was rejected and would have offered it; else NULL. */
static tni_plugin *find_holder(const char *device) {
  tni_plugin *rejected = NULL;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || !tni_manifest_has_device(p->manifest, device)) continue;
    if (tni_plugin_state(p) != TN_PLUGIN_REJECTED) return p;
    if (!rejected) rejected = p;
  }
  return rejected;
}

static const char *alias_device(const tni_plugin *p) {
  for (size_t i = 0; i < p->manifest->devices.count; ++i)
    if (p->manifest->devices.items[i].privateuse1) return p->manifest->devices.items[i].name;
  return NULL;
}

/* The user's choice goes first; without one, only a single claimant gets the alias. */
static tn_status resolve_privateuse1(const char **out_device) {
  const char *chosen = secure_getenv("TENON_PRIVATEUSE1");
  const tni_plugin *claimant = NULL;
  if (chosen) {
    claimant = tni_plugin_named(chosen);
    if (!claimant || !claimant->manifest->devices.count)
      return TN_FAIL(TN_ERR_NOT_FOUND,
                     "TENON_PRIVATEUSE1 is %s: no usable plugin of that name offers a device", chosen);
    const char *device = alias_device(claimant);
    *out_device = device ? device : claimant->manifest->devices.items[0].name;
    return TN_OK;
  }
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED || !alias_device(p)) continue;
    if (claimant)
      return TN_FAIL(TN_ERR_NOT_FOUND, "both %s and %s ask for privateuse1: name one in TENON_PRIVATEUSE1",
                     claimant->name, p->name);
    claimant = p;
  }
  if (!claimant) return TN_FAIL(TN_ERR_NOT_FOUND, "no plugin asks for the alias privateuse1");
  *out_device = alias_device(claimant);
  return TN_OK;
}

static const tni_backend *find_published(const char *device) {
  int bit = tni_key_find(device);
  const tni_backend *b = bit < 0 ? NULL : tni_backend_get((uint8_t)bit);
  return b && !b->closed ? b : NULL;
}

static tn_status fail_unknown(const char *device) {
  size_t rejected = 0;
  for (size_t i = 0; i < tni_plugin_count(); ++i)
    rejected += tni_plugin_state(tni_plugin_at(i)) == TN_PLUGIN_REJECTED;
  return TN_FAIL(TN_ERR_NOT_FOUND,
                 "no plugin offers a device %s (%zu plugins were found, %zu of them rejected: `tenon "
                 "plugins` says why)",
                 device, tni_plugin_count(), rejected);
}

/* What the user requires is opened before the first device. A failure is raised each time, since what failed once stays
 * so; success is asked for once. */
static tn_status open_required(void) {
  static _Atomic bool all_there;
  if (TNI_LIKELY(atomic_load_explicit(&all_there, memory_order_relaxed))) return TN_OK;
  TN_TRY(tni_policy_open_required(open_locked));
  atomic_store_explicit(&all_there, true, memory_order_relaxed);
  return TN_OK;
}

tn_status tni_backend_open(const char *device_name, const tni_backend **out_backend) {
  *out_backend = NULL;
  TN_TRY(tni_load_init());
  TN_TRY(open_required());
  if (strcmp(device_name, "privateuse1") == 0) TN_TRY(resolve_privateuse1(&device_name));
  *out_backend = find_published(device_name);
  if (*out_backend) return TN_OK;
  tni_plugin *p = find_holder(device_name);
  if (!p) return fail_unknown(device_name);
  tn_status status = open_locked(p);
  if (status != TN_OK) return TN_WRAP(status, "device %s", device_name);
  *out_backend = find_published(device_name);
  if (*out_backend) return TN_OK;
  return TN_FAIL(TN_ERR_UNAVAILABLE, "device %s: plugin %s is ready, but %s", device_name, p->name,
                 tni_plugin_reason(p));
}

void tni_open_all_backends(void) {
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (tni_plugin_state(p) == TN_PLUGIN_LOADABLE && p->manifest->devices.count && !atomic_load(&p->unloaded))
      (void)open_locked(p);
  }
}

const char *tni_device_offered(const char *name) {
  if (strcmp(name, "privateuse1") == 0 && resolve_privateuse1(&name) != TN_OK) {
    tn_error_clear();
    return NULL;
  }
  const tni_backend *backend = find_published(name);
  if (backend) return backend->name;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED) continue;
    for (size_t k = 0; k < p->manifest->devices.count; ++k)
      if (strcmp(p->manifest->devices.items[k].name, name) == 0) return p->manifest->devices.items[k].name;
  }
  return NULL;
}

bool tni_device_has_kernels(const char *device) {
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    tn_plugin_state state = tni_plugin_state(p);
    bool usable = state == TN_PLUGIN_LOADABLE || state == TN_PLUGIN_READY;
    if (usable && tni_manifest_has_kernels(p->manifest, device)) return true;
  }
  return false;
}

/* ------------------------------------------------------------------ layers */

static bool offers_layer(const tni_plugin *p, const char *name) {
  for (size_t i = 0; p->manifest && i < p->manifest->layers.count; ++i)
    if (strcmp(p->manifest->layers.items[i].name, name) == 0) return true;
  return false;
}

tn_status tni_layer_open(const char *layer_name, unsigned *out_bit) {
  TN_TRY(tni_load_init());
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (!offers_layer(p, layer_name)) continue;
    tn_status status = open_locked(p);
    if (status != TN_OK) return TN_WRAP(status, "layer %s", layer_name);
    *out_bit = (unsigned)tni_key_find(layer_name);
    return TN_OK;
  }
  return TN_FAIL(TN_ERR_NOT_FOUND, "no plugin offers a layer %s", layer_name);
}

/* ------------------------------------------------------------------ providers */

static bool lists_kernel(const tni_plugin *p, const char *key, const char *op) {
  return tni_manifest_find(p->manifest, key, op) || tni_manifest_find(p->manifest, key, "*");
}

void tni_open_providers(const tn_op *op, uint8_t bit) {
  const char *key = tni_key_name(bit);
  if (!key) return;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (tni_plugin_state(p) != TN_PLUGIN_LOADABLE || atomic_load(&p->unloaded) || !lists_kernel(p, key, op->name))
      continue;
    tn_status status = open_locked(p);
    if (status != TN_OK && tni_plugin_state(p) == TN_PLUGIN_LOADABLE)
      tn_log(TN_LOG_WARN, "plugin %s lists %s on %s and could not be opened now: %s", p->name, op->name, key,
             tn_error_message());
  }
}

/* The plugin whose manifest adds an operator, or NULL. */
static tni_plugin *find_adder(const char *op_name) {
  size_t n = strlen(op_name);
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || atomic_load(&p->unloaded)) continue;
    for (size_t k = 0; k < p->manifest->operators.count; ++k) {
      const char *schema = p->manifest->operators.items[k];
      if (strncmp(schema, op_name, n) == 0 && strchr("( ", schema[n])) return p;
    }
  }
  return NULL;
}

bool tni_operator_offered(const char *op_name) { return tni_op_find(op_name) || find_adder(op_name); }

tn_status tni_open_operator(const char *op_name) {
  TN_TRY(tni_load_init());
  tni_plugin *p = find_adder(op_name);
  if (!p) return TN_OK;
  tn_status status = open_locked(p);
  return status == TN_OK ? TN_OK : TN_WRAP(status, "operator %s", op_name);
}
