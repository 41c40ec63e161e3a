/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that the tests of this folder run on.
 */
#ifndef TN_TESTS_GPU_DEVICES_H
#define TN_TESTS_GPU_DEVICES_H

#include <tenon/tenon.h>

#include "tn_test.h"

/* False where no OpenCL device is to be had: prints why, and the test ends well. */
bool gpu_device(const char *name, tn_device *out_device);
/* Ends the test where there is no such device. */
#define GPU_NEEDS(name, device) \
  tn_device device;             \
  if (!gpu_device(name, &device)) return

/* On the device, of the CPU tensor's values and geometry (negative and zero strides included). Owned. */
tn_tensor *gpu_like(const tn_tensor *t, tn_device device);
/* A copy on the CPU. Owned. */
tn_tensor *gpu_home(tn_tensor *t);
/* float32 from values. Owned. */
tn_tensor *gpu_floats(const float *values, const tn_dim *sizes, int ndim, tn_device device);

#endif
