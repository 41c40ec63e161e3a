/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4): fingerprints of files, of weights, and of keys into caches. Streaming; nothing can fail.
 */
#ifndef TENON_KIT_SHA256_H
#define TENON_KIT_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct tn_sha256 {
  uint32_t state[8];
  uint64_t size_bytes;
  unsigned char block[64];
} tn_sha256;

void tn_sha256_init(tn_sha256 *sha);
void tn_sha256_add(tn_sha256 *sha, const void *data, size_t size_bytes);
/* 64 hex digits and a NUL. */
void tn_sha256_end(tn_sha256 *sha, char out_hex[65]);

#endif
