/* SPDX-License-Identifier: Apache-2.0
 *
 * The committed table. Measured 2026-11-29 with OpenBLAS 0.3.21 against the CPU plugin of this tree, on two cores
 * of family 26 (AVX-512; lowered to AVX2 for Haswell), same row-major buffers, one thread, best of 12 to 36
 * alternating blocks. Figures are the CPU plugin's time over the time with OpenBLAS, calls included.
 *
 *   matrices, SkylakeX, 220 random shapes of at most 10^6 multiply-adds; medians by class of m and n:
 *     a @ b, a' @ b    1.2 - 4.7 float32, 1.1 - 3.4 float64; but 0.6 - 0.9 for few rows of more than 200
 *                      columns, and for k below 4
 *     a' @ b'          1.0 - 2.6; but 0.5 - 0.8 for m or k up to 8
 *     a @ b'           0.5 - 1.1; but 1.3 - 3.6 for float32 with n <= 8, or m <= 8 and n < 32
 *   larger, OpenBLAS packs: 0.81 - 1.03 float32 and 0.66 - 0.98 float64 up to 768; float32 in two pieces
 *     0.97 at 1024, 1.00 at 1536, 1.05 at 2048, 1.04 at 3072, 1.11 at 4096
 *   matrices, Haswell: 0.9 - 1.05 from 16 x 16 x 16 on; not worth a row
 *   matrix and vector: 1.2 - 20 on both; but 0.8 - 1.2 for float64 rows of more than 512 on SkylakeX
 *   dot: float64 the same within 10 ns; float32 would be summed in float32 (the CPU plugin sums in double)
 */
#include "plugins/openblas/table.h"

#include <unistd.h>

enum {
  SMALL_MOST = 1000000, /* m n k: OpenBLAS has kernels that copy nothing up to here */
  LARGE_LEAST = 2048,   /* each of m, n, k */
  LARGE_PROCESSORS = 2,
  VECTOR_PIECE = 1 << 17, /* elements of the matrix: 7 us of one core out of its second cache */
  VECTOR_ROWS = 64,
  VECTOR_COLUMNS = 1024 /* of a piece, at least */
};

/* Large products are cut in two, which suits two processors: finer pieces cost what there is to win. Where
 * there are more, the CPU plugin, whose bits do not depend on how it cuts, cuts finer and is faster. As
 * configured, not as free: affinity and the number of threads may change from run to run. */
static bool few_processors;

void ob_plan_open(void) { few_processors = sysconf(_SC_NPROCESSORS_CONF) <= LARGE_PROCESSORS; }

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static bool small_pays(const ob_shape *s) {
  bool low = s->m <= 12 && s->n > 200;
  if (s->k < 4 || low) return false;
  if (!s->b_transposed) return true;
  if (s->a_transposed) return s->k > 8 && s->m > 8;
  return !s->wide && s->k > 8 && (s->n <= 8 || (s->m <= 8 && s->n < 32));
}

static ob_plan plan_large(const ob_shape *s) {
  if (s->wide || !few_processors) return (ob_plan){0};
  if (s->m < LARGE_LEAST || s->n < LARGE_LEAST || s->k < LARGE_LEAST) return (ob_plan){0};
  return (ob_plan){up((s->m + 1) / 2, 64), s->n};
}

ob_plan ob_plan_matrices(ob_core core, const ob_shape *s) {
  if (core != OB_SKYLAKEX) return (ob_plan){0};
  double work = (double)s->m * (double)s->n * (double)s->k;
  if (work > SMALL_MOST) return plan_large(s);
  return small_pays(s) ? (ob_plan){s->m, s->n} : (ob_plan){0};
}

ob_plan ob_plan_vector(ob_core core, const ob_shape *s) {
  if (core == OB_SKYLAKEX && s->wide && !s->a_transposed && s->k > 512) return (ob_plan){0};
  int64_t rows = up((VECTOR_PIECE + s->k - 1) / s->k, s->a_transposed ? VECTOR_COLUMNS : VECTOR_ROWS);
  return (ob_plan){rows < s->m ? rows : s->m, 1};
}
