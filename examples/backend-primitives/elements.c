/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise kernels: a loop a dtype from the kit's macros, and the kit's walk over strides and broadcasts. A loop gets
 * the device's addresses and begins by seeing through them.
 */
#include <math.h>
#include <tenon/kit/loops.h>

#include "forty.h"

/* Several lists of this file make several loops a line, where the mark of each alone does not count. */
TN_LOOP_BEGIN

/* `fn` over operands 0 .. n of a kernel, as fn##_at. */
#define ON_DEVICE(fn, n)                                                               \
  static void fn##_at(void *ctx, char **data, const int64_t *strides, int64_t count) { \
    char *bytes[n];                                                                    \
    for (int k = 0; k < n; k++) bytes[k] = forty_bytes(data[k]);                       \
    fn(ctx, bytes, strides, count);                                                    \
  }
#define UNARY(fn, R, A, expr)     TN_LOOP_UNARY(fn, R, A, expr) ON_DEVICE(fn, 2)
#define BINARY(fn, R, A, B, expr) TN_LOOP_BINARY(fn, R, A, B, expr) ON_DEVICE(fn, 3)

/* Loops by dtype; NULL where the kernel claims none. */
typedef const tn_loop_fn loop_table[TN_DTYPE_LIMIT];
#define FLOAT_LOOPS(op)  [TN_FLOAT32] = op##_float32_at, [TN_FLOAT64] = op##_float64_at
#define NUMBER_LOOPS(op) FLOAT_LOOPS(op), [TN_INT64] = op##_int64_at
#define ALL_LOOPS(op)    NUMBER_LOOPS(op), [TN_BOOL] = op##_boolean_at
#define BIT_LOOPS(op)    [TN_INT64] = op##_int64_at, [TN_BOOL] = op##_boolean_at

/* The kernel forty_OP of n operands, chosen by the first one's dtype. */
#define KERNEL(op, loops, n, ctx, ...)                                                \
  tn_status forty_##op(tn_call *call, const tn_value *args, tn_value *out) {          \
    static loop_table table = {loops(op)};                                            \
    const tn_view *operands[] = {out[0].u.v, __VA_ARGS__};                            \
    return tn_iter_each(1, n, operands, FORTY_GRAIN, table[operands[1]->dtype], ctx); \
  }
#define KERNEL1(op, loops) KERNEL(op, loops, 2, NULL, args[0].u.v)
#define KERNEL2(op, loops) KERNEL(op, loops, 3, NULL, args[0].u.v, args[1].u.v)

/* ------------------------------------------------------------------ one operand */

#define FLOAT_FUNCTION(op)                        \
  UNARY(op##_float32, float32, float32, op##f(a)) \
  UNARY(op##_float64, float64, float64, op(a))    \
  KERNEL1(op, FLOAT_LOOPS)
FLOAT_FUNCTION(exp)
FLOAT_FUNCTION(log)
FLOAT_FUNCTION(sqrt)
FLOAT_FUNCTION(sin)
FLOAT_FUNCTION(cos)
FLOAT_FUNCTION(tanh)
FLOAT_FUNCTION(erf)

/* Integers are whole already. */
UNARY(floor_float32, float32, float32, floorf(a))
UNARY(floor_float64, float64, float64, floor(a))
UNARY(floor_int64, int64, int64, a)
KERNEL1(floor, NUMBER_LOOPS)
UNARY(round_float32, float32, float32, rintf(a))
UNARY(round_float64, float64, float64, rint(a))
UNARY(round_int64, int64, int64, a)
KERNEL1(round, NUMBER_LOOPS)

UNARY(bitwise_not_int64, int64, int64, ~a)
UNARY(bitwise_not_boolean, boolean, boolean, !a)
KERNEL1(bitwise_not, BIT_LOOPS)

/* ------------------------------------------------------------------ two operands */

/* With alpha, the number of add and sub, in the loop's type. Integers wrap. */
typedef struct alpha {
  double f;
  float single;
  int64_t i;
} alpha;
#define ALPHA_OF(v)         (&(alpha){forty_double(v), (float)forty_double(v), forty_int(v)})
#define ALPHA               ((const alpha *)ctx)
#define WRAPPED(a, sign, b) ((int64_t)((uint64_t)(a)sign(uint64_t)(b)))

BINARY(add_float32, float32, float32, float32, a + ALPHA->single * b)
BINARY(add_float64, float64, float64, float64, a + ALPHA->f * b)
BINARY(add_int64, int64, int64, int64, WRAPPED(a, +, WRAPPED(ALPHA->i, *, b)))
BINARY(add_boolean, boolean, boolean, boolean, a || (b && ALPHA->i))
BINARY(sub_float32, float32, float32, float32, a - ALPHA->single * b)
BINARY(sub_float64, float64, float64, float64, a - ALPHA->f * b)
BINARY(sub_int64, int64, int64, int64, WRAPPED(a, -, WRAPPED(ALPHA->i, *, b)))
KERNEL(add, ALL_LOOPS, 3, ALPHA_OF(&args[2]), args[0].u.v, args[1].u.v)
KERNEL(sub, NUMBER_LOOPS, 3, ALPHA_OF(&args[2]), args[0].u.v, args[1].u.v)

#define FOR_FLOATS(op, expr)                            \
  BINARY(op##_float32, float32, float32, float32, expr) \
  BINARY(op##_float64, float64, float64, float64, expr)
#define FOR_ALL(op, expr)                       \
  FOR_FLOATS(op, expr)                          \
  BINARY(op##_int64, int64, int64, int64, expr) \
  BINARY(op##_boolean, boolean, boolean, boolean, expr)

FOR_FLOATS(mul, a *b)
BINARY(mul_int64, int64, int64, int64, WRAPPED(a, *, b))
BINARY(mul_boolean, boolean, boolean, boolean, a &&b)
KERNEL2(mul, ALL_LOOPS)
FOR_FLOATS(div, a / b)
KERNEL2(div, FLOAT_LOOPS)
BINARY(pow_float32, float32, float32, float32, powf(a, b))
BINARY(pow_float64, float64, float64, float64, pow(a, b))
KERNEL2(pow, FLOAT_LOOPS)
FOR_ALL(maximum, a != a || a > b ? a : b) /* a NaN on either side is handed on */
KERNEL2(maximum, ALL_LOOPS)
FOR_ALL(minimum, a != a || a < b ? a : b)
KERNEL2(minimum, ALL_LOOPS)

/* Rounded down; by zero: 0. */
static int64_t int_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return WRAPPED(0, -, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static double rest(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
BINARY(floor_divide_float32, float32, float32, float32, floorf(a / b))
BINARY(floor_divide_float64, float64, float64, float64, floor(a / b))
BINARY(floor_divide_int64, int64, int64, int64, int_divide(a, b))
KERNEL2(floor_divide, NUMBER_LOOPS)
FOR_FLOATS(remainder, rest(a, b))
BINARY(remainder_int64, int64, int64, int64, b == 0 ? 0 : WRAPPED(a, -, WRAPPED(int_divide(a, b), *, b)))
KERNEL2(remainder, NUMBER_LOOPS)

#define BITS(op, sign)                                      \
  BINARY(op##_int64, int64, int64, int64, a sign b)         \
  BINARY(op##_boolean, boolean, boolean, boolean, a sign b) \
  KERNEL2(op, BIT_LOOPS)
BITS(bitwise_and, &)
BITS(bitwise_or, |)
BITS(bitwise_xor, ^)

#define COMPARISON(op, sign)                                \
  BINARY(op##_float32, boolean, float32, float32, a sign b) \
  BINARY(op##_float64, boolean, float64, float64, a sign b) \
  BINARY(op##_int64, boolean, int64, int64, a sign b)       \
  BINARY(op##_boolean, boolean, boolean, boolean, a sign b) \
  KERNEL2(op, ALL_LOOPS)
COMPARISON(eq, ==)
COMPARISON(lt, <)
COMPARISON(le, <=)

/* ------------------------------------------------------------------ a choice */

#define CHOICE(code, ctype, name) \
  TN_LOOP_TERNARY(where_##name, name, boolean, name, name, a ? b : c) ON_DEVICE(where_##name, 4)
FORTY_ALL(CHOICE)
tn_status forty_where(tn_call *call, const tn_value *args, tn_value *out) {
  static loop_table table = {ALL_LOOPS(where)};
  const tn_view *operands[] = {out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v};
  if (operands[1]->dtype != TN_BOOL) return TN_DECLINED;
  return tn_iter_each(1, 4, operands, FORTY_GRAIN, table[operands[0]->dtype], NULL);
}

/* ------------------------------------------------------------------ copies and fills */

UNARY(to_boolean_boolean, boolean, boolean, a)
UNARY(to_int64_boolean, int64, boolean, a)
UNARY(to_float32_boolean, float32, boolean, a)
UNARY(to_float64_boolean, float64, boolean, a)
UNARY(to_boolean_int64, boolean, int64, a != 0)
UNARY(to_int64_int64, int64, int64, a)
UNARY(to_float32_int64, float32, int64, a)
UNARY(to_float64_int64, float64, int64, a)
UNARY(to_boolean_float32, boolean, float32, a != 0)
UNARY(to_int64_float32, int64, float32, a)
UNARY(to_float32_float32, float32, float32, a)
UNARY(to_float64_float32, float64, float32, a)
UNARY(to_boolean_float64, boolean, float64, a != 0)
UNARY(to_int64_float64, int64, float64, a)
UNARY(to_float32_float64, float32, float64, a)
UNARY(to_float64_float64, float64, float64, a)
#define FROM_ALL(R)                                                                                    \
  [TN_BOOL] = to_##R##_boolean_at, [TN_INT64] = to_##R##_int64_at, [TN_FLOAT32] = to_##R##_float32_at, \
  [TN_FLOAT64] = to_##R##_float64_at
static const loop_table casts[] = {
    {FROM_ALL(boolean)}, {FROM_ALL(int64)}, {FROM_ALL(float32)}, {FROM_ALL(float64)}};

/* args: self src. Another device's tensor is not for this kernel: the host moves the bytes. */
tn_status forty_copy(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *operands[] = {out[0].u.v, args[1].u.v};
  tn_dtype to = operands[0]->dtype, from = operands[1]->dtype;
  if (operands[0]->backend != operands[1]->backend || !forty_has(to) || !forty_has(from)) return TN_DECLINED;
  int row = to == TN_BOOL ? 0 : to == TN_INT64 ? 1 : to == TN_FLOAT32 ? 2 : 3;
  return tn_iter_each(1, 2, operands, FORTY_GRAIN, casts[row][from], NULL);
}

#define FILL(code, ctype, name) \
  TN_LOOP_NULLARY(fill_##name, name, *(const ctype *)ctx) ON_DEVICE(fill_##name, 1)
FORTY_ALL(FILL)
tn_status forty_fill(tn_call *call, const tn_value *args, tn_value *out) {
  static loop_table table = {ALL_LOOPS(fill)};
  const tn_view *self = out[0].u.v;
  union {
    bool b;
    int64_t i;
    float f;
    double d;
  } number = {0};
  switch (self->dtype) {
    case TN_BOOL: number.b = forty_double(&args[1]) != 0; break;
    case TN_INT64: number.i = forty_int(&args[1]); break;
    case TN_FLOAT32: number.f = (float)forty_double(&args[1]); break;
    default: number.d = forty_double(&args[1]);
  }
  return tn_iter_each(1, 1, &self, FORTY_GRAIN, table[self->dtype], &number);
}

/* Element i is start + i * step. */
typedef struct progression {
  const tn_value *start, *step;
  tn_dtype dtype;
} progression;

static void arange_row(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index) {
  const progression *p = ctx;
  char *to = forty_bytes(data[0]);
  for (int64_t i = 0; i < n; i++, to += strides[0]) {
    double value = forty_double(p->start) + (double)(index + i) * forty_double(p->step);
    if (p->dtype == TN_INT64)
      *(int64_t *)(void *)to = WRAPPED(forty_int(p->start), +, WRAPPED(index + i, *, forty_int(p->step)));
    else if (p->dtype == TN_FLOAT32)
      *(float *)(void *)to = (float)value;
    else
      *(double *)(void *)to = value;
  }
}

tn_status forty_arange(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  progression p = {&args[0], &args[2], v->dtype};
  tn_iter it;
  TN_TRY(tn_iter_init(&it, v->ndim, v->sizes, 1, 1, &v, TN_ITER_IN_ORDER));
  return tn_iter_run_indexed(&it, FORTY_GRAIN, arange_row, &p);
}

TN_LOOP_END
