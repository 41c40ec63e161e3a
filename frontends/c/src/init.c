/* SPDX-License-Identifier: Apache-2.0
 *
 * Initialisers: in-place fills with gradients off. Bounds are PyTorch's, so that the same distribution comes
 * out.
 */
#include <math.h>
#include <tenon/nn.h>

#include "frontends/c/src/support.h"

tn_status tn_init_constant(tn_tensor *tensor, double value) {
  bool grad = tn_grad_mode_set(false);
  tn_status status = tn_fill_(tensor, tn_float(value));
  tn_grad_mode_set(grad);
  return status;
}

tn_status tn_init_zeros(tn_tensor *tensor) { return tn_init_constant(tensor, 0.0); }
tn_status tn_init_ones(tn_tensor *tensor) { return tn_init_constant(tensor, 1.0); }

tn_status tn_init_uniform(tn_tensor *tensor, double low, double high, tn_generator *generator) {
  bool grad = tn_grad_mode_set(false);
  tn_status status = tn_uniform_(tensor, low, high, generator);
  tn_grad_mode_set(grad);
  return status;
}

tn_status tn_init_normal(tn_tensor *tensor, double mean, double std, tn_generator *generator) {
  bool grad = tn_grad_mode_set(false);
  tn_status status = tn_normal_(tensor, mean, std, generator);
  tn_grad_mode_set(grad);
  return status;
}

static tn_status fans(const tn_tensor *tensor, double *out_in, double *out_out) {
  TN_TRY(tni_nn_not_null(tensor, "the tensor to initialise"));
  int32_t ndim = tn_tensor_ndim(tensor);
  if (ndim < 2)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "an initialiser by fan needs two dims or more; the tensor has %d",
                   ndim);
  double rest = 1.0;
  for (int32_t d = 2; d < ndim; d++) rest *= (double)tn_tensor_sizes(tensor)[d];
  *out_in = (double)tn_tensor_sizes(tensor)[1] * rest;
  *out_out = (double)tn_tensor_sizes(tensor)[0] * rest;
  return TN_OK;
}

static tn_status xavier_std(const tn_tensor *tensor, double gain, double *out_std) {
  double in, out;
  TN_TRY(fans(tensor, &in, &out));
  *out_std = in + out > 0 ? gain * sqrt(2.0 / (in + out)) : 0.0;
  return TN_OK;
}

tn_status tn_init_xavier_uniform(tn_tensor *tensor, double gain, tn_generator *generator) {
  double std;
  TN_TRY(xavier_std(tensor, gain, &std));
  return tn_init_uniform(tensor, -sqrt(3.0) * std, sqrt(3.0) * std, generator);
}

tn_status tn_init_xavier_normal(tn_tensor *tensor, double gain, tn_generator *generator) {
  double std;
  TN_TRY(xavier_std(tensor, gain, &std));
  return tn_init_normal(tensor, 0.0, std, generator);
}

static tn_status kaiming_std(const tn_tensor *tensor, double gain, int32_t fan, double *out_std) {
  double in, out;
  TN_TRY(fans(tensor, &in, &out));
  if (fan != TN_FAN_IN && fan != TN_FAN_OUT)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "TN_FAN_IN or TN_FAN_OUT was expected, %d came", fan);
  double n = fan == TN_FAN_IN ? in : out;
  *out_std = n > 0 ? gain / sqrt(n) : 0.0;
  return TN_OK;
}

tn_status tn_init_kaiming_uniform(tn_tensor *tensor, double gain, int32_t fan, tn_generator *generator) {
  double std;
  TN_TRY(kaiming_std(tensor, gain, fan, &std));
  return tn_init_uniform(tensor, -sqrt(3.0) * std, sqrt(3.0) * std, generator);
}

tn_status tn_init_kaiming_normal(tn_tensor *tensor, double gain, int32_t fan, tn_generator *generator) {
  double std;
  TN_TRY(kaiming_std(tensor, gain, fan, &std));
  return tn_init_normal(tensor, 0.0, std, generator);
}
