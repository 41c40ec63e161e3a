/* SPDX-License-Identifier: Apache-2.0
 *
 * Every header that a plugin may include; test_headers.py reads this list and refuses one that is not whole.
 */
#ifndef TENON_TESTS_SDK_EVERY_MACRO_H
#define TENON_TESTS_SDK_EVERY_MACRO_H

#include <tenon/kit/call.h>
#include <tenon/kit/dim.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/loops.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/philox.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/promote.h>
#include <tenon/kit/register.h>
#include <tenon/kit/sanitizer.h>
#include <tenon/kit/sha256.h>
#include <tenon/kit/shape.h>
#include <tenon/kit/signature.h>
#include <tenon/kit/stack.h>
#include <tenon/kit/status.h>
#include <tenon/layout.h>
#include <tenon/operator.h>
#include <tenon/plugin.h>
#include <tenon/plugin_backend.h>
#include <tenon/plugin_compiler.h>
#include <tenon/plugin_layer.h>
#include <tenon/plugin_profiler.h>
#include <tenon/samples.h>
#include <tenon/types.h>

#endif
