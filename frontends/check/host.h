/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin as libtenon sees it, and tensors on its devices: what checks through the public API share.
 */
#ifndef TENON_CHECK_HOST_H
#define TENON_CHECK_HOST_H

#include "frontends/check/check.h"

/* The host's report about the file under test; false: the host does not list it (a failure of item "listed"). */
bool tni_host_find(tni_check_report *r, const tni_check_context *c, tn_plugin_report *out_report);
/* Opens the plugin as its kind is opened: its devices, its operators, or a cell that it lists. The status of the first
 * that fails. */
tn_status tni_host_open(const tni_check_context *c);
/* Is the file mapped into this process? */
bool tni_host_is_mapped(const tni_check_context *c);
/* Adds the second backend's search root. NAME=VALUE for tni_check_stage (owned), NULL where it is not installed. */
char *tni_host_second_root(const tni_check_context *c);

/* n floats: small, different, both signs; exactly representable in float16. */
void tni_host_values(float *values, size_t n, unsigned seed);
tn_status tni_host_tensor(const float *values, const tn_dim *sizes, int32_t ndim, tn_device device,
                          tn_tensor **out_tensor);
/* Reads a float32 tensor's values row-major (owned by the caller's array of numel floats). */
tn_status tni_host_read(tn_tensor *tensor, float *values, size_t n);
/* A fault that says that the device lacks a kernel, not that something is wrong. */
bool tni_host_is_missing(tn_status status);

#endif
