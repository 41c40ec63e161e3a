/* SPDX-License-Identifier: Apache-2.0
 *
 * Words for failures, and logging. Every function of the application API that can fail returns a tn_status;
 * when it is not TN_OK, the calling thread's error record says in a sentence what was expected, what came,
 * and which operator, device or plugin it was about. Nothing aborts on input.
 */
#ifndef TENON_ERROR_H
#define TENON_ERROR_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The words of this thread's last failure, "" if there was none. Borrowed until the thread's next failure. */
TN_EXPORT const char *tn_error_message(void);
/* "invalid argument", ...; static; "unknown status" for a number that is none. */
TN_EXPORT const char *tn_status_name(tn_status status);
/* Forgets the words. */
TN_EXPORT void tn_error_clear(void);
/* Sets the thread's words (printf form, NULL format: no words) and returns code. For frontends and bodies. */
TN_EXPORT tn_status tn_fail(tn_status code, const char *format, ...) TN_PRINTF(2, 3);
/* Puts words in front of the thread's words and returns code. */
TN_EXPORT tn_status tn_wrap(tn_status code, const char *format, ...) TN_PRINTF(2, 3);

/* Logging goes to stderr as `tenon: level: words`. TENON_LOG=error|warn|info|debug sets the level (default
 * warn); an application may take the lines itself. Any thread; fn runs under a lock and may not log. */
typedef void (*tn_log_fn)(void *ctx, int32_t level, const char *words);
TN_EXPORT void tn_log_set(tn_log_fn fn, void *ctx); /* NULL: back to stderr */
TN_EXPORT void tn_log(int32_t level, const char *format, ...) TN_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
