/* SPDX-License-Identifier: Apache-2.0
 *
 * What both mains do before the first test. A program that carries the core in itself (TN_TEST_PLUGIN_PATH is
 * defined for those) is not beside lib/tenon/plugins, so it names the build's folder; one that links libtenon
 * finds plugins as an application does. A path that the caller set stays.
 */
#ifndef TN_TEST_ENVIRONMENT_H
#define TN_TEST_ENVIRONMENT_H

#include <stdlib.h>

static inline void tn_test_environment(void) {
#ifdef TN_TEST_PLUGIN_PATH
  setenv("TENON_PROBE", "off", 0); /* what was just built needs no child to try it */
  setenv("TENON_PLUGIN_PATH", TN_TEST_PLUGIN_PATH, 0);
#endif
}

#endif
