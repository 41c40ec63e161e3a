/* SPDX-License-Identifier: Apache-2.0
 *
 * A training loop in under 40 lines: 784-128-10 with Adam on Fashion-MNIST. The argument limits the number of
 * steps. One scope owns what a step makes, and keeps the first failure of set-up and steps alike.
 */
#include <stdlib.h>
#include <tenon/data.h>
#include <tenon/optim.h>

int main(int argc, char **argv) {
  long limit = argc > 1 ? atol(argv[1]) : 5 * 937, steps = 0;
  tn_module *flat = NULL, *hidden = NULL, *relu = NULL, *output = NULL, *model = NULL;
  tn_dataset *images = NULL;
  tn_loader *loader = NULL;
  tn_optimizer *adam = NULL;
  tn_tensor *const *parameters = NULL, *batch[2], *loss = NULL;
  tn_scope *scope = NULL;
  size_t n = 0;
  double value = 0;
  tn_flatten_new(1, -1, &flat), tn_linear_new(784, 128, true, NULL, &hidden);
  tn_relu_new(&relu), tn_linear_new(128, 10, true, NULL, &output);
  tn_status status = tn_sequential_new((tn_module *[]){flat, hidden, relu, output}, 4, &model);
  if (!status) status = tn_fashion_mnist_new(NULL, true, &images);
  if (!status) status = tn_module_parameters(model, &parameters, &n);
  if (!status) status = tn_adam_new(parameters, n, NULL, &adam);
  tn_loader_options options = {.batch_size = 64, .shuffle = true, .drop_last = true, .prefetch = 2};
  if (!status) status = tn_loader_new(images, &options, &loader);
  for (uint64_t epoch = 0; !status && steps < limit; epoch++) {
    status = tn_loader_begin(loader, epoch);
    for (bool more = !status; more && !status && steps < limit; steps += more) {
      if ((status = tn_scope_begin(&scope))) break;
      if ((more = tns_loader_next(loader, batch, 2))) {
        tn_scope_note(tn_optimizer_zero_grad(adam));
        loss = tns_cross_entropy_loss(tns_module_forward(model, batch[0]), batch[1], NULL, 1, -100, 0);
        if (loss && !tn_scope_note(tn_backward_run(loss, NULL))) tn_scope_note(tn_optimizer_step(adam));
        if (loss) tn_scope_note(tn_tensor_item_double(loss, &value));
      }
      status = tn_scope_end(scope);
    }
  }
  if (status) fprintf(stderr, "%s\n", tn_error_message());
  printf("%ld steps, loss %.3f\n", steps, value);
  tn_optimizer_release(adam), tn_loader_release(loader), tn_module_release(model), tn_dataset_release(images);
  return status != 0;
}
