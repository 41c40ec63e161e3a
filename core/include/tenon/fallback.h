/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens where a device has no kernel for an operator: an error, or the CPU computes it in the device's place,
 * with copies both ways. A tensor never changes its device by that. docs/fallback.md tells it whole.
 *
 * Where nobody has said anything, a device whose backend declares that the CPU may stand in gets TN_FALLBACK_ALLOW,
 * any other TN_FALLBACK_ERROR. The user's words (TENON_FALLBACK) and the program's (tn_fallback_set) go before that.
 */
#ifndef TENON_FALLBACK_H
#define TENON_FALLBACK_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tn_fallback_policy {
  TN_FALLBACK_DEFAULT = 0, /* nothing said */
  TN_FALLBACK_ERROR = 1,   /* TN_ERR_MISSING_KERNEL: no operator of the device ever runs on the CPU */
  TN_FALLBACK_WARN = 2,    /* runs on the CPU; one warning per operator and device */
  TN_FALLBACK_ALLOW = 3,   /* runs on the CPU */
  /* As ALLOW; and operators that the CPU has a kernel for run there even where a composite could run on the device. */
  TN_FALLBACK_WHOLE = 4
} tn_fallback_policy;

/* Says what shall happen for operator `op` ("add.Tensor"; its in-place and out forms follow it; NULL: all) on the devices of
 * a name ("acme"; NULL: all). The most specific words hold: both named, then the operator, then the device, then
 * neither; among equals the last. DEFAULT takes such words back. TN_ERR_NOT_FOUND: no plugin offers it.
 * Any thread; calls that run already are not affected. */
TN_EXPORT tn_status tn_fallback_set(const char *op, const char *device, tn_fallback_policy policy);
/* What holds for op on a device, which is opened for it. op NULL: for operators that no words name. */
TN_EXPORT tn_status tn_fallback_get(const char *op, const char *device, tn_fallback_policy *out_policy);

/* What ran on the CPU in place of a device since the start or the last reset, all threads together. */
typedef struct tn_fallback_report {
  const char *op;     /* of the functional form; borrowed for the life of the process */
  const char *device; /* the same */
  uint64_t calls;
  uint64_t bytes_to_host; /* 0 where the host reads the device's memory itself */
  uint64_t bytes_from_host;
} tn_fallback_report;
/* Reports in the order in which each (operator, device) first occurred; some may have no calls. Any thread. */
TN_EXPORT size_t tn_fallback_count(void);
TN_EXPORT tn_status tn_fallback_report_get(size_t i, tn_fallback_report *out_report);
TN_EXPORT void tn_fallback_reset(void); /* all counters become 0; warnings are given again */

#ifdef __cplusplus
}
#endif
#endif
