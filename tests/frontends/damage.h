/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged files: every truncation of a small good file and every change of one of its bytes must be read or be
 * refused with words, and leave no crash, leak or output behind.
 */
#ifndef TN_TEST_FRONTENDS_DAMAGE_H
#define TN_TEST_FRONTENDS_DAMAGE_H

#include "tools.h"

/* Reads the file at path and checks whatever was read against its size; what it read is freed. */
typedef tn_status (*tt_read_fn)(const char *path, size_t size_bytes);
/* Runs fn on each damaged form of data. Returns how many of them were refused. */
size_t tt_damage(const void *data, size_t size_bytes, tt_read_fn fn);

#endif
