/* SPDX-License-Identifier: Apache-2.0
 *
 * coexist.second: the same small program alone, and with a second backend opened before and after. Results are the same
 * bits, and the second backend's are right.
 */
#include <stdlib.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { N = 96, TIMEOUT_S = 10, N_STEPS = 6 };
static const char *const steps[N_STEPS] = {"copy", "add", "mul", "relu", "sum", "mm"};

static tn_status one(int step, tn_tensor *x, tn_tensor **out) {
  switch (step) {
    case 0: return tn_clone(x, TN_MEMORY_FORMAT_NONE, out);
    case 1: return tn_add(x, x, tn_int(3), out);
    case 2: return tn_mul(x, x, out);
    case 3: return tn_relu(x, out);
    case 4: return tn_sum(x, TN_DTYPE_NONE, out);
    default: return tn_mm(x, x, out);
  }
}

/* A line a step: its numbers as hexadecimal floats, or its failure. */
static void compute(FILE *file, const char *name, tn_device device) {
  const tn_dim sizes[] = {N, N};
  static float values[N * N], back[N * N];
  tn_tensor *x = NULL;
  tni_host_values(values, N * N, 4);
  tn_status status = tni_host_tensor(values, sizes, 2, device, &x);
  for (int step = 0; step < N_STEPS; step++) {
    tn_tensor *y = NULL;
    tn_status here = status == TN_OK ? one(step, x, &y) : status;
    size_t n = y ? (size_t)tn_tensor_numel(y) : 0;
    if (here == TN_OK) here = tni_host_read(y, back, n);
    uint64_t hash = 1469598103934665603u;
    const unsigned char *bytes = (const unsigned char *)back;
    for (size_t i = 0; here == TN_OK && i < n * sizeof *back; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    if (here == TN_OK)
      fprintf(file, "%s %s %016llx\n", name, steps[step], (unsigned long long)hash);
    else
      fprintf(file, "%s %s %s\n", name, steps[step],
              tni_host_is_missing(here) ? "missing" : tn_error_message());
    tn_tensor_release(y);
  }
  tn_tensor_release(x);
}

static bool second_works(tn_device device) {
  const tn_dim size = N;
  float values[N], back[N];
  tn_tensor *x = NULL, *y = NULL;
  tni_host_values(values, N, 9);
  tn_status status = tni_host_tensor(values, &size, 1, device, &x);
  if (status == TN_OK) status = tn_mul(x, x, &y);
  if (status == TN_OK) status = tni_host_read(y, back, N);
  bool right = status == TN_OK;
  for (int i = 0; right && i < N; i++) right = back[i] == values[i] * values[i];
  tn_tensor_release(x);
  tn_tensor_release(y);
  return right;
}

static char *result_path(const tni_check_context *c, const char *stage) {
  return tni_check_text("%s/coexist.%s", c->folder, stage);
}

static void run_stage(tni_check_report *r, const tni_check_context *c) {
  tn_device device, second;
  bool before = !strcmp(c->stage, "before"), after = !strcmp(c->stage, "after");
  tni_check_at(r, c->stage);
  if (before && !tni_check_device(r, "tenoncheck", &second)) return;
  if (!tni_check_ok(r, tni_host_open(c), c->stage, "opening the plugin")) return;
  if (after && !tni_check_device(r, "tenoncheck", &second)) return;
  char *path = result_path(c, c->stage);
  FILE *file = fopen(path, "w");
  free(path);
  if (!file) return;
  for (size_t i = 0; i < c->n_devices; i++)
    if (tn_device_open(c->devices[i], &device) == TN_OK) compute(file, c->devices[i], device);
  if (!c->n_devices) compute(file, "cpu", (tn_device){0});
  fclose(file);
  if (before || after)
    tni_check_that(r, second_works(second), before ? "second opened first" : "second opened after",
                   "the second backend's own results are wrong: %s", tn_error_message());
}

/* Compares line by line with the run alone. */
static void compare(tni_check_report *r, const tni_check_context *c, const char *stage) {
  char *path_a = result_path(c, "alone"), *path_b = result_path(c, stage), *a = NULL, *b = NULL;
  size_t room_a = 0, room_b = 0;
  FILE *file_a = fopen(path_a, "r"), *file_b = fopen(path_b, "r");
  while (file_a && file_b && getline(&a, &room_a, file_a) > 0) {
    if (getline(&b, &room_b, file_b) <= 0) b[0] = 0;
    size_t name = strcspn(a, " ") + 1;
    name += strcspn(a + name, " ");
    char *item = tni_check_text("%.*s, second %s", (int)name, a, stage);
    if (!strcmp(a + name, " missing\n") && !strcmp(a, b))
      tni_check_skip(r, item, "the device has no kernel for it");
    else
      tni_check_that(r, !strcmp(a, b), item, "alone: %.*s; with a second backend: %.*s",
                     (int)strcspn(a + name, "\n"), a + name, (int)strcspn(b, "\n"), b);
    free(item);
  }
  if (!file_a || !file_b) tni_check_fail(r, stage, "no results");
  if (file_a) fclose(file_a);
  if (file_b) fclose(file_b);
  free(path_a), free(path_b), free(a), free(b);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) return run_stage(r, c);
  char *setting = tni_host_second_root(c);
  if (!setting) return tni_check_skip(r, "second", "the second backend is not installed beside this program");
  static const char *const stages[] = {"alone", "before", "after"};
  for (size_t i = 0; i < 3; i++) {
    tni_check_end end;
    tni_check_stage(r, c, stages[i], (const char *const[]){setting, NULL}, TIMEOUT_S, &end);
    if (!end.finished || end.exit_status) tni_check_fail(r, stages[i], "the process %s", end.words);
  }
  compare(r, c, "before");
  compare(r, c, "after");
  free(setting);
}

const tni_check tni_check_coexist_second = {
    .name = "coexist.second",
    .about = "with a second backend, opened before or after, results are the same bits",
    .kinds = TNI_CHECK_BACKEND | TNI_CHECK_KERNELS,
    .timeout_s = 40,
    .run = run};
