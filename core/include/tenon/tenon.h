/* SPDX-License-Identifier: Apache-2.0
 *
 * The application API, whole: include this one.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/autograd.h>
#include <tenon/error.h>
#include <tenon/layer.h>
#include <tenon/fallback.h>
#include <tenon/load.h>
#include <tenon/memory.h>
#include <tenon/ops.h>
#include <tenon/profile.h>
#include <tenon/scoped.h>
#include <tenon/stream.h>
#include <tenon/tensor.h>

#endif
