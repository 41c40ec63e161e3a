/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and other folds over contiguous elements, spread over a fixed number of lanes.
 *
 * Note [64 lanes]
 * Element i of a fold goes to lane i % 64 and the lanes are joined as a tree, on every instruction set. So
 * the compiler may vectorise (no lane depends on another), rounding errors grow with n / 64, and the
 * result depends on n alone, not on alignment or vector width. So float64, integers and products.
 *
 * Note [Pairwise blocks]
 * Sums of float32 (and of halves, widened to it) add blocks of 32 vectors in float32: four to each of eight
 * partial sums, which a tree joins, and whose result is widened into accumulators of double. That is six
 * roundings deep. So a sum of any length is off by at most six roundings of float32 relative to the sum of
 * magnitudes, and usually by far less since they are independent; a chain in float32 would lose more with
 * every element, and widening each, four instructions where this takes one, is slower than the caches.
 * Eight loads in the order of addresses, then their sums: compilers put the loads of one big tree in an order
 * that the prefetchers follow less well (measured: 57 against 66 GB/s from memory). What is left of a run goes
 * by eight vectors, then one by one, then lane by lane of a last one. Element i's vector and lane follow from i and the instruction set only.
 */
#ifndef CPU_PER_ISA_LANES_H
#define CPU_PER_ISA_LANES_H

#include <math.h>

#include "plugins/backend-cpu/isa.h"
#include "plugins/backend-cpu/simd/vec.h"

enum { LANES = 64 };

/* Folds x[0 .. n) of type S into acc of type A: READ(x) widens an element, JOIN(a, b) joins two partial
 * results, ADD(a, v) an element into one; start is what leaves JOIN unchanged. */
#define LANES_FOLD(A, S, READ, ADD, JOIN, start, x, n, acc)                   \
  do {                                                                        \
    const S *lanes_x_ = (x);                                                  \
    int64_t lanes_n_ = (n), lanes_i_ = 0;                                     \
    A lane[LANES];                                                            \
    if (lanes_n_ < LANES) {                                                   \
      lane[0] = (start);                                                      \
      for (; lanes_i_ < lanes_n_; ++lanes_i_) {                               \
        const A lanes_v_ = (A)READ(lanes_x_[lanes_i_]);                       \
        lane[0] = ADD(lane[0], lanes_v_);                                     \
      }                                                                       \
      (acc) = JOIN((acc), lane[0]);                                           \
      break;                                                                  \
    }                                                                         \
    for (int j = 0; j < LANES; ++j) lane[j] = (start);                        \
    for (; lanes_i_ + LANES <= lanes_n_; lanes_i_ += LANES)                   \
      for (int j = 0; j < LANES; ++j) {                                       \
        const A lanes_v_ = (A)READ(lanes_x_[lanes_i_ + j]);                   \
        lane[j] = ADD(lane[j], lanes_v_);                                     \
      }                                                                       \
    for (int j = 0; lanes_i_ + j < lanes_n_; ++j) {                           \
      const A lanes_v_ = (A)READ(lanes_x_[lanes_i_ + j]);                     \
      lane[j] = ADD(lane[j], lanes_v_);                                       \
    }                                                                         \
    for (int half = LANES / 2; half; half /= 2)                               \
      for (int j = 0; j < half; ++j) lane[j] = JOIN(lane[j], lane[j + half]); \
    (acc) = JOIN((acc), lane[0]);                                             \
  } while (0)

#define LANES_PLUS(a, v) ((a) + (v))
#define LANES_PLAIN(x)   (x)

/* ------------------------------------------------------------------ float32 in vectors */

enum { F32_LANES = VEC_BYTES / 4, F32_STEP = 8 * F32_LANES, F32_BLOCK = 4 * F32_STEP };

/* Two vectors of double that a sum of float32 ends in. */
typedef struct lanes_wide {
  vd low, high;
} lanes_wide;

static inline lanes_wide lanes_zero(void) { return (lanes_wide){vd_set(0), vd_set(0)}; }

#if defined(__AVX512F__)
static inline void lanes_widen(lanes_wide *acc, vf v) {
  acc->low += (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
  acc->high += (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
}
static inline double lanes_join(lanes_wide acc) {
  return _mm512_reduce_add_pd((__m512d)(acc.low + acc.high));
}
/* n < F32_LANES elements, `rest` in the other lanes; and their store. */
static inline vf lanes_load_part(const float *p, int64_t n, float rest) {
  return (vf)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), (__mmask16)((1u << n) - 1), p);
}
static inline void lanes_store_part(float *p, vf v, int64_t n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
/* Past the caches, to an address that is a multiple of VEC_BYTES. */
static inline void lanes_stream(float *p, vf v) { _mm512_stream_ps(p, (__m512)v); }
/* a > b ? a : b in each lane, so b where either is NaN; and the other way round. */
static inline vf lanes_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vf lanes_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
/* The lanes where a or b is NaN, a bit each. */
static inline unsigned lanes_nan(vf a, vf b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
}
/* The lanes where a equals b, a bit each. */
static inline unsigned lanes_equal(vf a, vf b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
/* NaN in the lanes whose bits are set, v in the others. */
static inline vf lanes_put_nan(vf v, unsigned bits) {
  return (vf)_mm512_mask_mov_ps((__m512)v, (__mmask16)bits, _mm512_set1_ps(NAN));
}
/* The greater magnitude in each lane, the other's where one is NaN. */
static inline vf lanes_farther(vf a, vf b) { return (vf)_mm512_range_ps((__m512)a, (__m512)b, 0xb); }
/* Not 0 if any lane is above a bound. */
static inline unsigned lanes_above(vf v, float bound) {
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(bound), _CMP_GT_OQ);
}
/* v in the first n lanes, all if there are not so many; else 0. */
static inline vf lanes_first(vf v, int64_t n) {
  return n < F32_LANES ? (vf)_mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), (__m512)v) : v;
}
#elif defined(__AVX2__)
static inline void lanes_widen(lanes_wide *acc, vf v) {
  acc->low += (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
  acc->high += (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
}
static inline double lanes_join(lanes_wide acc) {
  const vd v = acc.low + acc.high;
  return (v[0] + v[2]) + (v[1] + v[3]);
}
static inline __m256i lanes_mask(int64_t n) {
  static const int32_t bits[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256((const __m256i *)(const void *)(bits + 8 - n));
}
static inline vf lanes_load_part(const float *p, int64_t n, float rest) {
  const __m256i mask = lanes_mask(n);
  return (vf)_mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}
static inline void lanes_store_part(float *p, vf v, int64_t n) {
  _mm256_maskstore_ps(p, lanes_mask(n), (__m256)v);
}
static inline void lanes_stream(float *p, vf v) { _mm256_stream_ps(p, (__m256)v); }
static inline vf lanes_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vf lanes_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline unsigned lanes_nan(vf a, vf b) {
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q));
}
static inline unsigned lanes_equal(vf a, vf b) {
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_EQ_OQ));
}
#else
static inline void lanes_widen(lanes_wide *acc, vf v) {
  acc->low += (vd){(double)v[0], (double)v[1]};
  acc->high += (vd){(double)v[2], (double)v[3]};
}
static inline double lanes_join(lanes_wide acc) {
  const vd v = acc.low + acc.high;
  return v[0] + v[1];
}
static inline vf lanes_load_part(const float *p, int64_t n, float rest) {
  return (vf){n > 0 ? p[0] : rest, n > 1 ? p[1] : rest, n > 2 ? p[2] : rest, rest};
}
static inline void lanes_store_part(float *p, vf v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
static inline void lanes_stream(float *p, vf v) { vf_store(p, v); }
static inline vf lanes_max(vf a, vf b) {
  for (int i = 0; i < F32_LANES; ++i) a[i] = a[i] > b[i] ? a[i] : b[i];
  return a;
}
static inline vf lanes_min(vf a, vf b) {
  for (int i = 0; i < F32_LANES; ++i) a[i] = a[i] < b[i] ? a[i] : b[i];
  return a;
}
static inline unsigned lanes_nan(vf a, vf b) {
  unsigned bits = 0;
  for (int i = 0; i < F32_LANES; ++i) bits |= (unsigned)__builtin_isunordered(a[i], b[i]) << i;
  return bits;
}
static inline unsigned lanes_equal(vf a, vf b) {
  unsigned bits = 0;
  for (int i = 0; i < F32_LANES; ++i) bits |= (unsigned)(a[i] == b[i]) << i;
  return bits;
}
#endif
#if !defined(__AVX512F__)
static inline vf lanes_put_nan(vf v, unsigned bits) {
  if (__builtin_expect(bits != 0, 0))
    for (int i = 0; i < F32_LANES; ++i) v[i] = bits >> i & 1 ? NAN : v[i];
  return v;
}
#endif

/* Elements of a row of n before the first that lanes_stream takes. */
static inline int64_t lanes_stream_head(const float *p, int64_t n) {
  const int64_t head = (int64_t)(-(uintptr_t)p % VEC_BYTES / sizeof *p);
  return head < n ? head : n;
}
/* p lies behind a streamed row. Where no line begins, two rows share one, and parts of it are stored by ordinary stores,
 * behind which all others wait until the line is there: asks for it early. */
static inline void lanes_ask_edge(const float *p) {
  if ((uintptr_t)p % CPU_LINE) __builtin_prefetch(p, 1);
}
/* Streamed stores of this thread are seen before what it does next: once, after the last. */
static inline void lanes_stream_end(void) {
#if defined(__x86_64__)
  __asm__ volatile("sfence" ::: "memory");
#endif
}

/* Loads before it are not moved behind it, nor the other way round. */
#define LANES_IN_ORDER __asm__ volatile("" ::: "memory")

/* Eight partial sums of `deep` vectors each, joined. */
#define LANES_TREE(TERM, deep, wide)                                                       \
  do {                                                                                     \
    vf lanes_t_[8];                                                                        \
    for (int k = 0; k < 8; ++k) lanes_t_[k] = TERM(lanes_i_ + k * F32_LANES);              \
    LANES_IN_ORDER;                                                                        \
    _Pragma("GCC unroll 4") for (int m = 1; m < (deep); ++m) {                             \
      for (int k = 0; k < 8; ++k) lanes_t_[k] += TERM(lanes_i_ + (8 * m + k) * F32_LANES); \
      LANES_IN_ORDER;                                                                      \
    }                                                                                      \
    lanes_widen(&(wide), ((lanes_t_[0] + lanes_t_[1]) + (lanes_t_[2] + lanes_t_[3])) +     \
                             ((lanes_t_[4] + lanes_t_[5]) + (lanes_t_[6] + lanes_t_[7]))); \
  } while (0)
/* Sums TERM(i), a vf made of the elements from i on, over i = 0, F32_LANES, ... into wide (a lanes_wide); PART
 * of what is left, n % F32_LANES elements, is 0 in the other lanes. See Note [Pairwise blocks]. */
#define LANES_SUM(n, TERM, PART, wide)                                                                    \
  do {                                                                                                    \
    const int64_t lanes_n_ = (n);                                                                         \
    int64_t lanes_i_ = 0;                                                                                 \
    for (; lanes_i_ + F32_BLOCK <= lanes_n_; lanes_i_ += F32_BLOCK) LANES_TREE(TERM, 4, wide);            \
    for (; lanes_i_ + F32_STEP <= lanes_n_; lanes_i_ += F32_STEP) LANES_TREE(TERM, 1, wide);              \
    for (; lanes_i_ + F32_LANES <= lanes_n_; lanes_i_ += F32_LANES) lanes_widen(&(wide), TERM(lanes_i_)); \
    if (lanes_i_ < lanes_n_) lanes_widen(&(wide), PART(lanes_i_, lanes_n_ - lanes_i_));                   \
  } while (0)

/* out[i] = TERM(i), a vf of n elements' i-th and following, or PART(i, m) of m of them. stream: past the caches. */
#define LANES_EACH(n, out, TERM, PART)                                                              \
  do {                                                                                              \
    const int64_t lanes_n_ = (n);                                                                   \
    int64_t lanes_i_ = lanes_stream_head(out, lanes_n_);                                            \
    if (lanes_i_) lanes_store_part(out, PART(0, lanes_i_), lanes_i_);                               \
    if (stream)                                                                                     \
      for (; lanes_i_ + F32_LANES <= lanes_n_; lanes_i_ += F32_LANES)                               \
        lanes_stream((out) + lanes_i_, TERM(lanes_i_));                                             \
    else                                                                                            \
      for (; lanes_i_ + F32_LANES <= lanes_n_; lanes_i_ += F32_LANES)                               \
        vf_store((out) + lanes_i_, TERM(lanes_i_));                                                 \
    if (lanes_i_ < lanes_n_)                                                                        \
      lanes_store_part((out) + lanes_i_, PART(lanes_i_, lanes_n_ - lanes_i_), lanes_n_ - lanes_i_); \
  } while (0)

/* Adds v to F32_LANES accumulators, or to the first m of them. */
static inline void lanes_add_to(double *acc, vf v) {
  lanes_wide wide = {vd_load(acc), vd_load(acc + F32_LANES / 2)};
  lanes_widen(&wide, v);
  vd_store(acc, wide.low);
  vd_store(acc + F32_LANES / 2, wide.high);
}
static inline void lanes_add_part_to(double *acc, vf v, int64_t m) {
  float lane[F32_LANES];
  vf_store(lane, v);
  for (int64_t j = 0; j < m; ++j) acc[j] += (double)lane[j];
}

/* ------------------------------------------------------------------ rows of float32: Note [Rows] in reduce.c */

enum { ROWS_TREE = 8, ROWS_AHEAD_BYTES = 65536 };
#define ROWS_INLINE static inline __attribute__((always_inline))

/* Asking for memory ahead of a loop over some rows at once: for each vector of a row, as many vectors. */
typedef struct rows_asked {
  int64_t ahead, across, along; /* bytes: from the first row, from one row to the next, to the next vectors */
} rows_asked;

ROWS_INLINE rows_asked rows_ask(int count, int64_t stride_bytes, int64_t n) {
  const int64_t row = n * (int64_t)sizeof(float), least = row < CPU_LINE ? CPU_LINE : row;
  if (stride_bytes == row) return (rows_asked){ROWS_AHEAD_BYTES, VEC_BYTES, count * VEC_BYTES};
  const int64_t times = (ROWS_AHEAD_BYTES + count * least - 1) / (count * least);
  return (rows_asked){times * count * stride_bytes, stride_bytes, VEC_BYTES};
}
/* *at: the first of `count` vectors, then of the next. An address, for the last ones lie behind the tensor. */
ROWS_INLINE void rows_ask_at(int count, const rows_asked *a, uintptr_t *at) {
  for (int k = 0; k < count; ++k)
    __builtin_prefetch((const void *)(*at + (uintptr_t)(k * a->across)), 0, 2);
  *at += (uintptr_t)a->along;
}

#endif
