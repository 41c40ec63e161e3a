/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader, for neighbours in the core: names to backends, and opening. See core/load/README.md.
 */
#ifndef TENON_CORE_LOAD_H
#define TENON_CORE_LOAD_H

#include <tenon/layer.h>
#include <tenon/load.h>
#include <tenon/plugin_layer.h>

#include "core/dispatch/dispatch.h"

/* Reads manifests once (idempotent, any thread); called by everything that needs a device or a plugin.
 * TN_ERR_STATE after tni_load_shutdown. */
tn_status tni_load_init(void);
/* Gives a backend's id, opening its plugin if need be. Takes the loader lock; no other lock may be held.
 * TN_ERR_NOT_FOUND or TN_ERR_UNAVAILABLE with the stored reason. */
tn_status tni_backend_open(const char *device_name, const tni_backend **out_backend);
/* Opens every plugin whose manifest lists a kernel for (op, device name of bit); failures are recorded in the
 * reports and the log only. Called when a cell is built, before its first call. */
void tni_open_providers(const tn_op *op, uint8_t bit);
/* Opens the plugin whose manifest adds this operator; TN_OK too if none does. For callers whose tni_op_find
 * came back empty: they look again. */
tn_status tni_open_operator(const char *op_name);
/* The name by which a device is known that some plugin offers ("privateuse1" is resolved); NULL: none does. Opens
 * nothing. The string lives as long as the process. */
const char *tni_device_offered(const char *name);
/* Does the manifest of a usable plugin list a kernel for the device? */
bool tni_device_has_kernels(const char *device);
/* Is there such an operator, or would a plugin add it? Opens nothing. */
bool tni_operator_offered(const char *op_name);
/* Opens the plugin that offers a layer, for whoever puts its bit into a thread's or a tensor's keys. Failures as in
 * tni_backend_open. */
tn_status tni_layer_open(const char *layer_name, unsigned *out_bit);
/* "cpu" for id 0; "?" if the id is not in use. Static. */
const char *tni_backend_name(uint8_t id);
/* Bit of a backend or layer name, -1 if unknown. */
int tni_key_find(const char *name);
/* What the opened layer on a bit registered, or NULL. Immutable. */
const tn_layer_def *tni_layer_get(unsigned bit);
/* tenon/layer.h has the words. */
tn_status tni_layer_set(const char *name, bool on, bool *out_before);
bool tni_layer_is_on(const char *name);
tn_status tni_layers_set_on(const char *names);
/* host->layer_slot. */
tn_status tni_layer_slot(tn_call *call, void ***out_slot);
/* Frees what the layers of these bits keep on every thread; none of them may run operators meanwhile. */
void tni_layer_states_drop(uint64_t bits);
/* The host's table that plugins and the kit inside libtenon get. */
const tn_host *tni_host(void);
/* True from the moment exit handlers run, and after tni_load_shutdown: no plugin is called any more, frees are
 * dropped. */
bool tni_exiting(void);
/* TN_ERR_STATE with words if this thread is inside a plugin's init, where dispatch is forbidden, and after
 * tni_load_shutdown. */
tn_status tni_may_dispatch(void);
/* Opens a plugin by its name, also one that was unloaded; takes one out of all tables, or says what is in use. */
tn_status tni_plugin_open_named(const char *name);
tn_status tni_plugin_unload(const char *name);
/* Drains devices, then calls layers' and backends' shutdown. Workers must have stopped. */
void tni_load_shutdown(void);

/* Rows of the host table that a plugin calls inside init. */
tn_status tni_register_kernel(tn_registration *reg, const tn_kernel_def *def);
tn_status tni_register_backend(tn_registration *reg, const tn_backend_def *def);
tn_status tni_register_layer(tn_registration *reg, const tn_layer_def *def);
tn_status tni_register_operator(tn_registration *reg, const tn_operator_def *def);
tn_status tni_register_interface(tn_registration *reg, const char *name, uint32_t version, const void *table);
/* Rows that a plugin calls at any other time: find_interface, tensor_from_memory. */
tn_status tni_interface_find(const char *name, uint32_t version, const void **out_table);
/* Rows compile and compiled_free. */
tn_status tni_compile(const struct tn_compile_def *def, struct tn_compiled *out_compiled);
void tni_compiled_free(struct tn_compiled *compiled); /* NULL is allowed */
tn_status tni_foreign_tensor(const tn_foreign_def *desc, tn_tensor **out_tensor);

/* Lists for the API; strings live as long as the process. Valid after tni_load_init. */
size_t tni_report_plugin_count(void);
tn_status tni_report_plugin(size_t i, tn_plugin_report *out_report);
tn_status tni_report_details(size_t i, tn_plugin_details *out_details);
tn_status tni_report_interface(size_t i, size_t k, const char **out_name, uint32_t *out_version);
size_t tni_report_device_count(void);
tn_status tni_report_device(size_t i, tn_device_report *out_report);
tn_status tni_report_providers(const tn_op *op, const char *const **out_names, size_t *out_n);
void tni_open_all_backends(void);
/* Forgets what probes have said (NULL: of all plugins) and lets a quarantined plugin be asked for again. */
tn_status tni_probes_clear(const char *plugin, size_t *out_count);
size_t tni_report_layer_count(void);
tn_status tni_report_layer(size_t i, tn_layer_report *out_report);
tn_status tni_why(const tn_op *op, const char *device, tn_dtype dtype,
                  void (*line)(void *ctx, const char *words), void *ctx);

#endif
