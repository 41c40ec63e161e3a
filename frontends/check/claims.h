/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plugin's manifest claims, read from its file without running it.
 */
#ifndef TENON_CHECK_CLAIMS_H
#define TENON_CHECK_CLAIMS_H

#include "frontends/check/check.h"

/* Fills what a context says about the file; the rest is left alone. A file without a readable manifest gives
 * manifest_error, and no claims. */
void tni_claims_read(tni_check_context *c);
/* Gives back what the reading made. */
void tni_claims_free(tni_check_context *c);

#endif
