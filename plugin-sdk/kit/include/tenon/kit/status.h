/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses from inside: the two macros that registry, core and plugins share. The words always belong to the
 * host; the kit reaches it through the one pointer below, which TN_PLUGIN's init wrapper (or, inside
 * libtenon, the core itself) sets before anything else runs.
 */
#ifndef TENON_KIT_STATUS_H
#define TENON_KIT_STATUS_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The full-size host table: no NULL row. Hidden symbol; read-only after init. */
extern const tn_host *tn_kit_host_table;
static inline const tn_host *tn_kit_host(void) { return tn_kit_host_table; }

/* Forwards a failure. */
#define TN_TRY(expr)                                                                               \
  do {                                                                                             \
    tn_status tn_try_status_ = (expr);                                                             \
    if (__builtin_expect(tn_try_status_ != TN_OK, 0)) return tn_try_status_;                       \
  } while (0)

/* Creates a failure: code, printf format, arguments. The value is the code. */
#define TN_FAIL(code, ...) (tn_kit_host_table->fail((code), __VA_ARGS__))
/* Puts words in front of the failure that just came up. */
#define TN_WRAP(code, ...) (tn_kit_host_table->wrap((code), __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
