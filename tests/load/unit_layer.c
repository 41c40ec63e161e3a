/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer plugin with a fallback, switched on for this thread: it meets every operator, also one that another
 * plugin adds later, and what it passes on runs below it.
 */
#include <stdlib.h>
#include <tenon/tenon.h>

#include "core/load/load_int.h"
#include "tn_test.h"

static tn_tensor *make(const float *values) {
  tn_device toy;
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_device_open("toy", &toy));
  const tn_dim size = 3;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = toy};
  TN_CHECK_OK(tn_tensor_from_host(values, &size, 1, &options, &t));
  return t;
}

static void check_twice(tn_tensor *t, tn_status expected) {
  const tn_op *twice;
  tn_value arg = tn_value_tensor(t), out = tn_value_none();
  TN_CHECK_OK(tn_op_find("acme::twice", &twice));
  TN_CHECK_INT(tn_op_call(twice, &arg, 1, &out, 1), expected);
  if (expected == TN_OK) tn_tensor_release(out.u.t);
}

/* The first value of acme::grown of (1, 2, 3), called with n_args values by whoever knows that many. */
static double grown(tn_tensor *t, int64_t by, uint32_t n_args, bool first) {
  const tn_op *op;
  const tn_value args[3] = {tn_value_tensor(t), tn_value_int(by), tn_value_int(5)};
  tn_value out = tn_value_none();
  float values[3] = {0};
  TN_CHECK_OK(tn_op_find("acme::grown", &op));
  TN_CHECK_OK(first ? tni_host()->call(op, args, &out) : tni_host()->call_n(op, args, n_args, &out));
  TN_CHECK_OK(tn_tensor_to_host(out.u.t, values, sizeof values));
  tn_tensor_release(out.u.t);
  return (double)values[0];
}

TN_TEST(load, callers_and_layers_that_know_fewer_arguments_get_defaults) {
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR, 1);
  unsigned bit = 0;
  tn_tensor *t = make((const float[]){1, 2, 3});
  TN_CHECK_DOUBLE(grown(t, 3, 2, true), 5, 0);
  TN_CHECK_DOUBLE(grown(t, 3, 2, false), 5, 0);
  TN_CHECK_DOUBLE(grown(t, 3, 3, false), 9, 0);
  TN_CHECK_OK(tni_layer_open("spy", &bit));
  tni_tls.modes.include |= TNI_KEY(bit);
  TN_CHECK_DOUBLE(grown(t, 3, 3, false), 9, 0); /* the layer hands on what it was given, or an array of its own */
  TN_CHECK_DOUBLE(grown(t, 100, 3, false), 5, 0);
  tni_tls.modes.include &= ~TNI_KEY(bit);
  const tn_op *op;
  const tn_value args[4] = {tn_value_tensor(t), tn_value_int(3), tn_value_int(1), tn_value_int(0)};
  tn_value out = tn_value_none();
  TN_CHECK_OK(tn_op_find("acme::grown", &op));
  TN_CHECK_FAILS(tni_host()->call_n(op, args, 1, &out), TN_ERR_INVALID_ARGUMENT, "takes 2 to 3 arguments");
  TN_CHECK_FAILS(tni_host()->call_n(op, args, 4, &out), TN_ERR_UNSUPPORTED, "takes 3 arguments in this host");
  tn_tensor_release(t);
}

TN_TEST(load, a_layers_fallback_meets_every_operator) {
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR, 1);
  unsigned bit = 0;
  TN_CHECK_FAILS(tni_layer_open("no-such-layer", &bit), TN_ERR_NOT_FOUND,
                 "no plugin offers a layer no-such-layer");
  TN_CHECK_OK(tni_layer_open("spy", &bit));
  TN_CHECK(bit > TNI_BIT_AUTOCAST && bit < TNI_BIT_FRONT);
  TN_CHECK_STR(tni_layer_get(bit)->name, "spy");
  tn_tensor *a = make((const float[]){1, 2, 3}), *sum = NULL, *product = NULL;
  TN_CHECK_OK(tn_mul(a, a, &product));
  tn_tensor_release(product);
  tni_tls.modes.include |= TNI_KEY(bit);
  TN_CHECK_FAILS(tn_mul(a, a, &product), TN_ERR_UNSUPPORTED, "the spy saw mul.Tensor");
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &sum));
  check_twice(a, TN_OK);
  tni_tls.modes.include &= ~TNI_KEY(bit);
  float values[3];
  TN_CHECK_OK(tn_tensor_to_host(sum, values, sizeof values));
  TN_CHECK_DOUBLE(values[2], 6, 0);
  tn_tensor_release(sum);
  tn_tensor_release(a);
}
