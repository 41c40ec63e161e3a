/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this backend share: where its memory lies, its dtypes, and its kernels.
 */
#ifndef FORTY_H
#define FORTY_H

#include <stdint.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/status.h>

/* The device's addresses are no addresses of the host's: a driver's would not be, either. They can be added to, and only
 * kernels, which run "on the device", see through them. */
#define FORTY_DISGUISE ((uint64_t)0x0f4 << 52)
static inline char *forty_bytes(const void *device_address) {
  return (char *)((uintptr_t)device_address ^ FORTY_DISGUISE);
}

/* The four dtypes that training needs. X(code, ctype, name) */
#define FORTY_FLOATS(X)    X(TN_FLOAT32, float, float32) X(TN_FLOAT64, double, float64)
#define FORTY_NUMBERS(X)   X(TN_INT64, int64_t, int64) FORTY_FLOATS(X)
#define FORTY_ALL(X)       X(TN_BOOL, bool, boolean) FORTY_NUMBERS(X)
#define FORTY_MASK_FLOATS  (TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64))
#define FORTY_MASK_NUMBERS (FORTY_MASK_FLOATS | TN_DTYPE_BIT(TN_INT64))
#define FORTY_MASK_BITS    (TN_DTYPE_BIT(TN_BOOL) | TN_DTYPE_BIT(TN_INT64))
#define FORTY_MASK_ALL     (FORTY_MASK_NUMBERS | TN_DTYPE_BIT(TN_BOOL))
static inline bool forty_has(tn_dtype dtype) { return FORTY_MASK_ALL >> dtype & 1; }

enum { FORTY_GRAIN = 16384 }; /* fewest elements worth a thread */

static inline double forty_double(const tn_value *v) {
  return v->kind == TN_VAL_FLOAT ? v->u.f : (double)v->u.i;
}
static inline int64_t forty_int(const tn_value *v) {
  return v->kind == TN_VAL_FLOAT ? (int64_t)v->u.f : v->u.i;
}

/* The kernels: X(operator, function, dtypes). The list in docs/primitives.md is checked against this one. */
#define FORTY_KERNELS(X)                                \
  X("copy_", copy, FORTY_MASK_ALL)                      \
  X("fill_.Scalar", fill, FORTY_MASK_ALL)               \
  X("arange.start_step", arange, FORTY_MASK_NUMBERS)    \
  X("uniform_", uniform, FORTY_MASK_FLOATS)             \
  X("normal_", normal, FORTY_MASK_FLOATS)               \
  X("add.Tensor", add, FORTY_MASK_ALL)                  \
  X("sub.Tensor", sub, FORTY_MASK_NUMBERS)              \
  X("mul.Tensor", mul, FORTY_MASK_ALL)                  \
  X("div.Tensor", div, FORTY_MASK_FLOATS)               \
  X("floor_divide", floor_divide, FORTY_MASK_NUMBERS)   \
  X("remainder.Tensor", remainder, FORTY_MASK_NUMBERS)  \
  X("pow.Tensor_Tensor", pow, FORTY_MASK_FLOATS)        \
  X("maximum", maximum, FORTY_MASK_ALL)                 \
  X("minimum", minimum, FORTY_MASK_ALL)                 \
  X("exp", exp, FORTY_MASK_FLOATS)                      \
  X("log", log, FORTY_MASK_FLOATS)                      \
  X("sqrt", sqrt, FORTY_MASK_FLOATS)                    \
  X("sin", sin, FORTY_MASK_FLOATS)                      \
  X("cos", cos, FORTY_MASK_FLOATS)                      \
  X("tanh", tanh, FORTY_MASK_FLOATS)                    \
  X("erf", erf, FORTY_MASK_FLOATS)                      \
  X("floor", floor, FORTY_MASK_NUMBERS)                 \
  X("round", round, FORTY_MASK_NUMBERS)                 \
  X("eq.Tensor", eq, FORTY_MASK_ALL)                    \
  X("lt.Tensor", lt, FORTY_MASK_ALL)                    \
  X("le.Tensor", le, FORTY_MASK_ALL)                    \
  X("where.self", where, FORTY_MASK_ALL)                \
  X("bitwise_and.Tensor", bitwise_and, FORTY_MASK_BITS) \
  X("bitwise_or.Tensor", bitwise_or, FORTY_MASK_BITS)   \
  X("bitwise_xor.Tensor", bitwise_xor, FORTY_MASK_BITS) \
  X("bitwise_not", bitwise_not, FORTY_MASK_BITS)        \
  X("sum.dim_IntList", sum, FORTY_MASK_NUMBERS)         \
  X("amax", amax, FORTY_MASK_ALL)                       \
  X("amin", amin, FORTY_MASK_ALL)                       \
  X("argmax", argmax, FORTY_MASK_ALL)                   \
  X("mm", mm, FORTY_MASK_FLOATS)                        \
  X("bmm", bmm, FORTY_MASK_FLOATS)                      \
  X("gather", gather, FORTY_MASK_ALL)                   \
  X("scatter_add", scatter_add, FORTY_MASK_NUMBERS)

#define FORTY_DECLARE(op, name, dtypes) \
  tn_status forty_##name(tn_call *call, const tn_value *args, tn_value *out);
FORTY_KERNELS(FORTY_DECLARE)

#endif
