/* SPDX-License-Identifier: Apache-2.0
 *
 * Nothing but the ABI's static asserts: the kit does not build if a struct of the contract moved.
 */
#include <tenon/layout.h>
