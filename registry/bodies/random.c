/* SPDX-License-Identifier: Apache-2.0
 *
 * Random factories (memory plus a fill) and dropout (a Bernoulli mask times the input).
 */
#include "registry/bodies/compose.h"

/* Makes filled memory (consumed) the result, or gives it up. */
static tn_status drawn(tn_status status, tn_tensor *fresh, tn_value *out) {
  if (status == TN_OK)
    out[0] = tn_value_tensor(fresh);
  else
    tn_tensor_release(fresh);
  return status;
}

TN_BODY(rand) {
  tn_tensor *fresh = NULL;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = tn_empty(args[0].u.ints, args[0].count, &options, 0, &fresh);
  if (status == TN_OK) status = tn_uniform_(fresh, 0, 1, NULL);
  return drawn(status, fresh, out);
}

TN_BODY(rand_like) {
  tn_tensor *fresh = NULL;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = tn_empty_like(args[0].u.t, &options, tni_format_of(&args[5]), &fresh);
  if (status == TN_OK) status = tn_uniform_(fresh, 0, 1, NULL);
  return drawn(status, fresh, out);
}

TN_BODY(randn) {
  tn_tensor *fresh = NULL;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = tn_empty(args[0].u.ints, args[0].count, &options, 0, &fresh);
  if (status == TN_OK) status = tn_normal_(fresh, 0, 1, NULL);
  return drawn(status, fresh, out);
}

TN_BODY(randn_like) {
  tn_tensor *fresh = NULL;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = tn_empty_like(args[0].u.t, &options, tni_format_of(&args[5]), &fresh);
  if (status == TN_OK) status = tn_normal_(fresh, 0, 1, NULL);
  return drawn(status, fresh, out);
}

static tn_status integers(int64_t low, int64_t high, const tn_value *size, const tn_value *four,
                          tn_value *out) {
  tn_tensor *fresh = NULL;
  tn_options options = tni_options_of(four);
  tn_status status = tn_empty(size->u.ints, size->count, &options, 0, &fresh);
  if (status == TN_OK) status = tn_random_from_(fresh, low, &high, NULL);
  return drawn(status, fresh, out);
}

TN_BODY(randint_low) { return integers(args[0].u.i, args[1].u.i, &args[2], &args[3], out); }
TN_BODY(randint) { return integers(0, args[0].u.i, &args[1], &args[2], out); }

static tn_status check_probability(double p) {
  if (p >= 0 && p <= 1) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a probability between 0 and 1, got %g", p);
}

/* A mask of 0 and 1 / (1 - p), in self's dtype. */
static tn_status scaled_mask(tn_tensor *self, double p, tn_tensor **out_mask) {
  tn_tensor *mask = NULL;
  tn_status status = tn_empty_like(self, NULL, 0, &mask);
  if (status == TN_OK) status = tn_bernoulli_(mask, 1 - p, NULL);
  if (status == TN_OK && p > 0 && p < 1) status = tn_div_scalar_(mask, tn_float(1 - p));
  if (status != TN_OK) {
    tn_tensor_release(mask);
    mask = NULL;
  }
  *out_mask = mask;
  return status;
}

TN_BODY(dropout) {
  tn_tensor *input = args[0].u.t, *t[2] = {NULL};
  double p = args[1].u.f;
  TN_TRY(check_probability(p));
  if (!args[2].u.i || p == 0) return tni_same(input, out);
  tn_status status;
  TNI_STEP(scaled_mask(input, p, &t[0]));
  TNI_STEP(tn_mul(input, t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

/* train absent counts as true. */
TN_BODY(native_dropout) {
  tn_tensor *input = args[0].u.t, *t[3] = {NULL};
  double p = args[1].u.f;
  TN_TRY(check_probability(p));
  if (tni_has(&args[2]) && !args[2].u.i) p = 0;
  tn_status status;
  TNI_STEP(scaled_mask(input, p, &t[0]));
  TNI_STEP(tn_mul(input, t[0], &t[1]));
  TNI_STEP(tn_ne_scalar(t[0], tn_int(0), &t[2]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
  out[1] = tn_value_tensor(tni_take(&t[2]));
done:
  TNI_RELEASE(t);
  return status;
}

/* The same numbers as a kernel draws: one in [0, 1) of float64 an element. args: self p generator */
TN_BODY(bernoulli_parts) {
  enum { DRAWN, LESS, N };
  tn_tensor *self = args[0].u.t, *t[N] = {NULL};
  const tn_options doubles = {.dtype = TN_FLOAT64};
  tn_status status;
  TNI_STEP(tn_empty_like(self, &doubles, TN_CONTIGUOUS_FORMAT, &t[DRAWN]));
  TNI_STEP(tn_uniform_(t[DRAWN], 0, 1, args[2].kind == TN_VAL_GENERATOR ? args[2].u.g : NULL));
  TNI_STEP(tn_lt_scalar(t[DRAWN], args[1], &t[LESS]));
  TNI_STEP(tn_copy_(self, t[LESS], false));
done:
  TNI_RELEASE(t);
  return status;
}
