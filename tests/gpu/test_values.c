/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operators' samples do not show: operands that need several launches or both stages of a reduction, numbers of the
 * random generator, indices out of bounds, gradients through the device.
 */
#include <math.h>
#include <stdlib.h>
#include <tenon/autograd.h>

#include "devices.h"

static tn_tensor *random_tensor(const tn_dim *sizes, int ndim, tn_device device) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_randn(sizes, (size_t)ndim,
                       TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true, .device = device), &t));
  return t;
}

/* Both on the CPU or the device; compared element by element. */
static void check_close(tn_tensor *got, tn_tensor *expected, double tolerance) {
  tn_tensor *a = gpu_home(got), *b = gpu_home(expected);
  const int64_t n = tn_tensor_numel(b);
  float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
  TN_CHECK_INT(tn_tensor_numel(a), n);
  TN_CHECK_OK(tn_tensor_to_host(a, x, (size_t)n * sizeof *x));
  TN_CHECK_OK(tn_tensor_to_host(b, y, (size_t)n * sizeof *y));
  for (int64_t i = 0; i < n; ++i) TN_CHECK_DOUBLE(x[i], y[i], tolerance * (1 + fabs(y[i])));
  free(x);
  free(y);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(gpu_values, eleven_dims_that_do_not_merge) {
  GPU_NEEDS("opencl", device);
  tn_device cpu;
  tn_dim sizes[11] = {2, 3, 2, 2, 2, 3, 2, 2, 2, 2, 3};
  int64_t reversed[11];
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  for (int d = 0; d < 11; ++d) reversed[d] = 10 - d;
  tn_tensor *x = random_tensor(sizes, 11, cpu), *turned = NULL, *sum = NULL;
  tn_tensor *on = gpu_like(x, device), *on_turned = NULL, *on_sum = NULL, *y = NULL, *on_y = NULL;
  TN_CHECK_OK(tn_permute(x, reversed, 11, &turned));
  TN_CHECK_OK(tn_permute(on, reversed, 11, &on_turned));
  TN_CHECK_OK(tn_contiguous(turned, TN_CONTIGUOUS_FORMAT, &y));
  TN_CHECK_OK(tn_contiguous(on_turned, TN_CONTIGUOUS_FORMAT, &on_y));
  check_close(on_y, y, 0);
  TN_CHECK_OK(tn_add(y, turned, tn_int(2), &sum));
  TN_CHECK_OK(tn_add(on_y, on_turned, tn_int(2), &on_sum));
  check_close(on_sum, sum, 1e-6);
  tn_tensor *const all[] = {x, turned, sum, on, on_turned, on_sum, y, on_y};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

TN_TEST(gpu_values, reductions_in_two_stages) {
  GPU_NEEDS("opencl", device);
  tn_device cpu;
  const tn_dim sizes[2] = {5, 30011};
  const int64_t last[1] = {1};
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  tn_tensor *x = random_tensor(sizes, 2, cpu), *on = gpu_like(x, device), *a = NULL, *b = NULL;
  TN_CHECK_OK(tn_sum_dim(x, last, 1, false, TN_DTYPE_NONE, &a));
  TN_CHECK_OK(tn_sum_dim(on, last, 1, false, TN_DTYPE_NONE, &b));
  check_close(b, a, 2e-5);
  tn_tensor_release(a);
  tn_tensor_release(b);
  TN_CHECK_OK(tn_var(x, last, 1, tn_int(1), false, &a));
  TN_CHECK_OK(tn_var(on, last, 1, tn_int(1), false, &b));
  check_close(b, a, 1e-5);
  tn_tensor_release(a);
  tn_tensor_release(b);
  TN_CHECK_OK(tn_argmax(x, NULL, false, &a));
  TN_CHECK_OK(tn_argmax(on, NULL, false, &b));
  int64_t where, there;
  TN_CHECK_OK(tn_tensor_to_host(a, &where, sizeof where));
  TN_CHECK_OK(tn_tensor_to_host(b, &there, sizeof there));
  TN_CHECK_INT(there, where);
  tn_tensor *const all[] = {x, on, a, b};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

TN_TEST(gpu_values, softmax_of_long_rows) {
  GPU_NEEDS("opencl", device);
  tn_device cpu;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  for (int64_t dim = 0; dim < 2; ++dim) {
    tn_tensor *x = random_tensor((const tn_dim[]){301, 203}, 2, cpu), *on = gpu_like(x, device),
              *t[6] = {NULL};
    TN_CHECK_OK(tn_softmax(x, dim, TN_DTYPE_NONE, &t[0]));
    TN_CHECK_OK(tn_softmax(on, dim, TN_DTYPE_NONE, &t[1]));
    check_close(t[1], t[0], 1e-6);
    TN_CHECK_OK(tn_log_softmax(x, dim, TN_DTYPE_NONE, &t[2]));
    TN_CHECK_OK(tn_log_softmax(on, dim, TN_DTYPE_NONE, &t[3]));
    check_close(t[3], t[2], 1e-5);
    TN_CHECK_OK(tn__log_softmax_backward_data(x, t[2], dim, TN_FLOAT32, &t[4]));
    TN_CHECK_OK(tn__log_softmax_backward_data(on, t[3], dim, TN_FLOAT32, &t[5]));
    check_close(t[5], t[4], 1e-5);
    for (int i = 0; i < 6; ++i) tn_tensor_release(t[i]);
    tn_tensor_release(x);
    tn_tensor_release(on);
  }
}

TN_TEST(gpu_values, products_of_odd_sizes_and_layouts) {
  GPU_NEEDS("opencl", device);
  tn_device cpu;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  for (int turned = 0; turned < 4; ++turned) {
    const tn_dim left[2] = {turned & 1 ? 77 : 131, turned & 1 ? 131 : 77},
                 right[2] = {turned & 2 ? 67 : 77, turned & 2 ? 77 : 67};
    tn_tensor *a = random_tensor(left, 2, cpu), *b = random_tensor(right, 2, cpu), *x = NULL, *y = NULL;
    tn_tensor *on_a = gpu_like(a, device), *on_b = gpu_like(b, device), *t[4] = {NULL};
    TN_CHECK_OK(tn_t(a, &t[0]));
    TN_CHECK_OK(tn_t(b, &t[1]));
    TN_CHECK_OK(tn_t(on_a, &t[2]));
    TN_CHECK_OK(tn_t(on_b, &t[3]));
    TN_CHECK_OK(tn_mm(turned & 1 ? t[0] : a, turned & 2 ? t[1] : b, &x));
    TN_CHECK_OK(tn_mm(turned & 1 ? t[2] : on_a, turned & 2 ? t[3] : on_b, &y));
    check_close(y, x, 1e-5);
    tn_tensor *const all[] = {a, b, x, y, on_a, on_b, t[0], t[1], t[2], t[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  }
}

/* (seed, counter) decide, so the numbers are the CPU's; those that go through log and cos up to rounding. */
TN_TEST(gpu_values, random_numbers_are_those_of_the_cpu) {
  GPU_NEEDS("opencl", device);
  tn_device places[2] = {{0}};
  const tn_dim sizes[2] = {7, 13};
  tn_tensor *t[2][3] = {{NULL}};
  TN_CHECK_OK(tn_device_open("cpu", &places[0]));
  places[1] = device;
  for (int i = 0; i < 2; ++i) {
    TN_CHECK_OK(tn_manual_seed(5));
    const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = places[i]};
    for (int k = 0; k < 3; ++k) TN_CHECK_OK(tn_zeros(sizes, 2, &options, &t[i][k]));
    TN_CHECK_OK(tn_uniform_(t[i][0], -1, 3, NULL));
    TN_CHECK_OK(tn_normal_(t[i][1], 1, 2, NULL));
    TN_CHECK_OK(tn_bernoulli_(t[i][2], 0.3, NULL));
  }
  check_close(t[1][0], t[0][0], 0);
  check_close(t[1][1], t[0][1], 2e-6);
  check_close(t[1][2], t[0][2], 0);
  for (int i = 0; i < 6; ++i) tn_tensor_release(t[i / 3][i % 3]);
}

TN_TEST(gpu_values, an_index_out_of_bounds_fails_at_the_next_wait) {
  GPU_NEEDS("opencl", device);
  const float values[6] = {0, 1, 2, 3, 4, 5};
  const int64_t indices[2] = {1, 7};
  const tn_dim two = 2;
  float got[4];
  const tn_options options = {.dtype = TN_INT64, .has_device = true, .device = device};
  tn_tensor *x = gpu_floats(values, (const tn_dim[]){3, 2}, 2, device), *index = NULL, *y = NULL;
  TN_CHECK_OK(tn_tensor_from_host(indices, &two, 1, &options, &index));
  TN_CHECK_OK(tn_index_select(x, 0, index, &y));
  TN_CHECK_FAILS(tn_tensor_to_host(y, got, sizeof got), TN_ERR_INVALID_ARGUMENT,
                 "met index 7, expected 0 to 2");
  TN_CHECK_OK(tn_tensor_to_host(y, got, sizeof got)); /* told once */
  TN_CHECK_DOUBLE(got[0], 2, 0);
  TN_CHECK_OK(tn_device_synchronize(device));
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(index);
}

/* Rows of no elements: no item of a launch would read the index. */
TN_TEST(gpu_values, an_index_out_of_bounds_of_nothing_fails_at_the_next_wait) {
  GPU_NEEDS("opencl", device);
  const int64_t indices[2] = {1, 7};
  const tn_dim two = 2;
  const tn_options options = {.dtype = TN_INT64, .has_device = true, .device = device};
  tn_tensor *x = gpu_floats(NULL, (const tn_dim[]){3, 0}, 2, device), *index = NULL, *y = NULL, *z = NULL;
  TN_CHECK_OK(tn_tensor_from_host(indices, &two, 1, &options, &index));
  TN_CHECK_OK(tn_index_select(x, 0, index, &y));
  TN_CHECK_FAILS(tn_device_synchronize(device), TN_ERR_INVALID_ARGUMENT, "met index 7, expected 0 to 2");
  TN_CHECK_OK(tn_embedding(x, index, -1, false, false, &z));
  TN_CHECK_FAILS(tn_device_synchronize(device), TN_ERR_INVALID_ARGUMENT, "met index 7, expected 0 to 2");
  TN_CHECK_INT(tn_tensor_sizes(z)[0], 2);
  tn_tensor *const all[] = {x, index, y, z};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

/* A tensor's number that is stored is read first, and refused at once. */
TN_TEST(gpu_values, a_tensor_whose_number_a_dtype_cannot_hold_is_refused) {
  GPU_NEEDS("opencl", device);
  const float values[3] = {0, 1, 2};
  tn_tensor *x = gpu_floats(values, (const tn_dim[]){3}, 1, device), *small = NULL, *big = NULL, *one = NULL;
  TN_CHECK_OK(tn_to_dtype(x, TN_UINT8, false, true, TN_CONTIGUOUS_FORMAT, &small));
  TN_CHECK_OK(tn_scalar_tensor(tn_float(300), TN_OPTIONS(.has_device = true, .device = device), &big));
  TN_CHECK_FAILS(tn_fill_tensor_(small, big), TN_ERR_INVALID_ARGUMENT, "that uint8 can hold as 'value', got 300");
  TN_CHECK_OK(tn_fill_tensor_(x, big));
  TN_CHECK_OK(tn_select(x, 0, 1, &one));
  tn_tensor *home = gpu_home(one);
  TN_CHECK_DOUBLE(*(const float *)tn_tensor_data(home), 300, 0);
  tn_tensor *const all[] = {x, small, big, one, home};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

/* The gradients of a two-layer network, on the CPU and on the device. */
static void gradients(tn_device device, tn_tensor **out_first, tn_tensor **out_second) {
  tn_device cpu;
  tn_scope *scope = NULL;
  const int64_t targets[4] = {0, 2, 1, 2};
  const tn_dim four = 4;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  TN_CHECK_OK(tn_manual_seed(3));
  tn_tensor *x = random_tensor((const tn_dim[]){4, 6}, 2, cpu),
            *w = random_tensor((const tn_dim[]){5, 6}, 2, cpu),
            *v = random_tensor((const tn_dim[]){3, 5}, 2, cpu), *target = NULL;
  tn_tensor *on_x = gpu_like(x, device), *first = gpu_like(w, device), *second = gpu_like(v, device);
  TN_CHECK_OK(tn_tensor_from_host(
      targets, &four, 1, TN_OPTIONS(.dtype = TN_INT64, .has_device = true, .device = device), &target));
  TN_CHECK_OK(tn_set_requires_grad(first, true));
  TN_CHECK_OK(tn_set_requires_grad(second, true));
  TN_CHECK_OK(tn_scope_begin(&scope));
  tn_tensor *hidden = tns_relu(tns_linear(on_x, first, NULL));
  tn_tensor *loss = tns_cross_entropy_loss(tns_linear(hidden, second, NULL), target, NULL, 1, -100, 0.0);
  tn_scope_note(tn_backward_run(loss, NULL));
  TN_CHECK_OK(tn_scope_end(scope));
  *out_first = gpu_home(tn_grad(first));
  *out_second = gpu_home(tn_grad(second));
  tn_tensor *const all[] = {x, w, v, target, on_x, first, second};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

TN_TEST(gpu_values, gradients_are_those_of_the_cpu) {
  GPU_NEEDS("opencl", device);
  tn_device cpu;
  tn_tensor *grads[4];
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  gradients(cpu, &grads[0], &grads[1]);
  gradients(device, &grads[2], &grads[3]);
  check_close(grads[2], grads[0], 1e-5);
  check_close(grads[3], grads[1], 1e-5);
  for (int i = 0; i < 4; ++i) tn_tensor_release(grads[i]);
}
