/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of an epoch: Fisher-Yates over Philox4x32-10 (Salmon et al., SC 2011), keyed by the seed, with
 * the epoch in the counter. A generator of its own, so that shuffling draws nothing from a device's stream
 * and the order is the same whatever else a program draws.
 */
#include <tenon/data.h>

#include "frontends/c/src/support.h"

typedef struct stream {
  uint32_t key[2];
  uint64_t epoch;
  uint64_t block; /* next counter */
  uint64_t ready[2];
  unsigned n_ready;
} stream;

static void philox(const uint32_t key[2], uint64_t lo, uint64_t hi, uint32_t out[4]) {
  uint32_t c[4] = {(uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32)};
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1,
                        (uint32_t)a};
    memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  memcpy(out, c, sizeof c);
}

static uint64_t draw(stream *s) {
  if (s->n_ready == 0) {
    uint32_t out[4];
    philox(s->key, s->block++, s->epoch, out);
    s->ready[1] = (uint64_t)out[1] << 32 | out[0];
    s->ready[0] = (uint64_t)out[3] << 32 | out[2];
    s->n_ready = 2;
  }
  return s->ready[--s->n_ready];
}

/* Uniform in [0, n): the high word of draw * n, without the few low words that would favour some values. */
static uint64_t below(stream *s, uint64_t n) {
  uint64_t reject = (0 - n) % n;
  for (;;) {
    unsigned __int128 product = (unsigned __int128)draw(s) * n;
    if ((uint64_t)product >= reject) return (uint64_t)(product >> 64);
  }
}

tn_status tn_shuffle(uint64_t seed, uint64_t epoch, int64_t *out_indices, int64_t n) {
  if (n < 0 || (n > 0 && !out_indices))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_shuffle: room for %lld indices was expected", (long long)n);
  stream s = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .epoch = epoch};
  for (int64_t i = 0; i < n; i++) out_indices[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t j = (int64_t)below(&s, (uint64_t)i + 1);
    int64_t kept = out_indices[i];
    out_indices[i] = out_indices[j];
    out_indices[j] = kept;
  }
  return TN_OK;
}
