/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: built for an ABI that this host does not serve any more. Its manifest says so; it is never opened.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST("tenon 1\nname too-old\nversion 1.0\nabi 0 9 0\nlicense Apache-2.0\n" TN_SANITIZER_LINE
            "device old\n")
