/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax along one dim, and their gradients (BACKWARD: x is the incoming gradient, y the result of forward). A
 * row belongs to a group of GROUP items, or to one item if GROUP is 1. LOGS: the logarithm's variant. T computes.
 */
typedef struct {
  i64 rows;
  i64 n; /* elements of a row */
  i64 ndim;
  i64 steps[3]; /* from one element of a row to the next: result, x, y */
  i64 sizes[RANK];
  i64 strides[3][RANK];
} rows_t;

#define LARGEST(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#if GROUP > 1
#define FOLD(name, value_of)                                 \
  DEVICE T name(LOCAL T *lanes, i32 me, T mine) {            \
    lanes[me] = mine;                                        \
    BARRIER();                                               \
    for (i32 step = GROUP / 2; step > 0; step /= 2) {        \
      if (me < step) {                                       \
        const T a = lanes[me], b = lanes[me + step];         \
        lanes[me] = value_of;                                \
      }                                                      \
      BARRIER();                                             \
    }                                                        \
    const T all = lanes[0];                                  \
    BARRIER();                                               \
    return all;                                              \
  }
FOLD(fold_sum, a + b)
FOLD(fold_max, LARGEST(a, b))
#define ALL_SUM(x) fold_sum(lanes, me, x)
#define ALL_MAX(x) fold_max(lanes, me, x)
#else
#define ALL_SUM(x) (x)
#define ALL_MAX(x) (x)
#endif

KERNEL void NAME(GLOBAL MEM(TO) *r, i64 at, GLOBAL const MEM(T0) *x, i64 at0, GLOBAL const MEM(T1) *y, i64 at1, rows_t s) {
#if GROUP > 1
  LOCAL_ARRAY(T, lanes, GROUP);
  const i64 row = GROUP_AT(0);
  const i32 me = ITEM(0);
#else
  const i64 row = PLACE(0);
  const i32 me = 0;
  if (row >= s.rows) return;
#endif
  i64 left = row;
  for (i32 d = 0; d < (i32)s.ndim; ++d) {
    const i64 k = left % s.sizes[d];
    left /= s.sizes[d];
    at += k * s.strides[0][d];
    at0 += k * s.strides[1][d];
    at1 += k * s.strides[2][d];
  }
  T sum = 0;
#if BACKWARD
  for (i64 k = me; k < s.n; k += GROUP) {
    const T g = (T)READ(T0, x[at0 + k * s.steps[1]]);
#if LOGS
    sum += g;
#else
    sum += g * (T)READ(T1, y[at1 + k * s.steps[2]]);
#endif
  }
  sum = ALL_SUM(sum);
  for (i64 k = me; k < s.n; k += GROUP) {
    const T g = (T)READ(T0, x[at0 + k * s.steps[1]]), v = (T)READ(T1, y[at1 + k * s.steps[2]]);
#if LOGS
    r[at + k * s.steps[0]] = STORE(TO, g - exp(v) * sum);
#else
    r[at + k * s.steps[0]] = STORE(TO, (g - sum) * v);
#endif
  }
#else
  T top = -(T)POS_INF;
  for (i64 k = me; k < s.n; k += GROUP) {
    const T v = (T)READ(T0, x[at0 + k * s.steps[1]]);
    top = LARGEST(top, v);
  }
  top = ALL_MAX(top);
  for (i64 k = me; k < s.n; k += GROUP) sum += exp((T)READ(T0, x[at0 + k * s.steps[1]]) - top);
  sum = ALL_SUM(sum);
#if LOGS
  sum = log(sum);
#endif
  for (i64 k = me; k < s.n; k += GROUP) {
    const T v = (T)READ(T0, x[at0 + k * s.steps[1]]) - top;
#if LOGS
    r[at + k * s.steps[0]] = STORE(TO, v - sum);
#else
    r[at + k * s.steps[0]] = STORE(TO, exp(v) / sum);
#endif
  }
#endif
}
