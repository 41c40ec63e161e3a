/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on sizes. Meta rules, bodies and gradient formulas touch a tn_dim through these only, so that
 * the same text can be compiled in a recording form, where a dimension may be a symbol and comparing one adds
 * a guard. In this plain form they are the C operators and cost nothing.
 */
#ifndef TENON_KIT_DIM_H
#define TENON_KIT_DIM_H

#include <tenon/types.h>

#define TN_DIM(k) ((tn_dim)(k))
#define TN_DIM_ADD(a, b) ((tn_dim)((a) + (b)))
#define TN_DIM_SUB(a, b) ((tn_dim)((a) - (b)))
#define TN_DIM_MUL(a, b) ((tn_dim)((a) * (b)))
#define TN_DIM_DIV(a, b) ((tn_dim)((a) / (b))) /* both >= 0, b > 0: floor */
#define TN_DIM_MOD(a, b) ((tn_dim)((a) % (b)))
#define TN_DIM_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TN_DIM_MAX(a, b) ((a) > (b) ? (a) : (b))
#define TN_DIM_EQ(a, b) ((a) == (b))
#define TN_DIM_NE(a, b) ((a) != (b))
#define TN_DIM_LT(a, b) ((a) < (b))
#define TN_DIM_LE(a, b) ((a) <= (b))
#define TN_DIM_GT(a, b) ((a) > (b))
#define TN_DIM_GE(a, b) ((a) >= (b))
/* For messages and for sizes that must be plain numbers. */
#define TN_DIM_INT(a) ((int64_t)(a))

#endif
