/* SPDX-License-Identifier: Apache-2.0
 *
 * One plugin as the loader knows it, and what its manifest says.
 *
 * Records are made by the scan (search.c), judged (judge.c) and opened (open.c); they live until the process
 * ends, because reports hand out their strings. The list never changes after tni_load_init. `state` and `reason` change
 * later: the reason is stored before the state, and one that is replaced stays allocated, so that reports need no lock.
 */
#ifndef TENON_CORE_LOAD_PLUGIN_H
#define TENON_CORE_LOAD_PLUGIN_H

#include <sys/types.h>

#include "core/load/load.h"

/* ------------------------------------------------------------------ manifest */

/* `kernel KEY OP DTYPES PRIORITY`; op "*" is a layer's fallback. Sorted by key, op, priority; lines that agree
 * in the three are merged. */
typedef struct tni_manifest_kernel {
  const char *key;
  const char *op;
  tn_dtype_mask dtypes;
  int32_t priority;
} tni_manifest_kernel;

typedef struct tni_manifest_device {
  const char *name;
  bool privateuse1; /* asks for the alias */
} tni_manifest_device;

/* Where a layer stands without constraints: the region above the anchor of the same place. */
enum { TNI_CLASS_KERNEL = 0, TNI_CLASS_RECORD = 1, TNI_CLASS_TRACE = 2, TNI_CLASS_MODE = 3 };

typedef struct tni_manifest_layer {
  const char *name;
  const char *above; /* comma list, "" if none */
  const char *below;
  uint8_t class_;
  uint8_t bit; /* order.c: where it stands; 0: it has no place */
  char *why;   /* order.c: what decided that; owned, may be NULL */
} tni_manifest_layer;

typedef struct tni_manifest_interface {
  const char *name;
  uint32_t version;
  uint32_t line; /* of the text */
} tni_manifest_interface;

typedef struct tni_strings {
  const char **items;
  size_t count, capacity;
} tni_strings;

/* Strings point into text, which the manifest owns. */
typedef struct tni_manifest {
  char *text;
  const char *name, *version, *license;
  const char *thread_runtime; /* on whose threads its library computes; NULL: none but the host's */
  uint32_t abi_major, abi_minor, needs_minor;
  uint32_t sanitizer; /* TN_SANITIZER_... */
  bool has_abi;
  struct {
    tni_manifest_kernel *items;
    size_t count, capacity;
  } kernels;
  struct {
    tni_manifest_device *items;
    size_t count, capacity;
  } devices;
  struct {
    tni_manifest_layer *items;
    size_t count, capacity;
  } layers;
  tni_strings operators; /* schema texts */
  struct {
    tni_manifest_interface *items;
    size_t count, capacity;
  } interfaces;
  tni_strings needs_cpu, needs_path;
  tni_strings environment; /* variables that change what its code does */
  tni_strings conflicts, overrides; /* plugin names */
} tni_manifest;

/* First entry for (key, op), NULL if there is none; entries with other priorities follow it. */
const tni_manifest_kernel *tni_manifest_find(const tni_manifest *m, const char *key, const char *op);
bool tni_manifest_has_device(const tni_manifest *m, const char *name);
bool tni_manifest_has_kernels(const tni_manifest *m, const char *key); /* any for this key */
bool tni_strings_have(const tni_strings *list, const char *s);

/* ------------------------------------------------------------------ plugin */

struct tni_plugin {
  const char *name;    /* the manifest's, else the file's */
  const char *version; /* "" if unknown */
  char *path;
  const char *file; /* last part of path */
  dev_t dev;
  ino_t ino;
  struct tni_file_id *examined; /* the file as tni_dl_examine saw it; NULL before */
  bool beside;                  /* of the root beside libtenon */
  char *pin;                    /* its SHA-256 as the user wrote it down; NULL: none */
  _Atomic(struct tni_probe *) probe; /* what is known of its probe; set once */
  struct tni_probe *forgotten;       /* what reports may still show */
  char *remark; /* for the reason of a ready plugin; NULL: none. Loader lock */
  uint32_t root_order;
  uint32_t override_rank;
  tni_manifest *manifest; /* NULL if it could not be read */
  _Atomic int state;      /* tn_plugin_state */
  _Atomic(char *) reason; /* NULL: nothing to say */
  struct tni_old_words *old_reasons; /* reports may still hold them */
  void *handle;           /* of the mapped file; never closed */
  tn_plugin_query_fn query;
  void (*shutdown)(void);
  _Atomic(const void *) code; /* where its file is mapped: tells whose code an address is in */
  const void **tables;     /* of its interfaces, in the manifest's order; NULL: not open */
  _Atomic uint32_t n_given;   /* interfaces given to others: they are never given back */
  _Atomic uint32_t n_foreign; /* storages whose memory it owns */
  _Atomic bool unloaded;   /* opened again only when somebody names it */
  uint32_t open_order; /* 1 for the first plugin that became ready, 0 for others */
};

static inline tn_plugin_state tni_plugin_state(const tni_plugin *p) {
  return (tn_plugin_state)atomic_load_explicit(&p->state, memory_order_acquire);
}
static inline const char *tni_plugin_reason(const tni_plugin *p) {
  const char *reason = atomic_load_explicit(&p->reason, memory_order_acquire);
  return reason ? reason : "";
}

/* The list: fixed once tni_load_init has returned TN_OK. */
size_t tni_plugin_count(void);
tni_plugin *tni_plugin_at(size_t i);
tni_plugin *tni_plugin_named(const char *name); /* the one that holds the name, or NULL */

#endif
