/* SPDX-License-Identifier: Apache-2.0
 *
 * One of three providers for the toy's addition: lowest priority, but it overrides the toy.
 */
#define CHAIN_NAME "chain-c"
#define CHAIN_PRIORITY 1
#define CHAIN_MORE "override toy\n"
#include "chain.inc"
