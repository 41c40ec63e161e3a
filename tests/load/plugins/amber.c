/* SPDX-License-Identifier: Apache-2.0
 *
 * One of the three backends of trio.h.
 */
#define TRIO "amber"
#include "trio.h"
