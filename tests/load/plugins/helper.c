/* SPDX-License-Identifier: Apache-2.0
 *
 * The library that missing_library.c is linked with and that no test installs.
 */
int acme_helper(void);
int acme_helper(void) { return 1; }
