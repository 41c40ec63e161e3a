/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the elementwise operators, from the registry's expressions (elementwise.inc is generated).
 */
#ifndef CPU_EW_INDEX_H
#define CPU_EW_INDEX_H

#include <elementwise.inc>

#define CPU_EW_NUMBER(id, name, n_tensors, n_scalars, dtypes, result, words) CPU_EW_##id,
enum { TN_EW_LIST(CPU_EW_NUMBER) CPU_EW_COUNT };
#undef CPU_EW_NUMBER

#endif
