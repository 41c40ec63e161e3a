/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that fails at any step of its registration leaves every table as it was: operators, kernels, rows, keys,
 * backends, layers and what reports say of others, compared as one number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "core/load/load_int.h"
#include "tn_stress.h"

/* ------------------------------------------------------------------ all tables as one number */

static uint64_t mix(uint64_t digest, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; ++i) digest = (digest ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
  return digest;
}
static uint64_t mix_text(uint64_t digest, const char *text) { return text ? mix(digest, text, strlen(text) + 1) : digest; }

static uint64_t digest_of_operators(uint64_t d) {
  size_t n = tni_op_count();
  d = mix(d, &n, sizeof n);
  for (size_t i = 0; i < n; ++i) {
    const tn_op *op = tni_op_at(i);
    const tni_row *row = atomic_load(&op->row);
    d = mix_text(d, op->name);
    d = mix(d, &op, sizeof op);
    d = mix(d, &row->mask, sizeof row->mask);
    for (const tni_kernel *k = op->kernels; k; k = k->next) d = mix(d, &k, sizeof k);
  }
  return d;
}

static uint64_t digest(void) {
  uint64_t d = digest_of_operators(0xcbf29ce484222325);
  for (unsigned bit = 0; bit < 64; ++bit) {
    const tni_backend *b = tni_backend_get((uint8_t)bit);
    const tn_layer_def *layer = tni_layer_get(bit);
    d = mix_text(mix(mix(mix(d, &bit, sizeof bit), &b, sizeof b), &layer, sizeof layer), tni_key_name(bit));
  }
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    tn_plugin_state state = tni_plugin_state(p);
    if (strcmp(p->name, "steps") == 0) continue; /* its own state is the only thing that may change */
    d = mix_text(mix(d, &state, sizeof state), tni_plugin_reason(p));
  }
  return d;
}

/* ------------------------------------------------------------------ failing */

static void start(void) {
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR ":" TN_TEST_PLUGIN_DIR, 1);
  TN_CHECK_OK(tn_device_open("cpu", &(tn_device){0}));
  TN_CHECK_OK(tn_device_open("toy", &(tn_device){0}));
}

/* As if nobody had asked for it yet. */
static void forget_failure(void) {
  tni_plugin *p = tni_plugin_named("steps");
  if (tni_plugin_state(p) == TN_PLUGIN_READY) return;
  tn_error_clear();
  tni_plugin_set(p, TN_PLUGIN_LOADABLE);
}

static void fail_at(const char *step, const char *words) {
  uint64_t before = digest();
  setenv("TENON_TEST_STEP", step, 1);
  TN_CHECK_FAILS(tn_plugin_open("steps"), TN_ERR_UNAVAILABLE, words);
  unsetenv("TENON_TEST_STEP");
  TN_CHECK(digest() == before);
  forget_failure();
}

TN_TEST(transaction, an_error_after_any_registration_leaves_nothing) {
  start();
  for (int n = 0; n <= 9; ++n) {
    char step[16], words[64];
    snprintf(step, sizeof step, "%d", n);
    snprintf(words, sizeof words, "init failed: stopped after %d steps", n);
    fail_at(step, words);
  }
}

TN_TEST(transaction, a_refused_registration_fails_the_init_that_hides_it) {
  start();
  for (int n = 0; n < 9; ++n) {
    char step[16];
    snprintf(step, sizeof step, "drop %d", n);
    fail_at(step, n == 2 ? "the table is NULL" : n < 4 ? "the definition is NULL" : "a kernel needs op, key and fn");
  }
}

TN_TEST(transaction, a_definition_without_its_size_is_told_so) {
  start();
  for (int n = 0; n < 5; ++n) {
    if (n == 2) continue; /* an interface's table is between its giver and its users */
    char step[16];
    snprintf(step, sizeof step, "bare %d", n);
    fail_at(step, "struct_size of the definition is 0: set it to the struct's sizeof");
  }
}

TN_TEST(transaction, devices_that_cannot_be_counted_leave_nothing) {
  start();
  setenv("TENON_TEST_STEP_NO_DEVICE", "1", 1);
  fail_at("", "device_count failed: the bus is down");
  unsetenv("TENON_TEST_STEP_NO_DEVICE");
}

/* In the stress build every allocation on the way fails once. */
static uint64_t before_opening;
static tn_status open_steps(void *ctx) {
  (void)ctx;
  return tn_plugin_open("steps");
}
static void after_opening(void *ctx, tn_status status) {
  (void)ctx;
  if (status != TN_OK) TN_CHECK(digest() == before_opening);
}
static tn_status unload_steps(void *ctx) {
  (void)ctx;
  return tn_plugin_unload("steps");
}
static void after_unloading(void *ctx, tn_status status) {
  (void)ctx;
  TN_CHECK_INT(tni_plugin_state(tni_plugin_named("steps")), status == TN_OK ? TN_PLUGIN_LOADABLE : TN_PLUGIN_READY);
  TN_CHECK((tni_op_find("acme::step") != NULL) == (status != TN_OK));
}

TN_TEST(transaction, no_allocation_that_fails_leaves_anything) {
  start();
  before_opening = digest();
  tn_stress_run(open_steps, after_opening, NULL);
  TN_CHECK(digest() != before_opening);
  tn_stress_run(unload_steps, after_unloading, NULL);
}
