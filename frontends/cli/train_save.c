/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of `tenon train`. What must be the same in both runs for the same bits (model, batch, seed) is written
 * beside the tensors, so that `--resume FILE` needs no further option, and one that contradicts the file is refused.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

/* ------------------------------------------------------------------ options */

static tn_status note_text(const tni_train *t, tn_safetensors *file, const char *key, const char **out_text) {
  *out_text = tn_safetensors_note(file, key);
  if (*out_text) return TN_OK;
  return tn_fail(TN_ERR_DATA,
                 "%s: it does not say its '%s'; only what `tenon train --save` wrote can be resumed",
                 t->resume, key);
}

static tn_status note_number(const tni_train *t, tn_safetensors *file, const char *key, int64_t low,
                             int64_t *out_number) {
  const char *text;
  char *end;
  TN_TRY(note_text(t, file, key, &text));
  errno = 0;
  *out_number = strtoll(text, &end, 10);
  if (errno || end == text || *end || *out_number < low)
    return tn_fail(TN_ERR_DATA, "%s: its '%s' is '%.40s'; a whole number >= %" PRId64 " was expected",
                   t->resume, key, text, low);
  return TN_OK;
}

/* An option whose value must be the one of the file; none says that it was not given. */
static tn_status settle_number(const tni_train *t, tn_safetensors *file, const char *key, const char *option,
                               int64_t none, int64_t *inout_value) {
  int64_t value;
  TN_TRY(note_number(t, file, key, none + 1, &value));
  if (*inout_value != none && *inout_value != value)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s was made with %s %" PRId64 "; it cannot go on with %" PRId64,
                   t->resume, option, value, *inout_value);
  *inout_value = value;
  return TN_OK;
}

static tn_status settle_resumed(tni_train *t, tn_safetensors *file) {
  const char *dataset, *model;
  int64_t epochs;
  TN_TRY(note_text(t, file, "train.dataset", &dataset));
  TN_TRY(note_text(t, file, "train.model", &model));
  if (strcmp(dataset, TNI_TRAIN_DATASET))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s was trained on '%.40s', not on " TNI_TRAIN_DATASET, t->resume,
                   dataset);
  if (t->model && strcmp(t->model, model))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s holds the model '%.40s', not '%s'", t->resume, model,
                   t->model);
  t->model = tni_model_find(model);
  if (!t->model)
    return tn_fail(TN_ERR_DATA, "%s holds a model '%.40s', which is not known here", t->resume, model);
  TN_TRY(settle_number(t, file, "train.batch", "--batch", 0, &t->batch));
  TN_TRY(settle_number(t, file, "train.seed", "--seed", -1, &t->seed));
  TN_TRY(note_number(t, file, "train.epochs", 1, &epochs));
  if (!t->epochs) t->epochs = epochs;
  return TN_OK;
}

/* Training may take hours: a folder that is not there is said before. */
static tn_status check_place(const char *path) {
  struct stat about;
  if (!stat(path, &about) && !S_ISREG(about.st_mode))
    return tn_fail(TN_ERR_IO, "%s: cannot be written: it is there and not a regular file", path);
  char *folder = strdup(path);
  if (!folder) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a path");
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  tn_status status = TN_OK;
  if (access(slash ? folder : ".", W_OK | X_OK))
    status = tn_fail(TN_ERR_IO, "%s: nothing can be saved there: %s", path, strerror(errno));
  free(folder);
  return status;
}

tn_status tni_train_settle(tni_train *train, tn_safetensors **out_file) {
  *out_file = NULL;
  if (train->save) TN_TRY(check_place(train->save));
  if (train->resume) {
    TN_TRY(tn_safetensors_open(train->resume, out_file));
    TN_TRY(settle_resumed(train, *out_file));
  }
  if (!train->model) train->model = "mlp";
  if (!train->epochs) train->epochs = 5;
  if (!train->batch) train->batch = 64;
  if (train->seed < 0) train->seed = 0;
  return TN_OK;
}

/* ------------------------------------------------------------------ in */

tn_status tni_train_load(const tni_train *train, tn_safetensors *file, tn_module *model,
                         tn_optimizer *optimizer, tni_position *out_position) {
  tn_checkpoint c = {.model = model, .optimizer = optimizer, .device = train->device};
  tn_status status = tn_checkpoint_load(file, &c);
  if (status != TN_OK) return tn_wrap(status, "%s", train->resume);
  *out_position = (tni_position){.epoch = c.epoch, .batch = c.batch, .step = c.step};
  TN_TRY(note_number(train, file, "train.samples", 0, &out_position->samples));
  const char *loss;
  TN_TRY(note_text(train, file, "train.loss", &loss));
  out_position->loss = strtod(loss, NULL); /* only printed */
  if (c.epoch < 1)
    return tn_fail(TN_ERR_DATA, "%s: epoch %" PRId64 " is none; they count from 1", train->resume, c.epoch);
  if (c.epoch > train->epochs)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "%s: all %" PRId64
                   " epochs are done; --epochs counts from the first run on, so give a greater "
                   "number to go on",
                   train->resume, train->epochs);
  return TN_OK;
}

/* ------------------------------------------------------------------ out */

static tn_status write_checkpoint(const tni_train *t, tn_module *model, tn_optimizer *optimizer,
                                  const tni_position *at) {
  char epochs[24], batch[24], seed[24], samples[24], loss[40];
  snprintf(epochs, sizeof epochs, "%" PRId64, t->epochs);
  snprintf(batch, sizeof batch, "%" PRId64, t->batch);
  snprintf(seed, sizeof seed, "%" PRId64, t->seed);
  snprintf(samples, sizeof samples, "%" PRId64, at->samples);
  snprintf(loss, sizeof loss, "%.17g", at->loss);
  const tn_file_note notes[] = {{"train.dataset", TNI_TRAIN_DATASET},
                                {"train.model", t->model},
                                {"train.epochs", epochs},
                                {"train.batch", batch},
                                {"train.seed", seed},
                                {"train.samples", samples},
                                {"train.loss", loss}};
  const tn_checkpoint c = {.model = model,
                           .optimizer = optimizer,
                           .device = t->device,
                           .epoch = at->epoch,
                           .batch = at->batch,
                           .step = at->step,
                           .notes = notes,
                           .n_notes = sizeof notes / sizeof *notes};
  return tn_checkpoint_write(t->save, &c);
}

void tni_train_save(tni_train *train, tn_module *model, tn_optimizer *optimizer,
                    const tni_position *position) {
  train->unsaved = write_checkpoint(train, model, optimizer, position) != TN_OK;
  if (!train->unsaved) return;
  tni_progress_clear(train);
  fflush(stdout);
  fprintf(stderr, "tenon: not saved: %s\n", tn_error_message());
}
