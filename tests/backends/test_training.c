/* SPDX-License-Identifier: Apache-2.0
 *
 * A perceptron learns on each example backend: with no kernels but the CPU's, to the same bits; with the forty, while no
 * operator may run on the CPU. And the forty are the list that docs/primitives.md gives to vendors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tenon/files.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/tenon.h>

#include "tn_test.h"

enum { INPUTS = 6, HIDDEN = 16, CLASSES = 3, BATCH = 12, STEPS = 40, WEIGHTS = INPUTS * HIDDEN };

static tn_device named(const char *name) {
  tn_device device;
  TN_CHECK_OK(tn_device_open(name, &device));
  return device;
}

static tn_module *make_model(uint64_t seed) {
  tn_module *parts[3] = {NULL}, *model = NULL;
  TN_CHECK_OK(tn_manual_seed(seed));
  TN_CHECK_OK(tn_linear_new(INPUTS, HIDDEN, true, NULL, &parts[0]));
  TN_CHECK_OK(tn_relu_new(&parts[1]));
  TN_CHECK_OK(tn_linear_new(HIDDEN, CLASSES, true, NULL, &parts[2]));
  TN_CHECK_OK(tn_sequential_new(parts, 3, &model));
  return model;
}

/* Three classes by which pair of inputs is large. */
static void make_data(tn_device device, tn_tensor **out_x, tn_tensor **out_y) {
  float x[BATCH * INPUTS];
  int64_t y[BATCH];
  const tn_dim sizes[] = {BATCH, INPUTS}, n = BATCH;
  for (int i = 0; i < BATCH; i++) {
    y[i] = i % CLASSES;
    for (int k = 0; k < INPUTS; k++)
      x[i * INPUTS + k] = (float)(k / 2 == y[i]) + 0.03f * (float)((i * 7 + k * 5) % 11);
  }
  TN_CHECK_OK(tn_tensor_from_host(
      x, sizes, 2, TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true, .device = device), out_x));
  TN_CHECK_OK(tn_tensor_from_host(
      y, &n, 1, TN_OPTIONS(.dtype = TN_INT64, .has_device = true, .device = device), out_y));
}

/* The last loss; the first layer's weights go to out_weights. */
static double train(const char *name, float *out_weights) {
  tn_device device = named(name);
  tn_module *model = make_model(3);
  tn_tensor *x, *y, *const *parameters;
  tn_optimizer *optimizer = NULL;
  size_t n = 0;
  double last = 0;
  make_data(device, &x, &y);
  TN_CHECK_OK(tn_module_to(model, device, TN_DTYPE_NONE));
  TN_CHECK_OK(tn_module_parameters(model, &parameters, &n));
  tn_adam_options adam = tn_adam_defaults();
  adam.lr = 0.05;
  TN_CHECK_OK(tn_adam_new(parameters, n, &adam, &optimizer));
  for (int i = 0; i < STEPS; i++) {
    tn_scope *scope;
    TN_CHECK_OK(tn_scope_begin(&scope));
    tn_scope_note(tn_optimizer_zero_grad(optimizer));
    tn_tensor *loss = tns_cross_entropy_loss(tns_module_forward(model, x), y, NULL, 1, -100, 0.0);
    if (loss) tn_scope_note(tn_backward_run(loss, NULL));
    if (loss) tn_scope_note(tn_tensor_item_double(loss, &last));
    if (tn_scope_status() == TN_OK) tn_scope_note(tn_optimizer_step(optimizer));
    TN_CHECK_OK(tn_scope_end(scope));
  }
  TN_CHECK_OK(tn_tensor_to_host(parameters[0], out_weights, WEIGHTS * sizeof *out_weights));
  tn_optimizer_release(optimizer);
  tn_module_release(model);
  tn_tensor_release(x);
  tn_tensor_release(y);
  return last;
}

TN_TEST(training_memory, gives_the_bits_of_the_cpu) {
  static float cpu[WEIGHTS], attic[WEIGHTS];
  double here = train("cpu", cpu), there = train("attic", attic);
  TN_CHECK_DOUBLE(there, here, 0);
  TN_CHECK_INT(memcmp(cpu, attic, sizeof cpu), 0);
  TN_CHECK(tn_fallback_count() > 5);
}

TN_TEST(training_memory, a_checkpoint_goes_on_elsewhere) {
  char path[] = "/tmp/tenon-backends-XXXXXX";
  int fd = mkstemp(path);
  TN_CHECK(fd >= 0);
  close(fd);
  tn_module *written = make_model(3), *read = NULL;
  TN_CHECK_OK(tn_module_to(written, named("forty"), TN_DTYPE_NONE));
  tn_checkpoint checkpoint = {.model = written, .device = named("forty"), .step = 5};
  TN_CHECK_OK(tn_checkpoint_write(path, &checkpoint));
  read = make_model(4);
  TN_CHECK_OK(tn_module_to(read, named("attic"), TN_DTYPE_NONE));
  tn_tensor *const *from, *const *to;
  size_t n, m;
  TN_CHECK_OK(tn_module_parameters(written, &from, &n));
  TN_CHECK_OK(tn_module_parameters(read, &to, &m));
  tn_checkpoint loaded = {.model = read, .device = named("attic")};
  tn_safetensors *file;
  TN_CHECK_OK(tn_safetensors_open(path, &file));
  TN_CHECK_OK(tn_checkpoint_load(file, &loaded));
  tn_safetensors_close(file);
  static float a[WEIGHTS], b[WEIGHTS];
  TN_CHECK_OK(tn_tensor_to_host(from[0], a, sizeof a));
  TN_CHECK_OK(tn_tensor_to_host(to[0], b, sizeof b));
  TN_CHECK_INT(memcmp(a, b, sizeof a), 0);
  TN_CHECK_INT(tn_tensor_device(to[0]).backend, named("attic").backend);
  TN_CHECK_INT(loaded.step, 5);
  tn_module_release(written);
  tn_module_release(read);
  remove(path);
}

/* Neither this thread nor the device's worker may keep a block that nobody uses. */
TN_TEST(training_memory, its_plugin_can_be_unloaded_afterwards) {
  static float weights[WEIGHTS];
  for (int round = 0; round < 3; round++) {
    (void)train("attic", weights);
    tn_status status = TN_ERR_STATE; /* the worker may still be giving back */
    for (int i = 0; i < 1000 && status != TN_OK; i++) {
      if (i) usleep(1000);
      status = tn_plugin_unload("backend-memory");
    }
    TN_CHECK_OK(status);
  }
}

TN_TEST(training_memory, strict_mode_never_runs_on_the_cpu) {
  tn_device device = named("attic");
  tn_tensor *x, *y, *r = NULL;
  make_data(device, &x, &y);
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_ERROR));
  TN_CHECK_FAILS(tn_relu(x, &r), TN_ERR_MISSING_KERNEL, "attic");
  TN_CHECK_FAILS(tn_cross_entropy_loss(x, y, NULL, 1, -100, 0.0, &r), TN_ERR_MISSING_KERNEL, "attic");
  TN_CHECK_FAILS(tn_clone(x, TN_CHANNELS_LAST, &r), TN_ERR_INVALID_ARGUMENT, "");
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_DEFAULT));
  TN_CHECK_OK(tn_relu(x, &r));
  tn_tensor_release(r);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

TN_TEST(training_primitives, learns_while_the_cpu_is_forbidden) {
  static float cpu[WEIGHTS], forty[WEIGHTS];
  double here = train("cpu", cpu);
  tn_fallback_reset();
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_ERROR));
  double there = train("forty", forty);
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_DEFAULT));
  TN_CHECK_DOUBLE(there, here, 1e-4);
  for (int i = 0; i < WEIGHTS; i++) TN_CHECK_DOUBLE(forty[i], cpu[i], 1e-3);
  for (size_t i = 0; i < tn_fallback_count(); i++) {
    tn_fallback_report r;
    TN_CHECK_OK(tn_fallback_report_get(i, &r));
    TN_CHECK_INT(strcmp(r.device, "forty") == 0 ? r.calls : 0, 0);
  }
}

/* ------------------------------------------------------------------ the list */

static void note_line(void *ctx, const char *words) {
  if (strstr(words, "backend-primitives runs")) *(bool *)ctx = true;
}

static bool has_kernel(const char *op) {
  bool runs = false;
  for (tn_dtype dtype = TN_BOOL; dtype <= TN_FLOAT64; dtype++)
    TN_CHECK_OK(tn_op_why(op, "forty", dtype, note_line, &runs));
  return runs;
}

/* Is `op` there between backquotes, before the part on what has no body? */
static bool is_listed(const char *text, const char *op) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "`%s`", op);
  const char *end = strstr(text, "Without a body so far"), *found = strstr(text, quoted);
  TN_CHECK_NOT_NULL(end);
  return found && found < end && strchr(found, '|') && strchr(found, '|') < end;
}

TN_TEST(training_primitives, the_document_lists_exactly_these) {
  static char text[16384];
  FILE *file = fopen(TN_TEST_SOURCE_DIR "/docs/primitives.md", "r");
  TN_CHECK_NOT_NULL(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  int wrong = 0, kernels = 0;
  for (size_t i = 0; i < tn_op_count(); i++) {
    tn_op_report r;
    TN_CHECK_OK(tn_op_get(i, &r));
    bool kernel = has_kernel(r.name), listed = is_listed(text, r.name);
    if (strstr(r.schema, "!)") && !listed) continue; /* forms of what is listed */
    kernels += kernel && listed;
    if (kernel == listed) continue;
    printf("\n  %s: %s\n", r.name, kernel ? "has a kernel and is not listed" : "is listed and has no kernel");
    wrong++;
  }
  TN_CHECK_INT(wrong, 0);
  TN_CHECK_INT(kernels, 39);
}
