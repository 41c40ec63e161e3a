/* SPDX-License-Identifier: Apache-2.0
 *
 * The models that the command line knows, their accuracy on a test set, and the fingerprint of their weights.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/sha256.h"
#include "frontends/cli/train.h"

enum { INPUTS = 784, HIDDEN = 128, CLASSES = 10, TEST_BATCH = 1000 };

/* ------------------------------------------------------------------ models */

static tn_status make_mlp(tn_module **out_model) {
  tn_module *flatten = NULL, *hidden = NULL, *relu = NULL, *output = NULL;
  /* What was made before a failure is consumed by the Sequential, which then refuses the NULL. */
  tn_status status = tn_flatten_new(1, -1, &flatten);
  if (status == TN_OK) status = tn_linear_new(INPUTS, HIDDEN, true, NULL, &hidden);
  if (status == TN_OK) status = tn_relu_new(&relu);
  if (status == TN_OK) status = tn_linear_new(HIDDEN, CLASSES, true, NULL, &output);
  tn_module *parts[] = {flatten, hidden, relu, output};
  if (status == TN_OK) return tn_sequential_new(parts, 4, out_model);
  for (int i = 0; i < 4; i++) tn_module_release(parts[i]);
  return status;
}

static const struct {
  const char *name;
  tn_status (*make)(tn_module **out_model);
} models[] = {{"mlp", make_mlp}};
enum { N_MODELS = sizeof models / sizeof *models };

static int find_model(const char *name) {
  int i = 0;
  while (i < N_MODELS && strcmp(models[i].name, name)) i++;
  return i;
}

const char *tni_model_find(const char *name) {
  int i = find_model(name);
  return i < N_MODELS ? models[i].name : NULL;
}

tn_status tni_model_make(const char *name, uint64_t seed, tn_device device, tn_module **out_model) {
  *out_model = NULL;
  int i = find_model(name);
  if (i == N_MODELS) return tn_fail(TN_ERR_NOT_FOUND, "there is no model '%s'", name);
  TN_TRY(tn_manual_seed(seed));
  TN_TRY(models[i].make(out_model));
  return tn_module_to(*out_model, device, TN_DTYPE_NONE);
}

tn_tensor *tni_on_device(tn_tensor *tensor, tn_device device) {
  return tns_to_device(tensor, device, tn_tensor_dtype(tensor), false, false, TN_MEMORY_FORMAT_NONE);
}

/* ------------------------------------------------------------------ accuracy */

/* Inside the caller's scope; failures are noted there. */
static int64_t count_right(tn_module *model, tn_tensor *const *batch, tn_device device) {
  int64_t right = 0, classes = 1;
  tn_tensor *scores = tns_module_forward(model, tni_on_device(batch[0], device));
  tn_tensor *best = tns_argmax(scores, &classes, false);
  tn_tensor *sum = tns_sum(tns_eq(best, tni_on_device(batch[1], device)), TN_DTYPE_NONE);
  if (sum) tn_scope_note(tn_tensor_item_int(sum, &right));
  return right;
}

static tn_status count_all(tn_module *model, tn_loader *loader, tn_device device, int64_t *out_right) {
  *out_right = 0;
  TN_TRY(tn_loader_begin(loader, 0));
  for (bool more = true; more;) {
    tn_tensor *batch[2];
    tn_scope *scope = NULL;
    TN_TRY(tni_interrupt_check());
    TN_TRY(tn_scope_begin(&scope));
    more = tns_loader_next(loader, batch, 2);
    if (more) *out_right += count_right(model, batch, device);
    TN_TRY(tn_scope_end(scope));
  }
  return TN_OK;
}

tn_status tni_test_run(tn_module *model, tn_dataset *set, tn_device device, double *out_accuracy) {
  tn_loader_options options = {.batch_size = TEST_BATCH};
  tn_loader *loader = NULL;
  int64_t right, n = tn_dataset_length(set);
  TN_TRY(tn_loader_new(set, &options, &loader));
  bool grad = tn_grad_mode_set(false);
  tn_module_train(model, false);
  tn_status status = count_all(model, loader, device, &right);
  tn_module_train(model, true);
  tn_grad_mode_set(grad);
  tn_loader_release(loader);
  *out_accuracy = n ? (double)right / (double)n : 0.0;
  return status;
}

/* ------------------------------------------------------------------ fingerprint */

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

tn_status tni_weights_hash(tn_module *model, char out_hex[65]) {
  tni_sha256 sha;
  tn_state_dict *dict = NULL;
  TN_TRY(tn_module_state_dict(model, &dict));
  size_t n = tn_state_dict_count(dict);
  named *list = calloc(n ? n : 1, sizeof *list);
  tn_status status = list ? TN_OK : tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu names of weights", n);
  for (size_t i = 0; status == TN_OK && i < n; i++)
    list[i] = (named){tn_state_dict_name(dict, i), tn_state_dict_tensor(dict, i)};
  if (status == TN_OK) qsort(list, n, sizeof *list, by_name);
  tni_sha256_init(&sha);
  for (size_t i = 0; status == TN_OK && i < n; i++) status = hash_tensor(&sha, list[i].tensor);
  tni_sha256_end(&sha, out_hex);
  free(list);
  tn_state_dict_release(dict);
  return status;
}
