/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators whose arguments choose between expressions: a rounding mode, absent bounds,
 * a name of an approximation. Each choice is an entry of its own with an expression.
 */
#include <string.h>

#include "registry/bodies/compose.h"

TN_BODY(div_tensor_mode) {
  tn_tensor *self = args[0].u.t, *other = args[1].u.t, *result = NULL;
  tn_status status;
  if (!tni_has(&args[2]))
    status = tn_div(self, other, &result);
  else if (strcmp(args[2].u.s, "floor") == 0)
    status = tn_floor_divide(self, other, &result);
  else if (strcmp(args[2].u.s, "trunc") == 0)
    status = tn__div_trunc(self, other, &result);
  else
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected rounding_mode None, 'floor' or 'trunc', got '%s'",
                   args[2].u.s);
  return tni_result(status, &result, out);
}

TN_BODY(clamp) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  bool low = tni_has(&args[1]), high = tni_has(&args[2]);
  tn_status status;
  if (low && high)
    status = tn__clamp(self, args[1], args[2], &result);
  else if (low)
    status = tn_clamp_min(self, args[1], &result);
  else if (high)
    status = tn_clamp_max(self, args[2], &result);
  else
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a number for min or max, got neither");
  return tni_result(status, &result, out);
}

static tn_status unknown_approximation(const char *name) {
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected approximate 'none' or 'tanh', got '%s'", name);
}

TN_BODY(gelu) {
  tn_tensor *result = NULL;
  if (strcmp(args[1].u.s, "none") == 0) return tni_result(tn__gelu_erf(args[0].u.t, &result), &result, out);
  if (strcmp(args[1].u.s, "tanh") == 0) return tni_result(tn__gelu_tanh(args[0].u.t, &result), &result, out);
  return unknown_approximation(args[1].u.s);
}

TN_BODY(gelu_backward) {
  tn_tensor *grad = args[0].u.t, *self = args[1].u.t, *result = NULL;
  if (strcmp(args[2].u.s, "none") == 0)
    return tni_result(tn__gelu_erf_backward(grad, self, &result), &result, out);
  if (strcmp(args[2].u.s, "tanh") == 0)
    return tni_result(tn__gelu_tanh_backward(grad, self, &result), &result, out);
  return unknown_approximation(args[2].u.s);
}
