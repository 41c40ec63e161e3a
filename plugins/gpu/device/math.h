/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the registry's elementwise expressions, F_exp and so on, for the compute type T: floats if
 * IS_FLOAT, else integers, which wrap and never trap (a zero divisor gives 0); IS_BOOL: T is u8 and holds 0 or 1.
 */
#define TN_INT_ADD(T, a, b) ((T)((u64)(a) + (u64)(b)))
#define TN_INT_SUB(T, a, b) ((T)((u64)(a) - (u64)(b)))
#define TN_INT_MUL(T, a, b) ((T)((u64)(a) * (u64)(b)))
#define TN_INT_NEG(T, a)    ((T)((u64)0 - (u64)(a)))

#if IS_FLOAT

#define UNARY(name, value)  DEVICE T F_##name(T x) { return value; }
#define BINARY(name, value) DEVICE T F_##name(T x, T y) { return value; }
UNARY(exp, exp(x))
UNARY(exp2, exp2(x))
UNARY(expm1, expm1(x))
UNARY(log, log(x))
UNARY(log1p, log1p(x))
UNARY(log2, log2(x))
UNARY(log10, log10(x))
UNARY(sqrt, sqrt(x))
UNARY(rsqrt, (T)1 / sqrt(x))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tan, tan(x))
UNARY(asin, asin(x))
UNARY(acos, acos(x))
UNARY(atan, atan(x))
BINARY(atan2, atan2(x, y))
UNARY(sinh, sinh(x))
UNARY(cosh, cosh(x))
UNARY(tanh, tanh(x))
UNARY(erf, erf(x))
UNARY(erfc, erfc(x))
UNARY(ncdf, (T)0.5 * erfc(x * (T)-0.70710678118654752440))
UNARY(sigmoid, (T)1 / ((T)1 + exp(-x)))
BINARY(hypot, hypot(x, y))
UNARY(abs, fabs(x))
UNARY(sign, (T)((x > 0) - (x < 0)))
UNARY(floor, floor(x))
UNARY(ceil, ceil(x))
UNARY(round, rint(x))
UNARY(trunc, trunc(x))
BINARY(min, ((x < y) | (x != x)) ? x : y)
BINARY(max, ((x > y) | (x != x)) ? x : y)
BINARY(pow, pow(x, y))
BINARY(fmod, fmod(x, y))
UNARY(isnan, (T)(x != x))
UNARY(isinf, (T)(fabs(x) == (T)POS_INF))
UNARY(isfinite, (T)(fabs(x) < (T)POS_INF))
/* The divisor's sign. */
DEVICE T F_mod(T x, T y) {
  const T r = fmod(x, y);
  return ((r != 0) & ((r < 0) != (y < 0))) ? r + y : r;
}
/* The rounded-down quotient that goes with mod. */
DEVICE T F_floordiv(T x, T y) {
  const T r = fmod(x, y);
  const T q = (x - r) / y - (T)((r != 0) & ((r < 0) != (y < 0)));
  const T f = floor(q);
  return y == 0 ? x / y : q == 0 ? copysign((T)0, x / y) : f + (T)(q - f > (T)0.5);
}

#else

#define NEGATIVE(x)  ((x) < 1 && (x) != 0)
#define MINUS_ONE(x) ((x) == (T)-1 && NEGATIVE((T)-1))
DEVICE T F_truncdiv(T x, T y) { return y == 0 ? (T)0 : MINUS_ONE(y) ? TN_INT_NEG(T, x) : (T)(x / y); }
DEVICE T F_fmod(T x, T y) { return y == 0 || MINUS_ONE(y) ? (T)0 : (T)(x % y); }
DEVICE T F_mod(T x, T y) {
  const T r = F_fmod(x, y);
  return r != 0 && NEGATIVE(r) != NEGATIVE(y) ? (T)(r + y) : r;
}
DEVICE T F_floordiv(T x, T y) {
  const T q = F_truncdiv(x, y), r = F_fmod(x, y);
  return r != 0 && NEGATIVE(r) != NEGATIVE(y) ? (T)(q - 1) : q;
}
DEVICE T F_abs(T x) { return NEGATIVE(x) ? TN_INT_NEG(T, x) : x; }
DEVICE T F_sign(T x) { return (T)((x > 0) - NEGATIVE(x)); }
#if IS_BOOL
DEVICE T F_min(T x, T y) { return (T)(x & y); }
DEVICE T F_max(T x, T y) { return (T)(x | y); }
DEVICE T F_invert(T x) { return (T)(x == 0); }
#else
DEVICE T F_min(T x, T y) { return x < y ? x : y; }
DEVICE T F_max(T x, T y) { return x > y ? x : y; }
DEVICE T F_invert(T x) { return (T)~x; }
#endif
/* A negative exponent: 1 / x^-y cut to an integer. */
DEVICE T F_pow(T x, T y) {
  if (NEGATIVE(y)) return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? x : (T)1) : (T)0;
  T r = 1;
  for (u64 e = (u64)y; e; e >>= 1) {
    if (e & 1) r = TN_INT_MUL(T, r, x);
    x = TN_INT_MUL(T, x, x);
  }
  return r;
}

#endif
