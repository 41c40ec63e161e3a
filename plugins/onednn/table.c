/* SPDX-License-Identifier: Apache-2.0
 *
 * The committed table. Measured 2026-11-29 with oneDNN 2.6.3 against the other providers of this tree, on two cores of family 26
 * (AVX-512 with bfloat16, no AMX), one thread, best of 60 ms each, calls included. Figures are the best other
 * provider's time over the time with oneDNN.
 *
 *   float32, 45 shapes of 10^6 to 10^9 multiply-adds:
 *     a @ b, a' @ b    1.0 - 1.2, and 1.8 for 10 columns; but 0.8 for 10 rows, 0.97 for 64 rows of 784 terms
 *     a @ b'           1.1 - 1.5 for n <= 65 or k = 64; else 0.76 - 0.99
 *   results of at most 128 x 128, in two pieces: 0.92 for 64 x 64 and 64 x 128 of 784 terms, 1.01 and 0.92 for 128 x 128 of
 *     128 and 1024 (2026-11-30, family 25)
 *   below 10^6 multiply-adds 0.1 - 0.9: a call costs 1 us before it computes
 *   bfloat16: 480 - 510 GFLOP/s, where the CPU plugin, in float32, has 130
 *   AVX2: products run at the CPU plugin's rate; not worth a row
 *   a cut in two: 0 - 2 % of the time of the whole, for either dtype
 *   convolutions in float32, 9 shapes in both orders, alternating with the CPU plugin, which computes ordinary ones at the
 *   multiply-add ceiling as well:
 *     depthwise          5 - 300
 *     forward            0.8 - 1.08; but 1.3 for 24 channels, 8.9 for 1 x 1 with channels innermost
 *     input gradient     0.8 - 1.06; but 0.14 - 0.55 for up to 3 channels
 *     weight gradient    0.5 - 0.99; but 1.3 - 3.6 for up to 24 channels (one channel, row-major: 0.89)
 *   in pieces of 4 images as fast as in one of 64
 */
#include "plugins/onednn/table.h"

#include <unistd.h>

enum {
  PIECE_WORK = 1 << 21, /* multiply-adds worth a piece of their own: 16 us of one AVX-512 core */
  CONV_LEAST = 1 << 18, /* of a whole convolution */
  PROCESSORS_MOST = 64,
  PIECES = 16,            /* of a convolution; more only where images are large */
  IMAGES_BYTES = 1 << 20, /* of the images of a piece: the second cache of a core */
  SUMS_BYTES = 64 << 20   /* of the sums of weight gradients that stand beside each other */
};

/* A product is cut into as many pieces as the machine has processors, up to a power of two: each cut costs 1 or 2 %.
 * As configured, not as free: affinity and the number of threads may change from run to run, and results must not. */
static int64_t processors = 1;

void od_cut_open(void) {
  long configured = sysconf(_SC_NPROCESSORS_CONF);
  for (processors = 1; processors < configured && processors < PROCESSORS_MOST;) processors *= 2;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceiling(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }
static int64_t up(int64_t n, int64_t unit) { return ceiling(n, unit) * unit; }

static bool serves(od_isa isa, tn_dtype dtype) {
  return dtype == TN_FLOAT32 || (dtype == TN_BFLOAT16 && isa >= OD_AVX512_BF16);
}

static bool pays(const od_shape *s) {
  enum { ROWS_LEAST = 48, NARROW = 80, SHORT = 64, RESULT_MOST = 128 * 128 };
  if (s->m < ROWS_LEAST || s->m * s->n <= RESULT_MOST) return false;
  return !s->b_transposed || s->n <= NARROW || s->k <= SHORT;
}

od_cut od_cut_product(od_isa isa, tn_dtype dtype, const od_shape *s) {
  if (!serves(isa, dtype) || isa == OD_AVX2) return (od_cut){0};
  if (dtype == TN_FLOAT32 && !pays(s)) return (od_cut){0};
  double wanted = (double)s->m * (double)s->n * (double)s->k / PIECE_WORK;
  if (wanted > (double)processors) wanted = (double)processors;
  int64_t down = 1, across = 1;
  /* Rows of a result lie without gaps, which the library's better kernels for bfloat16 want. */
  enum { HALF_ROWS = 128 };
  while ((double)(2 * down * across) * (double)s->batch <= wanted) {
    bool whole_rows = dtype == TN_BFLOAT16 && s->m / down >= HALF_ROWS;
    if (s->n / across >= s->m / down && !whole_rows)
      across *= 2;
    else
      down *= 2;
  }
  return (od_cut){least(s->m, up(ceiling(s->m, down), 8)), least(s->n, up(ceiling(s->n, across), 16))};
}

static int64_t power_of_two(double most) {
  int64_t n = 1;
  while ((double)(2 * n) <= most) n *= 2;
  return n;
}

enum { TO_SMALL = 1 << OD_TO_SMALL, TO_BIG = 1 << OD_TO_BIG, TO_WEIGHT = 1 << OD_TO_WEIGHT };

/* Everything that one call computes goes the same way: what is won must not be lost beside it. */
static bool convolution_pays(const od_conv_shape *s) {
  enum { DEPTHWISE = 16, FEW = 24, LINE = 16 };
  int64_t channels = s->group_channels;
  if (s->groups > 1) return channels <= DEPTHWISE;
  bool forward = (s->taps == 1 && s->last) || (channels > LINE && channels % LINE != 0);
  bool weight = channels <= FEW && (s->last || channels > 1);
  if (s->products & TO_SMALL && !forward) return false;
  if (s->products & TO_WEIGHT && !weight) return false;
  return !(s->products & TO_BIG) || (s->products & TO_WEIGHT && channels >= LINE);
}

od_images od_cut_images(od_isa isa, tn_dtype dtype, const od_conv_shape *s) {
  if (!serves(isa, dtype) || s->work * (double)s->batch < CONV_LEAST) return (od_images){0};
  if (dtype == TN_FLOAT32 && !convolution_pays(s)) return (od_images){0};
  double pieces = (double)s->batch * s->work / PIECE_WORK, sums = SUMS_BYTES / s->weight_bytes;
  if (pieces > PIECES) pieces = PIECES;
  int64_t at_least = least(power_of_two(pieces), s->batch);
  double fit = IMAGES_BYTES / s->image_bytes;
  int64_t images = least(ceiling(s->batch, at_least), fit < 1 ? 1 : (int64_t)fit);
  int64_t chunks = power_of_two(sums < pieces ? sums : pieces);
  return (od_images){images, least(chunks, ceiling(s->batch, images))};
}
