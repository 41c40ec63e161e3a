/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a safetensors file whose names tell the parts apart. Loading checks every part before it changes
 * the first; numbers are int64, so nothing is rounded.
 */
#include <stdio.h>
#include <tenon/files.h>

#include "frontends/c/src/module_int.h"
#include "frontends/c/src/optim_int.h"

#define FORMAT_KEY    "tenon.format"
#define FORMAT        "checkpoint 1"
#define OPTIMIZER_KEY "tenon.optimizer"
#define MODEL         "model."
#define OPTIMIZER     "optimizer."

/* ------------------------------------------------------------------ out */

static tn_status put_numbers(tn_state_dict *dict, const char *name, const int64_t *numbers, tn_dim n) {
  tn_tensor *t = NULL;
  TN_TRY(tn_tensor_from_host(numbers, &n, n > 1, TN_OPTIONS(.dtype = TN_INT64, .has_device = true), &t));
  tn_status status = tn_state_dict_put(dict, name, t);
  tn_tensor_release(t);
  return status;
}

/* part is consumed. */
static tn_status put_part(tn_state_dict *dict, const char *prefix, tn_state_dict *part) {
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < tn_state_dict_count(part); i++) {
    size_t size = strlen(prefix) + strlen(tn_state_dict_name(part, i)) + 1;
    char *name = NULL;
    status = tni_nn_alloc(size, 1, "a name", &name);
    if (status != TN_OK) break;
    snprintf(name, size, "%s%s", prefix, tn_state_dict_name(part, i));
    status = tn_state_dict_put(dict, name, tn_state_dict_tensor(part, i));
    free(name);
  }
  tn_state_dict_release(part);
  return status;
}

static const char *generator_name(tn_device device, char name[80]) {
  char text[64];
  snprintf(name, 80, "random.%s", tn_device_name(device, text, sizeof text));
  return name;
}

/* device's default generator and, if that is another one, the CPU's. */
static tn_status put_generators(tn_state_dict *dict, tn_device device) {
  char name[80];
  for (tn_device d = device;; d = (tn_device){0}) {
    tn_generator *generator;
    tn_generator_state state;
    TN_TRY(tn_generator_default(d, &generator));
    TN_TRY(tn_generator_get_state(generator, &state));
    int64_t numbers[] = {(int64_t)state.seed, (int64_t)state.offset};
    TN_TRY(put_numbers(dict, generator_name(d, name), numbers, 2));
    if (d.backend == TN_BACKEND_CPU) return TN_OK;
  }
}

static tn_status put_all(const tn_checkpoint *c, tn_state_dict *dict) {
  tn_state_dict *part = NULL;
  TN_TRY(tn_module_state_dict(c->model, &part));
  TN_TRY(put_part(dict, MODEL, part));
  if (c->optimizer) {
    TN_TRY(tn_optimizer_state_dict(c->optimizer, &part));
    TN_TRY(put_part(dict, OPTIMIZER, part));
  }
  TN_TRY(put_generators(dict, c->device));
  TN_TRY(put_numbers(dict, "progress.epoch", &c->epoch, 1));
  TN_TRY(put_numbers(dict, "progress.batch", &c->batch, 1));
  return put_numbers(dict, "progress.step", &c->step, 1);
}

/* Ours come first. */
static tn_status write_all(const char *path, const tn_checkpoint *c, const tn_state_dict *dict) {
  tn_file_note *notes = NULL;
  size_t n = 0;
  TN_TRY(tni_nn_alloc(c->n_notes + 2, sizeof *notes, "a checkpoint's notes", &notes));
  notes[n++] = (tn_file_note){FORMAT_KEY, FORMAT};
  if (c->optimizer) notes[n++] = (tn_file_note){OPTIMIZER_KEY, c->optimizer->kind->name};
  if (c->n_notes) memcpy(notes + n, c->notes, c->n_notes * sizeof *notes);
  tn_status status = tn_safetensors_write(path, dict, notes, n + c->n_notes);
  free(notes);
  return status;
}

tn_status tn_checkpoint_write(const char *path, const tn_checkpoint *checkpoint) {
  TN_TRY(tni_nn_not_null(checkpoint, "tn_checkpoint_write: the checkpoint"));
  TN_TRY(tni_nn_not_null(checkpoint->model, "tn_checkpoint_write: the model"));
  tn_state_dict *dict = NULL;
  TN_TRY(tn_state_dict_new(&dict));
  tn_status status = put_all(checkpoint, dict);
  if (status == TN_OK) status = write_all(path, checkpoint, dict);
  tn_state_dict_release(dict);
  return status;
}

/* ------------------------------------------------------------------ in */

static tn_status check_format(tn_safetensors *file, bool *out_checkpoint) {
  TN_TRY(tni_nn_not_null(file, "a checkpoint: the file"));
  const char *format = tn_safetensors_note(file, FORMAT_KEY);
  *out_checkpoint = format != NULL;
  if (format && strcmp(format, FORMAT))
    return tn_fail(TN_ERR_UNSUPPORTED, "the file's format is '%.40s'; '" FORMAT "' was expected", format);
  return TN_OK;
}

/* The tensors whose names begin with prefix, without it. */
static tn_status get_part(tn_safetensors *file, const char *prefix, tn_state_dict **out_dict) {
  tn_state_dict *dict = NULL;
  size_t skip = strlen(prefix);
  tn_status status = tn_state_dict_new(&dict);
  for (size_t i = 0; status == TN_OK && i < tn_safetensors_count(file); i++) {
    const char *name = tn_safetensors_name(file, i);
    tn_tensor *tensor = NULL;
    if (strncmp(name, prefix, skip)) continue;
    status = tn_safetensors_tensor(file, name, &tensor);
    if (status == TN_OK) status = tn_state_dict_put(dict, name + skip, tensor);
    tn_tensor_release(tensor);
  }
  if (status == TN_OK)
    *out_dict = dict;
  else
    tn_state_dict_release(dict);
  return status;
}

/* n numbers by name. */
static tn_status get_numbers(tn_safetensors *file, const char *name, int64_t *out_numbers, tn_dim n) {
  tn_tensor *t = NULL;
  TN_TRY(tn_safetensors_tensor(file, name, &t));
  bool fits = tn_tensor_dtype(t) == TN_INT64 && tn_tensor_numel(t) == n;
  tn_status status =
      fits ? tn_tensor_to_host(t, out_numbers, (size_t)n * sizeof *out_numbers)
           : tn_fail(TN_ERR_DATA, "the checkpoint's '%s' is not %lld int64", name, (long long)n);
  tn_tensor_release(t);
  return status;
}

static tn_status get_progress(tn_safetensors *file, const char *name, int64_t *out_number) {
  TN_TRY(get_numbers(file, name, out_number, 1));
  if (*out_number < 0)
    return tn_fail(TN_ERR_DATA, "the checkpoint's '%s' is %lld, which is negative", name,
                   (long long)*out_number);
  return TN_OK;
}

static bool has(tn_safetensors *file, const char *name) {
  for (size_t i = 0; i < tn_safetensors_count(file); i++)
    if (!strcmp(tn_safetensors_name(file, i), name)) return true;
  return false;
}

/* What a checkpoint says, before anything is changed by it. */
typedef struct loading {
  tn_state_dict *model, *optimizer;
  tn_generator *generators[2];
  tn_generator_state states[2];
  int n_generators;
  int64_t epoch, batch, step;
} loading;

static tn_status get_generators(tn_safetensors *file, tn_device device, loading *l) {
  char name[80];
  for (tn_device d = device;; d = (tn_device){0}) {
    int64_t numbers[2];
    if (has(file, generator_name(d, name))) {
      TN_TRY(tn_generator_default(d, &l->generators[l->n_generators]));
      TN_TRY(get_numbers(file, name, numbers, 2));
      l->states[l->n_generators++] = (tn_generator_state){(uint64_t)numbers[0], (uint64_t)numbers[1]};
    }
    if (d.backend == TN_BACKEND_CPU) return TN_OK;
  }
}

static tn_status get_all(tn_safetensors *file, const tn_checkpoint *c, loading *l) {
  bool is_checkpoint;
  TN_TRY(check_format(file, &is_checkpoint));
  if (!is_checkpoint)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the file holds tensors, but it is no checkpoint to go on from");
  TN_TRY(get_part(file, MODEL, &l->model));
  TN_TRY(tni_nn_state_dict_fits(c->model, l->model, true));
  if (c->optimizer) {
    const char *kind = tn_safetensors_note(file, OPTIMIZER_KEY);
    if (!kind || strcmp(kind, c->optimizer->kind->name))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "the checkpoint's optimiser is %.40s; this one is %s",
                     kind ? kind : "not there", c->optimizer->kind->name);
    TN_TRY(get_part(file, OPTIMIZER, &l->optimizer));
  }
  TN_TRY(get_progress(file, "progress.epoch", &l->epoch));
  TN_TRY(get_progress(file, "progress.batch", &l->batch));
  TN_TRY(get_progress(file, "progress.step", &l->step));
  return get_generators(file, c->device, l);
}

/* The optimiser takes all or nothing, and the model was held against the file before. */
static tn_status apply(tn_checkpoint *c, const loading *l) {
  if (c->optimizer) TN_TRY(tn_optimizer_load_state_dict(c->optimizer, l->optimizer));
  TN_TRY(tn_module_load_state_dict(c->model, l->model, true));
  for (int i = 0; i < l->n_generators; i++) TN_TRY(tn_generator_set_state(l->generators[i], &l->states[i]));
  c->epoch = l->epoch;
  c->batch = l->batch;
  c->step = l->step;
  return TN_OK;
}

tn_status tn_checkpoint_load(tn_safetensors *file, tn_checkpoint *inout_checkpoint) {
  TN_TRY(tni_nn_not_null(inout_checkpoint, "tn_checkpoint_load: the checkpoint"));
  TN_TRY(tni_nn_not_null(inout_checkpoint->model, "tn_checkpoint_load: the model"));
  loading l = {0};
  tn_status status = get_all(file, inout_checkpoint, &l);
  if (status == TN_OK) status = apply(inout_checkpoint, &l);
  tn_state_dict_release(l.optimizer);
  tn_state_dict_release(l.model);
  return status;
}

tn_status tn_checkpoint_load_model(tn_safetensors *file, tn_module *model) {
  bool is_checkpoint;
  tn_state_dict *dict = NULL;
  TN_TRY(check_format(file, &is_checkpoint));
  TN_TRY(get_part(file, is_checkpoint ? MODEL : "", &dict));
  tn_status status = tn_module_load_state_dict(model, dict, true);
  tn_state_dict_release(dict);
  return status;
}
