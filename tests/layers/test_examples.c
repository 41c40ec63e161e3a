/* SPDX-License-Identifier: Apache-2.0
 *
 * The example layers at work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools.h"

/* ------------------------------------------------------------------ nan_finder */

TN_TEST(nan_finder, names_the_operator_and_the_inputs) {
  layers_start();
  tn_tensor *x = row((const float[]){1, 0}, 2), *y = row((const float[]){2, 0}, 2), *z = NULL, *w = NULL;
  TN_CHECK_OK(tn_layer_set("nan_finder", true, NULL));
  TN_CHECK_OK(tn_add(x, y, tn_int(1), &z));
  tn_tensor_release(z);
  TN_CHECK_FAILS(tn_div(x, y, &z), TN_ERR_DATA,
                 "the float32 [2] result of div.Tensor has a NaN or an infinity (input 0 float32 [2], input 1 float32 [2])");
  TN_CHECK_OK(tn_layer_set("nan_finder", false, NULL));
  TN_CHECK_OK(tn_div(x, y, &z)); /* it was there before the finder was on */
  TN_CHECK_OK(tn_layer_set("nan_finder", true, NULL));
  TN_CHECK_FAILS(tn_mul(z, x, &w), TN_ERR_DATA, "(input 0 float32 [2] had one already, input 1 float32 [2])");
  TN_CHECK_FAILS(tn_add_(z, x, tn_int(1)), TN_ERR_DATA, "of add_.Tensor has a NaN or an infinity (input 0 float32 [2] had one");
  TN_CHECK_OK(tn_isnan(z, &w));
  tn_tensor_release(w);
  TN_CHECK_FAILS(tn_div_(x, y), TN_ERR_DATA, "(input 0 float32 [2], input 1 float32 [2])");
  const tn_dim size = 8;
  TN_CHECK_OK(tn_empty(&size, 1, NULL, TN_MEMORY_FORMAT_NONE, &w)); /* memory that nobody wrote holds anything */
  tn_tensor_release(w);
  TN_CHECK_OK(tn_layer_set("nan_finder", false, NULL));
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* sqrt at 0 is fine, its gradient is not. */
TN_TEST(nan_finder, sees_the_operators_of_a_backward_pass) {
  layers_start();
  tn_tensor *x = row((const float[]){0}, 1), *y;
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_layer_set("nan_finder", true, NULL));
  TN_CHECK_OK(tn_sqrt(x, &y));
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_DATA, "nan_finder: the float32 [1] result of div.Tensor has");
  TN_CHECK_CONTAINS(tn_error_message(), "SqrtBackward0");
  TN_CHECK_OK(tn_layer_set("nan_finder", false, NULL));
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ call_log */

static char *logged(const char *file, const char *command) {
  char line[2048], path[] = TN_LAYER_WORK_DIR "/log-XXXXXX";
  TN_CHECK_NOT_NULL(mkdtemp(path));
  snprintf(line, sizeof line,
           "TENON_PLUGIN_PATH=" TN_LAYER_PLUGIN_DIR " TENON_CALL_LOG=%s/%s " TN_TEST_CLI " %s 2>&1; cat %s/%s; rm -r %s",
           path, file, command, path, file, path);
  return shell(line);
}

TN_TEST(call_log, writes_a_line_for_each_call) {
  char *text = logged("calls.txt", "bench --loop add_1_grad 3 --plugin-layers call_log");
  TN_CHECK_CONTAINS(text, "thread 1 full(");
  TN_CHECK_CONTAINS(text, " add.Tensor(float32@cpu:0[1], float32@cpu:0[1], 1) -> float32@cpu:0[1]\n");
  free(text);
}

TN_TEST(call_log, writes_json_that_can_be_read) {
  char *text = logged("calls.jsonl", "bench --loop mm_2x2 3 --plugin-layers call_log");
  TN_CHECK_CONTAINS(text, "\"thread\":1,\"status\":0,\"op\":\"mm\",\"args\":[{\"dtype\":\"float32\",\"device\":\"cpu:0\","
                          "\"shape\":[2,2]},{\"dtype\":\"float32\",\"device\":\"cpu:0\",\"shape\":[2,2]}],\"results\":[{");
  int lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; ++at) ++lines;
  TN_CHECK(lines >= 5);
  free(text);
}

TN_TEST(call_log, says_which_file_it_cannot_write) {
  char *text = shell("TENON_PLUGIN_PATH=" TN_LAYER_PLUGIN_DIR " TENON_CALL_LOG=/nowhere/calls.txt " TN_TEST_CLI
                     " bench --loop mm_2x2 3 --plugin-layers call_log 2>&1");
  TN_CHECK_CONTAINS(text, "tenon: layer call_log: plugin call-log");
  TN_CHECK_CONTAINS(text, "TENON_CALL_LOG: /nowhere/calls.txt: No such file or directory");
  free(text);
}
