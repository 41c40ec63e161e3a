/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends and providers that a unit test makes for itself, inside the process: what a plugin would register,
 * put into the tables directly. So a test decides what a provider claims, declines and breaks.
 */
#ifndef TN_TESTS_UNIT_PRIVATE_BACKEND_H
#define TN_TESTS_UNIT_PRIVATE_BACKEND_H

#include "core/load/load_int.h"

/* The device 0 of a backend with two devices, published at the first call for its name. flags:
 * TN_BACKEND_HOST_MEMORY, or 0 for memory whose address the core never gets. It has no kernels. */
tn_device private_backend(const char *name, uint32_t flags);

/* Bytes that crossed between the host and all private backends. */
typedef struct private_backend_traffic {
  uint64_t to_host, from_host;
} private_backend_traffic;
private_backend_traffic private_backend_moved(void);

/* One provider of an operator on such a backend. fn, dtypes, flags, priority, user and plugin (its name) are the
 * test's; the rest is filled. Lives until private_kernel_remove; static storage is the easiest. */
void private_kernel_add(const char *op, const char *device, tni_kernel *kernel);
void private_kernel_remove(const char *op, tni_kernel *kernel);

#endif
