/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers as the kit's philox.h makes them: a function of seed and counter, so that a device draws what the CPU
 * draws. Philox4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, SC 2011.
 */
typedef struct {
  u32 a, b, c, d;
} draw_t;

DEVICE draw_t draw(u64 seed, u64 counter) {
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    const u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1;
    c3 = (u32)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  draw_t r;
  r.a = c0;
  r.b = c1;
  r.c = c2;
  r.d = c3;
  return r;
}
DEVICE u64 draw_bits(draw_t r) { return (u64)r.a << 32 | r.b; }

/* 53 bits: counted, for comparisons with a probability without double arithmetic. */
DEVICE u64 draw_53(u64 seed, u64 counter) { return draw_bits(draw(seed, counter)) >> 11; }
/* [low, low + range); range 0: all of 64 bits. */
DEVICE i64 draw_whole(u64 seed, u64 counter, i64 low, u64 range) {
  const u64 bits = draw_bits(draw(seed, counter));
  return (i64)((u64)low + (range ? HIGH_PRODUCT(bits, range) : bits));
}

#if IS_FLOAT
#if IS_DOUBLE
DEVICE T draw_unit(draw_t r) { return (T)(draw_bits(r) >> 11) * (T)1.1102230246251565e-16; } /* 2^-53 */
DEVICE T draw_normal(u64 seed, u64 counter, T mean, T std) {
  const draw_t r = draw(seed, counter);
  const u64 second = (u64)r.c << 32 | r.d;
  const T u = (T)((draw_bits(r) >> 11) + 1) * (T)1.1102230246251565e-16;
  const T angle = (T)(second >> 11) * (T)1.1102230246251565e-16 * (T)6.283185307179586476925;
  return mean + std * (sqrt((T)-2 * log(u)) * cos(angle));
}
#else
DEVICE T draw_unit(draw_t r) { return (T)(r.a >> 8) * 5.9604644775390625e-08f; } /* 2^-24 */
DEVICE T draw_normal(u64 seed, u64 counter, T mean, T std) {
  const draw_t r = draw(seed, counter);
  const T u = (T)((r.a >> 8) + 1) * 5.9604644775390625e-08f;
  const T angle = (T)(r.b >> 8) * 5.9604644775390625e-08f * 6.283185307179586f;
  return mean + std * (sqrt(-2.0f * log(u)) * cos(angle));
}
#endif
/* [low, high): a product that rounds up to high is taken back below it. */
DEVICE T draw_uniform(u64 seed, u64 counter, T low, T high, T width) {
  const T x = low + width * draw_unit(draw(seed, counter));
  return x >= high && high > low ? nextafter(high, low) : x;
}
#endif
