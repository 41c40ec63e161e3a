/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors whose memory has no address (plugins/opaque.c: glass and slate, two devices each): copies in every
 * direction, reading, kernels, which devices go together, gradients through the device's worker, streams.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "tn_stress.h"

/* Before the first call of the process reads it. */
__attribute__((constructor)) static void choose_plugins(void) {
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR ":" TN_TEST_PLUGIN_PATH, 1);
}

static const float counting[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static tn_device named(const char *name) {
  tn_device device;
  TN_CHECK_OK(tn_device_open(name, &device));
  return device;
}

static tn_tensor *make(const char *device, const tn_dim *sizes, int32_t ndim) {
  tn_tensor *t = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = named(device)};
  TN_CHECK_OK(tn_tensor_from_host(counting, sizes, ndim, &options, &t));
  return t;
}
static tn_tensor *vector(const char *device, tn_dim n) { return make(device, &n, 1); }
static tn_tensor *matrix(const char *device) { return make(device, (const tn_dim[]){2, 3}, 2); }

static tn_tensor *moved(tn_tensor *t, const char *device, tn_dtype dtype) {
  tn_tensor *result = NULL;
  TN_CHECK_OK(tn_to_device(t, named(device), dtype, false, true, TN_PRESERVE_FORMAT, &result));
  return result;
}

static void check_version(tn_tensor *t, uint32_t expected) {
  uint32_t version = 0;
  TN_CHECK_OK(tn_tensor_version(t, &version));
  TN_CHECK_INT(version, expected);
}

static void check_values(tn_tensor *t, const float *expected, size_t n) {
  float got[16];
  TN_CHECK_OK(tn_tensor_to_host(t, got, n * sizeof *got));
  for (size_t i = 0; i < n; ++i) TN_CHECK_DOUBLE(got[i], expected[i], 0);
}

/* ------------------------------------------------------------------ copies */

static const char *const places[] = {"cpu", "glass", "glass:1", "slate", "slate:1"};
enum { N_PLACES = sizeof places / sizeof *places };

TN_TEST(opaque_copy, between_every_pair_of_devices) {
  for (int i = 0; i < N_PLACES; ++i)
    for (int k = 0; k < N_PLACES; ++k) {
      tn_tensor *a = matrix(places[i]), *b = moved(a, places[k], TN_FLOAT32), *c = matrix(places[k]);
      check_values(b, counting, 6);
      TN_CHECK(tn_tensor_device(b).backend == named(places[k]).backend);
      TN_CHECK_INT(tn_tensor_device(b).index, named(places[k]).index);
      TN_CHECK_OK(tn_copy_(c, a, false));
      check_values(c, counting, 6);
      check_version(c, 1);
      tn_tensor_release(a);
      tn_tensor_release(b);
      tn_tensor_release(c);
    }
}

TN_TEST(opaque_copy, strided_broadcast_and_cast) {
  for (int i = 0; i < N_PLACES; ++i)
    for (int k = 0; k < N_PLACES; ++k) {
      tn_tensor *a = matrix(places[i]), *b = make(places[k], (const tn_dim[]){3, 2}, 2), *t, *row, *wide,
                *back;
      TN_CHECK_OK(tn_t(a, &t));
      TN_CHECK_OK(tn_copy_(b, t, false));
      check_values(b, (const float[]){0, 3, 1, 4, 2, 5}, 6);
      TN_CHECK_OK(tn_copy_(t, b, false)); /* into strides: the same values come home */
      check_values(a, counting, 6);
      TN_CHECK_OK(tn_select(b, 0, 2, &row));
      TN_CHECK_FAILS(tn_copy_(b, row, false), TN_ERR_OVERLAP, "shares part of its memory");
      tn_tensor *ints = moved(row, places[i], TN_INT64);
      int64_t whole[2];
      TN_CHECK_OK(tn_tensor_to_host(ints, whole, sizeof whole));
      TN_CHECK_INT(whole[1], 5);
      TN_CHECK_OK(tn_copy_(b, ints, false)); /* broadcast and cast */
      check_values(b, (const float[]){2, 5, 2, 5, 2, 5}, 6);
      TN_CHECK_OK(tn_expand(row, (const int64_t[]){2, 2}, 2, false, &wide));
      back = moved(wide, places[i], TN_FLOAT32);
      check_values(back, (const float[]){2, 5, 2, 5}, 4);
      tn_tensor *all[] = {a, b, t, row, ints, wide, back};
      for (size_t n = 0; n < sizeof all / sizeof *all; ++n) tn_tensor_release(all[n]);
    }
}

TN_TEST(opaque_copy, empty_and_zero_dimensional_tensors) {
  for (int i = 0; i < N_PLACES; ++i) {
    tn_tensor *none = make(places[i], (const tn_dim[]){0, 3}, 2), *one = make(places[i], NULL, 0), *other;
    other = moved(none, "slate:1", TN_FLOAT32);
    TN_CHECK_INT(tn_tensor_numel(other), 0);
    TN_CHECK_OK(tn_tensor_to_host(other, NULL, 0));
    tn_tensor_release(other);
    other = moved(one, "glass:1", TN_FLOAT32);
    check_values(other, counting, 1);
    tn_tensor_release(other);
    tn_tensor_release(none);
    tn_tensor_release(one);
  }
}

typedef struct move {
  tn_tensor *from, *to;
} move;
static tn_status do_move(void *ctx) {
  move *m = ctx;
  return tn_copy_(m->to, m->from, false);
}
static void after_move(void *ctx, tn_status status) {
  move *m = ctx;
  static const float turned[6] = {0, 3, 1, 4, 2, 5};
  if (status == TN_OK) check_values(m->to, turned, 6);
}

TN_TEST(opaque_copy, missing_memory_leaks_nothing) {
  tn_tensor *a = matrix("glass:1");
  move m = {.to = make("slate", (const tn_dim[]){3, 2}, 2)};
  TN_CHECK_OK(tn_t(a, &m.from));
  tn_stress_run(do_move, after_move, &m);
  tn_tensor_release(m.from);
  tn_tensor_release(m.to);
  tn_tensor_release(a);
}

/* ------------------------------------------------------------------ reading */

TN_TEST(opaque_read, item_to_host_and_print) {
  tn_tensor *m = matrix("glass:1"), *t, *one;
  double value;
  char text[128] = "";
  TN_CHECK_PTR_NULL(tn_tensor_data(m));
  TN_CHECK_OK(tn_t(m, &t));
  check_values(t, (const float[]){0, 3, 1, 4, 2, 5}, 6);
  TN_CHECK_OK(tn_select(t, 0, 1, &one));
  tn_tensor *last;
  TN_CHECK_OK(tn_select(one, 0, 1, &last));
  TN_CHECK_OK(tn_tensor_item_double(last, &value));
  TN_CHECK_DOUBLE(value, 4, 0);
  FILE *file = fmemopen(text, sizeof text, "w");
  TN_CHECK_NOT_NULL(file);
  TN_CHECK_OK(tn_tensor_print(t, file));
  fclose(file);
  TN_CHECK_STR(text, "[[0, 3],\n [1, 4],\n [2, 5]] (float32, glass:1)\n");
  const tn_foreign f = {
      .data = text, .sizes = (const tn_dim[]){1}, .ndim = 1, .dtype = TN_UINT8, .device = named("glass")};
  tn_tensor *foreign;
  TN_CHECK_FAILS(tn_tensor_from_memory(&f, &foreign), TN_ERR_DEVICE, "glass");
  tn_tensor_release(last);
  tn_tensor_release(one);
  tn_tensor_release(t);
  tn_tensor_release(m);
}

/* ------------------------------------------------------------------ kernels */

TN_TEST(opaque_kernels, functional_in_place_and_views) {
  tn_tensor *x = vector("glass:1", 8), *y, *head, *tail, *near, *none;
  TN_CHECK_OK(tn_mul(x, x, &y));
  check_values(y, (const float[]){0, 1, 4, 9, 16, 25, 36, 49}, 8);
  TN_CHECK_OK(tn_slice(x, 0, NULL, &(int64_t){4}, 1, &head));
  TN_CHECK_OK(tn_slice(x, 0, &(int64_t){4}, NULL, 1, &tail));
  TN_CHECK_OK(tn_slice(x, 0, &(int64_t){2}, &(int64_t){6}, 1, &near));
  TN_CHECK_FAILS(tn_mul_(head, near), TN_ERR_OVERLAP,
                 "shares part of its memory"); /* no addresses to compare */
  TN_CHECK_FAILS(tn_add_(near, head, tn_int(1)), TN_ERR_OVERLAP, "shares part of its memory");
  check_values(x, counting, 8);
  TN_CHECK_OK(tn_mul_(head, tail));
  TN_CHECK_OK(tn_mul_(tail, tail));
  check_values(x, (const float[]){0, 5, 12, 21, 16, 25, 36, 49}, 8);
  TN_CHECK_OK(tn_add_(tail, head, tn_float(2)));
  check_values(tail, (const float[]){16, 35, 60, 91}, 4);
  TN_CHECK_OK(tn_fill_(near, tn_int(7)));
  check_values(x, (const float[]){0, 5, 7, 7, 7, 7, 60, 91}, 8);
  TN_CHECK_FAILS(tn_exp(x, &none), TN_ERR_MISSING_KERNEL, "no kernel for glass");
  tn_tensor_release(near);
  tn_tensor_release(tail);
  tn_tensor_release(head);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(opaque_kernels, strided_operands_through_the_contiguous_claim) {
  tn_tensor *m = matrix("slate"), *t, *y;
  TN_CHECK_OK(tn_t(m, &t));
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &y));
  check_values(y, (const float[]){0, 6, 2, 8, 4, 10}, 6);
  TN_CHECK_OK(tn_add_(t, y, tn_int(1)));
  check_values(m, (const float[]){0, 3, 6, 9, 12, 15}, 6);
  check_version(m, 1);
  tn_tensor_release(y);
  tn_tensor_release(t);
  tn_tensor_release(m);
}

TN_TEST(opaque_kernels, memory_is_resized_and_exchanged) {
  tn_tensor *x = vector("glass", 4);
  TN_CHECK_OK(tn_resize_(x, (const int64_t[]){2, 3}, 2, TN_MEMORY_FORMAT_NONE));
  float got[6];
  TN_CHECK_OK(tn_tensor_to_host(x, got, sizeof got));
  TN_CHECK_DOUBLE(got[3], 3, 0); /* the old elements stay in front */
  TN_CHECK_OK(tn_resize_(x, (const int64_t[]){3}, 1, TN_MEMORY_FORMAT_NONE));
  check_values(x, counting, 3);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ which devices go together */

TN_TEST(opaque_devices, operands_on_different_devices) {
  tn_tensor *g0 = vector("glass", 3), *g1 = vector("glass:1", 3), *s = vector("slate", 3),
            *cpu = vector("cpu", 3);
  tn_tensor *number = NULL, *y = NULL, *meta;
  TN_CHECK_OK(tn_scalar_tensor(tn_int(2), TN_OPTIONS(.dtype = TN_FLOAT32), &number));
  TN_CHECK_FAILS(tn_mul(g0, g1, &y), TN_ERR_DEVICE, "glass:0 and glass:1");
  TN_CHECK_FAILS(tn_add(g1, s, tn_int(1), &y), TN_ERR_DEVICE, "all tensors must be on one device");
  TN_CHECK_FAILS(tn_mul(g0, cpu, &y), TN_ERR_DEVICE, "all tensors must be on one device");
  TN_CHECK_FAILS(tn_mul_(cpu, g0), TN_ERR_DEVICE, "glass");
  TN_CHECK_FAILS(tn_mul_(number, g0), TN_ERR_DEVICE,
                 "the target on cpu"); /* a 0-d cpu target takes no device along */
  TN_CHECK_FAILS(tn_mul_out(g0, g0, g1), TN_ERR_DEVICE, "glass:0 and glass:1");
  TN_CHECK_FAILS(tn_mul_out(g0, g0, cpu), TN_ERR_DEVICE, "cpu");
  TN_CHECK_PTR_NULL(y);
  check_values(cpu, counting, 3);
  TN_CHECK_OK(tn_empty((const int64_t[]){3}, 1,
                       TN_OPTIONS(.has_device = true, .device = {.backend = TN_BACKEND_META}), 0, &meta));
  TN_CHECK_OK(tn_mul(g1, meta, &y)); /* meta wins */
  TN_CHECK_INT(tn_tensor_device(y).backend, TN_BACKEND_META);
  tn_tensor *all[] = {g0, g1, s, cpu, number, meta, y};
  for (size_t n = 0; n < sizeof all / sizeof *all; ++n) tn_tensor_release(all[n]);
}

TN_TEST(opaque_devices, a_zero_dimensional_cpu_operand_comes_along) {
  tn_tensor *g = make("glass:1", NULL, 0), *number = NULL, *y = NULL;
  TN_CHECK_OK(tn_scalar_tensor(tn_int(2), TN_OPTIONS(.dtype = TN_FLOAT32), &number));
  TN_CHECK_OK(tn_add(number, g, tn_int(1), &y));
  TN_CHECK_INT(tn_tensor_device(y).index, 1);
  check_values(y, (const float[]){2}, 1);
  tn_tensor_release(y);
  tn_tensor_release(number);
  tn_tensor_release(g);
}

/* ------------------------------------------------------------------ gradients */

TN_TEST(opaque_autograd, through_the_devices_worker) {
  tn_tensor *x = vector("glass", 3), *y, *z, *seed = vector("glass", 3);
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_mul(x, x, &y));
  TN_CHECK_OK(tn_mul(y, x, &z));
  TN_CHECK_OK(tn_backward_run(z, seed));
  TN_CHECK_NOT_NULL(tn_grad(x));
  check_values(tn_grad(x), (const float[]){0, 3, 24}, 3); /* 3 x^2 times the seed */
  TN_CHECK_INT(tn_tensor_device(tn_grad(x)).backend, named("glass").backend);
  tn_tensor_release(seed);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(opaque_autograd, across_four_devices) {
  tn_tensor *x = vector("cpu", 3), *on[4], *seed = vector("slate:1", 3);
  static const char *const path[] = {"glass", "glass:1", "slate", "slate:1"};
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  tn_tensor *at = tn_tensor_retain(x);
  for (int i = 0; i < 4; ++i) {
    tn_tensor *here = moved(at, path[i], TN_FLOAT32);
    tn_tensor_release(at);
    TN_CHECK_OK(tn_add(here, here, tn_int(1), &at));
    on[i] = here;
  }
  TN_CHECK_OK(tn_backward_run(at, seed));
  check_values(tn_grad(x), (const float[]){0, 16, 32}, 3);
  TN_CHECK_INT(tn_tensor_device(tn_grad(x)).backend, TN_BACKEND_CPU);
  for (int i = 0; i < 4; ++i) tn_tensor_release(on[i]);
  tn_tensor_release(at);
  tn_tensor_release(seed);
  tn_tensor_release(x);
}

TN_TEST(opaque_autograd, a_workers_failure_reaches_the_caller) {
  tn_tensor *x = matrix("glass"), *t, *y, *seed;
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_t(x, &t));
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &y));
  seed = make("glass", (const tn_dim[]){3, 2}, 2);
  TN_CHECK_OK(tn_backward_run(y, seed));
  tn_tensor *sum;
  TN_CHECK_OK(
      tn_expand(x, (const int64_t[]){2, 2, 3}, 3, false, &sum)); /* its gradient sums: no such kernel */
  tn_tensor *wide = make("glass", (const tn_dim[]){2, 2, 3}, 3);
  const tn_backward_options again = {.retain_graph = true};
  for (int i = 0; i < 300; ++i) /* the worker may fail before the caller waits */
    TN_CHECK_FAILS(tn_backward_from(&sum, &wide, 1, NULL, 0, &again), TN_ERR_MISSING_KERNEL, "sum");
  tn_tensor *all[] = {x, t, y, seed, sum, wide};
  for (size_t n = 0; n < sizeof all / sizeof *all; ++n) tn_tensor_release(all[n]);
}

/* ------------------------------------------------------------------ streams */

TN_TEST(opaque_random, each_device_has_its_own_stream) {
  tn_generator *g0, *g1, *own;
  tn_generator_state s0, s1;
  tn_tensor *a = vector("glass", 3), *b = vector("glass:1", 2);
  TN_CHECK_OK(tn_manual_seed(5));
  TN_CHECK_OK(tn_generator_default(named("glass"), &g0));
  TN_CHECK_OK(tn_generator_default(named("glass:1"), &g1));
  TN_CHECK(g0 != g1);
  TN_CHECK_OK(tn_uniform_(a, 0, 1, NULL));
  TN_CHECK_OK(tn_uniform_(a, 0, 1, NULL));
  TN_CHECK_OK(tn_uniform_(b, 0, 1, NULL));
  check_values(a, (const float[]){3, 4, 5}, 3); /* the counters that were drawn */
  check_values(b, (const float[]){0, 1}, 2);
  TN_CHECK_OK(tn_generator_get_state(g0, &s0));
  TN_CHECK_OK(tn_generator_get_state(g1, &s1));
  TN_CHECK_INT(s0.offset, 6);
  TN_CHECK_INT(s1.offset, 2);
  TN_CHECK_INT(s1.seed, 5);
  TN_CHECK_OK(tn_generator_new(9, &own));
  TN_CHECK_OK(tn_uniform_(b, 0, 1, own));
  TN_CHECK_OK(tn_generator_get_state(g1, &s1));
  TN_CHECK_INT(s1.offset, 2);
  TN_CHECK_FAILS(tn_generator_default((tn_device){named("glass").backend, 0, 2}, &g0), TN_ERR_DEVICE,
                 "no device glass:2");
  tn_generator_release(own);
  tn_tensor_release(a);
  tn_tensor_release(b);
}
