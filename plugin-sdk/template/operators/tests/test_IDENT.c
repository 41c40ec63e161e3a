/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator as an application calls it, by name: values, the gradient, and words for a wrong argument. Exit status 0:
 * all as they should be.
 */
#include <math.h>
#include <tenon/tenon.h>

static tn_status soft_clip(tn_tensor *x, double limit, tn_tensor **out_y) {
  const tn_op *op = NULL;
  const tn_value args[] = {tn_value_tensor(x), tn_value_float(limit)};
  tn_value out = tn_value_none();
  tn_status status = tn_op_find("@IDENT@::soft_clip", &op);
  if (!status) status = tn_op_call(op, args, 2, &out, 1);
  if (!status) *out_y = out.u.t;
  return status;
}

/* y = 2 tanh(x / 2), and dy/dx = 1 - (y / 2)^2. */
static tn_status compare(tn_tensor *x, const float *values, int n) {
  tn_tensor *y = NULL, *sum = NULL;
  float got[8], slopes[8];
  tn_status status = tn_set_requires_grad(x, true);
  if (!status) status = soft_clip(x, 2, &y);
  if (!status) status = tn_sum(y, TN_DTYPE_NONE, &sum);
  if (!status) status = tn_backward_run(sum, NULL);
  if (!status) status = tn_tensor_to_host(y, got, (size_t)n * sizeof *got);
  if (!status) status = tn_tensor_to_host(tn_grad(x), slopes, (size_t)n * sizeof *slopes);
  for (int i = 0; !status && i < n; i++) {
    double y_i = 2 * tanh(values[i] / 2), slope = 1 - y_i * y_i / 4;
    if (fabs(got[i] - y_i) > 1e-6 || fabs(slopes[i] - slope) > 1e-6)
      status = tn_fail(TN_ERR_DATA, "soft_clip(%g, 2) is %.7g with slope %.7g; %.7g and %.7g were expected",
                       values[i], got[i], slopes[i], y_i, slope);
  }
  tn_tensor_release(sum);
  tn_tensor_release(y);
  return status;
}

int main(void) {
  const float values[] = {-30, -1, 0, 0.5f, 1, 4};
  tn_tensor *x = NULL, *refused = NULL;
  tn_status status = tn_tensor_from_host(values, (tn_dim[]){6}, 1, NULL, &x);
  if (!status) status = compare(x, values, 6);
  if (!status && soft_clip(x, -1, &refused) == TN_OK)
    status = tn_fail(TN_ERR_DATA, "a limit of -1 was taken");
  if (status) fprintf(stderr, "%s\n", tn_error_message());
  tn_tensor_release(refused);
  tn_tensor_release(x);
  return status != TN_OK;
}
