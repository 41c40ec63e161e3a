/* SPDX-License-Identifier: Apache-2.0
 *
 * The data that belongs to a model: images with their classes, or windows of a text.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

static tn_status open_images(const char *data, bool with_train, tni_task *task) {
  if (with_train) TN_TRY(tn_fashion_mnist_new(data, true, &task->train_set));
  TN_TRY(tn_fashion_mnist_new(data, false, &task->test_set));
  task->n_targets = tn_dataset_length(task->test_set);
  return TN_OK;
}

static tn_status open_text(const char *text, int64_t context, const tni_vocabulary *known, tni_task *task) {
  TN_TRY(tni_text_open(text ? text : TNI_TEXT_FOLDER, context, known, &task->text));
  task->train_set = tn_dataset_retain(task->text.train_set);
  task->test_set = tn_dataset_retain(task->text.test_set);
  task->n_targets = task->text.n_test;
  return TN_OK;
}

tn_status tni_task_open(const tni_model *model, const tni_shape *shape, const char *data, const char *text,
                        const tni_vocabulary *known, bool with_train, tni_task *out_task) {
  *out_task = (tni_task){0};
  tn_status status = tni_model_reads_text(model) ? open_text(text, shape->context, known, out_task)
                                                 : open_images(data, with_train, out_task);
  if (status != TN_OK) tni_task_close(out_task);
  return status;
}

void tni_task_close(tni_task *task) {
  tn_dataset_release(task->train_set);
  tn_dataset_release(task->test_set);
  tni_text_close(&task->text);
  *task = (tni_task){0};
}
