/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader, for neighbours in the core: names to backends, and opening. See core/load/README.md.
 */
#ifndef TENON_CORE_LOAD_H
#define TENON_CORE_LOAD_H

#include <tenon/load.h>

#include "core/dispatch/dispatch.h"

/* Reads manifests once (idempotent, any thread); called by everything that needs a device or a plugin. */
tn_status tni_load_init(void);
/* Gives a backend's id, opening its plugin if need be. Takes the loader lock; no other lock may be held.
 * TN_ERR_NOT_FOUND or TN_ERR_UNAVAILABLE with the stored reason. */
tn_status tni_backend_open(const char *device_name, const tni_backend **out_backend);
/* Opens every plugin whose manifest lists a kernel for (op, device name of bit); failures are recorded in the
 * reports and the log only. Called when a cell is built, before its first call. */
void tni_open_providers(const tn_op *op, uint8_t bit);
/* "cpu" for id 0; "?" if the id is not in use. Static. */
const char *tni_backend_name(uint8_t id);
/* Bit of a backend or layer name, -1 if unknown. */
int tni_key_find(const char *name);
/* The host's table that plugins and the kit inside libtenon get. */
const tn_host *tni_host(void);
/* True from the moment exit handlers run: no plugin is called any more, frees are dropped. */
bool tni_exiting(void);

#endif
