/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of tenon/layer.h: argument checks; the work is in core/load.
 */
#include "core/load/load.h"

tn_status tn_layer_set(const char *name, bool on, bool *out_before) {
  if (out_before) *out_before = false;
  if (!name) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "tn_layer_set: name is NULL");
  return tni_layer_set(name, on, out_before);
}

bool tn_layer_is_on(const char *name) { return name && tni_load_init() == TN_OK && tni_layer_is_on(name); }

tn_status tn_layers_set_on(const char *names) {
  if (!names) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "tn_layers_set_on: names is NULL");
  TN_TRY(tni_load_init());
  return tni_layers_set_on(names);
}

size_t tn_layer_count(void) { return tni_load_init() == TN_OK ? tni_report_layer_count() : 0; }

tn_status tn_layer_get(size_t i, tn_layer_report *out_report) {
  if (!out_report) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "tn_layer_get: out_report is NULL");
  TN_TRY(tni_load_init());
  return tni_report_layer(i, out_report);
}
