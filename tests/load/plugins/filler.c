/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin with a manifest of common size, for measuring what many of them cost at start: ci/bench/startup.py
 * makes copies in which the two digits are others.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

#define ROW(op) "kernel filler-00 " op " float32,float64,half 0\n"
#define ROWS                                                                                                       \
  ROW("add.Tensor") ROW("sub.Tensor") ROW("mul.Tensor") ROW("div.Tensor") ROW("neg") ROW("exp") ROW("log")         \
  ROW("sqrt") ROW("rsqrt") ROW("sin") ROW("cos") ROW("tanh") ROW("sigmoid") ROW("relu") ROW("abs") ROW("eq.Tensor") \
  ROW("ne.Tensor") ROW("lt.Tensor") ROW("le.Tensor") ROW("gt.Tensor") ROW("ge.Tensor") ROW("where.self") ROW("mm") \
  ROW("bmm") ROW("sum.dim_IntList") ROW("mean.dim") ROW("amax") ROW("amin") ROW("argmax") ROW("argmin")            \
  ROW("cat") ROW("index_select") ROW("gather") ROW("fill_.Scalar") ROW("copy_") ROW("uniform_") ROW("normal_")     \
  ROW("maximum") ROW("minimum") ROW("pow.Tensor_Scalar")

TN_MANIFEST(TN_MANIFEST_HEADER("filler-00", "1.0", "Apache-2.0") "device filler-00\n" ROWS)

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)reg;
  return host->fail(TN_ERR_UNAVAILABLE, "a filler has no device");
}

TN_PLUGIN(.name = "filler-00", .version = "1.0", .init = init)
