/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing devices before the driver reads its environment, and moving tensors with their geometry.
 */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <tenon/kit/shape.h>

#include "core/tensor/tensor.h"

__attribute__((constructor)) static void choose_devices(void) {
  setenv("TENON_PLUGIN_PATH", TN_TEST_PLUGIN_PATH ":" TN_STRANGER_DIR, 1);
  setenv("POCL_DEVICES", "pthread pthread basic", 0);
}

bool gpu_device(const char *name, tn_device *out_device) {
  tn_status status = tn_device_open(name, out_device);
  if (status == TN_OK) return true;
  if (status != TN_ERR_UNAVAILABLE) TN_CHECK_OK(status);
  printf("(not run: %s) ", tn_error_message());
  return false;
}

tn_tensor *gpu_like(const tn_tensor *t, tn_device device) {
  const tn_view *v = tn_tensor_view(t);
  tn_tensor *span = NULL, *result = NULL;
  int64_t begin, end;
  if (v->numel == 0) {
    TN_CHECK_OK(tni_tensor_new(v->dtype, v->ndim, v->sizes, NULL, device, &result));
    return result;
  }
  tn_view_byte_range(v, &begin, &end);
  const tn_dim n = (end - begin) / v->itemsize;
  const tn_options options = {.dtype = v->dtype, .has_device = true, .device = device};
  TN_CHECK_OK(tn_tensor_from_host((const char *)v->data + begin, &n, 1, &options, &span));
  TN_CHECK_OK(tni_tensor_alias(span, v->ndim, v->sizes, v->strides, -begin / v->itemsize, true, &result));
  tn_tensor_release(span);
  return result;
}

tn_tensor *gpu_home(tn_tensor *t) {
  tn_device cpu;
  tn_tensor *result = NULL;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  TN_CHECK_OK(tn_to_device(t, cpu, tn_tensor_dtype(t), false, true, TN_CONTIGUOUS_FORMAT, &result));
  return result;
}

tn_tensor *gpu_floats(const float *values, const tn_dim *sizes, int ndim, tn_device device) {
  tn_tensor *t = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  TN_CHECK_OK(tn_tensor_from_host(values, sizes, ndim, &options, &t));
  return t;
}
