/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions in two stages. First each job folds one chunk of one output's elements: a group of GROUP items, or one item if
 * GROUP is 1 (a device that is a CPU, or few elements). An output of one chunk is finished at once; else its chunks lie in
 * `parts`, and the second stage (SECOND) folds those, an item for each output. Chunks depend on sizes only and are joined
 * in one order, so results repeat to the bit.
 *
 * KIND: what is folded. A: the accumulator (float64 where the device has it, else float32; int64 for integers).
 * The arg kinds carry the number of the element with its value: the first of equal ones, NaN before all.
 */
#define SUM     0
#define MEAN    1
#define PROD    2
#define MAX     3
#define MIN     4
#define ANY     5
#define ALL     6
#define SQUARES 7 /* about a centre, as a variance sums them */
#define ARG_MAX 8
#define ARG_MIN 9
#define IS_ARG  (KIND == ARG_MAX || KIND == ARG_MIN)
#if IS_FLOAT
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) 0
#endif

#if IS_ARG
typedef struct {
  i64 k; /* -1: nothing yet */
  A v;
} acc_t;
#else
typedef A acc_t;
#endif

typedef struct {
  i64 outputs;
  i64 count; /* elements of each */
  i64 chunk; /* elements of each job; the last may have fewer */
  i64 chunks;
  i64 outer_ndim;
  i64 inner_ndim;
  i64 outer_sizes[RANK];
  i64 outer_strides[3][RANK]; /* of result 0, result 1, input */
  i64 inner_sizes[RANK];
  i64 inner_strides[RANK];
} reduce_t;

DEVICE acc_t start(void) {
#if IS_ARG
  acc_t a;
  a.k = -1;
  a.v = 0;
  return a;
#elif KIND == PROD || KIND == ALL
  return (A)1;
#elif KIND == MAX && IS_FLOAT
  return -(A)POS_INF;
#elif KIND == MIN && IS_FLOAT
  return (A)POS_INF;
#elif KIND == MAX
  return I64_MIN;
#elif KIND == MIN
  return (A)~I64_MIN;
#else
  return (A)0;
#endif
}

DEVICE acc_t join(acc_t a, acc_t b) {
#if IS_ARG
  if (a.k < 0) return b;
  if (b.k < 0) return a;
  const i32 a_nan = IS_NAN(a.v), b_nan = IS_NAN(b.v);
#if KIND == ARG_MAX
  const i32 better = b.v > a.v, worse = b.v < a.v;
#else
  const i32 better = b.v < a.v, worse = b.v > a.v;
#endif
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan && better) return b;
  if (!a_nan && worse) return a;
  return a.k < b.k ? a : b;
#elif KIND == PROD
#if IS_FLOAT
  return a * b;
#else
  return (A)((u64)a * (u64)b);
#endif
#elif KIND == MAX
  return a > b || IS_NAN(a) ? a : b;
#elif KIND == MIN
  return a < b || IS_NAN(a) ? a : b;
#elif KIND == ANY
  return a | b;
#elif KIND == ALL
  return a & b;
#elif IS_FLOAT
  return a + b;
#else
  return (A)((u64)a + (u64)b);
#endif
}

#if GROUP > 1
/* The accumulators of a group's items become one, in item 0. */
DEVICE acc_t join_items(LOCAL acc_t *lanes, i32 me, acc_t mine) {
  lanes[me] = mine;
  BARRIER();
  for (i32 step = GROUP / 2; step > 0; step /= 2) {
    if (me < step) lanes[me] = join(lanes[me], lanes[me + step]);
    BARRIER();
  }
  return lanes[0];
}
#endif

/* Where output o lies in operand `which`, from its first element. */
DEVICE i64 outer_place(const reduce_t *s, i64 o, i32 which) {
  i64 at = 0;
  for (i32 d = 0; d < (i32)s->outer_ndim; ++d) {
    at += o % s->outer_sizes[d] * s->outer_strides[which][d];
    o /= s->outer_sizes[d];
  }
  return at;
}
DEVICE i64 inner_place(const reduce_t *s, i64 k) {
  if (s->inner_ndim == 1) return k * s->inner_strides[0];
  i64 at = 0;
  for (i32 d = 0; d < (i32)s->inner_ndim; ++d) {
    at += k % s->inner_sizes[d] * s->inner_strides[d];
    k /= s->inner_sizes[d];
  }
  return at;
}

DEVICE void finish(const reduce_t *s, i64 o, acc_t acc, f32 correction, GLOBAL MEM(TO) *r, i64 at, GLOBAL i64 *r1, i64 at1) {
#if IS_ARG
#if KEEP_VALUE
  r[at + outer_place(s, o, 0)] = STORE(TO, acc.v);
#endif
  r1[at1 + outer_place(s, o, 1)] = acc.k;
#elif KIND == MEAN
  r[at + outer_place(s, o, 0)] = STORE(TO, acc / (A)s->count);
#elif KIND == SQUARES
  const A divisor = (A)s->count - (A)correction;
  r[at + outer_place(s, o, 0)] = STORE(TO, acc / (divisor > 0 ? divisor : (A)0));
#else
  r[at + outer_place(s, o, 0)] = STORE(TO, acc);
#endif
}

#if SECOND

KERNEL void NAME(GLOBAL MEM(TO) *r, i64 at, GLOBAL i64 *r1, i64 at1, GLOBAL const acc_t *parts, i64 parts_at, reduce_t s,
                 f32 correction) {
  const i64 o = PLACE(0);
  if (o >= s.outputs) return;
  acc_t acc = start();
  for (i64 c = 0; c < s.chunks; ++c) acc = join(acc, parts[o * s.chunks + c]);
  finish(&s, o, acc, correction, r, at, r1, at1);
}

#else

KERNEL void NAME(GLOBAL MEM(TO) *r, i64 at, GLOBAL i64 *r1, i64 at1, GLOBAL const MEM(T0) *p, i64 at0,
                 GLOBAL const A *centres, i64 centres_at, GLOBAL acc_t *parts, i64 parts_at, reduce_t s, f32 correction) {
#if GROUP > 1
  LOCAL_ARRAY(acc_t, lanes, GROUP);
  const i64 job = GROUP_AT(0);
  const i32 me = ITEM(0);
#else
  const i64 job = PLACE(0);
  const i32 me = 0;
  if (job >= s.outputs * s.chunks) return;
#endif
  const i64 o = job / s.chunks, c = job % s.chunks, begin = c * s.chunk;
  const i64 end = begin + s.chunk < s.count ? begin + s.chunk : s.count;
#if KIND == SQUARES
  const A centre = centres[o];
#endif
  at0 += outer_place(&s, o, 2);
  acc_t acc = start();
  for (i64 k = begin + me; k < end; k += GROUP) {
#if KIND == ANY || KIND == ALL
    acc = join(acc, (A)(READ(T0, p[at0 + inner_place(&s, k)]) != 0));
#else
    const A x = (A)READ(T0, p[at0 + inner_place(&s, k)]);
#if IS_ARG
    acc_t one;
    one.k = k;
    one.v = x;
    acc = join(acc, one);
#elif KIND == SQUARES
    acc = join(acc, (x - centre) * (x - centre));
#else
    acc = join(acc, x);
#endif
#endif
  }
#if GROUP > 1
  acc = join_items(lanes, me, acc);
  if (me != 0) return;
#endif
  if (s.chunks > 1)
    parts[job] = acc;
  else
    finish(&s, o, acc, correction, r, at, r1, at1);
}

#endif
