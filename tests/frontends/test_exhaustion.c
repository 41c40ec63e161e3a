/* SPDX-License-Identifier: Apache-2.0
 *
 * Training under a limit of memory that is set to anything: a step either works or is refused with words and changes
 * no parameter, and with room again training goes on to the bits of a run that was never short. Saving under the same
 * limits writes a whole file or none.
 */
#include <sys/stat.h>
#include <tenon/files.h>

#include "tools.h"

enum { IMAGES = 8, STEPS = 3, TRIES = 40 };

static const tn_device cpu = {0};

/* A small net of what holds memory: convolution, pool, attention, and an optimiser's state. No batch norm and no
 * dropout: their forward has moved statistics and the generator on when something behind them fails. Activations are larger than what tensors hold in
 * themselves, so that the limit meets them. */
typedef struct training {
  tn_module *net;
  tn_optimizer *optimizer;
  tn_tensor *input, *target;
  tn_tensor *const *parameters;
  size_t n;
} training;

static tn_status tokens(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                        tn_tensor **out_result) {
  tn_tensor *flat = NULL;
  tn_status status = tn_flatten(in[0], 2, -1, &flat);
  if (status == TN_OK) status = tn_transpose(flat, 1, 2, out_result);
  tn_tensor_release(flat);
  return status;
}

static tn_module *make_net(void) {
  static const tn_module_def def = {"Tokens", tokens, NULL};
  static const int64_t kernel[] = {3, 3}, half[] = {2, 2};
  tn_module *m[6] = {NULL}, *net = NULL;
  TN_CHECK_OK(tn_conv2d_new(1, 16, kernel, NULL, NULL, &m[0]));
  TN_CHECK_OK(tn_max_pool2d_new(half, NULL, &m[1]));
  TN_CHECK_OK(tn_module_new(&def, NULL, &m[2]));
  TN_CHECK_OK(tn_transformer_layer_new(16, 2, 64, NULL, NULL, &m[3]));
  TN_CHECK_OK(tn_flatten_new(1, -1, &m[4]));
  TN_CHECK_OK(tn_linear_new(169 * 16, 10, true, NULL, &m[5]));
  TN_CHECK_OK(tn_sequential_new(m, 6, &net));
  return net;
}

typedef tn_status (*optimizer_new)(tn_tensor *const *parameters, size_t n, tn_optimizer **out_optimizer);
static tn_status new_adam(tn_tensor *const *parameters, size_t n, tn_optimizer **out_optimizer) {
  return tn_adam_new(parameters, n, NULL, out_optimizer);
}
static tn_status new_sgd(tn_tensor *const *parameters, size_t n, tn_optimizer **out_optimizer) {
  return tn_sgd_new(parameters, n, &(tn_sgd_options){.lr = 0.01, .momentum = 0.9}, out_optimizer);
}
static tn_status new_rmsprop(tn_tensor *const *parameters, size_t n, tn_optimizer **out_optimizer) {
  tn_rmsprop_options o = tn_rmsprop_defaults();
  o.centered = true;
  o.momentum = 0.5;
  return tn_rmsprop_new(parameters, n, &o, out_optimizer);
}

static training make_training(optimizer_new make) {
  const tn_dim sizes[] = {IMAGES, 1, 28, 28}, size = IMAGES;
  training t = {0};
  TN_CHECK_OK(tn_manual_seed(11));
  t.net = make_net();
  TN_CHECK_OK(tn_module_parameters(t.net, &t.parameters, &t.n));
  TN_CHECK_OK(make(t.parameters, t.n, &t.optimizer));
  TN_CHECK_OK(tn_randn(sizes, 4, NULL, &t.input));
  TN_CHECK_OK(tn_zeros(&size, 1, TN_OPTIONS(.dtype = TN_INT64), &t.target));
  return t;
}

static void end_training(training *t) {
  tn_optimizer_release(t->optimizer);
  tn_module_release(t->net);
  tn_tensor_release(t->target);
  tn_tensor_release(t->input);
}

static tn_status step(training *t) {
  tn_scope *scope = NULL;
  tn_status status = tn_scope_begin(&scope);
  if (status != TN_OK) return status;
  tn_scope_note(tn_optimizer_zero_grad(t->optimizer));
  tn_tensor *scores = tns_module_forward(t->net, t->input);
  tn_tensor *loss = tns_cross_entropy_loss(scores, t->target, NULL, 1, -100, 0.0);
  if (loss) tn_scope_note(tn_backward_run(loss, NULL));
  if (tn_scope_status() == TN_OK) tn_scope_note(tn_clip_grad_norm(t->parameters, t->n, 1.0, 2.0, true, NULL));
  if (tn_scope_status() == TN_OK) tn_scope_note(tn_optimizer_step(t->optimizer));
  return tn_scope_end(scope);
}

/* All parameters, one behind the other; the caller frees. */
static unsigned char *bytes_of(const training *t, size_t *out_size) {
  *out_size = 0;
  for (size_t i = 0; i < t->n; i++) *out_size += (size_t)tn_tensor_numel(t->parameters[i]) * sizeof(float);
  unsigned char *all = malloc(*out_size), *at = all;
  TN_CHECK(all != NULL);
  for (size_t i = 0; i < t->n; i++) {
    size_t size = (size_t)tn_tensor_numel(t->parameters[i]) * sizeof(float);
    TN_CHECK_OK(tn_tensor_to_host(t->parameters[i], at, size));
    at += size;
  }
  return all;
}

static void check_same_bytes(const training *t, const unsigned char *expected, size_t size) {
  size_t now;
  unsigned char *bytes = bytes_of(t, &now);
  TN_CHECK_INT(now, size);
  TN_CHECK(memcmp(bytes, expected, size) == 0);
  free(bytes);
}

static uint64_t in_use(void) {
  tn_memory_stats s;
  tn_device device;
  TN_CHECK_OK(tn_device_open("cpu", &device)); /* this may be the process's first call */
  TN_CHECK_OK(tn_empty_cache());
  TN_CHECK_OK(tn_memory_get_stats(cpu, &s));
  return s.reserved_bytes;
}

/* The step at limits that grow until it works; the number of those that were too low. */
static int step_at_last(training *t) {
  size_t size;
  unsigned char *before = bytes_of(t, &size);
  uint64_t held = in_use();
  int refused = 0;
  for (uint64_t more = 1; refused < TRIES; more += more / 2 + 20000, refused++) {
    TN_CHECK_OK(tn_empty_cache());
    TN_CHECK_OK(tn_memory_set_limit(cpu, held + more));
    tn_error_clear();
    tn_status status = step(t);
    if (status == TN_OK) break;
    TN_CHECK_INT(status, TN_ERR_OUT_OF_MEMORY);
    TN_CHECK_CONTAINS(tn_error_message(), "memory");
    check_same_bytes(t, before, size);
  }
  TN_CHECK_OK(tn_memory_set_limit(cpu, 0));
  free(before);
  return refused;
}

static void check_exhaustion(optimizer_new make) {
  training straight = make_training(make);
  for (int i = 0; i < STEPS; i++) TN_CHECK_OK(step(&straight));
  size_t size;
  unsigned char *expected = bytes_of(&straight, &size);
  end_training(&straight);
  training t = make_training(make);
  int refused = 0;
  for (int i = 0; i < STEPS; i++) refused += step_at_last(&t);
  TN_CHECK(refused >= 2 * STEPS && refused < STEPS * TRIES);
  check_same_bytes(&t, expected, size);
  free(expected);
  end_training(&t);
}

TN_TEST(frontends_exhaustion, a_step_without_memory_changes_nothing_and_can_be_made_again) {
  check_exhaustion(new_adam);
  check_exhaustion(new_sgd);
  check_exhaustion(new_rmsprop);
}

/* One group could have stepped when the other finds no room for its state. Arrays of 9 MB each: what earlier tests left
 * free in their segments holds none of them. */
TN_TEST(frontends_exhaustion, no_group_steps_before_all_have_their_state) {
  const tn_dim sizes[] = {1500, 1500};
  training t = {.n = 2};
  tn_tensor *parameters[2];
  for (int i = 0; i < 2; i++) {
    tn_tensor *grad = NULL;
    TN_CHECK_OK(tn_ones(sizes, 2, NULL, &parameters[i]));
    TN_CHECK_OK(tn_set_requires_grad(parameters[i], true));
    TN_CHECK_OK(tn_ones(sizes, 2, NULL, &grad));
    TN_CHECK_OK(tn_set_grad(parameters[i], grad));
    tn_tensor_release(grad);
  }
  t.parameters = parameters;
  TN_CHECK_OK(tn_adam_new(parameters, 1, NULL, &t.optimizer));
  TN_CHECK_OK(tn_adam_add_group(t.optimizer, parameters + 1, 1, NULL));
  size_t size;
  unsigned char *before = bytes_of(&t, &size);
  uint64_t held = in_use(), more = 0;
  for (;; more += 2700000) {
    TN_CHECK_OK(tn_empty_cache());
    TN_CHECK_OK(tn_memory_set_limit(cpu, held + more));
    tn_status status = tn_optimizer_step(t.optimizer);
    if (status == TN_OK) break;
    TN_CHECK_INT(status, TN_ERR_OUT_OF_MEMORY);
    TN_CHECK(more < 100000000);
    check_same_bytes(&t, before, size);
  }
  TN_CHECK(more > 27000000); /* four arrays of state */
  TN_CHECK_OK(tn_memory_set_limit(cpu, 0));
  TN_CHECK_DOUBLE(tt_at(parameters[0], 0), 1 - 1e-3, 1e-6);
  TN_CHECK_DOUBLE(tt_at(parameters[1], 0), 1 - 1e-3, 1e-6);
  free(before);
  tn_optimizer_release(t.optimizer);
  tn_tensor_release(parameters[0]);
  tn_tensor_release(parameters[1]);
}

/* A model and an optimiser that find no room leave none behind. */
TN_TEST(frontends_exhaustion, making_a_model_without_memory_is_refused) {
  const int64_t wide = 1000;
  tn_module *m = NULL;
  uint64_t held = in_use();
  TN_CHECK_OK(tn_memory_set_limit(cpu, held + 1000000));
  TN_CHECK_FAILS(tn_linear_new(wide, wide, true, NULL, &m), TN_ERR_OUT_OF_MEMORY, "memory");
  TN_CHECK_PTR_NULL(m);
  TN_CHECK_FAILS(tn_transformer_layer_new(wide, 2, wide, NULL, NULL, &m), TN_ERR_OUT_OF_MEMORY, "memory");
  TN_CHECK_PTR_NULL(m);
  TN_CHECK_FAILS(tn_embedding_new(wide, wide, -1, NULL, &m), TN_ERR_OUT_OF_MEMORY, "memory");
  TN_CHECK_PTR_NULL(m);
  TN_CHECK_OK(tn_memory_set_limit(cpu, 0));
  TN_CHECK_INT(in_use(), held);
}

TN_TEST(frontends_exhaustion, saving_without_memory_writes_a_whole_file_or_none) {
  char path[600];
  struct stat about;
  tn_safetensors *file = NULL;
  snprintf(path, sizeof path, "%s/short", tt_folder());
  training t = make_training(new_adam);
  TN_CHECK_OK(step(&t));
  tn_checkpoint c = {.model = t.net, .optimizer = t.optimizer};
  uint64_t held = in_use();
  for (uint64_t more = 1; more < 100000000; more *= 7) {
    TN_CHECK_OK(tn_empty_cache());
    TN_CHECK_OK(tn_memory_set_limit(cpu, held + more));
    tn_status status = tn_checkpoint_write(path, &c);
    TN_CHECK(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY);
    TN_CHECK((stat(path, &about) == 0) == (status == TN_OK));
    if (status == TN_OK) {
      TN_CHECK_OK(tn_safetensors_open(path, &file));
      tn_safetensors_close(file);
      remove(path);
    }
  }
  TN_CHECK_OK(tn_memory_set_limit(cpu, 0));
  end_training(&t);
}

/* A wide layer after a step: its state is what loading needs memory for. */
static training make_wide(uint64_t seed, bool stepped) {
  const int64_t wide = 700;
  tn_tensor *grad = NULL;
  training t = {0};
  TN_CHECK_OK(tn_manual_seed(seed));
  TN_CHECK_OK(tn_linear_new(wide, wide, false, NULL, &t.net));
  TN_CHECK_OK(tn_module_parameters(t.net, &t.parameters, &t.n));
  TN_CHECK_OK(new_adam(t.parameters, t.n, &t.optimizer));
  if (!stepped) return t;
  TN_CHECK_OK(tn_ones((const tn_dim[]){wide, wide}, 2, NULL, &grad));
  TN_CHECK_OK(tn_set_grad(t.parameters[0], grad));
  TN_CHECK_OK(tn_optimizer_step(t.optimizer));
  tn_tensor_release(grad);
  return t;
}

/* Where there is no room for the optimiser's state, the model is left alone too. */
TN_TEST(frontends_exhaustion, loading_without_memory_changes_nothing) {
  char path[600];
  snprintf(path, sizeof path, "%s/load", tt_folder());
  training saved = make_wide(1, true), t = make_wide(2, false);
  tn_checkpoint c = {.model = saved.net, .optimizer = saved.optimizer};
  TN_CHECK_OK(tn_checkpoint_write(path, &c));
  size_t size, size_after;
  unsigned char *before = bytes_of(&t, &size), *after = bytes_of(&saved, &size_after);
  uint64_t held = in_use();
  c = (tn_checkpoint){.model = t.net, .optimizer = t.optimizer};
  int refused = 0;
  for (uint64_t more = 1; refused < TRIES; more += more / 2 + 20000, refused++) {
    tn_safetensors *file = NULL;
    TN_CHECK_OK(tn_safetensors_open(path, &file));
    TN_CHECK_OK(tn_empty_cache());
    TN_CHECK_OK(tn_memory_set_limit(cpu, held + more));
    tn_status status = tn_checkpoint_load(file, &c);
    tn_safetensors_close(file);
    if (status == TN_OK) break;
    TN_CHECK_INT(status, TN_ERR_OUT_OF_MEMORY);
    check_same_bytes(&t, before, size);
  }
  TN_CHECK_OK(tn_memory_set_limit(cpu, 0));
  TN_CHECK(refused > 0 && refused < TRIES);
  check_same_bytes(&t, after, size_after);
  free(before);
  free(after);
  end_training(&t);
  end_training(&saved);
}
