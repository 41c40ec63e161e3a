/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of `tenon train`. What must be the same in both runs for the same bits (model, its shape, batch, seed, the
 * text) is written beside the tensors, so that `--resume FILE` needs no further option, and one that contradicts the
 * file is refused. What only steers from here on (rate, warm-up, decay, clipping, epochs) may be given anew.
 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

/* ------------------------------------------------------------------ options */

/* An option whose value must be the one of the file; none says that it was not given. */
static tn_status same_int(const tni_train *t, const char *option, int64_t saved, int64_t none,
                          int64_t *inout_value) {
  if (*inout_value != none && *inout_value != saved)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s was made with %s %" PRId64 "; it cannot go on with %" PRId64,
                   t->resume, option, saved, *inout_value);
  *inout_value = saved;
  return TN_OK;
}

static tn_status settle_int(const tni_train *t, tn_safetensors *file, const char *key, const char *option,
                            int64_t none, int64_t *inout_value) {
  int64_t saved;
  TN_TRY(tni_note_int(t->resume, file, key, none + 1, INT64_MAX, &saved));
  return same_int(t, option, saved, none, inout_value);
}

static tn_status settle_shape(tni_train *t, tn_safetensors *file) {
  tni_shape saved;
  TN_TRY(tni_note_shape(t->resume, file, &saved));
  TN_TRY(same_int(t, "--context", saved.context, 0, &t->shape.context));
  TN_TRY(same_int(t, "--layers", saved.layers, 0, &t->shape.layers));
  TN_TRY(same_int(t, "--width", saved.width, 0, &t->shape.width));
  TN_TRY(same_int(t, "--heads", saved.heads, 0, &t->shape.heads));
  if (t->shape.dropout >= 0.0 && t->shape.dropout != saved.dropout)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s was made with --dropout %g; it cannot go on with %g",
                   t->resume, saved.dropout, t->shape.dropout);
  t->shape.dropout = saved.dropout;
  if (!t->text) t->text = tn_safetensors_note(file, "train.text");
  return TN_OK;
}

/* What was not given here goes on as it was. Files from before these options lack their notes. */
static tn_status settle_course(tni_train *t, tn_safetensors *file) {
  int64_t epochs;
  TN_TRY(tni_note_int(t->resume, file, "train.epochs", 1, INT64_MAX, &epochs));
  if (!t->epochs) t->epochs = epochs;
  if (!tn_safetensors_note(file, "train.lr")) return TN_OK;
  double lr, clip;
  int64_t warmup, decay;
  TN_TRY(tni_note_real(t->resume, file, "train.lr", 0.0, DBL_MAX, &lr));
  if (lr <= 0.0)
    return tn_fail(TN_ERR_DATA, "%s: its 'train.lr' is %g; a learning rate above 0 was expected", t->resume,
                   lr);
  TN_TRY(tni_note_real(t->resume, file, "train.clip", 0.0, DBL_MAX, &clip));
  TN_TRY(tni_note_int(t->resume, file, "train.warmup", 0, INT64_MAX, &warmup));
  TN_TRY(tni_note_int(t->resume, file, "train.decay", 0, INT64_MAX, &decay));
  if (t->lr <= 0.0) t->lr = lr;
  if (t->clip < 0.0) t->clip = clip;
  if (t->warmup < 0) t->warmup = warmup;
  if (t->decay < 0) t->decay = decay;
  return TN_OK;
}

static tn_status settle_resumed(tni_train *t, tn_safetensors *file) {
  const char *dataset, *model;
  TN_TRY(tni_note_text(t->resume, file, "train.dataset", &dataset));
  TN_TRY(tni_note_text(t->resume, file, "train.model", &model));
  if (t->model_name && strcmp(t->model_name, model))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s holds the model '%.40s', not '%s'", t->resume, model,
                   t->model_name);
  t->model = tni_model_find(model);
  if (!t->model)
    return tn_fail(TN_ERR_DATA, "%s holds a model '%.40s', which is not known here", t->resume, model);
  if (strcmp(dataset, t->model->dataset))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s was trained on '%.40s', not on %s", t->resume, dataset,
                   t->model->dataset);
  TN_TRY(settle_int(t, file, "train.batch", "--batch", 0, &t->batch));
  TN_TRY(settle_int(t, file, "train.seed", "--seed", -1, &t->seed));
  if (tni_model_reads_text(t->model)) TN_TRY(settle_shape(t, file));
  return settle_course(t, file);
}

/* What is still open. */
static void settle_defaults(tni_train *t) {
  if (!t->model) t->model = tni_model_find(t->model_name ? t->model_name : "mlp");
  if (!t->epochs) t->epochs = 5;
  if (!t->batch) t->batch = t->model->batch;
  if (t->seed < 0) t->seed = 0;
  if (t->lr <= 0.0 && !t->resume) t->lr = 1e-3;
  if (t->clip < 0.0) t->clip = t->model->clip;
  if (t->warmup < 0) t->warmup = t->model->warmup;
  if (t->decay < 0) t->decay = 0;
  if (!t->shape.context) t->shape.context = 64;
  if (!t->shape.layers) t->shape.layers = 4;
  if (!t->shape.width) t->shape.width = 128;
  if (!t->shape.heads) t->shape.heads = 4;
  if (t->shape.dropout < 0.0) t->shape.dropout = 0.0;
}

/* Options that the model, known now, has no use for. */
static tn_status check_fit(const tni_train *t, bool shaped) {
  const char *model = t->model->name;
  bool text = tni_model_reads_text(t->model);
  if (t->dataset && strcmp(t->dataset, t->model->dataset))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the model '%s' learns from %s, not from %s", model,
                   t->model->dataset, t->dataset);
  if (text && t->data)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the model '%s' reads --text, not --data", model);
  if (!text && t->text)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the model '%s' reads no --text; --model transformer does",
                   model);
  if (!text && shaped)
    return tn_fail(
        TN_ERR_INVALID_ARGUMENT,
        "the model '%s' has one shape; --context, --layers, --width, --heads and --dropout are the "
        "transformer's",
        model);
  return TN_OK;
}

tn_status tni_train_settle(tni_train *train, tn_safetensors **out_file) {
  const tni_shape *s = &train->shape;
  bool shaped = s->context || s->layers || s->width || s->heads || s->dropout >= 0.0;
  *out_file = NULL;
  if (train->save) TN_TRY(tn_file_check_place(train->save)); /* training may take hours */
  if (train->resume) {
    TN_TRY(tn_safetensors_open(train->resume, out_file));
    TN_TRY(settle_resumed(train, *out_file));
  }
  settle_defaults(train);
  return check_fit(train, shaped);
}

tn_status tni_train_check_text(const tni_train *train, tn_safetensors *file, const tni_task *task) {
  const char *saved;
  if (!tni_model_reads_text(train->model)) return TN_OK;
  TN_TRY(tni_note_text(train->resume, file, "train.text_sha256", &saved));
  if (!strcmp(saved, task->text.sha256)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s was trained on another text than %s", train->resume,
                 train->text ? train->text : TNI_TEXT_FOLDER);
}

/* ------------------------------------------------------------------ in */

tn_status tni_train_load(tni_train *train, tn_safetensors *file, tn_module *model, tn_optimizer *optimizer,
                         tni_position *out_position) {
  tn_checkpoint c = {.model = model, .optimizer = optimizer, .device = train->device};
  tn_status status = tn_checkpoint_load(file, &c);
  if (status != TN_OK) return tn_wrap(status, "%s", train->resume);
  if (train->lr <= 0.0) TN_TRY(tn_optimizer_lr(optimizer, 0, &train->lr));
  *out_position = (tni_position){.epoch = c.epoch, .batch = c.batch, .step = c.step};
  TN_TRY(tni_note_int(train->resume, file, "train.samples", 0, INT64_MAX, &out_position->samples));
  const char *loss;
  TN_TRY(tni_note_text(train->resume, file, "train.loss", &loss));
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

/* The notes of one checkpoint; numbers are written here. */
typedef struct notes {
  tn_file_note list[24];
  char texts[24][40];
  size_t n;
} notes;

static void note(notes *n, const char *key, const char *value) {
  n->list[n->n++] = (tn_file_note){key, value};
}

static void note_int(notes *n, const char *key, int64_t value) {
  snprintf(n->texts[n->n], sizeof n->texts[0], "%" PRId64, value);
  note(n, key, n->texts[n->n]);
}

static void note_real(notes *n, const char *key, double value) {
  snprintf(n->texts[n->n], sizeof n->texts[0], "%.17g", value);
  note(n, key, n->texts[n->n]);
}

/* Notes are UTF-8; a path that is not has to be given again. */
static bool is_utf8(const char *text) {
  uint32_t point;
  const unsigned char *s = (const unsigned char *)text;
  for (size_t left = strlen(text), n; left > 0; left -= n, s += n)
    if (!(n = tni_utf8_decode(s, left, &point))) return false;
  return true;
}

static void note_text_model(notes *n, const tni_train *t, const tni_task *task) {
  note_int(n, "train.context", t->shape.context);
  note_int(n, "train.layers", t->shape.layers);
  note_int(n, "train.width", t->shape.width);
  note_int(n, "train.heads", t->shape.heads);
  note_real(n, "train.dropout", t->shape.dropout);
  note(n, "train.text_sha256", task->text.sha256);
  if (t->text && is_utf8(t->text)) note(n, "train.text", t->text);
}

static tn_status write_checkpoint(const tni_train *t, const tni_task *task, tn_module *model,
                                  tn_optimizer *optimizer, const tni_position *at) {
  notes n = {.n = 0};
  note(&n, "train.dataset", t->model->dataset);
  note(&n, "train.model", t->model->name);
  note_int(&n, "train.epochs", t->epochs);
  note_int(&n, "train.batch", t->batch);
  note_int(&n, "train.seed", t->seed);
  note_real(&n, "train.lr", t->lr);
  note_real(&n, "train.clip", t->clip);
  note_int(&n, "train.warmup", t->warmup);
  note_int(&n, "train.decay", t->decay);
  note_int(&n, "train.samples", at->samples);
  note_real(&n, "train.loss", at->loss);
  if (tni_model_reads_text(t->model)) note_text_model(&n, t, task);
  const tn_checkpoint c = {.model = model,
                           .optimizer = optimizer,
                           .device = t->device,
                           .epoch = at->epoch,
                           .batch = at->batch,
                           .step = at->step,
                           .notes = n.list,
                           .n_notes = n.n};
  return tn_checkpoint_write(t->save, &c);
}

void tni_train_save(tni_train *train, const tni_task *task, tn_module *model, tn_optimizer *optimizer,
                    const tni_position *position) {
  train->unsaved = write_checkpoint(train, task, model, optimizer, position) != TN_OK;
  if (!train->unsaved) return;
  tni_progress_clear(train);
  fflush(stdout);
  fprintf(stderr, "tenon: not saved: %s\n", tn_error_message());
}
