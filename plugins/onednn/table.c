/* SPDX-License-Identifier: Apache-2.0
 *
 * The committed table. */
#include "plugins/onednn/table.h"

enum {
  PIECE_WORK = 1 << 21, /* multiply-adds worth a piece of their own: 16 us of one AVX-512 core */
  PIECES = 16,          /* more only where tiles are at their largest */
  TILE = 256,           /* rows and columns of a piece, at most */
  DEPTH = 1024,         /* of float32 */
  IMAGES_BYTES = 1 << 20,
  CHUNKS = 16,
  SUMS_BYTES = 64 << 20
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceiling(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }
static int64_t up(int64_t n, int64_t unit) { return ceiling(n, unit) * unit; }

static bool serves(od_isa isa, tn_dtype dtype) {
  return dtype == TN_FLOAT32 || (dtype == TN_BFLOAT16 && isa >= OD_AVX512_BF16);
}

od_cut od_cut_product(od_isa isa, tn_dtype dtype, int64_t m, int64_t n, int64_t k, int64_t batch) {
  if (!serves(isa, dtype) || isa == OD_AVX2) return (od_cut){0};
  int64_t down = ceiling(m, TILE), across = ceiling(n, TILE);
  double wanted = (double)m * (double)n * (double)k / PIECE_WORK;
  if (wanted > PIECES) wanted = PIECES;
  if (batch > 1) wanted /= (double)batch;
  while ((double)(2 * down * across) <= wanted) {
    bool flat = n / across >= m / down;
    if (flat)
      across *= 2;
    else
      down *= 2;
  }
  int64_t depths = dtype == TN_FLOAT32 ? ceiling(k, DEPTH) : 1;
  return (od_cut){least(m, up(ceiling(m, down), 8)), least(n, up(ceiling(n, across), 16)),
                  least(k, up(ceiling(k, depths), 16))};
}

static int64_t power_of_two(double most) {
  int64_t n = 1;
  while ((double)(2 * n) <= most) n *= 2;
  return n;
}

od_images od_cut_images(od_isa isa, tn_dtype dtype, int64_t batch, double work, double image_bytes,
                        double weight_bytes) {
  if (!serves(isa, dtype) || work * (double)batch < OD_PRODUCT_LEAST) return (od_images){0};
  double pieces = (double)batch * work / PIECE_WORK, sums = SUMS_BYTES / weight_bytes;
  if (pieces > PIECES) pieces = PIECES;
  int64_t at_least = least(power_of_two(pieces), batch);
  double fit = IMAGES_BYTES / image_bytes;
  int64_t images = least(ceiling(batch, at_least), fit < 1 ? 1 : (int64_t)fit);
  int64_t chunks = power_of_two(sums < pieces ? sums : pieces);
  return (od_images){images, least(chunks, ceiling(batch, images))};
}
