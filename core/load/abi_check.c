/* SPDX-License-Identifier: Apache-2.0
 *
 * Do the plugin's contract and this host's fit? Asked twice with the same words: of the manifest, before any
 * code runs, and of the answer to tenon_plugin_query.
 */
#include "core/load/load_int.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

tn_status tni_abi_check(uint32_t major, uint32_t minor, uint32_t needs_minor) {
  if (major < TN_ABI_MAJOR)
    return TN_FAIL(TN_ERR_VERSION, "ABI too old: built for %u.%u, this host serves %d.0 to %d.%d", major,
                   minor, TN_ABI_MAJOR, TN_ABI_MAJOR, TN_ABI_MINOR);
  if (major > TN_ABI_MAJOR)
    return TN_FAIL(TN_ERR_VERSION, "ABI too new: built for %u.%u, this host serves %d.0 to %d.%d", major,
                   minor, TN_ABI_MAJOR, TN_ABI_MAJOR, TN_ABI_MINOR);
  if (needs_minor > TN_ABI_MINOR)
    return TN_FAIL(TN_ERR_VERSION, "ABI too new: needs a host with %u.%u or later, this host has %d.%d",
                   major, needs_minor, TN_ABI_MAJOR, TN_ABI_MINOR);
  if (needs_minor > minor)
    return TN_FAIL(TN_ERR_DATA, "ABI %u.%u that needs %u.%u: the needed minor may not be above the built one",
                   major, minor, major, needs_minor);
  return TN_OK;
}

uint32_t tni_sanitizer(void) {
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
  return TN_SANITIZER_ADDRESS;
#elif defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
  return TN_SANITIZER_THREAD;
#else
  return TN_SANITIZER_NONE;
#endif
}

/* Code built with a sanitizer in one side only gives false reports. */
tn_status tni_sanitizer_check(uint32_t plugin_sanitizer) {
  static const char *const names[] = {"no sanitizer", "the address sanitizer", "the thread sanitizer"};
  if (plugin_sanitizer > TN_SANITIZER_THREAD)
    return TN_FAIL(TN_ERR_VERSION, "built with sanitizer number %u, which this host does not know",
                   plugin_sanitizer);
  if (plugin_sanitizer == tni_sanitizer()) return TN_OK;
  return TN_FAIL(TN_ERR_VERSION, "built with %s, this host with %s: the two do not go together",
                 names[plugin_sanitizer], names[tni_sanitizer()]);
}
