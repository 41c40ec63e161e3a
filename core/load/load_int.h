/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of loading, between the files of this folder. Reading order: search, elf, manifest, judge, order
 * (all at start), then open, dl, transaction, commit (when a device or a cell asks).
 *
 * Failures about a file are statuses whose words become the plugin's stored reason; TN_ERR_OUT_OF_MEMORY is
 * never a reason: it travels up and leaves everything as it was.
 */
#ifndef TENON_CORE_LOAD_INT_H
#define TENON_CORE_LOAD_INT_H

#include "core/load/plugin.h"

/* ------------------------------------------------------------------ list.c */

typedef struct tni_plugin_list {
  tni_plugin **items;
  size_t count, capacity;
} tni_plugin_list;

/* Adds a record for the file root/name; path and name are copied. */
tn_status tni_list_add(tni_plugin_list *list, const char *path, uint32_t root_order, tni_plugin **out_plugin);
void tni_list_deinit(tni_plugin_list *list); /* only for lists that were never published */
void tni_list_publish(tni_plugin_list *list);
/* Stores the thread's words as the reason, then the state. */
void tni_plugin_set(tni_plugin *p, tn_plugin_state state);

/* ------------------------------------------------------------------ search.c */

/* Every *.so of every root, ordered, without double entries; entries that are no readable file are rejected
 * already, and so is a root that may not be used (an entry of its own). */
tn_status tni_search(tni_plugin_list *list);

/* ------------------------------------------------------------------ elf.c */

/* Checks the file's headers and reads the Tenon note. The text is owned (tni_free), NUL-terminated. */
tn_status tni_elf_read(int fd, char **out_text);

/* ------------------------------------------------------------------ manifest.c */

/* Consumes text, also on failure. */
tn_status tni_manifest_parse(char *text, tni_manifest **out_manifest);
void tni_manifest_free(tni_manifest *m); /* NULL is allowed */

/* ------------------------------------------------------------------ abi_check.c, needs.c */

tn_status tni_abi_check(uint32_t major, uint32_t minor, uint32_t needs_minor);
uint32_t tni_sanitizer(void); /* of this build: TN_SANITIZER_... */
tn_status tni_sanitizer_check(uint32_t plugin_sanitizer);
/* TN_ERR_UNAVAILABLE: this machine lacks something; TN_ERR_DATA: asks for something that nobody knows. */
tn_status tni_needs_check(const tni_manifest *m);

/* ------------------------------------------------------------------ judge.c, order.c */

/* From FOUND to LOADABLE, REJECTED or NO_HARDWARE, for all plugins of the list, in its order. */
tn_status tni_judge(tni_plugin_list *list);
/* Gives every layer of a loadable plugin its bit. Plugins whose constraints cannot hold are rejected. */
tn_status tni_order_layers(tni_plugin_list *list);

/* ------------------------------------------------------------------ keys.c */

const char *tni_key_name(unsigned bit);  /* NULL if the bit is not in use */
bool tni_key_reserved(const char *name); /* a key of the core: no plugin may offer it */
/* The id of a device name, given now if it has none. Loader lock held. */
tn_status tni_key_backend(const char *name, uint8_t *out_id);
/* Fixes a layer's bit. name is copied. */
tn_status tni_key_layer(const char *name, unsigned bit);

/* ------------------------------------------------------------------ dl_posix.c */

/* Maps the file and runs its constructors; checks that the mapped file is the judged one. */
tn_status tni_dl_open(tni_plugin *p);
tn_status tni_dl_symbol(tni_plugin *p, const char *name, void **out_address);

/* ------------------------------------------------------------------ open.c */

/* Loader lock held. TN_OK: ready. Else the stored reason in words. */
tn_status tni_plugin_open(tni_plugin *p);
tn_status tni_load_lock(void); /* TN_ERR_STATE if this thread holds it already */
void tni_load_unlock(void);

/* ------------------------------------------------------------------ transaction.c, commit.c */

typedef struct tni_pending_kernel {
  tni_kernel *kernel; /* NULL: the host lacks the operator or knows another schema; only counted */
  tn_op *op;          /* NULL: of an operator in the same transaction, or a fallback */
  const char *op_name;
} tni_pending_kernel;

typedef struct tni_pending_operator {
  tn_operator_def *def; /* deep copy */
  tn_op *op;            /* set by commit */
} tni_pending_operator;

/* Everything that one init registered; nothing is visible before tni_commit. */
struct tn_registration {
  tni_plugin *plugin;
  struct {
    tni_pending_kernel *items;
    size_t count, capacity;
  } kernels;
  struct {
    tni_pending_operator *items;
    size_t count, capacity;
  } operators;
  struct {
    tni_backend **items;
    size_t count, capacity;
  } backends;
  struct {
    tn_layer_def **items;
    size_t count, capacity;
  } layers;
  tn_dtype_mask *seen; /* per manifest kernel: dtypes registered so far */
  size_t n_skipped;    /* kernels that this host has no use for */
  const char *first_skipped;
  tn_status failed; /* the first register call that failed; its words are kept */
  char *failed_words;
};

tn_status tni_transaction_begin(tni_plugin *p, tn_registration *out_reg);
/* Did init register all that the manifest lists? */
tn_status tni_transaction_check(tn_registration *reg);
/* Frees what was not committed. */
void tni_transaction_end(tn_registration *reg);
/* Publishes everything, or nothing; what was published leaves the journal. Loader lock held. */
tn_status tni_commit(tn_registration *reg);
/* A full-size private copy; its strings are copied as well. */
tn_status tni_operator_copy(const tn_operator_def *def, tn_operator_def **out_copy);
void tni_operator_free(tn_operator_def *def); /* NULL is allowed */
tn_status tni_backend_copy(const tn_backend_def *def, tni_backend **out_backend);
void tni_backend_free(tni_backend *backend); /* one that was never published; NULL is allowed */
/* Asks how many devices there are, makes their generators. 0 devices: TN_ERR_UNAVAILABLE with words. */
tn_status tni_backend_count_devices(tni_backend *backend);
/* Copies min(struct_size, size) bytes of a cold struct into zeroed memory of size bytes. */
void tni_copy_sized(void *to, size_t size, const void *from);

/* ------------------------------------------------------------------ meta.c */

tn_status tni_meta_publish(void); /* the core's own backend; idempotent */

#endif
