/* SPDX-License-Identifier: Apache-2.0
 *
 * Random streams, for neighbours in the core.
 */
#ifndef TENON_CORE_GENERATOR_H
#define TENON_CORE_GENERATOR_H

#include "core/tensor/tensor.h"

/* The seed that a backend's generators get when it is opened: tn_manual_seed's last, else a fixed one. */
uint64_t tni_generator_seed(void);

#endif
