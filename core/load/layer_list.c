/* SPDX-License-Identifier: Apache-2.0
 *
 * Switching layers on and off for a thread, by name, and the list of layers that the API and the CLI show: every
 * layer of every manifest and the core's own anchors, highest bit first, then those without a place.
 */
#include <stdlib.h>

#include "core/load/load_int.h"

/* ------------------------------------------------------------------ on and off */

static tn_status bit_of(const char *name, unsigned *out_bit) {
  TN_TRY(tni_layer_open(name, out_bit));
  if (tni_layer_get(*out_bit)) return TN_OK;
  return TN_FAIL(TN_ERR_UNAVAILABLE, "layer %s: its plugin does not serve it", name);
}

tn_status tni_layer_set(const char *name, bool on, bool *out_before) {
  unsigned bit;
  TN_TRY(bit_of(name, &bit));
  uint64_t *include = &tni_tls.modes.include;
  if (out_before) *out_before = (*include & TNI_KEY(bit)) != 0;
  *include = on ? *include | TNI_KEY(bit) : *include & ~TNI_KEY(bit);
  return TN_OK;
}

bool tni_layer_is_on(const char *name) {
  int bit = tni_key_find(name);
  return bit >= TN_BACKEND_LIMIT && tni_layer_get((unsigned)bit) && (tni_tls.modes.include & TNI_KEY((unsigned)bit));
}

/* Names are separated by commas; empty ones mean nothing. */
tn_status tni_layers_set_on(const char *names) {
  uint64_t before = tni_tls.modes.include;
  char *list = tni_strdup(names), *rest = NULL;
  if (!list) return tni_oom(strlen(names) + 1, "names of layers");
  tn_status status = TN_OK;
  for (char *name = strtok_r(list, ", ", &rest); name && status == TN_OK; name = strtok_r(NULL, ", ", &rest))
    status = tni_layer_set(name, true, NULL);
  tni_free(list);
  if (status != TN_OK) tni_tls.modes.include = before;
  return status;
}

void tni_layers_from_environment(void) {
  const char *names = secure_getenv("TENON_LAYERS");
  if (!names || !*names || tni_layers_set_on(names) == TN_OK) return;
  tn_log(TN_LOG_ERROR, "TENON_LAYERS=%s: no layer is on: %s", names, tn_error_message());
  tn_error_clear();
}

/* ------------------------------------------------------------------ the list */

static const struct anchor {
  const char *name, *why;
} anchors[64] = {
    [TNI_BIT_BACK] = {"back", "lowest: just above the backends"},
    [TNI_BIT_AUTOGRAD] = {"autograd", "records what gradients need"},
    [TNI_BIT_TRACE] = {"trace", "anchor; no plugin offers it"},
    [TNI_BIT_AUTOCAST] = {"autocast", "anchor; no plugin offers it"},
    [TNI_BIT_FRONT] = {"front", "highest: above every layer"},
};

typedef struct line {
  const tni_plugin *plugin; /* NULL: an anchor */
  const tni_manifest_layer *layer;
  unsigned bit; /* 0: no place */
} line;

static bool at_bit(unsigned bit, line *out_line) {
  *out_line = (line){.bit = bit};
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    for (size_t k = 0; p->manifest && k < p->manifest->layers.count; ++k) {
      if (p->manifest->layers.items[k].bit != bit) continue;
      *out_line = (line){p, &p->manifest->layers.items[k], bit};
      return true;
    }
  }
  return anchors[bit].name != NULL;
}

/* Walks all lines, returns how many there are; *out_line is number `want`. */
static size_t walk(size_t want, line *out_line) {
  size_t n = 0;
  line at;
  for (unsigned bit = 64; bit-- > TN_BACKEND_LIMIT;)
    if (at_bit(bit, &at) && n++ == want) *out_line = at;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    for (size_t k = 0; p->manifest && k < p->manifest->layers.count; ++k) {
      const tni_manifest_layer *layer = &p->manifest->layers.items[k];
      if (!layer->bit && n++ == want) *out_line = (line){p, layer, 0};
    }
  }
  return n;
}

size_t tni_report_layer_count(void) {
  line unused;
  return walk(SIZE_MAX, &unused);
}

tn_status tni_report_layer(size_t i, tn_layer_report *out_report) {
  static const char *const classes[] = {"kernel", "record", "trace", "mode"};
  line at;
  size_t n = walk(i, &at);
  if (i >= n) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "layer %zu: there are %zu", i, n);
  if (!at.plugin) {
    *out_report = (tn_layer_report){.name = anchors[at.bit].name, .bit = (int32_t)at.bit, .above = "", .below = "",
                                    .state = TN_PLUGIN_READY, .reason = "", .why = anchors[at.bit].why};
    return TN_OK;
  }
  *out_report = (tn_layer_report){.name = at.layer->name,
                                  .plugin = at.plugin->name,
                                  .bit = at.bit ? (int32_t)at.bit : -1,
                                  .class_name = classes[at.layer->class_],
                                  .above = at.layer->above,
                                  .below = at.layer->below,
                                  .on = at.bit && tni_layer_is_on(at.layer->name),
                                  .state = tni_plugin_state(at.plugin),
                                  .reason = tni_plugin_reason(at.plugin),
                                  .why = at.layer->why ? at.layer->why : ""};
  return TN_OK;
}
