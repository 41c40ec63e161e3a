/* SPDX-License-Identifier: Apache-2.0
 *
 * How well a model does on a test set, and the fingerprint of its weights.
 */
#include "frontends/cli/cli.h"
#include <tenon/kit/sha256.h>
#include "frontends/cli/train.h"

enum { TEST_BATCH = 200, SUM = 2 /* a reduction of cross_entropy_loss */ };

/* ------------------------------------------------------------------ accuracy and loss */

typedef struct sums {
  int64_t right;
  double loss;
} sums;

/* Inside the caller's scope; failures are noted there. Scores [..., classes] meet targets [...]; targets of -100 (the
 * rest of a window) count for nothing: no class has that number, and the loss ignores it. */
static void add_batch(const tni_model *kind, tn_module *model, tn_tensor *const *batch, tn_device device,
                      sums *inout_sums) {
  int64_t right = 0, classes = 1;
  double loss = 0.0;
  tn_tensor *target = tns_flatten(tni_on_device(batch[1], device), 0, -1);
  tn_tensor *scores = tns_flatten(tns_module_forward(model, tni_model_input(kind, batch[0], device)), 0, -2);
  tn_tensor *hits = tns_sum(tns_eq(tns_argmax(scores, &classes, false), target), TN_DTYPE_NONE);
  tn_tensor *sum = tns_cross_entropy_loss(scores, target, NULL, SUM, -100, 0.0);
  if (hits) tn_scope_note(tn_tensor_item_int(hits, &right));
  if (sum) tn_scope_note(tn_tensor_item_double(sum, &loss));
  inout_sums->right += right;
  inout_sums->loss += loss;
}

static tn_status add_all(const tni_model *kind, tn_module *model, tn_loader *loader, tn_device device,
                         sums *inout_sums) {
  TN_TRY(tn_loader_begin(loader, 0));
  for (bool more = true; more;) {
    tn_tensor *batch[2];
    tn_scope *scope = NULL;
    TN_TRY(tni_interrupt_check());
    TN_TRY(tn_scope_begin(&scope));
    more = tns_loader_next(loader, batch, 2);
    if (more) add_batch(kind, model, batch, device, inout_sums);
    TN_TRY(tn_scope_end(scope));
  }
  return TN_OK;
}

tn_status tni_test_run(const tni_model *kind, tn_module *model, const tni_task *task, tn_device device,
                       tni_scores *out_scores) {
  tn_loader_options options = {.batch_size = TEST_BATCH};
  tn_loader *loader = NULL;
  sums total = {0};
  double n = (double)task->n_targets;
  TN_TRY(tn_loader_new(task->test_set, &options, &loader));
  bool grad = tn_grad_mode_set(false);
  tn_module_train(model, false);
  tn_status status = add_all(kind, model, loader, device, &total);
  tn_module_train(model, true);
  tn_grad_mode_set(grad);
  tn_loader_release(loader);
  *out_scores = n > 0 ? (tni_scores){(double)total.right / n, total.loss / n} : (tni_scores){0};
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

static tn_status hash_tensor(tn_sha256 *sha, tn_tensor *t) {
  size_t size = (size_t)tn_tensor_numel(t) * tn_dtype_size(tn_tensor_dtype(t));
  void *data = malloc(size ? size : 1);
  if (!data) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes of weights", size);
  tn_status status = tn_tensor_to_host(t, data, size);
  if (status == TN_OK) tn_sha256_add(sha, data, size);
  free(data);
  return status;
}

tn_status tni_weights_hash(tn_module *model, char out_hex[65]) {
  tn_sha256 sha;
  tn_state_dict *dict = NULL;
  TN_TRY(tn_module_state_dict(model, &dict));
  size_t n = tn_state_dict_count(dict);
  named *list = calloc(n ? n : 1, sizeof *list);
  tn_status status = list ? TN_OK : tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu names of weights", n);
  for (size_t i = 0; status == TN_OK && i < n; i++)
    list[i] = (named){tn_state_dict_name(dict, i), tn_state_dict_tensor(dict, i)};
  if (status == TN_OK) qsort(list, n, sizeof *list, by_name);
  tn_sha256_init(&sha);
  for (size_t i = 0; status == TN_OK && i < n; i++) status = hash_tensor(&sha, list[i].tensor);
  tn_sha256_end(&sha, out_hex);
  free(list);
  tn_state_dict_release(dict);
  return status;
}
