/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a run takes place: a folder of its own with a search root that holds the file under test and nothing else, and
 * the environment that every check's process inherits.
 */
#ifndef TENON_CHECK_PLACE_H
#define TENON_CHECK_PLACE_H

#include "frontends/check/check.h"

/* Sets c->file (from a path as the user wrote it), c->self, c->second, c->folder, the claims, and this process's
 * environment. NULL, or what is wrong (owned). */
char *tni_place_make(const char *path, tni_check_context *c);
/* Removes the folder, and gives back what the context owns. */
void tni_place_remove(tni_check_context *c);

#endif
