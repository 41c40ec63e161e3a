/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop of `tenon train`: a 784-128-10 network with Adam, on the public API only. Same seed and
 * thread count give the same bits: the seed sets the weights and the order of the batches, and nothing else
 * is random.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/sha256.h"
#include "frontends/cli/train.h"

enum { INPUTS = 784, HIDDEN = 128, CLASSES = 10, TEST_BATCH = 1000, PREFETCH = 4 };

volatile sig_atomic_t tni_train_interrupted;

/* What one run holds. */
typedef struct run {
  tni_train *train;
  tn_dataset *train_set, *test_set;
  tn_loader *train_loader, *test_loader;
  tn_module *model;
  tn_optimizer *adam;
} run;

static tn_status check_interrupt(void) {
  return tni_train_interrupted ? tn_fail(TN_ERR_INTERRUPTED, "interrupted") : TN_OK;
}

/* ------------------------------------------------------------------ set-up */

static tn_status make_model(run *r) {
  tn_module *flatten = NULL, *hidden = NULL, *relu = NULL, *output = NULL;
  TN_TRY(tn_manual_seed(r->train->seed));
  /* What was made before a failure is consumed by the Sequential, which then refuses the NULL. */
  tn_status status = tn_flatten_new(1, -1, &flatten);
  if (status == TN_OK) status = tn_linear_new(INPUTS, HIDDEN, true, NULL, &hidden);
  if (status == TN_OK) status = tn_relu_new(&relu);
  if (status == TN_OK) status = tn_linear_new(HIDDEN, CLASSES, true, NULL, &output);
  tn_module *parts[] = {flatten, hidden, relu, output};
  if (status == TN_OK) return tn_sequential_new(parts, 4, &r->model);
  for (int i = 0; i < 4; i++) tn_module_release(parts[i]);
  return status;
}

/* Weights are drawn on cpu and then moved, so that every device starts from the same ones. */
static tn_status set_up(run *r) {
  const tni_train *t = r->train;
  tn_tensor *const *parameters;
  size_t n;
  tn_adam_options adam = tn_adam_defaults();
  adam.lr = t->lr;
  tn_loader_options train = {.batch_size = t->batch, .shuffle = true, .seed = t->seed, .prefetch = PREFETCH};
  tn_loader_options test = {.batch_size = TEST_BATCH};
  TN_TRY(tn_fashion_mnist_new(t->data, true, &r->train_set));
  TN_TRY(tn_fashion_mnist_new(t->data, false, &r->test_set));
  TN_TRY(tn_loader_new(r->train_set, &train, &r->train_loader));
  TN_TRY(tn_loader_new(r->test_set, &test, &r->test_loader));
  TN_TRY(make_model(r));
  TN_TRY(tn_module_to(r->model, t->device, TN_DTYPE_NONE));
  TN_TRY(tn_module_parameters(r->model, &parameters, &n));
  return tn_adam_new(parameters, n, &adam, &r->adam);
}

static void tear_down(run *r) {
  tn_optimizer_release(r->adam);
  tn_module_release(r->model);
  tn_loader_release(r->test_loader);
  tn_loader_release(r->train_loader);
  tn_dataset_release(r->test_set);
  tn_dataset_release(r->train_set);
}

/* ------------------------------------------------------------------ one step, one epoch */

static tn_tensor *on_device(const run *r, tn_tensor *t) {
  return tns_to_device(t, r->train->device, tn_tensor_dtype(t), false, false, TN_MEMORY_FORMAT_NONE);
}

/* Inside the caller's scope; failures are noted there. */
static double step(run *r, tn_tensor *const *batch) {
  double value = 0.0;
  tn_scope_note(tn_optimizer_zero_grad(r->adam));
  tn_tensor *scores = tns_module_forward(r->model, on_device(r, batch[0]));
  tn_tensor *loss = tns_cross_entropy_loss(scores, on_device(r, batch[1]), NULL, 1, -100, 0.0);
  if (!loss || tn_scope_note(tn_backward_run(loss, NULL)) != TN_OK) return 0.0;
  if (tn_scope_note(tn_optimizer_step(r->adam)) != TN_OK) return 0.0;
  tn_scope_note(tn_tensor_item_double(loss, &value));
  return value;
}

static tn_status train_epoch(run *r, int64_t epoch) {
  tni_train *t = r->train;
  int64_t total = tn_loader_batches(r->train_loader), done = 0, samples = 0;
  double begin = tni_cli_seconds(), loss = 0.0;
  TN_TRY(tn_loader_begin(r->train_loader, (uint64_t)epoch));
  for (bool more = true; more;) {
    tn_tensor *batch[2];
    tn_scope *scope = NULL;
    TN_TRY(check_interrupt());
    TN_TRY(tn_scope_begin(&scope));
    more = tns_loader_next(r->train_loader, batch, 2);
    if (more) {
      int64_t n = tn_tensor_sizes(batch[0])[0];
      loss += step(r, batch) * (double)n;
      samples += n;
      done++;
    }
    TN_TRY(tn_scope_end(scope));
    if (more)
      tni_progress_step(t, epoch, done, total, loss / (double)samples,
                        (double)samples / (tni_cli_seconds() - begin));
  }
  TN_TRY(tn_device_synchronize(t->device));
  double seconds = tni_cli_seconds() - begin;
  t->seconds += seconds;
  tni_progress_epoch(t, epoch, loss / (double)samples, seconds, (double)samples / seconds);
  return TN_OK;
}

/* ------------------------------------------------------------------ after training */

static int64_t count_right(run *r, tn_tensor *const *batch) {
  int64_t right = 0, classes = 1;
  tn_tensor *scores = tns_module_forward(r->model, on_device(r, batch[0]));
  tn_tensor *best = tns_argmax(scores, &classes, false);
  tn_tensor *sum = tns_sum(tns_eq(best, on_device(r, batch[1])), TN_DTYPE_NONE);
  if (sum) tn_scope_note(tn_tensor_item_int(sum, &right));
  return right;
}

static tn_status count_all(run *r, int64_t *out_right) {
  TN_TRY(tn_loader_begin(r->test_loader, 0));
  for (bool more = true; more;) {
    tn_tensor *batch[2];
    tn_scope *scope = NULL;
    TN_TRY(check_interrupt());
    TN_TRY(tn_scope_begin(&scope));
    more = tns_loader_next(r->test_loader, batch, 2);
    if (more) *out_right += count_right(r, batch);
    TN_TRY(tn_scope_end(scope));
  }
  return TN_OK;
}

static tn_status test(run *r) {
  int64_t right = 0, n = tn_dataset_length(r->test_set);
  bool grad = tn_grad_mode_set(false);
  tn_module_train(r->model, false);
  tn_status status = count_all(r, &right);
  tn_module_train(r->model, true);
  tn_grad_mode_set(grad);
  r->train->accuracy = n ? (double)right / (double)n : 0.0;
  return status;
}

typedef struct named {
  const char *name;
  tn_tensor *tensor;
} named;

static int by_name(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static tn_status hash_tensor(tni_sha256 *sha, tn_tensor *t) {
  size_t size = (size_t)tn_tensor_numel(t) * tn_dtype_size(tn_tensor_dtype(t));
  void *data = malloc(size ? size : 1);
  if (!data) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes of weights", size);
  tn_status status = tn_tensor_to_host(t, data, size);
  if (status == TN_OK) tni_sha256_add(sha, data, size);
  free(data);
  return status;
}

/* Over the bytes of all parameters in the order of their names. */
static tn_status hash_weights(run *r) {
  tni_sha256 sha;
  tn_state_dict *dict = NULL;
  TN_TRY(tn_module_state_dict(r->model, &dict));
  size_t n = tn_state_dict_count(dict);
  named *list = calloc(n ? n : 1, sizeof *list);
  tn_status status = list ? TN_OK : tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu names of weights", n);
  for (size_t i = 0; status == TN_OK && i < n; i++)
    list[i] = (named){tn_state_dict_name(dict, i), tn_state_dict_tensor(dict, i)};
  if (status == TN_OK) qsort(list, n, sizeof *list, by_name);
  tni_sha256_init(&sha);
  for (size_t i = 0; status == TN_OK && i < n; i++) status = hash_tensor(&sha, list[i].tensor);
  tni_sha256_end(&sha, r->train->weights_sha256);
  free(list);
  tn_state_dict_release(dict);
  return status;
}

static tn_status run_all(run *r) {
  TN_TRY(set_up(r));
  for (int64_t epoch = 1; epoch <= r->train->epochs; epoch++) TN_TRY(train_epoch(r, epoch));
  TN_TRY(test(r));
  return hash_weights(r);
}

tn_status tni_train_run(tni_train *train) {
  run r = {.train = train};
  train->seconds = 0.0;
  tn_status status = run_all(&r);
  tear_down(&r);
  return status;
}
