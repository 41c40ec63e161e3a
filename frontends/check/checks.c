/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all checks, from checks.inc.
 */
#include "frontends/check/check.h"

#define CHECK(name) extern const tni_check tni_check_##name;
#include "frontends/check/checks.inc"
#undef CHECK

#define CHECK(name) &tni_check_##name,
const tni_check *const tni_checks[] = {
#include "frontends/check/checks.inc"
    NULL};
#undef CHECK
