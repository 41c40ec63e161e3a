/* SPDX-License-Identifier: Apache-2.0
 *
 * unload.refused: unloading is refused, in words, while tensors of the device live; afterwards it succeeds, and what
 * is left of the plugin is not called.
 */
#include <ctype.h>
#include <stdlib.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { N = 4000 };

static bool has_number(const char *words) {
  while (*words && !isdigit((unsigned char)*words)) words++;
  return *words != 0;
}

static void check_refused(tni_check_report *r, const tni_check_context *c) {
  tn_status status = tn_plugin_unload(c->plugin);
  tni_check_that(r, status != TN_OK && has_number(tn_error_message()), "refused",
                 "with a live tensor, unloading was answered \"%s\" with the words \"%s\"; expected a "
                 "refusal with a count",
                 tn_status_name(status), tn_error_message());
}

static void run(tni_check_report *r, const tni_check_context *c) {
  const tn_dim size = N;
  static float values[N], back[N];
  tn_device device;
  tn_tensor *t = NULL;
  if (!tni_check_device(r, c->devices[0], &device)) return;
  if (device.backend == TN_BACKEND_CPU)
    return tni_check_skip(r, "unload", "the host itself lives on the CPU");
  tni_host_values(values, N, 6);
  if (!tni_check_ok(r, tni_host_tensor(values, &size, 1, device, &t), "live", "making a tensor")) return;
  tni_check_at(r, "refused");
  check_refused(r, c);
  tn_status status = tni_host_read(t, back, N);
  tni_check_that(r, status == TN_OK && !memcmp(values, back, sizeof values), "still works",
                 "after the refusal the tensor cannot be read: %s", tn_error_message());
  tn_tensor_release(t);
  tni_check_at(r, "unload");
  (void)tn_empty_cache();
  status = tn_plugin_unload(c->plugin);
  tni_check_that(r, status == TN_OK, "unload", "with nothing of it in use: %s", tn_error_message());
  tn_error_clear();
  tni_check_at(r, "again");
  status = tn_device_open(c->devices[0], &device);
  tni_check_that(r, status == TN_OK || *tn_error_message(), "again",
                 "opening it again is refused without words");
}

const tni_check tni_check_unload_refused = {.name = "unload.refused",
                                            .about = "unloading waits for the last tensor, and says so",
                                            .kinds = TNI_CHECK_BACKEND,
                                            .run = run};
