/* SPDX-License-Identifier: Apache-2.0
 *
 * Start and opening when memory runs out at any point: a status, no leak, and the same call succeeds once there
 * is memory again. The folder holds all good and bad plugins of this directory.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/load.h>

#include "core/load/load_int.h"
#include "tn_stress.h"

static tn_status start(void *ctx) {
  (void)ctx;
  return tn_init();
}

static void after_start(void *ctx, tn_status status) {
  (void)ctx;
  if (status != TN_OK) TN_CHECK_INT(tni_plugin_count(), 0);
}

static tn_status open_device(void *ctx) { return tn_device_open(ctx, &(tn_device){0}); }

static void after_open(void *ctx, tn_status status) {
  int bit = tni_key_find(ctx);
  const tni_backend *backend = bit < 0 ? NULL : tni_backend_get((uint8_t)bit);
  TN_CHECK((backend != NULL) == (status == TN_OK));
  const tni_plugin *p = tni_plugin_named("toy");
  TN_CHECK_INT(tni_plugin_state(p), status == TN_OK ? TN_PLUGIN_READY : TN_PLUGIN_LOADABLE);
}

static tn_status open_operators(void *ctx) { return tni_open_operator(ctx); }

static void after_operators(void *ctx, tn_status status) {
  TN_CHECK((tni_op_find(ctx) != NULL) == (status == TN_OK));
  size_t kernels = 0;
  for (const tni_kernel *k = tni_op_find("add.Tensor")->kernels; k; k = k->next)
    kernels += strcmp(k->plugin, "operators") == 0;
  TN_CHECK_INT(kernels, status == TN_OK);
}

static tn_status open_layer(void *ctx) {
  unsigned bit;
  return tni_layer_open(ctx, &bit);
}

static void after_layer(void *ctx, tn_status status) {
  int bit = tni_key_find(ctx);
  TN_CHECK((tni_layer_get((unsigned)bit) != NULL) == (status == TN_OK));
  for (size_t i = 0; i < tni_op_count(); ++i) {
    const tn_op *op = tni_op_at(i);
    bool found = false;
    for (const tni_kernel *k = op->kernels; k; k = k->next) found |= k->bit == bit;
    TN_CHECK(found == (status == TN_OK && op->functional == op));
  }
}

static tn_status report(void *ctx) {
  (void)ctx;
  tn_op_report r;
  return tn_op_get(0, &r);
}

static void after_report(void *ctx, tn_status status) { (void)ctx, (void)status; }

TN_TEST(load, out_of_memory_at_any_point) {
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR, 1);
  tn_stress_run(start, after_start, NULL);
  TN_CHECK(tni_plugin_count() > 10);
  tn_stress_run(open_device, after_open, (char[]){"toy"});
  tn_stress_run(open_operators, after_operators, (char[]){"acme::twice"});
  tn_stress_run(open_layer, after_layer, (char[]){"spy"});
  tn_stress_run(report, after_report, NULL);
}
