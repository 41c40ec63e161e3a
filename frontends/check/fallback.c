/* SPDX-License-Identifier: Apache-2.0
 *
 * fallback.named: an operator without a kernel on the device is a sentence that names both, and never a computation
 * somewhere else in silence. A backend that declares the CPU fallback gets it, with the CPU's results.
 */
#include <stdlib.h>

#include "frontends/check/door.h"
#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { N = 24, TIMEOUT_S = 10 };

static tn_status call_erf(tn_tensor *x, tn_tensor **out) { return tn_erf(x, out); }
static tn_status call_cumsum(tn_tensor *x, tn_tensor **out) { return tn_cumsum(x, 0, TN_DTYPE_NONE, out); }
static tn_status call_sin(tn_tensor *x, tn_tensor **out) { return tn_sin(x, out); }
static tn_status call_floor(tn_tensor *x, tn_tensor **out) { return tn_floor(x, out); }
static tn_status call_argmax(tn_tensor *x, tn_tensor **out) { return tn_argmax(x, NULL, false, out); }
static tn_status call_flip(tn_tensor *x, tn_tensor **out) { return tn_flip(x, &(int64_t){0}, 1, out); }

static const struct {
  const char *op;
  tn_status (*call)(tn_tensor *x, tn_tensor **out);
} cases[] = {{"erf", call_erf},     {"cumsum", call_cumsum}, {"sin", call_sin},
             {"floor", call_floor}, {"argmax", call_argmax}, {"flip", call_flip}};

/* status of the call on a device; *out_same: it gave the CPU's bytes. */
static tn_status compute(size_t i, tn_device device, bool *out_same) {
  const tn_dim size = N;
  float values[N];
  tn_tensor *x = NULL, *y = NULL, *here = NULL, *there = NULL;
  double a[N], b[N];
  tni_host_values(values, N, 5);
  *out_same = false;
  tn_status status = tni_host_tensor(values, &size, 1, (tn_device){0}, &x);
  if (status == TN_OK) status = cases[i].call(x, &here);
  if (status == TN_OK) status = tni_host_tensor(values, &size, 1, device, &y);
  tn_status answer = status == TN_OK ? cases[i].call(y, &there) : status;
  if (answer == TN_OK) {
    size_t n = (size_t)tn_tensor_numel(here) * tn_dtype_size(tn_tensor_dtype(here));
    status = tn_tensor_to_host(here, a, n);
    if (status == TN_OK) status = tn_tensor_to_host(there, b, n);
    *out_same = status == TN_OK && !memcmp(a, b, n);
  }
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(here), tn_tensor_release(there);
  return answer;
}

static void check_case(tni_check_report *r, size_t i, const char *name, tn_device device, bool allowed) {
  bool same;
  char *item = tni_check_text("%s %s%s", name, cases[i].op, allowed ? " allowed" : "");
  tni_check_at(r, item);
  tn_error_clear();
  tn_status status = compute(i, device, &same);
  const char *words = tn_error_message();
  if (status == TN_OK && !allowed)
    tni_check_skip(r, item, "the device computes it");
  else if (status == TN_OK)
    tni_check_that(r, same, item, "it ran, with other results than the CPU's");
  else if (allowed)
    tni_check_fail(r, item, "the backend declares the CPU fallback, and the call failed: %s", words);
  else
    tni_check_that(r, status == TN_ERR_MISSING_KERNEL && strstr(words, cases[i].op) && strstr(words, name),
                   item, "expected \"%s\" that names %s and %s; got \"%s\": %s",
                   tn_status_name(TN_ERR_MISSING_KERNEL), cases[i].op, name, tn_status_name(status), words);
  free(item);
}

/* Stage "error DEVICE" or "allow DEVICE". */
static void run_stage(tni_check_report *r, const char *stage) {
  const char *name = strchr(stage, ' ') + 1;
  tn_device device;
  if (!tni_check_device(r, name, &device)) return;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_case(r, i, name, device, !strncmp(stage, "allow ", 6));
}

static void start(tni_check_report *r, const tni_check_context *c, const char *policy, const char *name) {
  char *stage = tni_check_text("%s %s", policy, name);
  const char *const strict[] = {"TENON_FALLBACK=error", NULL};
  tni_check_end end;
  if (tni_check_stage(r, c, stage, !strcmp(policy, "error") ? strict : NULL, TIMEOUT_S, &end) &&
      (!end.finished || end.exit_status))
    tni_check_fail(r, name, "%s: the process %s", stage, end.words);
  free(stage);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) return run_stage(r, c->stage);
  tni_door door;
  if (!tni_door_enter(r, c, &door)) return;
  for (size_t i = 0; i < door.n_backends; i++) {
    const tn_backend_def *b = &door.backends[i];
    start(r, c, "error", b->device_name);
    if ((b->flags & TN_BACKEND_CPU_FALLBACK)) start(r, c, "allow", b->device_name);
  }
  tni_door_close(&door);
}

const tni_check tni_check_fallback_named = {.name = "fallback.named",
                                            .about = "a missing kernel is named, or falls back as declared",
                                            .kinds = TNI_CHECK_BACKEND,
                                            .timeout_s = 30,
                                            .run = run};
