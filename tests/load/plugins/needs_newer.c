/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: the right major, but it cannot work with a host as old as this one.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST("tenon 1\nname needs-newer\nversion 1.0\nabi 1 999 998\nlicense Apache-2.0\n" TN_SANITIZER_LINE)
