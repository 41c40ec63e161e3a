/* SPDX-License-Identifier: Apache-2.0
 *
 * State dicts of modules, and moves to another dtype or device.
 */
#include <tenon/nn.h>

#include "tools.h"

/* "0" Linear(2, 3), "1" ReLU, "2" Linear(3, 1) without bias, and a buffer of each kind. */
static tn_module *make_net(uint64_t seed) {
  tn_module *m[3] = {0}, *net = NULL;
  tn_tensor *buffer = TT_VECTOR(5);
  TN_CHECK_OK(tn_manual_seed(seed));
  TN_CHECK_OK(tn_linear_new(2, 3, true, NULL, &m[0]));
  TN_CHECK_OK(tn_relu_new(&m[1]));
  TN_CHECK_OK(tn_linear_new(3, 1, false, NULL, &m[2]));
  TN_CHECK_OK(tn_sequential_new(m, 3, &net));
  TN_CHECK_OK(tn_module_add_buffer(net, "kept", buffer, true));
  TN_CHECK_OK(tn_module_add_buffer(net, "scratch", buffer, false));
  tn_tensor_release(buffer);
  return net;
}

TN_TEST(frontends_state_dict, names_and_order) {
  tn_module *net = make_net(1);
  tn_state_dict *dict = NULL;
  TN_CHECK_OK(tn_module_state_dict(net, &dict));
  TN_CHECK_INT(tn_state_dict_count(dict), 4);
  TN_CHECK_STR(tn_state_dict_name(dict, 0), "kept");
  TN_CHECK_STR(tn_state_dict_name(dict, 1), "0.weight");
  TN_CHECK_STR(tn_state_dict_name(dict, 2), "0.bias");
  TN_CHECK_STR(tn_state_dict_name(dict, 3), "2.weight");
  TN_CHECK_PTR_NULL(tn_state_dict_name(dict, 4));
  tn_tensor *shared = tn_state_dict_get(dict, "0.weight");
  TN_CHECK(!tn_requires_grad(shared));
  TN_CHECK(tn_tensor_data(shared) == tn_tensor_data(tn_module_tensor(net, "0.weight")));
  tn_state_dict_release(dict);
  tn_module_release(net);
}

TN_TEST(frontends_state_dict, round_trip) {
  tn_module *a = make_net(1), *b = make_net(2);
  tn_state_dict *dict = NULL;
  TN_CHECK(tt_at(tn_module_tensor(a, "0.weight"), 3) != tt_at(tn_module_tensor(b, "0.weight"), 3));
  TN_CHECK_OK(tn_module_state_dict(a, &dict));
  TN_CHECK_OK(tn_module_load_state_dict(b, dict, true));
  for (size_t i = 0; i < 6; i++)
    TN_CHECK_DOUBLE(tt_at(tn_module_tensor(a, "0.weight"), i), tt_at(tn_module_tensor(b, "0.weight"), i), 0);
  TN_CHECK(tn_requires_grad(tn_module_tensor(b, "0.weight")) && tn_is_leaf(tn_module_tensor(b, "0.weight")));
  tn_state_dict_release(dict);
  tn_module_release(b);
  tn_module_release(a);
}

TN_TEST(frontends_state_dict, what_does_not_fit_is_listed_and_nothing_is_copied) {
  tn_module *net = make_net(1);
  tn_state_dict *dict = NULL;
  tn_tensor *three = TT_VECTOR(1, 2, 3), *two = TT_VECTOR(1, 2);
  double before = tt_at(tn_module_tensor(net, "0.bias"), 0);
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "0.bias", three));
  TN_CHECK_OK(tn_state_dict_put(dict, "kept", two));
  TN_CHECK_OK(tn_state_dict_put(dict, "9.weight", two));
  tn_status status = tn_module_load_state_dict(net, dict, true);
  TN_CHECK_INT(status, TN_ERR_INVALID_ARGUMENT);
  TN_CHECK_CONTAINS(tn_error_message(), "missing '0.weight'");
  TN_CHECK_CONTAINS(tn_error_message(), "missing '2.weight'");
  TN_CHECK_CONTAINS(tn_error_message(), "unexpected '9.weight'");
  TN_CHECK_CONTAINS(tn_error_message(), "'kept' must have shape [1], not [2]");
  TN_CHECK_FAILS(tn_module_load_state_dict(net, dict, false), TN_ERR_INVALID_ARGUMENT, "must have shape [1]");
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(net, "0.bias"), 0), before, 0);
  tn_tensor *one = TT_VECTOR(8);
  TN_CHECK_OK(tn_state_dict_put(dict, "kept", one));
  TN_CHECK_OK(tn_module_load_state_dict(net, dict, false));
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(net, "0.bias"), 2), 3, 0);
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(net, "kept"), 0), 8, 0);
  tn_tensor_release(one);
  tn_tensor_release(two);
  tn_tensor_release(three);
  tn_state_dict_release(dict);
  tn_module_release(net);
}

TN_TEST(frontends_state_dict, put_replaces) {
  tn_state_dict *dict = NULL;
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put_number(dict, "lr", 0.5));
  TN_CHECK_OK(tn_state_dict_put_number(dict, "lr", 0.25));
  TN_CHECK_INT(tn_state_dict_count(dict), 1);
  TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(dict, "lr"), 0), 0.25, 0);
  TN_CHECK_FAILS(tn_state_dict_put(dict, "x", NULL), TN_ERR_INVALID_ARGUMENT, "tensor is NULL");
  tn_state_dict_release(dict);
}

TN_TEST(frontends_state_dict, moving_changes_floating_tensors_and_keeps_ties) {
  tn_module *net = make_net(1);
  tn_device cpu;
  tn_tensor *const *parameters;
  size_t n;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  TN_CHECK_OK(tn_module_add_parameter(net, "tied", tn_module_tensor(net, "0.weight")));
  double before = tt_at(tn_module_tensor(net, "0.weight"), 1);
  TN_CHECK_OK(tn_module_to(net, cpu, TN_FLOAT64));
  TN_CHECK_INT(tn_tensor_dtype(tn_module_tensor(net, "0.weight")), TN_FLOAT64);
  TN_CHECK(tn_module_tensor(net, "tied") == tn_module_tensor(net, "0.weight"));
  TN_CHECK(tn_requires_grad(tn_module_tensor(net, "2.weight")) &&
           tn_is_leaf(tn_module_tensor(net, "2.weight")));
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(net, "0.weight"), 1), before, 0);
  TN_CHECK_OK(tn_module_parameters(net, &parameters, &n));
  TN_CHECK_INT(n, 3);
  TN_CHECK_FAILS(tn_module_to(net, cpu, TN_INT32), TN_ERR_DTYPE, "floating");
  tn_module_release(net);
}
