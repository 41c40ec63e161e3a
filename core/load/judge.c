/* SPDX-License-Identifier: Apache-2.0
 *
 * From FOUND to LOADABLE, REJECTED or NO HARDWARE: reads each file's manifest and holds its claims against this
 * host, this machine, the user's policy and the plugins before it. No code of any plugin runs.
 *
 * The order is that of the roots, then of file names; a name (of a plugin or a device) belongs to the first
 * that offers it. The user's policy is read in policy.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/load/load_int.h"

static tn_status read_manifest(tni_plugin *p) {
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return TN_FAIL(TN_ERR_IO, "cannot be opened: %s", strerror(errno));
  struct stat st;
  char *text = NULL;
  tn_status status = tni_elf_read(fd, &text);
  if (status == TN_OK && fstat(fd, &st) == 0) {
    p->dev = st.st_dev;
    p->ino = st.st_ino;
  }
  close(fd);
  TN_TRY(status);
  TN_TRY(tni_manifest_parse(text, &p->manifest));
  p->name = p->manifest->name;
  p->version = p->manifest->version;
  return TN_OK;
}

/* ------------------------------------------------------------------ names */

static const tni_plugin *holder_of_device(const tni_plugin_list *list, const tni_plugin *self,
                                          const char *device) {
  for (size_t i = 0; i < list->count && list->items[i] != self; ++i) {
    const tni_plugin *q = list->items[i];
    if (tni_plugin_state(q) != TN_PLUGIN_REJECTED && tni_manifest_has_device(q->manifest, device)) return q;
  }
  return NULL;
}

static tn_status check_names(const tni_plugin_list *list, const tni_plugin *p) {
  const tni_manifest *m = p->manifest;
  for (size_t i = 0; i < list->count && list->items[i] != p; ++i) {
    const tni_plugin *q = list->items[i];
    if (tni_plugin_state(q) != TN_PLUGIN_REJECTED && strcmp(q->name, m->name) == 0)
      return TN_FAIL(TN_ERR_DATA, "plugin name %s is taken by %s", m->name, q->path);
  }
  for (size_t i = 0; i < m->devices.count; ++i) {
    const char *device = m->devices.items[i].name;
    if (tni_key_reserved(device) || tni_key_find(device) >= TN_BACKEND_LIMIT)
      return TN_FAIL(TN_ERR_DATA, "device name %s is the core's own", device);
    const tni_plugin *q = holder_of_device(list, p, device);
    if (q) return TN_FAIL(TN_ERR_DATA, "device name %s is taken by %s", device, q->path);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ judging */

static tn_status judge_one(const tni_plugin_list *list, tni_plugin *p) {
  TN_TRY(read_manifest(p));
  const tni_manifest *m = p->manifest;
  TN_TRY(tni_abi_check(m->abi_major, m->abi_minor, m->needs_minor));
  TN_TRY(tni_sanitizer_check(m->sanitizer));
  TN_TRY(tni_policy_check(m->name));
  if (m->layers.count && tni_policy_safe()) return TN_FAIL(TN_ERR_STATE, "offers a layer; TENON_SAFE_MODE has none");
  TN_TRY(check_names(list, p));
  return tni_needs_check(m);
}

/* One more than the highest rank that p overrides. */
static uint32_t rank_wanted(const tni_plugin_list *list, const tni_plugin *p) {
  uint32_t rank = 0;
  for (size_t i = 0; i < list->count; ++i) {
    const tni_plugin *q = list->items[i];
    if (tni_plugin_state(q) == TN_PLUGIN_REJECTED || !tni_strings_have(&p->manifest->overrides, q->name))
      continue;
    if (q->override_rank + 1 > rank) rank = q->override_rank + 1;
  }
  return rank;
}

/* Ranks rise along "overrides" until nothing changes; a rank beyond the number of plugins is a circle. */
static void rank_overrides(tni_plugin_list *list) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < list->count; ++i) {
      tni_plugin *p = list->items[i];
      if (tni_plugin_state(p) == TN_PLUGIN_REJECTED) continue;
      uint32_t rank = rank_wanted(list, p);
      if (rank == p->override_rank) continue;
      changed = true;
      p->override_rank = rank;
      if (rank <= list->count) continue;
      tn_fail(TN_ERR_DATA, "overrides %s, which overrides this plugin in turn",
              p->manifest->overrides.items[0]);
      tni_plugin_set(p, TN_PLUGIN_REJECTED);
    }
  }
}

tn_status tni_judge(tni_plugin_list *list) {
  tni_policy_warn();
  for (size_t i = 0; i < list->count; ++i) {
    tni_plugin *p = list->items[i];
    if (tni_plugin_state(p) != TN_PLUGIN_FOUND) continue;
    tn_status status = judge_one(list, p);
    if (status == TN_ERR_OUT_OF_MEMORY) return status;
    if (status == TN_OK) {
      atomic_store_explicit(&p->state, TN_PLUGIN_LOADABLE, memory_order_release);
      continue;
    }
    tni_plugin_set(p, status == TN_ERR_UNAVAILABLE ? TN_PLUGIN_NO_HARDWARE : TN_PLUGIN_REJECTED);
    tn_log(TN_LOG_INFO, "plugin %s: %s", p->path, tni_plugin_reason(p));
  }
  rank_overrides(list);
  return TN_OK;
}
