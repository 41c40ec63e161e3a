/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin folder of a test: made empty, filled with chosen files, looked at through the probe program.
 */
#ifndef TESTS_LOAD_FOLDER_H
#define TESTS_LOAD_FOLDER_H

#include <stddef.h>
#include <tenon/types.h>

typedef struct folder {
  char path[512];
} folder;

folder folder_make(void); /* a fresh one below the build folder */
void folder_remove(const folder *f);
/* A link to one of the plugins that the build made, by its target's name. */
void folder_add(const folder *f, const char *plugin);
/* A copy of it whose first n bytes are kept (0: all), with one byte patched if patch_at >= 0. */
void folder_add_copy(const folder *f, const char *plugin, const char *name, size_t keep, long patch_at,
                     unsigned char patch);
void folder_add_bytes(const folder *f, const char *name, const char *bytes, size_t n);

/* The probe program's output with TENON_PLUGIN_PATH = path and further settings "NAME=value ..." (or ""); the exit
 * status must be 0. Owned by the caller. What probes say is remembered for all tests together, in the build folder. */
char *probe(const char *path, const char *settings, const char *commands);
/* The same of devices_probe.c. */
char *probe_devices(const char *path, const char *commands);

/* Runs a command line of the shell (printf form); its exit status must be 0. */
void shell(const char *format, ...) TN_PRINTF(1, 2);
/* The same with a cache folder of its own; `f` may be NULL for no root. */
char *probe_cached(const folder *f, const folder *cache, const char *settings, const char *commands);

#endif
