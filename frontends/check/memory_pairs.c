/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.pairs: tensors move between the device, the CPU, the backend's other device and a second backend, in every
 * direction, contiguous and not.
 */
#include <stdlib.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { ROWS = 37, COLS = 19, N = ROWS * COLS, TIMEOUT_S = 10, N_PLACES_MAX = 16 };

/* The tensor as it stands, or its transpose, or every other row of it (owned). */
static tn_status shape_of(int form, tn_tensor *whole, tn_tensor **out_tensor) {
  if (form == 1) return tn_t(whole, out_tensor);
  if (form == 2) return tn_slice(whole, 0, &(int64_t){1}, &(int64_t){ROWS}, 2, out_tensor);
  *out_tensor = tn_tensor_retain(whole);
  return TN_OK;
}

static tn_status move(int form, const float *values, tn_device from, tn_device to, float *back,
                      size_t *out_n) {
  const tn_dim sizes[] = {ROWS, COLS};
  tn_tensor *whole = NULL, *part = NULL, *moved = NULL;
  tn_status status = tni_host_tensor(values, sizes, 2, from, &whole);
  if (status == TN_OK) status = shape_of(form, whole, &part);
  if (status == TN_OK)
    status =
        tn_to(part, TN_OPTIONS(.has_device = true, .device = to), false, true, TN_MEMORY_FORMAT_NONE, &moved);
  *out_n = moved ? (size_t)tn_tensor_numel(moved) : 0;
  if (status == TN_OK) status = tni_host_read(moved, back, *out_n);
  tn_tensor_release(whole);
  tn_tensor_release(part);
  tn_tensor_release(moved);
  return status;
}

/* What the CPU gives for the same form: the same call with the CPU on both sides. */
static void check_pair(tni_check_report *r, tn_device from, tn_device to) {
  static const char *const forms[] = {"contiguous", "transposed", "strided"};
  char a[80], b[80];
  float values[N], expected[N], back[N];
  tni_host_values(values, N, 3);
  for (int form = 0; form < 3; form++) {
    char *item = tni_check_text("%s to %s %s", tn_device_name(from, a, sizeof a),
                                tn_device_name(to, b, sizeof b), forms[form]);
    size_t n_expected = 0, n = 0;
    tni_check_at(r, item);
    tn_status status = move(form, values, (tn_device){0}, (tn_device){0}, expected, &n_expected);
    if (status == TN_OK) status = move(form, values, from, to, back, &n);
    if (tni_check_ok(r, status, item, "moving failed"))
      tni_check_that(r, n == n_expected && !memcmp(back, expected, n * sizeof *back), item,
                     "other values arrived");
    free(item);
  }
}

static size_t open_places(tni_check_report *r, const tni_check_context *c, tn_device *places) {
  size_t n = 0;
  places[n++] = (tn_device){0};
  for (size_t i = 0; i < c->n_devices && n + 2 < N_PLACES_MAX; i++) {
    if (!strcmp(c->devices[i], "cpu") || !tni_check_device(r, c->devices[i], &places[n])) continue;
    n++;
    char *other = tni_check_text("%s:1", c->devices[i]);
    if (tn_device_open(other, &places[n]) == TN_OK) n++;
    free(other);
  }
  if (c->stage && tni_check_device(r, "tenoncheck", &places[n])) n++;
  return n;
}

static void run(tni_check_report *r, const tni_check_context *c) {
  char *setting = c->stage ? NULL : tni_host_second_root(c);
  if (setting) { /* once, with the second backend in the process */
    tni_check_end end;
    tni_check_stage(r, c, "second", (const char *const[]){setting, NULL}, TIMEOUT_S, &end);
    if (!end.finished || end.exit_status)
      tni_check_fail(r, "process", "with a second backend: the process %s", end.words);
    return free(setting);
  }
  tn_device places[N_PLACES_MAX];
  size_t n = open_places(r, c, places);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++)
      if (i || k) check_pair(r, places[i], places[k]);
}

const tni_check tni_check_memory_pairs = {
    .name = "memory.pairs",
    .about = "tensors move between this device, the CPU, its siblings and a stranger",
    .kinds = TNI_CHECK_BACKEND,
    .run = run};
