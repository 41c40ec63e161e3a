/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: built for a later major of the ABI; a line of its manifest means nothing to this host, and still the
 * reason is the ABI.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST("tenon 1\nname too-new\nversion 1.0\nabi 2 0 0\nlicense Apache-2.0\n" TN_SANITIZER_LINE
            "device new alias of-the-future\n")
