/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this program share: memory and texts that cannot fail quietly, and the clock. The program is a
 * tool of its own: when memory runs out it says so and ends with exit status 2, which no report is written after.
 */
#ifndef TENON_CHECK_TOOLS_H
#define TENON_CHECK_TOOLS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/types.h>

enum { TNI_EXIT_OK = 0, TNI_EXIT_FINDINGS = 1, TNI_EXIT_USAGE = 2, TNI_EXIT_INTERRUPTED = 130 };

/* Owned: free(). Zeroed. */
void *tni_check_alloc(size_t size_bytes);
/* Owned: free(). printf form. */
char *tni_check_text(const char *format, ...) TN_PRINTF(1, 2);
char *tni_check_vtext(const char *format, va_list args);
/* Room for one more in an array: doubles it when count has reached a power of two (or 0). */
void tni_check_grow(void *array_pointer, size_t count, size_t item_bytes);
/* Real path of this program; lives as long as the process. */
const char *tni_check_self(void);
double tni_check_seconds(void); /* monotonic */
/* A limit in seconds as this build needs it: sanitizers are many times slower. */
int tni_check_patience(int seconds);

#endif
