/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface acme.clock: what its giver and its users agree on.
 */
#ifndef TESTS_LOAD_CLOCK_H
#define TESTS_LOAD_CLOCK_H

#include <stdint.h>

typedef struct acme_clock_1 {
  int64_t (*now)(void); /* how much lent memory came back */
} acme_clock_1;

typedef struct acme_clock_2 {
  int64_t (*now)(void);
  int64_t (*half)(void);
} acme_clock_2;

#endif
