/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers that are a function of (seed, counter): Philox4x32-10 of J. Salmon, M. Moraes, R. Dror and
 * D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. One counter per element: element i of a
 * call draws from rng_offset + i, so that threads, instruction sets and retries do not change a value.
 *
 * No state here: the core hands (seed, offset) to the kernel in tn_call.
 */
#ifndef TENON_KIT_PHILOX_H
#define TENON_KIT_PHILOX_H

#include <math.h>
#include <stdint.h>

/* Four 32-bit words. */
typedef struct tn_philox {
  uint32_t word[4];
} tn_philox;

/* What the two words of the key grow by from one round to the next. */
#define TN_PHILOX_KEY_0 0x9E3779B9u
#define TN_PHILOX_KEY_1 0xBB67AE85u

/* One round on four words, wherever they stand: in a loop over arrays of each, compilers do many counters at a time. */
static inline void tn_philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, uint32_t k0,
                                   uint32_t k1) {
  const uint64_t p0 = (uint64_t)0xD2511F53u * *c0, p1 = (uint64_t)0xCD9E8D57u * *c2;
  *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
  *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
  *c1 = (uint32_t)p1;
  *c3 = (uint32_t)p0;
}

/* The ten rounds on raw counter and key words. */
static inline tn_philox tn_philox_rounds(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0,
                                         uint32_t k1) {
  for (int round = 0; round < 10; round++, k0 += TN_PHILOX_KEY_0, k1 += TN_PHILOX_KEY_1)
    tn_philox_round(&c0, &c1, &c2, &c3, k0, k1);
  tn_philox result = {{c0, c1, c2, c3}};
  return result;
}

/* What (seed, counter) gives; subsequence tells apart streams of one seed (0 for operators). */
static inline tn_philox tn_philox_draw(uint64_t seed, uint64_t counter, uint64_t subsequence) {
  return tn_philox_rounds((uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)subsequence,
                          (uint32_t)(subsequence >> 32), (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* [0, 1), 24 bits. */
static inline float tn_philox_float(tn_philox r) { return (float)(r.word[0] >> 8) * 0x1p-24f; }
static inline uint64_t tn_philox_bits64(tn_philox r) { return (uint64_t)r.word[0] << 32 | r.word[1]; }
/* [0, 1), 53 bits. */
static inline double tn_philox_double(tn_philox r) { return (double)(tn_philox_bits64(r) >> 11) * 0x1p-53; }

/* An integer in [0, range); range > 0. Bias below range / 2^64. */
static inline uint64_t tn_philox_below(tn_philox r, uint64_t range) {
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)(((wide)tn_philox_bits64(r) * range) >> 64);
}

/* Standard normal by Box and Muller: radius from (0, 1], so that the logarithm is finite. */
static inline float tn_philox_normal_float(tn_philox r) {
  float u = (float)((r.word[0] >> 8) + 1) * 0x1p-24f;
  float angle = (float)(r.word[1] >> 8) * 0x1p-24f * 6.283185307179586f;
  return sqrtf(-2.0f * logf(u)) * cosf(angle);
}
static inline double tn_philox_normal_double(tn_philox r) {
  uint64_t second = (uint64_t)r.word[2] << 32 | r.word[3];
  double u = (double)((tn_philox_bits64(r) >> 11) + 1) * 0x1p-53;
  double angle = (double)(second >> 11) * 0x1p-53 * 6.283185307179586476925;
  return sqrt(-2.0 * log(u)) * cos(angle);
}

#endif
