/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop of `tenon train`: a model with Adam, on the public API only. Same seed and thread count give
 * the same bits, in one run or in several: the seed sets the weights and the order of the batches, and a checkpoint
 * holds all that a step depends on.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

enum { PREFETCH = 4 };

/* What one run holds. */
typedef struct run {
  tni_train *train;
  tn_safetensors *resumed; /* closed once it is loaded */
  tn_dataset *train_set, *test_set;
  tn_loader *loader;
  tn_module *model;
  tn_optimizer *adam;
  tni_position at;
} run;

/* ------------------------------------------------------------------ set-up */

static tn_status make_optimizer(run *r) {
  tn_tensor *const *parameters;
  size_t n;
  tn_adam_options adam = tn_adam_defaults();
  if (r->train->lr > 0) adam.lr = r->train->lr;
  TN_TRY(tn_module_parameters(r->model, &parameters, &n));
  return tn_adam_new(parameters, n, &adam, &r->adam);
}

/* A learning rate that was given holds from here on; else the checkpoint's does. */
static tn_status resume(run *r) {
  const tni_train *t = r->train;
  TN_TRY(tni_train_load(t, r->resumed, r->model, r->adam, &r->at));
  tn_safetensors_close(r->resumed);
  r->resumed = NULL;
  return t->lr > 0 ? tn_optimizer_set_lr(r->adam, 0, t->lr) : TN_OK;
}

static tn_status set_up(run *r) {
  tni_train *t = r->train;
  TN_TRY(tni_train_settle(t, &r->resumed));
  tn_loader_options options = {
      .batch_size = t->batch, .shuffle = true, .seed = (uint64_t)t->seed, .prefetch = PREFETCH};
  TN_TRY(tn_fashion_mnist_new(t->data, true, &r->train_set));
  TN_TRY(tn_fashion_mnist_new(t->data, false, &r->test_set));
  TN_TRY(tn_loader_new(r->train_set, &options, &r->loader));
  TN_TRY(tni_model_make(t->model, (uint64_t)t->seed, t->device, &r->model));
  TN_TRY(make_optimizer(r));
  r->at.epoch = 1;
  return r->resumed ? resume(r) : TN_OK;
}

static void tear_down(run *r) {
  tn_optimizer_release(r->adam);
  tn_module_release(r->model);
  tn_loader_release(r->loader);
  tn_dataset_release(r->test_set);
  tn_dataset_release(r->train_set);
  tn_safetensors_close(r->resumed);
}

/* ------------------------------------------------------------------ one step, one epoch */

/* Inside the caller's scope; failures are noted there. */
static double step(run *r, tn_tensor *const *batch) {
  double value = 0.0;
  tn_device device = r->train->device;
  tn_scope_note(tn_optimizer_zero_grad(r->adam));
  tn_tensor *scores = tns_module_forward(r->model, tni_on_device(batch[0], device));
  tn_tensor *loss = tns_cross_entropy_loss(scores, tni_on_device(batch[1], device), NULL, 1, -100, 0.0);
  if (!loss || tn_scope_note(tn_backward_run(loss, NULL)) != TN_OK) return 0.0;
  if (tn_scope_note(tn_optimizer_step(r->adam)) != TN_OK) return 0.0;
  tn_scope_note(tn_tensor_item_double(loss, &value));
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
  TN_TRY(tn_loader_begin_at(r->loader, (uint64_t)at->epoch, at->batch));
  for (bool more = true; more;) {
    TN_TRY(next_step(r, &more));
    if (!more) break;
    tni_progress_step(t, at->epoch, at->batch, total, at->loss / (double)at->samples,
                      (double)(at->samples - before) / (tni_cli_seconds() - begin));
    if (t->save_every && at->step % t->save_every == 0) tni_train_save(t, r->model, r->adam, at);
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
  if (t->save) tni_train_save(t, r->model, r->adam, &r->at);
  TN_TRY(tni_test_run(r->model, r->test_set, t->device, &t->accuracy));
  return tni_weights_hash(r->model, t->weights_sha256);
}

tn_status tni_train_run(tni_train *train) {
  run r = {.train = train};
  train->seconds = 0.0;
  tn_status status = run_all(&r);
  tear_down(&r);
  return status;
}
