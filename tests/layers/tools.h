/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this folder share.
 */
#ifndef TESTS_LAYERS_TOOLS_H
#define TESTS_LAYERS_TOOLS_H

#include <tenon/tenon.h>

#include "tn_test.h"

/* Sets the search roots, before the process's first call of the library. */
void layers_start(void);
/* A row of floats on the CPU. */
tn_tensor *row(const float *values, tn_dim n);
/* What a command prints, stderr included; a `%s`-free shell line that begins with settings. Owned by the caller. */
char *shell(const char *line);

#endif
