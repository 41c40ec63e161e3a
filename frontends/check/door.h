/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin's door without libtenon behind it: this program opens the file, negotiates, and hands init a host table of its
 * own that writes down what is registered. So the raw rows of a backend can be called as they are, without the core's
 * caches and guards around them, and a host of another age can be played. A process uses either the door or libtenon's
 * loader for a plugin, never both: init runs once.
 */
#ifndef TENON_CHECK_DOOR_H
#define TENON_CHECK_DOOR_H

#include <tenon/plugin_backend.h>
#include <tenon/plugin_layer.h>
#include <tenon/operator.h>

#include "frontends/check/check.h"

/* A way in which a registration itself breaks the contract. */
typedef struct tni_door_fault {
  char *item, *words;
} tni_door_fault;

typedef struct tni_door {
  void *handle;
  tn_plugin_query_fn query;
  tn_query answer;
  tn_backend_def *backends; /* full-size copies: rows that the plugin does not know are zero */
  size_t n_backends;
  tni_claim_kernel *kernels; /* lines that agree in key, operator and priority are one */
  size_t n_kernels;
  char **layers;
  size_t n_layers;
  char **operators; /* schema texts */
  size_t n_operators;
  tni_claim_interface *interfaces;
  size_t n_interfaces;
  tni_door_fault *faults;
  size_t n_faults;
} tni_door;

/* Maps the file and finds the symbol. NULL, or why not (owned). */
char *tni_door_open(const char *file, tni_door *out_door);
/* The query of this host, as libtenon asks it. */
tn_query tni_door_question(void);
/* Asks, and keeps the answer. */
tn_status tni_door_negotiate(tni_door *door);
/* The recording table, full size. */
const tn_host *tni_door_host(void);
/* How often a row answered that it serves nothing. */
size_t tni_door_refusals(void);
/* Runs init with a table; the answer is init's. */
tn_status tni_door_init(tni_door *door, const tn_host *host);

/* All of the above in a check: true if the plugin is up. What goes wrong is a failure of item "init", and a machine
 * without the hardware is a skip. */
bool tni_door_enter(tni_check_report *r, const tni_check_context *c, tni_door *out_door);

/* Gives back what was written down; the plugin stays as it is. Any door, also one that did not open. */
void tni_door_close(tni_door *door);

/* One usable device of a backend of the plugin. */
typedef struct tni_raw {
  const tn_backend_def *def;
  int32_t index, count; /* which, and how many the backend has */
} tni_raw;
/* Calls visit for each backend's first device, and second where it has one; skips those without any. */
void tni_door_devices(tni_check_report *r, const tni_check_context *c,
                      void (*visit)(tni_check_report *r, const tni_raw *device));

/* "acme:1 WHAT", for items (owned). */
char *tni_raw_item(const tni_raw *device, const char *format, ...) TN_PRINTF(2, 3);
/* Rows of a device, without the repetition. */
tn_status tni_raw_alloc(const tni_raw *d, uint64_t size, tn_memory *out_memory);
void tni_raw_free(const tni_raw *d, const tn_memory *memory);
tn_status tni_raw_write(const tni_raw *d, const tn_memory *to, int64_t offset, const void *bytes,
                        uint64_t size);
tn_status tni_raw_read(const tni_raw *d, const tn_memory *from, int64_t offset, void *bytes, uint64_t size);
/* n bytes that depend on seed, the same each time. */
void tni_raw_fill(unsigned char *bytes, uint64_t n, uint32_t seed);

#endif
