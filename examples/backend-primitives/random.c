/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: element i draws from rng_offset + i with the kit's Philox, in the arithmetic that the contract of the
 * operators states, so they are the numbers of every other backend.
 */
#include <tenon/kit/philox.h>

#include "forty.h"

typedef struct draw {
  uint64_t seed, offset;
  double a, b;
  bool normal, single;
} draw;

static float uniform_float(const draw *d, tn_philox r) {
  float a = (float)d->a, top = (float)d->b, x = a + (float)(d->b - d->a) * tn_philox_float(r);
  return x >= top && top > a ? nextafterf(top, a) : x;
}
static double uniform_double(const draw *d, tn_philox r) {
  double x = d->a + (d->b - d->a) * tn_philox_double(r);
  return x >= d->b && d->b > d->a ? nextafter(d->b, d->a) : x;
}

static void draw_row(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index) {
  const draw *d = ctx;
  char *to = forty_bytes(data[0]);
  for (int64_t i = 0; i < n; i++, to += strides[0]) {
    tn_philox r = tn_philox_draw(d->seed, d->offset + (uint64_t)(index + i), 0);
    if (d->single)
      *(float *)(void *)to =
          d->normal ? (float)d->a + (float)d->b * tn_philox_normal_float(r) : uniform_float(d, r);
    else
      *(double *)(void *)to = d->normal ? d->a + d->b * tn_philox_normal_double(r) : uniform_double(d, r);
  }
}

static tn_status fill_random(tn_call *call, const tn_value *args, const tn_value *out, bool normal) {
  const tn_view *v = out[0].u.v;
  draw d = {call->rng_seed,         call->rng_offset, forty_double(&args[1]),
            forty_double(&args[2]), normal,           v->dtype == TN_FLOAT32};
  tn_iter it;
  TN_TRY(tn_iter_init(&it, v->ndim, v->sizes, 1, 1, &v, TN_ITER_IN_ORDER));
  return tn_iter_run_indexed(&it, FORTY_GRAIN / 8, draw_row, &d);
}

/* args: self from to generator */
tn_status forty_uniform(tn_call *call, const tn_value *args, tn_value *out) {
  return fill_random(call, args, out, false);
}
/* args: self mean std generator */
tn_status forty_normal(tn_call *call, const tn_value *args, tn_value *out) {
  return fill_random(call, args, out, true);
}
