/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sanitizer this file is compiled under, as a number (for the query) and as manifest text. The host
 * refuses a plugin that was built under another one than itself.
 */
#ifndef TENON_KIT_SANITIZER_H
#define TENON_KIT_SANITIZER_H

#include <tenon/plugin.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TN_HAS_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define TN_HAS_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TN_HAS_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define TN_HAS_THREAD_SANITIZER 1
#endif

#if defined(TN_HAS_ADDRESS_SANITIZER)
#define TN_SANITIZER_HERE TN_SANITIZER_ADDRESS
#define TN_SANITIZER_LINE "sanitizer address\n"
#elif defined(TN_HAS_THREAD_SANITIZER)
#define TN_SANITIZER_HERE TN_SANITIZER_THREAD
#define TN_SANITIZER_LINE "sanitizer thread\n"
#else
#define TN_SANITIZER_HERE TN_SANITIZER_NONE
#define TN_SANITIZER_LINE ""
#endif

#endif
