/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the public API that the installed libtenon may lack, because this program may be newer: NULL then, and
 * the checks that need them are skipped with that reason.
 */
#ifndef TENON_CHECK_LATER_H
#define TENON_CHECK_LATER_H

#include "frontends/check/check.h"

extern tn_status tn_plugin_unload(const char *name) __attribute__((weak));
extern tn_status tn_fallback_set(const char *op, const char *device, tn_fallback_policy policy) __attribute__((weak));
extern tn_status tn_layer_set(const char *name, bool on, bool *out_before) __attribute__((weak));

#endif
