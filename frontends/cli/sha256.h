/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4), for the fingerprint of trained weights. Streaming; nothing can fail.
 */
#ifndef TENON_CLI_SHA256_H
#define TENON_CLI_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct tni_sha256 {
  uint32_t state[8];
  uint64_t size_bytes;
  unsigned char block[64];
} tni_sha256;

void tni_sha256_init(tni_sha256 *sha);
void tni_sha256_add(tni_sha256 *sha, const void *data, size_t size_bytes);
/* 64 hex digits and a NUL. */
void tni_sha256_end(tni_sha256 *sha, char out_hex[65]);

#endif
