/* SPDX-License-Identifier: Apache-2.0
 *
 * Factories as empty memory plus a fill. The four options travel as they came; only full and the
 * sequences look at the dtype.
 */
#include "registry/bodies/compose.h"

/* ------------------------------------------------------------------ constants */

/* Fills fresh memory (consumed) and makes it the result. */
static tn_status filled(tn_status status, tn_tensor *fresh, tn_scalar value, tn_value *out) {
  if (status == TN_OK) status = tn_fill_(fresh, value);
  if (status == TN_OK)
    out[0] = tn_value_tensor(fresh);
  else
    tn_tensor_release(fresh);
  return status;
}

static tn_status zeroed(tn_status status, tn_tensor *fresh, tn_value *out) {
  if (status == TN_OK) status = tn_zero_(fresh);
  if (status == TN_OK)
    out[0] = tn_value_tensor(fresh);
  else
    tn_tensor_release(fresh);
  return status;
}

static tn_status empty(const tn_value *size, const tn_options *options, tn_tensor **out_fresh) {
  *out_fresh = NULL;
  return tn_empty(size->u.ints, size->count, options, 0, out_fresh);
}

/* self, dtype, layout, device, pin_memory, memory_format: the tail is at args + at. */
static tn_status empty_like(const tn_value *args, uint32_t at, tn_tensor **out_fresh) {
  tn_options options = tni_options_of(&args[at]);
  *out_fresh = NULL;
  return tn_empty_like(args[0].u.t, &options, tni_format_of(&args[at + 4]), out_fresh);
}

static tn_status new_empty(const tn_value *args, uint32_t at, tn_tensor **out_fresh) {
  tn_options options = tni_options_of(&args[at]);
  *out_fresh = NULL;
  return tn_new_empty(args[0].u.t, args[1].u.ints, args[1].count, &options, out_fresh);
}

TN_BODY(zeros) {
  tn_tensor *fresh;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = empty(&args[0], &options, &fresh);
  return zeroed(status, fresh, out);
}

TN_BODY(zeros_like) {
  tn_tensor *fresh;
  tn_status status = empty_like(args, 1, &fresh);
  return zeroed(status, fresh, out);
}

TN_BODY(new_zeros) {
  tn_tensor *fresh;
  tn_status status = new_empty(args, 2, &fresh);
  return zeroed(status, fresh, out);
}

TN_BODY(ones) {
  tn_tensor *fresh;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = empty(&args[0], &options, &fresh);
  return filled(status, fresh, tn_int(1), out);
}

TN_BODY(ones_like) {
  tn_tensor *fresh;
  tn_status status = empty_like(args, 1, &fresh);
  return filled(status, fresh, tn_int(1), out);
}

/* A floating number takes the default dtype, others the dtype of their kind. */
TN_BODY(full) {
  tn_tensor *fresh;
  tn_options options = tni_options_of(&args[2]);
  if (options.dtype == TN_DTYPE_NONE && args[1].kind == TN_VAL_BOOL) options.dtype = TN_BOOL;
  if (options.dtype == TN_DTYPE_NONE && args[1].kind == TN_VAL_INT) options.dtype = TN_INT64;
  tn_status status = empty(&args[0], &options, &fresh);
  return filled(status, fresh, args[1], out);
}

TN_BODY(full_like) {
  tn_tensor *fresh;
  tn_status status = empty_like(args, 2, &fresh);
  return filled(status, fresh, args[1], out);
}

TN_BODY(new_full) {
  tn_tensor *fresh;
  tn_status status = new_empty(args, 3, &fresh);
  return filled(status, fresh, args[2], out);
}

TN_BODY(scalar_tensor) {
  tn_tensor *fresh = NULL;
  tn_options options = tni_options_of(&args[1]);
  tn_status status = tn_empty(NULL, 0, &options, 0, &fresh);
  return filled(status, fresh, args[0], out);
}

/* ------------------------------------------------------------------ sequences */

TN_BODY(arange_start) {
  tn_tensor *result = NULL;
  tn_options options = tni_options_of(&args[2]);
  return tni_result(tn_arange_step(args[0], args[1], tn_int(1), &options, &result), &result, out);
}

TN_BODY(arange) {
  tn_tensor *result = NULL;
  tn_options options = tni_options_of(&args[1]);
  return tni_result(tn_arange_step(tn_int(0), args[0], tn_int(1), &options, &result), &result, out);
}

/* Computed from start in the first half and from end in the second, so that both are exact. float64
 * results compute in float64, all others in float32. */
TN_BODY(linspace) {
  int64_t steps = args[2].u.i;
  if (steps < 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected steps of at least 0, got %lld", (long long)steps);
  tn_options options = tni_options_of(&args[3]);
  if (options.dtype == TN_DTYPE_NONE) options.dtype = tn_default_dtype();
  tn_dtype dtype = options.dtype;
  options.dtype = dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
  double start = tni_double_of(&args[0]), end = steps == 1 ? start : tni_double_of(&args[1]);
  double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
  tn_tensor *t[9] = {NULL};
  tn_status status;
  TNI_STEP(tn_arange(tn_int(steps), &options, &t[0]));
  TNI_STEP(tn_mul_scalar(t[0], tn_float(step), &t[1]));
  TNI_STEP(tn_add_scalar(t[1], tn_float(start), tn_int(1), &t[2]));
  TNI_STEP(tn_rsub_scalar(t[0], tn_int(steps - 1), tn_int(1), &t[3]));
  TNI_STEP(tn_mul_scalar(t[3], tn_float(step), &t[4]));
  TNI_STEP(tn_rsub_scalar(t[4], tn_float(end), tn_int(1), &t[5]));
  TNI_STEP(tn_lt_scalar(t[0], tn_int(steps / 2), &t[6]));
  TNI_STEP(tn_where(t[6], t[2], t[5], &t[7]));
  TNI_STEP(tn_to_dtype(t[7], dtype, false, false, 0, &t[8]));
  out[0] = tn_value_tensor(tni_take(&t[8]));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status identity(int64_t n, int64_t m, const tn_value *four, tn_value *out) {
  tn_options options = tni_options_of(four);
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_zeros((const int64_t[]){n, m}, 2, &options, &t[0]));
  TNI_STEP(tn_diagonal(t[0], 0, 0, 1, &t[1]));
  TNI_STEP(tn_fill_(t[1], tn_int(1)));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(eye) { return identity(args[0].u.i, args[0].u.i, &args[1], out); }
TN_BODY(eye_m) { return identity(args[0].u.i, args[1].u.i, &args[2], out); }
