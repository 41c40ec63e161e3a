/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers on and off by name, and what a layer's own calls meet.
 */
#include <stdlib.h>

#include "tools.h"

TN_TEST(layer_switch, is_by_name_and_says_what_it_was) {
  bool before = true;
  layers_start();
  TN_CHECK(!tn_layer_is_on("transparent"));
  TN_CHECK_OK(tn_layer_set("transparent", true, &before));
  TN_CHECK(!before && tn_layer_is_on("transparent"));
  TN_CHECK_OK(tn_layer_set("transparent", true, &before));
  TN_CHECK(before);
  TN_CHECK_OK(tn_layer_set("transparent", false, NULL));
  TN_CHECK(!tn_layer_is_on("transparent"));
}

TN_TEST(layer_switch, refuses_names_in_words) {
  layers_start();
  TN_CHECK_FAILS(tn_layer_set("nobody", true, NULL), TN_ERR_NOT_FOUND, "no plugin offers a layer nobody");
  TN_CHECK_FAILS(tn_layer_set(NULL, true, NULL), TN_ERR_INVALID_ARGUMENT, "name is NULL");
  TN_CHECK_FAILS(tn_layers_set_on(NULL), TN_ERR_INVALID_ARGUMENT, "names is NULL");
  TN_CHECK_FAILS(tn_layer_set("autograd", true, NULL), TN_ERR_NOT_FOUND, "no plugin offers a layer autograd");
  TN_CHECK_FAILS(tn_layer_set("cpu", true, NULL), TN_ERR_NOT_FOUND, "no plugin offers a layer cpu");
  TN_CHECK(!tn_layer_is_on("cpu"));
}

TN_TEST(layer_switch, a_list_is_on_as_a_whole_or_not_at_all) {
  layers_start();
  TN_CHECK_FAILS(tn_layers_set_on("transparent,nobody"), TN_ERR_NOT_FOUND, "nobody");
  TN_CHECK(!tn_layer_is_on("transparent"));
  TN_CHECK_OK(tn_layers_set_on("transparent, asks,"));
  TN_CHECK(tn_layer_is_on("transparent") && tn_layer_is_on("asks"));
  TN_CHECK_OK(tn_layer_set("transparent", false, NULL));
  TN_CHECK_OK(tn_layer_set("asks", false, NULL));
}

/* asks answers neg by calls of add and neg for itself, and answers add with a failure. */
TN_TEST(layer_switch, a_layers_own_calls_do_not_meet_it) {
  layers_start();
  tn_tensor *x = row((const float[]){1, 2}, 2), *none = row(NULL, 0), *y = NULL;
  TN_CHECK_OK(tn_layer_set("asks", true, NULL));
  TN_CHECK_OK(tn_neg(x, &y));
  float values[2];
  TN_CHECK_OK(tn_tensor_to_host(y, values, sizeof values));
  TN_CHECK_DOUBLE(values[1], -2, 0);
  tn_tensor_release(y);
  for (int i = 0; i < 2; ++i) { /* a failure puts the thread's sets back: the next call is as the first */
    TN_CHECK_FAILS(tn_neg(none, &y), TN_ERR_STATE, "asks fails on purpose");
    TN_CHECK_FAILS(tn_add(x, x, tn_int(1), &y), TN_ERR_STATE, "asks met what was its own call");
    TN_CHECK(tn_layer_is_on("asks"));
  }
  TN_CHECK_OK(tn_layer_set("asks", false, NULL));
  TN_CHECK_OK(tn_add(x, x, tn_int(1), &y));
  tn_tensor_release(y);
  tn_tensor_release(none);
  tn_tensor_release(x);
}

TN_TEST(layer_switch, what_a_layer_declines_goes_on_below) {
  layers_start();
  const tn_dim sizes[] = {1, 2};
  tn_tensor *x, *y;
  TN_CHECK_OK(tn_tensor_from_host((const float[]){1, 2}, sizes, 2, NULL, &x));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_layer_set("asks", true, NULL));
  TN_CHECK_OK(tn_neg(x, &y));
  TN_CHECK(tn_requires_grad(y));
  TN_CHECK_OK(tn_layer_set("asks", false, NULL));
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(layer_switch, the_environment_names_layers) {
  char *text = shell("TENON_PLUGIN_PATH=" TN_LAYER_PLUGIN_DIR " TENON_LAYERS=transparent " TN_TEST_CLI
                     " layers --json 2>&1 | grep '\"transparent\"'");
  TN_CHECK_CONTAINS(text, "\"on\": true");
  free(text);
  text = shell("TENON_PLUGIN_PATH=" TN_LAYER_PLUGIN_DIR " TENON_LAYERS=transparent,nobody " TN_TEST_CLI " layers 2>&1");
  TN_CHECK_CONTAINS(text, "TENON_LAYERS=transparent,nobody: no layer is on: no plugin offers a layer nobody");
  TN_CHECK_CONTAINS(text, "autograd");
  free(text);
}

TN_TEST(layer_switch, what_the_user_took_out_is_refused_with_that_reason) {
  char *text = shell("TENON_PLUGINS=off:keeper TENON_PLUGIN_PATH=" TN_LAYER_PLUGIN_DIR " " TN_TEST_CLI
                     " bench --loop add_1_grad 1 --plugin-layers transparent,keeper 2>&1");
  TN_CHECK_CONTAINS(text, "tenon: layer keeper: plugin keeper");
  TN_CHECK_CONTAINS(text, "is rejected: switched off by TENON_PLUGINS");
  free(text);
}
