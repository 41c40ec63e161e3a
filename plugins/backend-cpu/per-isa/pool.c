/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of one image in float32 and float64: pool.inc twice. `planes` functions take one row-major plane;
 * `pixels` functions one image whose channels are innermost. cpu_pool says which elements of the input each
 * output position reads: [begin, end) in steps, the padding already taken off.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/backend-cpu/per-isa/per_isa.h"

#define EACH_POSITION(p, oy, ox)               \
  for (int64_t oy = 0; oy < (p)->out[0]; ++oy) \
    for (int64_t ox = 0; ox < (p)->out[1]; ++ox)

/* The first of equal ones stays; NaN goes before all, a later one before an earlier, as in ATen. */
#define BETTER(v, best)       ((v) > (best) || (v) != (v))
#define BETTER_LANES(v, best) (((v) > (best)) | ((v) != (v)))

/* Every other element of 2 L - 1, from a and from what begins one before a's end. */
#define f32_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define f64_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)

#define T       float
#define I       int32_t
#define NAME(x) CPU_PASTE(f32, x)
#include "plugins/backend-cpu/per-isa/pool.inc"
#undef T
#undef I
#undef NAME

#define T       double
#define I       int64_t
#define NAME(x) CPU_PASTE(f64, x)
#include "plugins/backend-cpu/per-isa/pool.inc"

#define POOL(P)                                                                     \
  const cpu_pool_fns CPU_FN(cpu_pool_##P) = {{P##_max_plane, P##_max_pixels},       \
                                             {P##_unmax_plane, P##_unmax_pixels},   \
                                             {P##_mean_plane, P##_mean_pixels},     \
                                             {P##_unmean_plane, P##_unmean_pixels}, \
                                             P##_unmax_tiles};
POOL(f32)
POOL(f64)
