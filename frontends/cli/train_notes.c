/* SPDX-License-Identifier: Apache-2.0
 *
 * What a checkpoint says about itself, read with doubt, and the model that it makes: for `eval` and `generate`.
 */
#include <errno.h>
#include <inttypes.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

/* ------------------------------------------------------------------ notes */

tn_status tni_note_text(const char *path, tn_safetensors *file, const char *key, const char **out_text) {
  *out_text = tn_safetensors_note(file, key);
  if (*out_text) return TN_OK;
  return tn_fail(TN_ERR_DATA, "%s: it does not say its '%s'; only what `tenon train --save` wrote does", path,
                 key);
}

tn_status tni_note_int(const char *path, tn_safetensors *file, const char *key, int64_t low, int64_t high,
                       int64_t *out_number) {
  const char *text;
  char *end;
  TN_TRY(tni_note_text(path, file, key, &text));
  errno = 0;
  *out_number = strtoll(text, &end, 10);
  if (errno || end == text || *end || *out_number < low || *out_number > high)
    return tn_fail(TN_ERR_DATA,
                   "%s: its '%s' is '%.40s'; a whole number from %" PRId64 " to %" PRId64 " was expected",
                   path, key, text, low, high);
  return TN_OK;
}

tn_status tni_note_real(const char *path, tn_safetensors *file, const char *key, double low, double high,
                        double *out_number) {
  const char *text;
  char *end;
  TN_TRY(tni_note_text(path, file, key, &text));
  *out_number = strtod(text, &end);
  if (end == text || *end || !(*out_number >= low && *out_number <= high))
    return tn_fail(TN_ERR_DATA, "%s: its '%s' is '%.40s'; a number from %g to %g was expected", path, key,
                   text, low, high);
  return TN_OK;
}

tn_status tni_note_shape(const char *path, tn_safetensors *file, tni_shape *out_shape) {
  TN_TRY(tni_note_int(path, file, "train.context", 1, TNI_MOST_CONTEXT, &out_shape->context));
  TN_TRY(tni_note_int(path, file, "train.layers", 1, TNI_MOST_LAYERS, &out_shape->layers));
  TN_TRY(tni_note_int(path, file, "train.width", 1, TNI_MOST_WIDTH, &out_shape->width));
  TN_TRY(tni_note_int(path, file, "train.heads", 1, TNI_MOST_WIDTH, &out_shape->heads));
  return tni_note_real(path, file, "train.dropout", 0.0, 1.0, &out_shape->dropout);
}

/* ------------------------------------------------------------------ a saved model */

static tn_status find_model(const char *path, const char *name, tni_saved *s) {
  const char *saved = tn_safetensors_note(s->file, "train.model");
  if (saved && name && strcmp(saved, name))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: the file holds the model '%.40s', not '%s'", path, saved,
                   name);
  const char *wanted = saved ? saved : name ? name : "mlp";
  s->model = tni_model_find(wanted);
  if (s->model) return TN_OK;
  return tn_fail(TN_ERR_DATA, "%s holds a model '%.40s', which is not known here", path, wanted);
}

static tn_status find_vocabulary(const char *path, tni_saved *s) {
  tn_tensor *points = NULL;
  const char *name = tn_safetensors_note(s->file, "tenon.format") ? "model.vocabulary" : "vocabulary";
  tn_status status = tn_safetensors_tensor(s->file, name, &points);
  if (status == TN_OK) status = tni_vocabulary_from(points, &s->vocabulary);
  tn_tensor_release(points);
  return status == TN_OK ? TN_OK : tn_wrap(status, "%s", path);
}

tn_status tni_saved_open(const char *path, const char *name, tni_saved *out_saved) {
  *out_saved = (tni_saved){0};
  TN_TRY(tn_safetensors_open(path, &out_saved->file));
  tn_status status = find_model(path, name, out_saved);
  if (status == TN_OK && tni_model_reads_text(out_saved->model)) {
    status = tni_note_shape(path, out_saved->file, &out_saved->shape);
    if (status == TN_OK) status = find_vocabulary(path, out_saved);
  }
  if (status != TN_OK) tni_saved_close(out_saved);
  return status;
}

void tni_saved_close(tni_saved *saved) {
  tn_safetensors_close(saved->file);
  tni_vocabulary_free(&saved->vocabulary);
  *saved = (tni_saved){0};
}

tn_status tni_saved_model(const tni_saved *saved, const char *path, tn_device device, tn_module **out_model) {
  const tni_vocabulary *vocabulary = saved->vocabulary.count ? &saved->vocabulary : NULL;
  tn_status status = tni_model_make(saved->model, &saved->shape, vocabulary, 0, device, out_model);
  if (status == TN_OK) status = tn_checkpoint_load_model(saved->file, *out_model);
  if (status == TN_OK) return TN_OK;
  tn_module_release(*out_model);
  *out_model = NULL;
  return tn_wrap(status, "%s", path);
}
