/* SPDX-License-Identifier: Apache-2.0
 *
 * autograd.train: a network of two layers learns for a few steps, on the device and on the CPU; every gradient and the
 * weights at the end agree. The backend has no code for gradients: what is wrong here is a kernel that a formula calls.
 */
#include <math.h>
#include <stdlib.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"
#include "frontends/check/train.h"

enum {
  ROWS = 16,
  IN = TNI_TRAIN_IN,
  HIDDEN = TNI_TRAIN_HIDDEN,
  OUT = TNI_TRAIN_OUT,
  STEPS = TNI_TRAIN_STEPS,
  N1 = TNI_TRAIN_N1,
  N2 = TNI_TRAIN_N2
};
static const double rate = 0.02;

static tn_status loss_of(tn_tensor *x, tn_tensor *target, tn_tensor *w1, tn_tensor *w2,
                         tn_tensor **out_loss) {
  tn_tensor *h = NULL, *a = NULL, *y = NULL, *d = NULL, *square = NULL, *sum = NULL;
  tn_status status = tn_mm(x, w1, &h);
  if (status == TN_OK) status = tn_relu(h, &a);
  if (status == TN_OK) status = tn_mm(a, w2, &y);
  if (status == TN_OK) status = tn_sub(y, target, tn_int(1), &d);
  if (status == TN_OK) status = tn_mul(d, d, &square);
  if (status == TN_OK) status = tn_sum(square, TN_DTYPE_NONE, &sum);
  if (status == TN_OK) status = tn_mul_scalar(sum, tn_float(1.0 / ROWS), out_loss);
  tn_tensor_release(h), tn_tensor_release(a), tn_tensor_release(y);
  tn_tensor_release(d), tn_tensor_release(square), tn_tensor_release(sum);
  return status;
}

/* w becomes w - rate * its gradient, a leaf again; the gradient is noted. */
static tn_status descend(tn_tensor **w, float *grad, size_t n) {
  tn_tensor *next = NULL, *g = tn_grad(*w);
  if (!g) return tn_fail(TN_ERR_STATE, "backward gave no gradient");
  tn_status status = tni_host_read(g, grad, n);
  bool before = tn_grad_mode_set(false);
  if (status == TN_OK) status = tn_add(*w, g, tn_float(-rate), &next);
  tn_grad_mode_set(before);
  if (status == TN_OK) status = tn_set_requires_grad(next, true);
  if (status != TN_OK) return tn_tensor_release(next), status;
  tn_tensor_release(*w);
  *w = next;
  return TN_OK;
}

static tn_status step(tn_tensor *x, tn_tensor *target, tn_tensor **w1, tn_tensor **w2, int i,
                      tni_train_history *out) {
  tn_tensor *loss = NULL;
  tn_status status = loss_of(x, target, *w1, *w2, &loss);
  if (status == TN_OK) status = tn_backward_run(loss, NULL);
  tn_tensor_release(loss);
  if (status == TN_OK) status = descend(w1, out->grad1[i], N1);
  if (status == TN_OK) status = descend(w2, out->grad2[i], N2);
  return status;
}

static tn_status leaf(unsigned seed, tn_dim rows, tn_dim cols, bool grad, tn_device device, tn_tensor **out) {
  const tn_dim sizes[] = {rows, cols};
  float values[ROWS * HIDDEN];
  tni_host_values(values, (size_t)(rows * cols), seed);
  for (int i = 0; i < rows * cols; i++) values[i] *= 0.25f;
  tn_status status = tni_host_tensor(values, sizes, 2, device, out);
  return status == TN_OK && grad ? tn_set_requires_grad(*out, true) : status;
}

tn_status tni_train_run(tn_device device, tni_train_history *out) {
  tn_tensor *x = NULL, *target = NULL, *w1 = NULL, *w2 = NULL;
  tn_status status = leaf(1, ROWS, IN, false, device, &x);
  if (status == TN_OK) status = leaf(2, ROWS, OUT, false, device, &target);
  if (status == TN_OK) status = leaf(3, IN, HIDDEN, true, device, &w1);
  if (status == TN_OK) status = leaf(4, HIDDEN, OUT, true, device, &w2);
  for (int i = 0; i < STEPS && status == TN_OK; i++) status = step(x, target, &w1, &w2, i, out);
  if (status == TN_OK) status = tni_host_read(w1, out->weight1, N1);
  if (status == TN_OK) status = tni_host_read(w2, out->weight2, N2);
  tn_tensor_release(x), tn_tensor_release(target), tn_tensor_release(w1), tn_tensor_release(w2);
  return status;
}

/* Index of the first value that is off, -1: none. */
static int first_off(const float *a, const float *b, int n) {
  for (int i = 0; i < n; i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-5f + 1e-4f * fabsf(b[i]))) return i;
  return -1;
}

static void compare(tni_check_report *r, const char *name, const char *what, const float *a, const float *b,
                    int n) {
  char *item = tni_check_text("%s %s", name, what);
  int at = first_off(a, b, n);
  tni_check_that(r, at < 0, item, "value %d is %g, on the CPU %g", at, (double)a[at < 0 ? 0 : at],
                 (double)b[at < 0 ? 0 : at]);
  free(item);
}

static void check_device(tni_check_report *r, const char *name, tn_device device) {
  static tni_train_history here, cpu;
  char *item = tni_check_text("%s network", name);
  tni_check_at(r, item);
  tn_status status = tni_train_run((tn_device){0}, &cpu);
  if (status == TN_OK) status = tni_train_run(device, &here);
  if (tni_host_is_missing(status)) {
    tni_check_skip(r, item, "it does not train: %s", tn_error_message());
  } else if (tni_check_ok(r, status, item, "training failed")) {
    compare(r, name, "gradient of the first layer", here.grad1[0], cpu.grad1[0], N1);
    compare(r, name, "gradient of the second layer", here.grad2[0], cpu.grad2[0], N2);
    compare(r, name, "later gradients of the first layer", here.grad1[1], cpu.grad1[1], (STEPS - 1) * N1);
    compare(r, name, "later gradients of the second layer", here.grad2[1], cpu.grad2[1], (STEPS - 1) * N2);
    compare(r, name, "weights of the first layer", here.weight1, cpu.weight1, N1);
    compare(r, name, "weights of the second layer", here.weight2, cpu.weight2, N2);
  }
  free(item);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  for (size_t i = 0; i < c->n_devices; i++) {
    tn_device device;
    if (tni_check_device(r, c->devices[i], &device)) check_device(r, c->devices[i], device);
  }
}

const tni_check tni_check_autograd_train = {.name = "autograd.train",
                                            .about = "a small network learns as it does on the CPU",
                                            .kinds = TNI_CHECK_BACKEND,
                                            .run = run};
