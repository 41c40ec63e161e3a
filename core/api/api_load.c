/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of tenon/load.h about start, plugins, devices and operators, and those of tenon/tensor.h
 * that name, open and drain a device. All argument checks are here; the work is in core/load.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/autograd/autograd.h"
#include "core/dispatch/row.h"
#include "core/load/load.h"
#include "core/profile/profile.h"
#include "core/tensor/stream.h"

tn_status tn_init(void) { return tni_load_init(); }

const char *tn_version(void) { return TN_VERSION_TEXT; }

const char *tn_plugin_state_name(tn_plugin_state state) {
  static const char *const names[] = {"found", "rejected", "loadable",   "no hardware",
                                      "ready", "failed",   "quarantined"};
  return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown state";
}

static tn_status need(const void *pointer, const char *function, const char *what) {
  return pointer ? TN_OK : TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
}

/* ------------------------------------------------------------------ plugins and devices */

size_t tn_plugin_count(void) { return tni_load_init() == TN_OK ? tni_report_plugin_count() : 0; }

tn_status tn_plugin_get(size_t i, tn_plugin_report *out_report) {
  TN_TRY(need(out_report, "tn_plugin_get", "out_report"));
  TN_TRY(tni_load_init());
  return tni_report_plugin(i, out_report);
}

tn_status tn_plugin_get_details(size_t i, tn_plugin_details *out_details) {
  TN_TRY(need(out_details, "tn_plugin_get_details", "out_details"));
  TN_TRY(tni_load_init());
  return tni_report_details(i, out_details);
}

tn_status tn_plugin_get_interface(size_t i, size_t k, const char **out_name, uint32_t *out_version) {
  TN_TRY(need(out_name, "tn_plugin_get_interface", "out_name"));
  TN_TRY(need(out_version, "tn_plugin_get_interface", "out_version"));
  TN_TRY(tni_load_init());
  return tni_report_interface(i, k, out_name, out_version);
}

tn_status tn_plugin_open(const char *name) {
  TN_TRY(need(name, "tn_plugin_open", "name"));
  return tni_plugin_open_named(name);
}

tn_status tn_plugin_unload(const char *name) {
  TN_TRY(need(name, "tn_plugin_unload", "name"));
  TN_TRY(tni_may_dispatch());
  tni_autograd_stop(); /* its workers may wait on streams of the device; the next run starts them again */
  return tni_plugin_unload(name);
}

tn_status tn_plugins_clear(const char *name, size_t *out_count) {
  TN_TRY(need(out_count, "tn_plugins_clear", "out_count"));
  TN_TRY(tni_load_init());
  return tni_probes_clear(name, out_count);
}

tn_status tn_interface_find(const char *name, uint32_t version, const void **out_table) {
  TN_TRY(need(name, "tn_interface_find", "name"));
  TN_TRY(need(out_table, "tn_interface_find", "out_table"));
  return tni_interface_find(name, version, out_table);
}

size_t tn_device_count(void) { return tni_load_init() == TN_OK ? tni_report_device_count() : 0; }

tn_status tn_device_get(size_t i, tn_device_report *out_report) {
  TN_TRY(need(out_report, "tn_device_get", "out_report"));
  TN_TRY(tni_load_init());
  return tni_report_device(i, out_report);
}

void tn_devices_open_all(void) {
  if (tni_load_init() == TN_OK) tni_open_all_backends();
}

/* Splits "cuda:1". *out_index is 0 if there is none. */
static tn_status parse_device(const char *name, char *kind, size_t size, long *out_index) {
  size_t n = strcspn(name, ":");
  if (n == 0 || n >= size)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "\"%s\" is no device name; expected \"cpu\" or \"cuda:1\"", name);
  memcpy(kind, name, n);
  kind[n] = 0;
  *out_index = 0;
  if (!name[n]) return TN_OK;
  const char *digits = name + n + 1;
  char *end;
  *out_index = strtol(digits, &end, 10);
  if (*digits < '0' || *digits > '9' || *end || *out_index > INT16_MAX)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "\"%s\": the index after ':' is a number from 0 to %d", name,
                   INT16_MAX);
  return TN_OK;
}

tn_status tn_device_open(const char *name, tn_device *out_device) {
  TN_TRY(need(out_device, "tn_device_open", "out_device"));
  *out_device = (tn_device){.backend = TN_BACKEND_NONE};
  TN_TRY(need(name, "tn_device_open", "name"));
  char kind[64];
  long index = 0;
  const tni_backend *backend;
  TN_TRY(parse_device(name, kind, sizeof kind, &index));
  TN_TRY(tni_backend_open(kind, &backend));
  if (index >= backend->n_devices)
    return TN_FAIL(TN_ERR_UNAVAILABLE, "device %s: there are %d devices of this kind, the last is %s:%d",
                   name, (int)backend->n_devices, backend->name, (int)backend->n_devices - 1);
  *out_device = (tn_device){.backend = backend->id, .index = (int16_t)index};
  return TN_OK;
}

/* The index is shown where there is a choice. */
const char *tn_device_name(tn_device device, char *buffer, size_t size_bytes) {
  if (!buffer || !size_bytes) return "";
  const tni_backend *backend = tni_backend_get(device.backend);
  const char *name = device.backend == TN_BACKEND_NONE ? "none" : tni_backend_name(device.backend);
  if (device.index == 0 && (!backend || backend->n_devices == 1))
    snprintf(buffer, size_bytes, "%s", name);
  else
    snprintf(buffer, size_bytes, "%s:%d", name, device.index);
  return buffer;
}

tn_status tn_device_synchronize(tn_device device) {
  TN_TRY(tni_load_init());
  const tni_backend *backend = tni_backend_get(device.backend);
  if (!backend || device.index < 0 || device.index >= backend->n_devices)
    return TN_FAIL(TN_ERR_DEVICE, "tn_device_synchronize: device %s:%d is not open",
                   tni_backend_name(device.backend), device.index);
  TN_TRY(tni_backend_admit(backend));
  if (!backend->def->synchronize) return TN_OK; /* every row is complete when it returns */
  return backend->def->synchronize(backend->def->ctx, device.index);
}

/* ------------------------------------------------------------------ operators */

/* Under the lock, because another thread may be opening a plugin that adds some, or takes them back. */
static const tn_op *op_at(size_t i, size_t *out_count) {
  tni_registry_lock();
  *out_count = tni_op_count();
  const tn_op *op = i < *out_count ? tni_op_at(i) : NULL;
  tni_registry_unlock();
  return op;
}

size_t tn_op_count(void) {
  size_t n;
  if (tni_load_init() != TN_OK) return 0;
  op_at(0, &n);
  return n;
}

tn_status tn_op_get(size_t i, tn_op_report *out_report) {
  TN_TRY(need(out_report, "tn_op_get", "out_report"));
  TN_TRY(tni_load_init());
  size_t n;
  const tn_op *op = op_at(i, &n);
  if (!op) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "operator %zu: there are %zu", i, n);
  return tn_op_describe(op, out_report);
}

tn_status tn_op_describe(const tn_op *op, tn_op_report *out_report) {
  TN_TRY(need(op, "tn_op_describe", "op"));
  TN_TRY(need(out_report, "tn_op_describe", "out_report"));
  const tn_op *f = op->functional;
  *out_report =
      (tn_op_report){.name = op->name,
                     .schema = op->schema_text,
                     .doc = op->def->doc ? op->def->doc : "",
                     .differentiable = !(op->flags & TN_OP_NONDIFF) && (op->grad || f->body),
                     .functional = f->name,
                     .flags = op->flags,
                     .form = op->form,
                     .has_meta = f->meta != NULL,
                     .has_body = f->body != NULL,
                     .has_formula = op->grad != NULL,
                     .nondiff_outs = op->grad ? op->grad->nondiff_outs : 0,
                     .samples = f->def->samples};
  for (uint32_t k = 0; op->grad && k < op->grad->n_inputs; ++k)
    out_report->grad_args |= TNI_KEY(op->grad->input_args[k]);
  return tni_report_providers(op, &out_report->providers, &out_report->n_providers);
}

tn_status tn_op_why(const char *op, const char *device, tn_dtype dtype,
                    void (*line)(void *ctx, const char *words), void *ctx_line) {
  TN_TRY(need(op, "tn_op_why", "op"));
  TN_TRY(need(device, "tn_op_why", "device"));
  if (!line) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "tn_op_why: line is NULL");
  TN_TRY(tni_open_operator(op));
  const tn_op *found = tni_op_find(op);
  if (!found) return tni_op_unknown(op);
  return tni_why(found, device, dtype, line, ctx_line);
}

tn_status tn_threads_describe(void (*line)(void *ctx, const char *words), void *ctx_line) {
  if (!line) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "tn_threads_describe: line is NULL");
  TN_TRY(tni_load_init());
  tni_parallel_describe(line, ctx_line);
  return TN_OK;
}

/* ------------------------------------------------------------------ the end */

void tn_shutdown(void) {
  tni_profile_stop();
  tni_autograd_stop();
  tni_parallel_stop();
  tni_load_shutdown();
  tni_block_trim();
}
