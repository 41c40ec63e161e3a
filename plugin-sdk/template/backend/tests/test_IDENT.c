/* SPDX-License-Identifier: Apache-2.0
 *
 * The device "@NAME@" as an application uses it: a sum comes out as on the CPU, and the demo's network learns a rule
 * from numbers made here. Exit status 0: both hold.
 */
#include <math.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/tenon.h>

enum { ROWS = 64, COLUMNS = 32, CLASSES = 4, STEPS = 60 };

static tn_status on_device(const void *values, const tn_dim *sizes, int ndim, tn_dtype dtype,
                           tn_device device, tn_tensor **out_tensor) {
  tn_options options = {.dtype = dtype, .has_device = true, .device = device};
  return tn_tensor_from_host(values, sizes, ndim, &options, out_tensor);
}

/* 1 + 2 + ... + 1000, twice that, by the device. */
static tn_status add_up(tn_device device) {
  float values[1000];
  double total = 0;
  tn_tensor *x = NULL, *y = NULL, *sum = NULL;
  for (int i = 0; i < 1000; i++) values[i] = (float)(i + 1);
  tn_status status = on_device(values, (tn_dim[]){1000}, 1, TN_FLOAT32, device, &x);
  if (!status) status = tn_add(x, x, tn_int(1), &y);
  if (!status) status = tn_sum_dim(y, (int64_t[]){0}, 1, false, TN_DTYPE_NONE, &sum);
  if (!status) status = tn_tensor_item_double(sum, &total);
  tn_tensor_release(sum);
  tn_tensor_release(y);
  tn_tensor_release(x);
  if (!status && total != 1001000)
    status = tn_fail(TN_ERR_DATA, "2 * (1 + ... + 1000) is 1001000, @NAME@ says %.9g", total);
  return status;
}

/* One step of training; the loss of before it. */
static tn_status step(tn_module *model, tn_optimizer *adam, tn_tensor *x, tn_tensor *target,
                      double *out_loss) {
  tn_scope *scope = NULL;
  tn_status status = tn_scope_begin(&scope);
  if (status) return status;
  tn_scope_note(tn_optimizer_zero_grad(adam));
  tn_tensor *loss = tns_cross_entropy_loss(tns_module_forward(model, x), target, NULL, 1, -100, 0);
  if (loss) tn_scope_note(tn_tensor_item_double(loss, out_loss));
  if (loss && !tn_scope_note(tn_backward_run(loss, NULL))) tn_scope_note(tn_optimizer_step(adam));
  return tn_scope_end(scope);
}

/* Rows of numbers belong to the class whose columns are larger; x and target are given to the caller. */
static tn_status examples(tn_device device, tn_tensor **out_x, tn_tensor **out_target) {
  float values[ROWS * COLUMNS];
  int64_t classes[ROWS];
  for (int i = 0; i < ROWS; i++) {
    classes[i] = i % CLASSES;
    for (int j = 0; j < COLUMNS; j++)
      values[i * COLUMNS + j] = (float)sin(i * 7 + j * 3) + (j % CLASSES == i % CLASSES ? 1.0f : 0.0f);
  }
  tn_status status = on_device(values, (tn_dim[]){ROWS, COLUMNS}, 2, TN_FLOAT32, device, out_x);
  if (!status) status = on_device(classes, (tn_dim[]){ROWS}, 1, TN_INT64, device, out_target);
  return status;
}

/* COLUMNS - 16 - CLASSES. */
static tn_status model_new(tn_device device, tn_module **out_model) {
  tn_options place = {.has_device = true, .device = device};
  tn_module *parts[3] = {0};
  tn_status status = tn_linear_new(COLUMNS, 16, true, &place, &parts[0]);
  if (!status) status = tn_relu_new(&parts[1]);
  if (!status) status = tn_linear_new(16, CLASSES, true, &place, &parts[2]);
  if (!status) return tn_sequential_new(parts, 3, out_model); /* takes the parts */
  for (int i = 0; i < 3; i++) tn_module_release(parts[i]);
  return status;
}

static tn_status train(tn_device device) {
  tn_module *model = NULL;
  tn_tensor *x = NULL, *target = NULL, *const *parameters = NULL;
  tn_optimizer *adam = NULL;
  tn_adam_options options = tn_adam_defaults();
  double first = 0, last = 0;
  size_t n = 0;
  options.lr = 0.01;
  tn_status status = examples(device, &x, &target);
  if (!status) status = model_new(device, &model);
  if (!status) status = tn_module_parameters(model, &parameters, &n);
  if (!status) status = tn_adam_new(parameters, n, &options, &adam);
  if (!status) status = step(model, adam, x, target, &first);
  for (int i = 0; !status && i < STEPS; i++) status = step(model, adam, x, target, &last);
  if (!status) printf("loss %.3f, after %d steps %.3f\n", first, STEPS, last);
  if (!status && !(last < first / 2))
    status = tn_fail(TN_ERR_DATA, "the loss was %.3f and is %.3f; less than half was expected", first, last);
  tn_optimizer_release(adam);
  tn_module_release(model);
  tn_tensor_release(target);
  tn_tensor_release(x);
  return status;
}

int main(void) {
  tn_device device;
  tn_status status = tn_device_open("@NAME@", &device);
  if (!status) status = add_up(device);
  if (!status) status = train(device);
  if (status) fprintf(stderr, "%s\n", tn_error_message());
  return status != 0;
}
