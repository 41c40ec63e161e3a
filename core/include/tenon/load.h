/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins, devices and operators as an application lists them. Nothing here opens a plugin except
 * tn_devices_open_all, tn_device_open (tenon/tensor.h) and tn_op_why.
 */
#ifndef TENON_LOAD_H
#define TENON_LOAD_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the manifests of every search root. Called by the first API function that needs it; calling it early
 * only moves the cost. A bad plugin never makes it fail. Thread-safe, idempotent. */
TN_EXPORT tn_status tn_init(void);
/* Stops workers, drains devices, calls layers' then backends' shutdown. Calls that begin after it did answer
 * TN_ERR_STATE; a plugin that has a shutdown wants those of other threads to have ended. */
TN_EXPORT void tn_shutdown(void);
TN_EXPORT const char *tn_version(void); /* "0.1.0" */

typedef enum tn_plugin_state {
  TN_PLUGIN_FOUND = 0,    /* seen, manifest not judged yet */
  TN_PLUGIN_REJECTED = 1, /* never opened: the reason says what is wrong with the file */
  TN_PLUGIN_LOADABLE = 2, /* manifest is good; not opened yet */
  TN_PLUGIN_NO_HARDWARE = 3,
  TN_PLUGIN_READY = 4,
  TN_PLUGIN_FAILED = 5, /* opening or init failed: the reason has the loader's words */
  TN_PLUGIN_QUARANTINED = 6 /* opening it would end or block the process, says a child that tried */
} tn_plugin_state;
TN_EXPORT const char *tn_plugin_state_name(tn_plugin_state state); /* "no hardware" */

/* All strings are borrowed for the life of the process. */
typedef struct tn_plugin_report {
  const char *name; /* file name if the manifest could not be read */
  const char *version;
  const char *path;
  tn_plugin_state state;
  const char *reason; /* "" if there is nothing to say */
} tn_plugin_report;
TN_EXPORT size_t tn_plugin_count(void);
TN_EXPORT tn_status tn_plugin_get(size_t i, tn_plugin_report *out_report);

/* More about one plugin; reads its whole file. Strings are borrowed for the life of the process. */
typedef struct tn_plugin_details {
  const char *license;       /* "" if the manifest could not be read */
  char sha256[65];           /* of the file as it is now; "" if it cannot be read */
  const char *pinned_sha256; /* NULL: not pinned */
  bool trusted;              /* opened without a probe: beside libtenon, or pinned */
  const char *probe;         /* what a probe said: "ready", "quarantined"; NULL: nothing is remembered */
  const char *probe_words;   /* quarantined: what happened */
  const char *probe_devices; /* "toy 2, other 1" */
  int64_t probe_age_seconds;
  uint32_t probe_ms; /* how long it took */
  size_t n_interfaces;
} tn_plugin_details;
TN_EXPORT tn_status tn_plugin_get_details(size_t i, tn_plugin_details *out_details);
/* Interface k of plugin i, as its manifest lists it. */
TN_EXPORT tn_status tn_plugin_get_interface(size_t i, size_t k, const char **out_name, uint32_t *out_version);
/* Forgets what probes have said about a plugin (by its name or its file's; NULL: about all), on disk and here: the next
 * request for a quarantined one probes it again. Stores how many answers there were. */
TN_EXPORT tn_status tn_plugins_clear(const char *name, size_t *out_count);

/* Opens a plugin by name, as naming its device does. Its failure is its stored reason. */
TN_EXPORT tn_status tn_plugin_open(const char *name);
/* Takes an open plugin out of all tables: its kernels, operators, layers and devices go and its shutdown is called. Code
 * stays mapped, and the next request that names its device, its layer or itself runs init again; nothing else opens it.
 * TN_ERR_STATE with counts while memory segments, streams, events, storages over its memory, autograd nodes of its operators, interfaces
 * given to others, or kernels of others for its operators are in use: then nothing has changed. Not open: TN_OK.
 * Call it while no other thread computes with the plugin. */
TN_EXPORT tn_status tn_plugin_unload(const char *name);

typedef struct tn_device_report {
  char name[64]; /* "cpu", "acme:1" */
  const char *plugin;
  tn_plugin_state state;
  const char *reason;
  const char *description; /* "" until opened */
  const char *locality;    /* NULL: unknown */
  bool has_memory;         /* false until opened */
  uint64_t memory_total_bytes;
  uint64_t memory_free_bytes;
} tn_device_report;
TN_EXPORT size_t tn_device_count(void); /* one per device of opened backends, one per unopened backend */
TN_EXPORT tn_status tn_device_get(size_t i, tn_device_report *out_report);
/* Opens every loadable backend; failures are recorded in the reports only. */
TN_EXPORT void tn_devices_open_all(void);

typedef struct tn_op_report {
  const char *name;
  const char *schema;
  const char *doc;
  bool differentiable;
  const char *const *providers; /* "cpu", ...: plugins whose manifests list a kernel; n_providers entries */
  size_t n_providers;
  const char *functional; /* the operator whose kernels serve it: itself, or what it is an in-place or out form of */
  uint32_t flags;         /* TN_OP_... of tenon/operator.h */
  uint8_t form;           /* TN_FORM_... */
  bool has_meta, has_body, has_formula; /* a meta rule, a composite, a gradient of its own */
  uint64_t grad_args;     /* bit i: its formula has a gradient of argument i */
  uint64_t nondiff_outs;  /* bit i: its formula says that result i never requires grad */
  const struct tn_sample *samples; /* of a plugin's operator, ended by an entry without op; NULL: none given */
} tn_op_report;
TN_EXPORT size_t tn_op_count(void);
TN_EXPORT tn_status tn_op_get(size_t i, tn_op_report *out_report);
TN_EXPORT tn_status tn_op_describe(const tn_op *op, tn_op_report *out_report); /* op: of tn_op_find */
/* Who would run operator op on a device for a dtype, who lost, and why: calls line(ctx, words) per line.
 * Opens what such a call would open. */
TN_EXPORT tn_status tn_op_why(const char *op, const char *device, tn_dtype dtype,
                              void (*line)(void *ctx, const char *words), void *ctx_line);

/* On what parallel regions run: threads and where their number comes from, processors, cores and memory nodes, the
 * cgroup's limit, binding, and every thread runtime that this process has loaded. Calls line(ctx, words) per line.
 * Looks at the machine more closely than tn_init does (1 ms). */
TN_EXPORT tn_status tn_threads_describe(void (*line)(void *ctx, const char *words), void *ctx_line);

/* The boxed door for frontends: finds an operator by name and calls it from the top. args: one value per
 * schema argument (kind NONE where a default shall apply), n_args may be shorter than the schema. out: one
 * value per result, owned by the caller on success. */
TN_EXPORT tn_status tn_op_find(const char *name, const tn_op **out_op);
TN_EXPORT tn_status tn_op_call(const tn_op *op, const tn_value *args, size_t n_args, tn_value *out, size_t n_out);

/* The table of functions that a plugin offers under a name and version, opening the plugin; shared for the life of the
 * process. What stands in it is between the plugin and its users. TN_ERR_NOT_FOUND: says what there is. */
TN_EXPORT tn_status tn_interface_find(const char *name, uint32_t version, const void **out_table);

#ifdef __cplusplus
}
#endif
#endif
