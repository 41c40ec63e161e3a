/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a run that is saved and gone on with in fresh objects ends in the bits of the run that never
 * stopped, random numbers included; what does not fit changes nothing.
 */
#include <stdio.h>
#include <tenon/data.h>
#include <tenon/files.h>

#include "damage.h"
#include "tools.h"

enum { SAMPLES = 24, BATCH = 4 };

/* A small training: dropout draws from the CPU's generator, the schedule moves the rate. */
typedef struct training {
  tn_module *model;
  tn_optimizer *adam;
  tn_schedule *schedule;
  tn_loader *loader;
  tn_checkpoint at;
} training;

static const char *place(const char *name) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%s", tt_folder(), name);
  return path;
}

static tn_loader *make_loader(int32_t prefetch) {
  tn_dataset *set = NULL;
  tn_loader *loader = NULL;
  double x[SAMPLES];
  for (int i = 0; i < SAMPLES; i++) x[i] = 0.1 * i - 1;
  tn_tensor *inputs = tt_vector(x, SAMPLES), *column = NULL;
  TN_CHECK_OK(tn_unsqueeze(inputs, 1, &column));
  TN_CHECK_OK(tn_tensor_dataset_new(&column, 1, &set));
  tn_loader_options options = {.batch_size = BATCH, .shuffle = true, .seed = 9, .prefetch = prefetch};
  TN_CHECK_OK(tn_loader_new(set, &options, &loader));
  tn_dataset_release(set);
  tn_tensor_release(column);
  tn_tensor_release(inputs);
  return loader;
}

static training make_training(uint64_t seed, int64_t width) {
  tn_module *m[3] = {0};
  tn_tensor *const *parameters;
  size_t n;
  training t = {.loader = make_loader(2)};
  TN_CHECK_OK(tn_manual_seed(seed));
  TN_CHECK_OK(tn_linear_new(1, width, true, NULL, &m[0]));
  TN_CHECK_OK(tn_dropout_new(0.5, &m[1]));
  TN_CHECK_OK(tn_linear_new(width, 1, true, NULL, &m[2]));
  TN_CHECK_OK(tn_sequential_new(m, 3, &t.model));
  TN_CHECK_OK(tn_module_parameters(t.model, &parameters, &n));
  TN_CHECK_OK(tn_adam_new(parameters, n, NULL, &t.adam));
  TN_CHECK_OK(tn_schedule_exponential_new(0.9, &t.schedule));
  t.at = (tn_checkpoint){.model = t.model, .optimizer = t.adam};
  return t;
}

static void end_training(training *t) {
  tn_loader_release(t->loader);
  tn_schedule_release(t->schedule);
  tn_optimizer_release(t->adam);
  tn_module_release(t->model);
}

/* One step if the epoch has a batch left. */
static bool step(training *t) {
  tn_tensor *x = NULL, *y = NULL, *loss = NULL;
  TN_CHECK_OK(tn_loader_next(t->loader, &x, 1));
  if (!x) return false;
  TN_CHECK_OK(tn_schedule_apply(t->schedule, t->adam, t->at.step));
  TN_CHECK_OK(tn_optimizer_zero_grad(t->adam));
  TN_CHECK_OK(tn_module_forward(t->model, x, &y));
  TN_CHECK_OK(tn_mse_loss(y, x, 1, &loss));
  TN_CHECK_OK(tn_backward_run(loss, NULL));
  TN_CHECK_OK(tn_optimizer_step(t->adam));
  tn_tensor_release(loss);
  tn_tensor_release(y);
  tn_tensor_release(x);
  t->at.batch++;
  t->at.step++;
  return true;
}

/* Until `last` steps are done. */
static void go_on(training *t, int64_t last) {
  TN_CHECK_OK(tn_loader_begin_at(t->loader, (uint64_t)t->at.epoch, t->at.batch));
  while (t->at.step < last) {
    if (step(t)) continue;
    t->at.epoch++;
    t->at.batch = 0;
    TN_CHECK_OK(tn_loader_begin(t->loader, (uint64_t)t->at.epoch));
  }
}

static tn_status load(const char *path, tn_checkpoint *at) {
  tn_safetensors *file = NULL;
  tn_status status = tn_safetensors_open(path, &file);
  if (status == TN_OK) status = tn_checkpoint_load(file, at);
  tn_safetensors_close(file);
  return status;
}

static void check_same_bits(tn_module *a, tn_module *b) {
  static const char *const names[] = {"0.weight", "0.bias", "2.weight", "2.bias"};
  for (int i = 0; i < 4; i++) {
    float x[16], y[16];
    size_t n = (size_t)tn_tensor_numel(tn_module_tensor(a, names[i])) * sizeof *x;
    TN_CHECK(n <= sizeof x);
    TN_CHECK_OK(tn_tensor_to_host(tn_module_tensor(a, names[i]), x, n));
    TN_CHECK_OK(tn_tensor_to_host(tn_module_tensor(b, names[i]), y, n));
    TN_CHECK(memcmp(x, y, n) == 0);
  }
}

TN_TEST(frontends_checkpoint, going_on_gives_the_bits_of_one_run) {
  training straight = make_training(5, 8);
  go_on(&straight, 16);
  training again = make_training(5, 8); /* the generator stands where `straight` began */
  go_on(&again, 9);                     /* in the second epoch, after its third batch */
  TN_CHECK_INT(again.at.epoch, 1);
  TN_CHECK_INT(again.at.batch, 3);
  TN_CHECK_OK(tn_checkpoint_write(place("a.checkpoint"), &again.at));
  training fresh = make_training(77, 8);
  TN_CHECK_OK(load(place("a.checkpoint"), &fresh.at));
  TN_CHECK_INT(fresh.at.step, 9);
  go_on(&fresh, 16);
  check_same_bits(straight.model, fresh.model);
  end_training(&fresh);
  end_training(&again);
  end_training(&straight);
}

TN_TEST(frontends_checkpoint, the_model_alone_from_either_kind_of_file) {
  training a = make_training(1, 8), b = make_training(2, 8);
  tn_state_dict *dict = NULL;
  tn_safetensors *file = NULL;
  TN_CHECK_OK(tn_checkpoint_write(place("b.checkpoint"), &a.at));
  TN_CHECK_OK(tn_safetensors_open(place("b.checkpoint"), &file));
  TN_CHECK_OK(tn_checkpoint_load_model(file, b.model));
  tn_safetensors_close(file);
  check_same_bits(a.model, b.model);
  end_training(&b);
  b = make_training(3, 8);
  TN_CHECK_OK(tn_module_state_dict(a.model, &dict));
  TN_CHECK_OK(tn_safetensors_write(place("b.plain"), dict, NULL, 0));
  tn_state_dict_release(dict);
  TN_CHECK_OK(tn_safetensors_open(place("b.plain"), &file));
  TN_CHECK_OK(tn_checkpoint_load_model(file, b.model));
  TN_CHECK_FAILS(tn_checkpoint_load(file, &b.at), TN_ERR_INVALID_ARGUMENT, "no checkpoint to go on from");
  tn_safetensors_close(file);
  check_same_bits(a.model, b.model);
  end_training(&b);
  end_training(&a);
}

/* ------------------------------------------------------------------ what does not fit */

static double first_weight(const training *t) { return tt_at(tn_module_tensor(t->model, "0.weight"), 0); }

static double rate(const training *t) {
  double lr;
  TN_CHECK_OK(tn_optimizer_lr(t->adam, 0, &lr));
  return lr;
}

TN_TEST(frontends_checkpoint, what_does_not_fit_changes_nothing) {
  training small = make_training(1, 4), large = make_training(2, 8);
  tn_tensor *const *parameters;
  size_t n;
  go_on(&small, 3);
  TN_CHECK_OK(tn_checkpoint_write(place("c.checkpoint"), &small.at));
  double weight = first_weight(&large), lr = rate(&large);
  TN_CHECK_FAILS(load(place("c.checkpoint"), &large.at), TN_ERR_INVALID_ARGUMENT,
                 "must have shape [8, 1], not [4, 1]");
  TN_CHECK_DOUBLE(first_weight(&large), weight, 0);
  TN_CHECK_DOUBLE(rate(&large), lr, 0);
  TN_CHECK_INT(large.at.step, 0);
  /* Another optimiser: the model, which would fit, is left alone too. */
  training other = make_training(3, 4);
  tn_optimizer_release(other.adam);
  TN_CHECK_OK(tn_module_parameters(other.model, &parameters, &n));
  TN_CHECK_OK(tn_adamw_new(parameters, n, NULL, &other.adam));
  other.at.optimizer = other.adam;
  weight = first_weight(&other);
  TN_CHECK_FAILS(load(place("c.checkpoint"), &other.at), TN_ERR_INVALID_ARGUMENT,
                 "the checkpoint's optimiser is Adam");
  TN_CHECK_DOUBLE(first_weight(&other), weight, 0);
  end_training(&other);
  end_training(&large);
  end_training(&small);
}

/* One entry of a good checkpoint replaced. */
static tn_status load_with(training *t, const char *name, tn_tensor *tensor) {
  tn_state_dict *dict = NULL;
  const tn_file_note notes[] = {{"tenon.format", "checkpoint 1"}, {"tenon.optimizer", "Adam"}};
  TN_CHECK_OK(tn_checkpoint_write(place("d.checkpoint"), &t->at));
  TN_CHECK_OK(tn_safetensors_read(place("d.checkpoint"), &dict));
  TN_CHECK_NOT_NULL(tn_state_dict_get(dict, name));
  TN_CHECK_OK(tn_state_dict_put(dict, name, tensor));
  TN_CHECK_OK(tn_safetensors_write(place("d.checkpoint"), dict, notes, 2));
  tn_state_dict_release(dict);
  return load(place("d.checkpoint"), &t->at);
}

TN_TEST(frontends_checkpoint, numbers_that_are_none) {
  training t = make_training(1, 4);
  tn_tensor *nan = NULL, *negative = NULL;
  const int64_t minus = -1;
  double lr;
  go_on(&t, 2);
  lr = rate(&t);
  TN_CHECK_OK(tn_tensor_from_host(&(double){0.0 / 0.0}, NULL, 0, TN_OPTIONS(.dtype = TN_FLOAT64), &nan));
  TN_CHECK_OK(tn_tensor_from_host(&minus, NULL, 0, TN_OPTIONS(.dtype = TN_INT64), &negative));
  TN_CHECK_FAILS(load_with(&t, "optimizer.state.0.step", nan), TN_ERR_INVALID_ARGUMENT, "a number of steps");
  TN_CHECK_FAILS(load_with(&t, "optimizer.group.0.lr", nan), TN_ERR_INVALID_ARGUMENT, "lr");
  TN_CHECK_FAILS(load_with(&t, "progress.step", negative), TN_ERR_DATA, "'progress.step' is -1");
  TN_CHECK_FAILS(load_with(&t, "progress.batch", nan), TN_ERR_DATA, "is not 1 int64");
  TN_CHECK_FAILS(load_with(&t, "random.cpu", negative), TN_ERR_DATA, "is not 2 int64");
  TN_CHECK_DOUBLE(rate(&t), lr, 0);
  TN_CHECK_INT(t.at.step, 2);
  /* The optimiser's part fits and differs, the model's does not: neither is taken. */
  TN_CHECK_FAILS(load_with(&t, "model.0.bias", nan), TN_ERR_INVALID_ARGUMENT,
                 "'0.bias' must have shape [4], not []");
  TN_CHECK_OK(tn_optimizer_set_lr(t.adam, 0, 0.5));
  TN_CHECK_FAILS(load(place("d.checkpoint"), &t.at), TN_ERR_INVALID_ARGUMENT, "must have shape");
  TN_CHECK_DOUBLE(rate(&t), 0.5, 0);
  TN_CHECK_FAILS(tn_checkpoint_write(place("nowhere/e"), &t.at), TN_ERR_IO, "nowhere/e: cannot be written");
  go_on(&t, 4);
  tn_tensor_release(negative);
  tn_tensor_release(nan);
  end_training(&t);
}

/* ------------------------------------------------------------------ damage */

/* What the damaged files are loaded into. */
static training victim;

static void read_bits(const training *t, float out_bits[16]) {
  memset(out_bits, 0, 16 * sizeof *out_bits);
  tn_tensor *w = tn_module_tensor(t->model, "0.weight");
  TN_CHECK_OK(tn_tensor_to_host(w, out_bits, (size_t)tn_tensor_numel(w) * sizeof *out_bits));
}

static tn_status load_damaged(const char *path, size_t size_bytes) {
  float before[16], after[16];
  tn_checkpoint at = victim.at;
  read_bits(&victim, before);
  tn_status status = load(path, &at);
  if (status == TN_OK) return TN_OK; /* a byte of the values, or of a note */
  TN_CHECK(tn_error_message()[0] != 0);
  TN_CHECK_INT(at.step, victim.at.step);
  TN_CHECK_INT(at.epoch, victim.at.epoch);
  read_bits(&victim, after);
  TN_CHECK(memcmp(before, after, sizeof before) == 0);
  return tn_fail(TN_ERR_DATA, "%s",
                 path); /* other statuses are as good here: the words named no path before */
}

/* Each byte of a whole checkpoint changed, and each length that is too short. */
TN_TEST(frontends_checkpoint, damaged_files_are_refused_or_loaded_whole) {
  static unsigned char bytes[1 << 16];
  training saved = make_training(1, 2);
  victim = make_training(2, 2);
  go_on(&saved, 3);
  TN_CHECK_OK(tn_checkpoint_write(place("whole"), &saved.at));
  FILE *file = fopen(place("whole"), "rb");
  TN_CHECK_NOT_NULL(file);
  size_t n = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  TN_CHECK(n > 1000 && n < sizeof bytes);
  TN_CHECK(tt_damage(bytes, n, load_damaged) > n); /* every truncation, and many bytes of the header */
  end_training(&victim);
  end_training(&saved);
}

/* ------------------------------------------------------------------ the loader's part */

TN_TEST(frontends_checkpoint, an_epoch_begins_at_any_batch) {
  for (int32_t prefetch = 0; prefetch <= 3; prefetch += 3) {
    tn_loader *whole = make_loader(prefetch), *rest = make_loader(prefetch);
    tn_tensor *a = NULL, *b = NULL;
    TN_CHECK_OK(tn_loader_begin(whole, 4));
    for (int i = 0; i < 4; i++) {
      TN_CHECK_OK(tn_loader_next(whole, &a, 1));
      tn_tensor_release(a);
    }
    TN_CHECK_OK(tn_loader_begin_at(rest, 4, 4));
    for (;;) {
      TN_CHECK_OK(tn_loader_next(whole, &a, 1));
      TN_CHECK_OK(tn_loader_next(rest, &b, 1));
      TN_CHECK((a == NULL) == (b == NULL));
      if (!a) break;
      TN_CHECK_DOUBLE(tt_at(a, 3), tt_at(b, 3), 0);
      tn_tensor_release(a);
      tn_tensor_release(b);
    }
    TN_CHECK_OK(tn_loader_begin_at(rest, 4, 6)); /* the end */
    TN_CHECK_OK(tn_loader_next(rest, &b, 1));
    TN_CHECK_PTR_NULL(b);
    TN_CHECK_FAILS(tn_loader_begin_at(rest, 4, 7), TN_ERR_INVALID_ARGUMENT, "an epoch has 6 batches");
    TN_CHECK_FAILS(tn_loader_begin_at(rest, 4, -1), TN_ERR_INVALID_ARGUMENT, "cannot begin at -1");
    tn_loader_release(rest);
    tn_loader_release(whole);
  }
}
