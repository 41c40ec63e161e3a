/* SPDX-License-Identifier: Apache-2.0
 *
 * rms, batch and group norm with their gradients. Statistics are float32 for half types; results have the
 * input's memory order.
 */
#include "registry/meta/rules.h"

static tn_status check_mask(const tn_value *mask, uint32_t n) {
  if (mask->count == n) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u entries in output_mask, got %u", n, mask->count);
}

/* args: input normalized_shape weight eps */
TN_META(fused_rms_norm) {
  const tn_view *input = args[0].u.v;
  const tn_value none = {0};
  TN_TRY(tni_check_norm(input, &args[1], &args[2], &none));
  tni_desc_like(&meta->out[0], input, TN_DESC_CONTIGUOUS);
  tni_desc_statistics(&meta->out[1], input, args[1].count);
  return TN_OK;
}

/* args: grad_out input normalized_shape rstd weight output_mask */
TN_META(fused_rms_norm_backward) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v;
  const tn_value none = {0};
  uint32_t n = args[2].count;
  TN_TRY(tni_check_norm(input, &args[2], &args[4], &none));
  TN_TRY(tni_check_dtype_is("grad_out", grad, input->dtype));
  TN_TRY(tni_check_shape_is("grad_out", grad, input->ndim, input->sizes));
  TN_TRY(tni_check_statistics("rstd", args[3].u.v, input, n));
  TN_TRY(check_mask(&args[5], 2));
  tni_desc_like(&meta->out[0], input, TN_DESC_CONTIGUOUS);
  tni_desc_set(&meta->out[1], input->dtype, n, args[2].u.ints, TN_DESC_CONTIGUOUS);
  for (uint32_t i = 0; i < 2; i++) meta->out[i].absent = !args[5].u.bools[i];
  return TN_OK;
}
