/* SPDX-License-Identifier: Apache-2.0
 *
 * One of three providers for the toy's addition: equal priority as its neighbour, so the name decides.
 */
#define CHAIN_NAME "chain-a"
#define CHAIN_PRIORITY 4
#define CHAIN_MORE ""
#include "chain.inc"
