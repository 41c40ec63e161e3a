/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites train (milliseconds of one training step on made-up data) and startup (a fresh process that lists
 * its devices).
 */
#include "frontends/cli/bench_floor.h"
#include "frontends/cli/bench_model.h"

/* ------------------------------------------------------------------ networks of modules */

static tn_tensor *mlp_loss(tni_bench_model *m, tn_tensor *input, tn_tensor *target) {
  return tns_cross_entropy_loss(tns_module_forward(m->module, input), target, NULL, 1, -100, 0.0);
}

/* widths[0]-...-widths[n - 1], with ReLU in between. */
static tn_status mlp(tni_bench *b, tni_bench_model *m, const tn_dim *widths, size_t n) {
  const tn_dim batch = b->which->size;
  tn_tensor *const *parameters;
  size_t count;
  tn_module *part = NULL;
  m->loss = mlp_loss;
  TN_TRY(tn_sequential_new(NULL, 0, &m->module));
  for (size_t i = 0; i + 1 < n; i++) {
    TN_TRY(tn_linear_new(widths[i], widths[i + 1], true, NULL, &part));
    TN_TRY(tn_sequential_append(m->module, part));
    if (i + 2 == n) break;
    TN_TRY(tn_relu_new(&part));
    TN_TRY(tn_sequential_append(m->module, part));
  }
  TN_TRY(tn_randn((const tn_dim[]){batch, widths[0]}, 2, NULL, &b->t[0]));
  TN_TRY(tn_randint(widths[n - 1], &batch, 1, TN_OPTIONS(.dtype = TN_INT64), &b->t[1]));
  TN_TRY(tn_module_parameters(m->module, &parameters, &count));
  return tn_adam_new(parameters, count, NULL, &m->optimizer);
}

/* ------------------------------------------------------------------ train */

static void model_free(void *state) {
  tni_bench_model *m = state;
  tn_optimizer_release(m->optimizer);
  tn_module_release(m->module);
  for (size_t i = 0; i < m->n; i++) tn_tensor_release(m->p[i]);
  free(m);
}

static tn_status new_model(tni_bench *b, tni_bench_model **out_model) {
  *out_model = calloc(1, sizeof **out_model);
  if (!*out_model) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a benchmark's model");
  b->state = *out_model;
  b->free_state = model_free;
  return TN_OK;
}

static tn_status small(tni_bench *b) {
  tni_bench_model *m;
  TN_TRY(new_model(b, &m));
  return mlp(b, m, (const tn_dim[]){784, 128, 10}, 3);
}
static tn_status wide(tni_bench *b) {
  tni_bench_model *m;
  TN_TRY(new_model(b, &m));
  return mlp(b, m, (const tn_dim[]){784, 1024, 1024, 10}, 4);
}
static tn_status convnet(tni_bench *b) {
  tni_bench_model *m;
  TN_TRY(new_model(b, &m));
  return tni_bench_convnet(b, m);
}
static tn_status transformer(tni_bench *b) {
  tni_bench_model *m;
  TN_TRY(new_model(b, &m));
  return tni_bench_transformer(b, m);
}

static tn_status step(tni_bench *b) {
  tni_bench_model *m = b->state;
  tn_scope *scope = NULL;
  TN_TRY(tn_scope_begin(&scope));
  tn_scope_note(tn_optimizer_zero_grad(m->optimizer));
  tn_tensor *loss = m->loss(m, b->t[0], b->t[1]);
  if (loss && tn_scope_note(tn_backward_run(loss, NULL)) == TN_OK)
    tn_scope_note(tn_optimizer_step(m->optimizer));
  return tn_scope_end(scope);
}

/* Flops counted by hand: products and convolutions, forward once and backward twice (once for the first
 * layer). */
#define STEP(name, batch, setup, gflop) \
  { name, "ms", 1e-6, false, batch, setup, NULL, step, TNI_CEILING_FMA, 1e9 * (gflop) }

static const tni_bench_case train[] = {
    STEP("mlp_adam_batch64", 64, small, 0.026),      STEP("mlp_adam_batch256", 256, small, 0.105),
    STEP("mlp1024_adam_batch256", 256, wide, 2.45),  STEP("cnn_adam_batch64", 64, convnet, 4.16),
    STEP("gpt_adamw_batch16", 16, transformer, 5.3), {0}};
const tni_bench_suite tni_bench_train = {"train", train};

/* ------------------------------------------------------------------ startup */

static tn_status no_setup(tni_bench *b) { return TN_OK; }

static tn_status run_self(tni_bench *b) {
  char *argv[] = {"tenon", "devices", "--json", NULL};
  return tni_floor_process("/proc/self/exe", argv);
}

static const tni_bench_case startup[] = {
    {"devices", "ms", 1e-6, false, 0, no_setup, NULL, run_self, TNI_CEILING_PROCESS, 1}, {0}};
const tni_bench_suite tni_bench_startup = {"startup", startup};
