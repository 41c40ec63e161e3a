/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.same: random operators on the device give the CPU's numbers for the same seed, and draw as many.
 */
#include <math.h>
#include <stdlib.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { N = 1003, N_KINDS = 4 };
static const char *const kinds[N_KINDS] = {"uniform_", "normal_", "bernoulli_", "randperm"};

static tn_status draw(int kind, tn_device device, float *values, tn_generator_state *out_after) {
  const tn_dim size = N;
  tn_generator *generator;
  tn_tensor *t = NULL, *numbers = NULL;
  tn_status status = tn_manual_seed(20240607);
  if (status == TN_OK && kind == 3) {
    status = tn_randperm(N, TN_OPTIONS(.dtype = TN_INT64, .has_device = true, .device = device), &numbers);
    if (status == TN_OK)
      status = tn_to(numbers, TN_OPTIONS(.has_device = true), false, false, TN_MEMORY_FORMAT_NONE, &t);
    int64_t *order = tni_check_alloc(N * sizeof *order);
    if (status == TN_OK) status = tn_tensor_to_host(t, order, N * sizeof *order);
    for (int i = 0; i < N; i++) values[i] = (float)order[i];
    free(order);
  } else if (status == TN_OK) {
    status = tni_host_tensor(values, &size, 1, device, &t);
    if (status == TN_OK)
      status = kind == 0   ? tn_uniform_(t, -1, 2, NULL)
               : kind == 1 ? tn_normal_(t, 0.5, 2, NULL)
                           : tn_bernoulli_(t, 0.3, NULL);
    if (status == TN_OK) status = tni_host_read(t, values, N);
  }
  if (status == TN_OK) status = tn_generator_default(device, &generator);
  if (status == TN_OK) status = tn_generator_get_state(generator, out_after);
  tn_tensor_release(t);
  tn_tensor_release(numbers);
  return status;
}

static void check_kind(tni_check_report *r, const char *name, tn_device device, int kind) {
  float here[N] = {0}, there[N] = {0};
  tn_generator_state after_here, after_there;
  char *item = tni_check_text("%s %s", name, kinds[kind]);
  tni_check_at(r, item);
  tn_status status = draw(kind, (tn_device){0}, here, &after_here);
  if (status == TN_OK) status = draw(kind, device, there, &after_there);
  if (tni_host_is_missing(status)) {
    tni_check_skip(r, item, "%s", tn_error_message());
  } else if (tni_check_ok(r, status, item, "drawing failed")) {
    int wrong = -1;
    for (int i = 0; i < N && wrong < 0; i++)
      if (!(fabsf(here[i] - there[i]) <= 1e-5f * (1 + fabsf(here[i])))) wrong = i;
    if (wrong >= 0)
      tni_check_fail(r, item, "element %d is %g, on the CPU %g, from the same seed", wrong,
                     (double)there[wrong], (double)here[wrong]);
    else
      tni_check_that(r, after_here.offset == after_there.offset, item,
                     "it drew to offset %llu, the CPU to %llu", (unsigned long long)after_there.offset,
                     (unsigned long long)after_here.offset);
  }
  free(item);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  for (size_t i = 0; i < c->n_devices; i++) {
    tn_device device;
    if (!tni_check_device(r, c->devices[i], &device)) continue;
    for (int kind = 0; kind < N_KINDS; kind++) check_kind(r, c->devices[i], device, kind);
  }
}

const tni_check tni_check_rng_same = {.name = "rng.same",
                                      .about = "random operators give the CPU's numbers for the same seed",
                                      .kinds = TNI_CHECK_BACKEND,
                                      .run = run};
