/* SPDX-License-Identifier: Apache-2.0
 *
 * One host of the version matrix: opens the device of the plugin `fossil` that its search root holds, and does with it
 * what a program would. Prints a line a fact; test_matrix.py compares. Built twice: with the present tree, and with
 * the future's.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static int failed(const char *what) {
  printf("%s failed: %s\n", what, tn_error_message());
  return 1;
}

static int show(const char *what, tn_tensor *t) {
  float values[3];
  if (tn_tensor_to_host(t, values, sizeof values) != TN_OK) return failed(what);
  printf("%s %g %g %g\n", what, (double)values[0], (double)values[1], (double)values[2]);
  return 0;
}

static int report(void) {
  for (size_t i = 0; i < tn_plugin_count(); i++) {
    tn_plugin_report r;
    if (tn_plugin_get(i, &r) != TN_OK) return failed("report");
    if (!strcmp(r.name, "fossil")) printf("plugin %s: %s\n", tn_plugin_state_name(r.state), r.reason);
  }
  return 0;
}

/* Through the boxed door: the operator is the plugin's own. */
static tn_status cube(tn_tensor *x, tn_tensor **out_y) {
  const tn_op *op;
  const tn_value arg = tn_value_tensor(x);
  tn_value y = tn_value_none();
  tn_status status = tn_op_find("fossil::cube", &op);
  if (status == TN_OK) status = tn_op_call(op, &arg, 1, &y, 1);
  *out_y = status == TN_OK ? y.u.t : NULL;
  return status;
}

static int differentiate(tn_tensor *x) {
  tn_tensor *y = NULL, *seed = NULL;
  int result = 1;
  if (tn_set_requires_grad(x, true) != TN_OK || cube(x, &y) != TN_OK) return failed("cube");
  result = show("cube", y);
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = tn_tensor_device(x)};
  const tn_dim size = 3;
  if (!result && tn_tensor_from_host((const float[]){1, 1, 1}, &size, 1, &options, &seed) != TN_OK)
    result = failed("seed");
  if (!result && tn_backward_run(y, seed) != TN_OK) result = failed("backward");
  if (!result) result = show("cube's gradient", tn_grad(x));
  tn_tensor_release(seed);
  tn_tensor_release(y);
  return result;
}

/* An argument that the plugin's kernels were not built with: at its default they run, else they are passed over. */
static int beyond_its_schema(tn_tensor *x) {
  const tn_op *op;
  if (tn_op_find("mul.Tensor", &op) != TN_OK) return failed("find");
  const tn_value args[3] = {tn_value_tensor(x), tn_value_tensor(x), tn_value_int(7)};
  tn_value out = tn_value_none();
  tn_status status = tn_op_call(op, args, 3, &out, 1);
  if (status == TN_OK) tn_tensor_release(out.u.t);
  printf("mul with one argument more: %s\n", tn_status_name(status));
  return 0;
}

static int compute(tn_device device) {
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  const tn_dim size = 3;
  tn_tensor *x = NULL, *sum = NULL, *product = NULL;
  int result = 1;
  if (tn_tensor_from_host((const float[]){1, 2, 3}, &size, 1, &options, &x) != TN_OK) return failed("from_host");
  if (tn_add(x, x, tn_int(2), &sum) != TN_OK || tn_mul(x, sum, &product) != TN_OK)
    result = failed("arithmetic");
  else
    result = show("add", sum) || show("mul", product) || beyond_its_schema(x) || differentiate(x);
  tn_tensor_release(product);
  tn_tensor_release(sum);
  tn_tensor_release(x);
  return result;
}

int main(void) {
  tn_device device;
  printf("host %d.%d\n", TN_ABI_MAJOR, TN_ABI_MINOR);
  if (tn_device_open("fossil", &device) != TN_OK) return failed("open");
  return report() || compute(device);
}
