/* SPDX-License-Identifier: Apache-2.0
 *
 * Inner loops of elementwise kernels, as macros instantiated per dtype and operator in the shape that
 * tenon/kit/iter.h calls (tn_loop_fn). Each has a contiguous body, bodies with one operand held still, and
 * the strided one, so that the compiler sees constant strides and vectorises.
 *
 *   #define ADD(code, ctype, name) TN_LOOP_BINARY(add_##name, name, name, name, a + b)
 *   TN_FOR_WIDE_FLOAT(ADD)
 *
 * Types are dtype names (`float32`, `boolean`). a, b, c are the operands in their accumulator type; the
 * value of the expression is converted to the result's accumulator type, then stored. The expression may
 * read `ctx`.
 *
 * Note [In place is allowed]
 * The result may be exactly an operand, so `restrict` would be a lie. TN_LOOP_PARALLEL says what is true: no
 * iteration reads what another one wrote.
 */
#ifndef TENON_KIT_LOOPS_H
#define TENON_KIT_LOOPS_H

#include <tenon/kit/dtype.h>

/* TN_LOOP_BEGIN and TN_LOOP_END stand around a function of such loops: clang warns where it leaves one as it is, and an
 * expression that calls a function (tanh) is as good a kernel. */
#if defined(__clang__)
#define TN_LOOP_PARALLEL _Pragma("clang loop vectorize(assume_safety)")
#define TN_LOOP_BEGIN _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wpass-failed\"")
#define TN_LOOP_END _Pragma("clang diagnostic pop")
#elif defined(__GNUC__)
#define TN_LOOP_PARALLEL _Pragma("GCC ivdep")
#else
#define TN_LOOP_PARALLEL
#endif
#ifndef TN_LOOP_BEGIN
#define TN_LOOP_BEGIN
#define TN_LOOP_END
#endif

#define TN_LOOP_AT(name, p, i, stride)                                                             \
  tn_to_acc_##name(*(const tn_ctype_##name *)(const void *)((p) + (i) * (stride)))
#define TN_LOOP_PUT(name, p, i, stride, value)                                                     \
  (*(tn_ctype_##name *)(void *)((p) + (i) * (stride)) = tn_from_acc_##name((tn_acc_##name)(value)))
#define TN_LOOP_SIZE(name) ((int64_t)sizeof(tn_ctype_##name))

/* One result from no operand: fills. */
#define TN_LOOP_NULLARY(fn, R, expr)                                                               \
  static void fn(void *ctx, char **data, const int64_t *strides, int64_t n) {                      \
    char *r = data[0];                                                                             \
    int64_t sr = strides[0];                                                                       \
    const tn_acc_##R value = (tn_acc_##R)(expr);                                                   \
    (void)ctx;                                                                                     \
    if (sr == TN_LOOP_SIZE(R)) {                                                                   \
      for (int64_t i = 0; i < n; i++) TN_LOOP_PUT(R, r, i, TN_LOOP_SIZE(R), value);                \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) TN_LOOP_PUT(R, r, i, sr, value);                             \
    }                                                                                              \
  }

#define TN_LOOP_UNARY_BODY(R, A, expr, SR, SA)                                                     \
  TN_LOOP_PARALLEL for (int64_t i = 0; i < n; i++) {                                               \
    const tn_acc_##A a = TN_LOOP_AT(A, pa, i, SA);                                                 \
    TN_LOOP_PUT(R, r, i, SR, expr);                                                                \
  }

#define TN_LOOP_UNARY(fn, R, A, expr)                                                              \
  TN_LOOP_BEGIN static void fn(void *ctx, char **data, const int64_t *strides, int64_t n) {        \
    char *r = data[0];                                                                             \
    const char *pa = data[1];                                                                      \
    const int64_t sr = strides[0], sa = strides[1];                                                \
    (void)ctx;                                                                                     \
    if (sr == TN_LOOP_SIZE(R) && sa == TN_LOOP_SIZE(A)) {                                          \
      TN_LOOP_UNARY_BODY(R, A, expr, TN_LOOP_SIZE(R), TN_LOOP_SIZE(A))                             \
    } else {                                                                                       \
      TN_LOOP_UNARY_BODY(R, A, expr, sr, sa)                                                       \
    }                                                                                              \
  } TN_LOOP_END

#define TN_LOOP_BINARY_BODY(R, A, B, expr, SR, SA, SB)                                             \
  TN_LOOP_PARALLEL for (int64_t i = 0; i < n; i++) {                                               \
    const tn_acc_##A a = TN_LOOP_AT(A, pa, i, SA);                                                 \
    const tn_acc_##B b = TN_LOOP_AT(B, pb, i, SB);                                                 \
    TN_LOOP_PUT(R, r, i, SR, expr);                                                                \
  }
/* The held operand is read before the loop: nothing that the loop writes is it, unless n is 1. */
#define TN_LOOP_BINARY_LEFT(R, A, B, expr)                                                         \
  const tn_acc_##A a = TN_LOOP_AT(A, pa, 0, 0);                                                    \
  TN_LOOP_PARALLEL for (int64_t i = 0; i < n; i++) {                                               \
    const tn_acc_##B b = TN_LOOP_AT(B, pb, i, TN_LOOP_SIZE(B));                                    \
    TN_LOOP_PUT(R, r, i, TN_LOOP_SIZE(R), expr);                                                   \
  }
#define TN_LOOP_BINARY_RIGHT(R, A, B, expr)                                                        \
  const tn_acc_##B b = TN_LOOP_AT(B, pb, 0, 0);                                                    \
  TN_LOOP_PARALLEL for (int64_t i = 0; i < n; i++) {                                               \
    const tn_acc_##A a = TN_LOOP_AT(A, pa, i, TN_LOOP_SIZE(A));                                    \
    TN_LOOP_PUT(R, r, i, TN_LOOP_SIZE(R), expr);                                                   \
  }

#define TN_LOOP_BINARY(fn, R, A, B, expr)                                                          \
  TN_LOOP_BEGIN static void fn(void *ctx, char **data, const int64_t *strides, int64_t n) {        \
    char *r = data[0];                                                                             \
    const char *pa = data[1], *pb = data[2];                                                       \
    const int64_t sr = strides[0], sa = strides[1], sb = strides[2];                               \
    const bool flat = sr == TN_LOOP_SIZE(R);                                                       \
    (void)ctx;                                                                                     \
    if (flat && sa == TN_LOOP_SIZE(A) && sb == TN_LOOP_SIZE(B)) {                                  \
      TN_LOOP_BINARY_BODY(R, A, B, expr, TN_LOOP_SIZE(R), TN_LOOP_SIZE(A), TN_LOOP_SIZE(B))        \
    } else if (flat && sa == 0 && sb == TN_LOOP_SIZE(B)) {                                         \
      TN_LOOP_BINARY_LEFT(R, A, B, expr)                                                           \
    } else if (flat && sa == TN_LOOP_SIZE(A) && sb == 0) {                                         \
      TN_LOOP_BINARY_RIGHT(R, A, B, expr)                                                          \
    } else {                                                                                       \
      TN_LOOP_BINARY_BODY(R, A, B, expr, sr, sa, sb)                                               \
    }                                                                                              \
  } TN_LOOP_END

#define TN_LOOP_TERNARY_BODY(R, A, B, C, expr, SR, SA, SB, SC)                                     \
  TN_LOOP_PARALLEL for (int64_t i = 0; i < n; i++) {                                               \
    const tn_acc_##A a = TN_LOOP_AT(A, pa, i, SA);                                                 \
    const tn_acc_##B b = TN_LOOP_AT(B, pb, i, SB);                                                 \
    const tn_acc_##C c = TN_LOOP_AT(C, pc, i, SC);                                                 \
    TN_LOOP_PUT(R, r, i, SR, expr);                                                                \
  }

#define TN_LOOP_TERNARY(fn, R, A, B, C, expr)                                                      \
  TN_LOOP_BEGIN static void fn(void *ctx, char **data, const int64_t *strides, int64_t n) {        \
    char *r = data[0];                                                                             \
    const char *pa = data[1], *pb = data[2], *pc = data[3];                                        \
    const int64_t sr = strides[0], sa = strides[1], sb = strides[2], sc = strides[3];              \
    const int64_t zr = TN_LOOP_SIZE(R), za = TN_LOOP_SIZE(A), zb = TN_LOOP_SIZE(B),                \
                  zc = TN_LOOP_SIZE(C);                                                            \
    const bool flat = sr == zr && sa == za;                                                        \
    (void)ctx;                                                                                     \
    if (flat && sb == zb && sc == zc) {                                                            \
      TN_LOOP_TERNARY_BODY(R, A, B, C, expr, zr, za, zb, zc)                                       \
    } else if (flat && sb == 0 && sc == zc) {                                                      \
      TN_LOOP_TERNARY_BODY(R, A, B, C, expr, zr, za, 0, zc)                                        \
    } else if (flat && sb == zb && sc == 0) {                                                      \
      TN_LOOP_TERNARY_BODY(R, A, B, C, expr, zr, za, zb, 0)                                        \
    } else if (flat && sb == 0 && sc == 0) {                                                       \
      TN_LOOP_TERNARY_BODY(R, A, B, C, expr, zr, za, 0, 0)                                         \
    } else {                                                                                       \
      TN_LOOP_TERNARY_BODY(R, A, B, C, expr, sr, sa, sb, sc)                                       \
    }                                                                                              \
  } TN_LOOP_END

#endif
