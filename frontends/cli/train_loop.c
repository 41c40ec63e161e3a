/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop of `tenon train`: a model with Adam or AdamW, on the public API only. Same seed and thread count give
 * the same bits, in one run or in several: the seed sets the weights and the order of the batches, and a checkpoint
 * holds all that a step depends on.
 */
#include <math.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

enum { PREFETCH = 4 };

/* What one run holds. */
typedef struct run {
  tni_train *train;
  tn_safetensors *resumed; /* the train's texts may lie in it */
  tni_task task;
  tn_loader *loader;
  tn_module *model;
  tn_tensor *const *parameters; /* borrowed from the model */
  size_t n_parameters;
  tn_optimizer *optimizer;
  tn_schedule *schedule;
  tni_position at;
} run;

/* ------------------------------------------------------------------ set-up */

static tn_status make_optimizer(run *r) {
  bool decoupled = r->train->model->decoupled;
  tn_adam_options adam = decoupled ? tn_adamw_defaults() : tn_adam_defaults();
  if (r->train->lr > 0) adam.lr = r->train->lr;
  TN_TRY(tn_module_parameters(r->model, &r->parameters, &r->n_parameters));
  return (decoupled ? tn_adamw_new : tn_adam_new)(r->parameters, r->n_parameters, &adam, &r->optimizer);
}

/* Up a line during the warm-up, whose first step is not lost at rate 0; then level, or down a cosine to a tenth. The
 * number of epochs has no part in it, so that a run may go on for longer than was planned. */
static tn_status make_schedule(run *r) {
  const tni_train *t = r->train;
  tn_schedule *up = NULL, *on = NULL;
  TN_TRY(t->decay ? tn_schedule_cosine_new(t->decay, 0.1 * t->lr, &on)
                  : tn_schedule_linear_new(1, 1, 1, &on));
  if (t->warmup == 0) {
    r->schedule = on;
    return TN_OK;
  }
  double first = 1.0 / (double)(t->warmup + 1);
  tn_status status = tn_schedule_linear_new(first, 1, t->warmup, &up);
  if (status == TN_OK) return tn_schedule_then_new(up, t->warmup, on, &r->schedule);
  tn_schedule_release(on);
  return status;
}

static tn_status make_model(run *r) {
  const tni_train *t = r->train;
  const tni_vocabulary *vocabulary = tni_model_reads_text(t->model) ? &r->task.text.vocabulary : NULL;
  return tni_model_make(t->model, &t->shape, vocabulary, (uint64_t)t->seed, t->device, &r->model);
}

static void say_text(const run *r) {
  const tni_train *t = r->train;
  const tni_text_data *text = &r->task.text;
  if (t->json || !tni_model_reads_text(t->model)) return;
  printf("text %s: %lld characters to learn from (%lld different), %lld to test",
         t->text ? t->text : TNI_TEXT_FOLDER, (long long)text->n_train, (long long)text->vocabulary.count - 1,
         (long long)text->n_test);
  if (text->n_unknown) printf(" (%lld of them unknown, counted as U+FFFD)", (long long)text->n_unknown);
  putchar('\n');
  fflush(stdout);
}

static tn_status set_up(run *r) {
  tni_train *t = r->train;
  TN_TRY(tni_train_settle(t, &r->resumed));
  tn_loader_options options = {
      .batch_size = t->batch, .shuffle = true, .seed = (uint64_t)t->seed, .prefetch = PREFETCH};
  TN_TRY(tni_task_open(t->model, &t->shape, t->data, t->text, NULL, true, &r->task));
  if (r->resumed) TN_TRY(tni_train_check_text(t, r->resumed, &r->task));
  TN_TRY(tn_loader_new(r->task.train_set, &options, &r->loader));
  TN_TRY(make_model(r));
  TN_TRY(make_optimizer(r));
  r->at.epoch = 1;
  if (r->resumed) TN_TRY(tni_train_load(t, r->resumed, r->model, r->optimizer, &r->at));
  say_text(r);
  return make_schedule(r);
}

static void tear_down(run *r) {
  tn_schedule_release(r->schedule);
  tn_optimizer_release(r->optimizer);
  tn_module_release(r->model);
  tn_loader_release(r->loader);
  tni_task_close(&r->task);
  tn_safetensors_close(r->resumed);
}

/* ------------------------------------------------------------------ one step, one epoch */

/* Weights that were changed by it would be no numbers either. */
static tn_status check_loss(double loss, int64_t step) {
  if (isfinite(loss)) return TN_OK;
  return tn_fail(TN_ERR_DATA, "the loss of step %lld is %g: training went astray; a lower --lr may help",
                 (long long)step + 1, loss);
}

/* Inside the caller's scope; failures are noted there. */
static double step(run *r, tn_tensor *const *batch) {
  const tni_train *t = r->train;
  double value = 0.0;
  tn_scope_note(tn_optimizer_zero_grad(r->optimizer));
  tn_scope_note(tn_optimizer_set_lr(r->optimizer, 0, tn_schedule_lr(r->schedule, t->lr, r->at.step)));
  tn_tensor *scores = tns_module_forward(r->model, tni_model_input(t->model, batch[0], t->device));
  tn_tensor *target = tns_flatten(tni_on_device(batch[1], t->device), 0, -1);
  tn_tensor *loss = tns_cross_entropy_loss(tns_flatten(scores, 0, -2), target, NULL, 1, -100, 0.0);
  if (!loss || tn_scope_note(tn_backward_run(loss, NULL)) != TN_OK) return 0.0;
  if (tn_scope_note(tn_tensor_item_double(loss, &value)) != TN_OK) return 0.0;
  if (tn_scope_note(check_loss(value, r->at.step)) != TN_OK) return 0.0;
  if (t->clip > 0.0)
    tn_scope_note(tn_clip_grad_norm(r->parameters, r->n_parameters, t->clip, 2.0, true, NULL));
  if (tn_scope_status() == TN_OK) tn_scope_note(tn_optimizer_step(r->optimizer));
  return value;
}

/* A batch and what it changes; *out_more is false at the epoch's end. */
static tn_status next_step(run *r, bool *out_more) {
  tn_tensor *batch[2];
  tn_scope *scope = NULL;
  TN_TRY(tni_interrupt_check());
  TN_TRY(tn_scope_begin(&scope));
  *out_more = tns_loader_next(r->loader, batch, 2);
  if (*out_more) {
    int64_t n = tn_tensor_sizes(batch[0])[0];
    r->at.loss += step(r, batch) * (double)n;
    r->at.samples += n;
    r->at.batch++;
    r->at.step++;
  }
  return tn_scope_end(scope);
}

/* From r->at to the beginning of the next epoch. */
static tn_status train_epoch(run *r) {
  tni_train *t = r->train;
  tni_position *at = &r->at;
  int64_t total = tn_loader_batches(r->loader), before = at->samples;
  double begin = tni_cli_seconds();
  if (tni_model_reads_text(t->model)) tni_text_begin_epoch(&r->task.text, (uint64_t)t->seed, at->epoch);
  TN_TRY(tn_loader_begin_at(r->loader, (uint64_t)at->epoch, at->batch));
  for (bool more = true; more;) {
    TN_TRY(next_step(r, &more));
    if (!more) break;
    tni_progress_step(t, at->epoch, at->batch, total, at->loss / (double)at->samples,
                      (double)(at->samples - before) / (tni_cli_seconds() - begin));
    if (t->save_every && at->step % t->save_every == 0)
      tni_train_save(t, &r->task, r->model, r->optimizer, at);
  }
  TN_TRY(tn_device_synchronize(t->device));
  double seconds = tni_cli_seconds() - begin;
  t->seconds += seconds;
  tni_progress_epoch(t, at->epoch, at->samples ? at->loss / (double)at->samples : 0.0, seconds,
                     (double)(at->samples - before) / seconds);
  *at = (tni_position){.epoch = at->epoch + 1, .step = at->step};
  return TN_OK;
}

static tn_status run_all(run *r) {
  tni_train *t = r->train;
  TN_TRY(set_up(r));
  while (r->at.epoch <= t->epochs) TN_TRY(train_epoch(r));
  if (t->save) tni_train_save(t, &r->task, r->model, r->optimizer, &r->at);
  tni_scores scores;
  TN_TRY(tni_test_run(t->model, r->model, &r->task, t->device, &scores));
  t->accuracy = scores.accuracy;
  t->loss = scores.loss;
  t->bigram_loss = tni_model_reads_text(t->model) ? r->task.text.bigram_loss : NAN;
  return tni_weights_hash(r->model, t->weights_sha256);
}

tn_status tni_train_run(tni_train *train) {
  run r = {.train = train};
  train->seconds = 0.0;
  tn_status status = run_all(&r);
  tear_down(&r);
  return status;
}
