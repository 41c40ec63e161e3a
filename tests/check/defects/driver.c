/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with the name of a driver: only that it is needed counts.
 */
int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
