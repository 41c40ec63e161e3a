/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operator that the device claims, family by family: operators x samples x dtypes against the float64 reference, and
 * the in-place forms.
 */
#include "check_device.h"
#include "devices.h"

static void run(const char *family, case_fn check) {
  GPU_NEEDS("opencl", device);
  (void)device;
  cases_run();
  each_case(family, check);
  TN_CHECK(cases_run() > 0);
}

#define FORWARD(family) \
  TN_TEST(gpu_##family, forward_matches_float64_reference) { run(#family, check_device); }
#define IN_PLACE(family) \
  TN_TEST(gpu_##family, inplace_matches_functional) { run(#family, check_device_in_place); }

FORWARD(create)
FORWARD(random)
FORWARD(copy)
FORWARD(elementwise)
FORWARD(activation)
FORWARD(compare)
FORWARD(reduce)
FORWARD(linalg)
FORWARD(nn)
FORWARD(index)
FORWARD(optim)
FORWARD(loss)
IN_PLACE(elementwise)
IN_PLACE(linalg)
