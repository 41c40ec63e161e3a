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

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include <tenon/plugin_compiler.h>

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
void tni_list_take_back(tni_plugin_list *list); /* start failed: nobody has seen it */
/* Stores the thread's words as the reason, then the state. */
void tni_plugin_set(tni_plugin *p, tn_plugin_state state);

/* ------------------------------------------------------------------ search.c */

/* Every *.so of every root, ordered, without double entries; entries that are no readable file are rejected
 * already, and so is a root that may not be used (an entry of its own). */
tn_status tni_search(tni_plugin_list *list);
/* Does it belong to root or the user, and can others not write it? */
tn_status tni_owner_check(const char *path, const struct stat *st);

/* ------------------------------------------------------------------ helper.c */

/* The folder of libtenon's real path (of the program that carries the core in itself), owned (tni_free). NULL with
 * TN_OK: it cannot be found out. */
tn_status tni_own_folder(char **out_path);
/* The program of that name in libexec, owned (tni_free). TN_ERR_NOT_FOUND with the places where it was looked for. */
tn_status tni_helper_path(const char *name, char **out_path);

typedef struct tni_child {
  char *output;         /* owned (free); NUL-terminated; what it wrote to the pipe */
  size_t output_bytes;
  int status;           /* waitpid's; -1: unknown, because this process does not wait for its children */
  bool timed_out;       /* and was killed */
  uint32_t milliseconds;
} tni_child;
/* Runs `program FD argument` with a pipe's end as FD, files (all above 9) as FD + 1, ..., stdin and outputs on /dev/null, default signals, a process group
 * of its own; kills it after limit_ms. Whatever the host's threads, signals, environment and open files are like. */
tn_status tni_child_run(const char *program, const char *argument, const int *files, int n_files, uint32_t limit_ms,
                        tni_child *out_child);

/* ------------------------------------------------------------------ cache_folder.c */

/* The folder, -1: there is none that may be used. make: it is made if need be. */
int tni_cache_open(const char *part, bool make);
/* A whole file of fewer than most bytes, owned (free), NUL behind it; NULL: not there, or not to be had. out_bytes may be
 * NULL. */
char *tni_cache_read(int folder, const char *name, size_t most, size_t *out_bytes);
typedef struct tni_piece {
  const void *bytes;
  size_t n;
} tni_piece;
/* Readers see the old file or the new one: the pieces one after the other. */
void tni_cache_write(int folder, const char *name, const tni_piece *pieces, size_t n);
/* Another reader of the folder, which does not move it. The caller's; NULL: it cannot be read. */
DIR *tni_cache_list(int folder);
bool tni_pread_all(int fd, void *bytes, size_t n, off_t at);

/* ------------------------------------------------------------------ compile_cache.c */

/* Fills out and sets out->cached if there is one under the key; out of memory is the only failure. */
tn_status tni_compiled_find(const char *key, tn_compiled *out);
/* libraries: lines of paths, of the files that were mapped with p where it was made. Once one of them is another file, the
 * object is not found. */
tn_status tni_compiled_store(const char *key, const tn_compiled *compiled, const tni_plugin *p, const char *libraries);

/* ------------------------------------------------------------------ fingerprint.c */

/* What tells one state of a file from another without reading it. */
typedef struct tni_file_id {
  uint64_t dev, ino, size;
  int64_t modified_ns, changed_ns;
} tni_file_id;
bool tni_file_id_of(int fd, tni_file_id *out_id);
bool tni_file_id_same(const tni_file_id *a, const tni_file_id *b);
/* SHA-256 of an open file, by pread. */
tn_status tni_file_hash(int fd, char out_hex[65]);
/* A line `library ...` for each of the files in paths (lines) but p's own: its place, size and time. */
void tni_libraries_write(FILE *to, const tni_plugin *p, const char *paths);
/* What follows `library ` in such a line: is it still that file? */
bool tni_library_is_same(const char *line);

/* ------------------------------------------------------------------ probe.c, probe_cache.c */

enum { TNI_PROBE_READY = 1, TNI_PROBE_QUARANTINED = 2 };
/* One answer of tenon-probe; lives as long as the process once a plugin points to it. */
typedef struct tni_probe {
  int verdict;         /* TNI_PROBE_... */
  int64_t when;        /* seconds since 1970 */
  uint32_t took_ms;
  bool lasting;        /* worth remembering for other processes */
  char *words;         /* quarantined: what happened */
  char *advice;        /* quarantined: words and what ends it, as the reason */
  char *devices;       /* "toy 2, ..."; "" if none */
  char *libraries;     /* lines: a path each */
  struct tni_probe *older; /* forgotten ones of the plugin */
} tni_probe;
void tni_probe_free(tni_probe *probe); /* NULL is allowed */
/* Before the file is mapped: TN_OK if it may be; else words that say why it is quarantined. Loader lock held. */
tn_status tni_probe_check(tni_plugin *p);
/* What is remembered about an unopened plugin; NULL: nothing. Runs nothing. */
const tni_probe *tni_probe_remembered(tni_plugin *p);
/* May the file be opened without a probe? */
bool tni_probe_trusts(const tni_plugin *p);

/* The disk cache. Out of memory is a status; anything else that goes wrong with it is "nothing is remembered" with a
 * debug line. */
tn_status tni_cache_find(const tni_plugin *p, tni_probe **out_probe);
tn_status tni_cache_store(const tni_plugin *p, const tni_probe *probe);
/* SHA-256 of the plugin's file, remembered by size and times. */
tn_status tni_cache_hash(const tni_plugin *p, char out_hex[65]);
/* Over the variables that its manifest declares, with their values. */
void tni_cache_environment(const tni_plugin *p, char out_hex[65]);
tn_status tni_cache_clear(const char *plugin, size_t *out_count); /* NULL: everything */

/* ------------------------------------------------------------------ pins.c */

/* The text of a list of pins, owned (tni_free); NULL: there is no such file. Damaged, or of another user: words. */
tn_status tni_pins_read(const char *path, char **out_text);
/* Fills p->pin, or fails: the list at path has others and not this file. */
tn_status tni_pins_take(const char *text, const char *path, tni_plugin *p);
/* Is the open file the pinned one? */
tn_status tni_pins_check(const tni_plugin *p, int fd);

/* ------------------------------------------------------------------ policy.c */

/* The user's word about a plugin: TN_OK, or who switched it off. */
tn_status tni_policy_check(const char *name);
/* Opens with `open` what `require:` names; the first that fails, or is not there, is the status. */
tn_status tni_policy_open_required(tn_status (*open)(tni_plugin *p));
bool tni_policy_safe(void); /* TENON_SAFE_MODE */
void tni_policy_warn(void); /* about words that are not understood */

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
/* The starting thread switches on what TENON_LAYERS names; a name that fails is logged and none is on. */
void tni_layers_from_environment(void);
/* Gives every layer of a loadable plugin its bit and the words for it. Plugins whose constraints cannot hold are rejected. */
tn_status tni_order_layers(tni_plugin_list *list);

/* ------------------------------------------------------------------ keys.c */

const char *tni_key_name(unsigned bit);  /* NULL if the bit is not in use */
bool tni_key_reserved(const char *name); /* a key of the core: no plugin may offer it */
/* The id of a device name, given now if it has none; the name must live as long as the process (a manifest's does).
 * Loader lock held. */
tn_status tni_key_backend(const char *name, uint8_t *out_id);
/* Which backend ids have a name, and back to that. */
uint32_t tni_keys_named(void);
void tni_keys_restore(uint32_t mask);
/* Fixes a layer's bit. name is copied. */
tn_status tni_key_layer(const char *name, unsigned bit);

/* ------------------------------------------------------------------ dl_posix.c */

/* Is the file still the one that was judged, whole, and the one that a pin names? */
tn_status tni_dl_examine(tni_plugin *p);
/* Is what stands at its path still the file that was examined? */
bool tni_dl_is_examined(const tni_plugin *p);
/* Maps the file and runs its constructors; checks that the mapped file is the examined one. */
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

/* A layer's copy. Calls, slots and threads may hold the definition of one that was unloaded. */
typedef struct tni_layer_record {
  tn_layer_def def; /* first: known by its address */
  struct tni_layer_record *older;
} tni_layer_record;

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
  const void **tables; /* per manifest interface */
  uint32_t keys;       /* tni_keys_named before */
  bool committed;
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
/* def->device_name must live as long as the process. */
tn_status tni_backend_copy(const tn_backend_def *def, tni_plugin *plugin, tni_backend **out_backend);
void tni_backend_free(tni_backend *backend); /* one that was never published; NULL is allowed */
/* Asks how many devices there are, makes their generators. 0 devices: TN_ERR_UNAVAILABLE with words. */
tn_status tni_backend_count_devices(tni_backend *backend);
/* Copies min(struct_size, size) bytes of a cold struct into zeroed memory of size bytes. */
void tni_copy_sized(void *to, size_t size, const void *from);

/* Rows of backends that are published no more, for tensors that outlive it: they answer in words. */
tn_status tni_backend_tombstone(const tni_backend *backend, tni_backend **out_tombstone);
void tni_backends_end(void); /* exit has begun: the same for every device whose memory the host does not see */
/* Takes the plugin's layers and its fallbacks for later operators out. Registry lock held. */
void tni_commit_retire(const tni_plugin *p);

/* ------------------------------------------------------------------ interface.c */

tn_status tni_interface_add(tn_registration *reg, const char *name, uint32_t version, const void *table);
tn_status tni_interfaces_check(const tn_registration *reg);
/* The first plugin whose manifest lists it, opened or not: whose file decides what a compiler makes. */
tn_status tni_interface_plugin(const char *name, uint32_t version, const tni_plugin **out_plugin);

/* ------------------------------------------------------------------ foreign.c */

/* The plugin whose code an address is in, or NULL. */
tni_plugin *tni_plugin_of_code(const void *address);

/* ------------------------------------------------------------------ meta.c */

tn_status tni_meta_publish(void); /* the core's own backend; idempotent */

#endif
