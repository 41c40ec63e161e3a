/* SPDX-License-Identifier: Apache-2.0
 *
 * resize_, set_, as_strided: a tensor's geometry and memory exchanged in place, with views and aliases of the old
 * ones around, from its own sizes, with numbers that overflow, and when memory runs out in between.
 */
#include <stdio.h>
#include <tenon/tenon.h>

#include "core/tensor/tensor.h"
#include "tn_stress.h"
#include "tn_test.h"

static const int64_t ones8[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static tn_tensor *full(const int64_t *sizes, size_t ndim, double value) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_full(sizes, ndim, tn_float(value), TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  return t;
}

static tn_tensor *vector(int64_t n, double value) { return full(&n, 1, value); }

static float at(tn_tensor *t, int64_t i) { return ((float *)tn_tensor_data(t))[i]; }

static tn_status resize(tn_tensor *t, const int64_t *sizes, size_t ndim) {
  return tn_resize_(t, sizes, ndim, TN_MEMORY_FORMAT_NONE);
}

/* ------------------------------------------------------------------ numbers that overflow */

TN_TEST(tensor_resize, bytes_beyond_64_bits_are_refused) {
  tn_tensor *x = vector(4, 1), *wide;
  TN_CHECK_FAILS(resize(x, (const int64_t[]){(int64_t)1 << 62}, 1), TN_ERR_INVALID_ARGUMENT, "too large");
  TN_CHECK_INT(tn_tensor_numel(x), 4);
  TN_CHECK_OK(tn_zeros((const int64_t[]){4}, 1, TN_OPTIONS(.dtype = TN_FLOAT64), &wide));
  TN_CHECK_FAILS(resize(wide, (const int64_t[]){(int64_t)1 << 61}, 1), TN_ERR_INVALID_ARGUMENT, "too large");
  TN_CHECK_FAILS(resize(wide, (const int64_t[]){-1}, 1), TN_ERR_INVALID_ARGUMENT, "-1");
  TN_CHECK_INT(tn_tensor_numel(wide), 4);
  tn_tensor_release(wide);
  tn_tensor_release(x);
}

TN_TEST(tensor_as_strided, an_empty_view_begins_inside_the_memory_too) {
  tn_tensor *x = vector(4, 1), *v = NULL, *meta;
  const int64_t none = 0, one = 1, far = ((int64_t)1 << 62) - 4;
  TN_CHECK_FAILS(tn_as_strided(x, &none, 1, &one, 1, &far, &v), TN_ERR_INVALID_ARGUMENT,
                 "outside the tensor's memory");
  TN_CHECK_FAILS(tn_as_strided(x, &none, 1, &one, 1, &(int64_t){INT64_MAX}, &v), TN_ERR_INVALID_ARGUMENT,
                 "outside the tensor's memory");
  TN_CHECK_PTR_NULL(v);
  TN_CHECK_OK(tn_as_strided(x, &none, 1, &one, 1, &(int64_t){4}, &v));
  tn_tensor_release(v);
  TN_CHECK_OK(tn_empty((const int64_t[]){4}, 1,
                       TN_OPTIONS(.has_device = true, .device = {.backend = TN_BACKEND_META}), 0, &meta));
  TN_CHECK_FAILS(tn_as_strided(meta, &one, 1, &one, 1, &(int64_t){INT64_MAX}, &v), TN_ERR_INVALID_ARGUMENT,
                 "outside the tensor's memory");
  TN_CHECK_FAILS(tn_as_strided(x, (const int64_t[]){3}, 1, (const int64_t[]){INT64_MAX}, 1, NULL, &v),
                 TN_ERR_INVALID_ARGUMENT, "outside the tensor's memory");
  TN_CHECK_FAILS(tn_as_strided(x, (const int64_t[]){2}, 1, (const int64_t[]){-1}, 1, NULL, &v),
                 TN_ERR_INVALID_ARGUMENT, "outside the tensor's memory");
  TN_CHECK_OK(tn_as_strided(x, (const int64_t[]){4}, 1, (const int64_t[]){-1}, 1, &(int64_t){3}, &v));
  tn_tensor_release(v);
  tn_tensor_release(meta);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ from one's own sizes */

TN_TEST(tensor_resize, the_new_sizes_may_be_the_tensors_own) {
  tn_tensor *x = full(ones8, 8, 3);
  TN_CHECK_OK(resize(x, tn_tensor_sizes(x), 7)); /* sizes of more than six dims are an allocation that goes */
  TN_CHECK_INT(tn_tensor_ndim(x), 7);
  TN_CHECK_INT(tn_tensor_sizes(x)[6], 1);
  TN_CHECK_DOUBLE(at(x, 0), 3, 0);
  tn_tensor_release(x);
}

TN_TEST(tensor_set, a_tensor_may_be_set_to_itself) {
  tn_tensor *x = full(ones8, 8, 3), *y = vector(5, 2);
  TN_CHECK_OK(tn_set_(x, x));
  TN_CHECK_INT(tn_tensor_ndim(x), 8);
  TN_CHECK_DOUBLE(at(x, 0), 3, 0);
  TN_CHECK_OK(tn_set_(x, y)); /* memory of another */
  TN_CHECK_OK(tn_set_(x, x));
  TN_CHECK_DOUBLE(at(x, 4), 2, 0);
  tn_tensor_release(y);
  TN_CHECK_DOUBLE(at(x, 4), 2, 0);
  tn_tensor_release(x);
}

TN_TEST(tensor_set, a_tensor_may_be_set_to_its_own_view) {
  tn_tensor *x = vector(5, 2), *tail;
  TN_CHECK_OK(tn_slice(x, 0, &(int64_t){3}, NULL, 1, &tail));
  TN_CHECK_OK(tn_set_(x, tail));
  TN_CHECK_INT(tn_tensor_numel(x), 2);
  tn_tensor_release(tail);
  TN_CHECK_DOUBLE(at(x, 1), 2, 0);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ old memory and who still sees it */

TN_TEST(tensor_set, views_keep_the_memory_that_they_were_made_over) {
  tn_tensor *x = vector(300, 1), *a = vector(300, 2), *b = vector(300, 3), *of_own, *of_a;
  TN_CHECK_OK(tn_select(x, 0, 299, &of_own));
  TN_CHECK_OK(tn_set_(x, a));
  TN_CHECK_OK(tn_select(x, 0, 299, &of_a));
  TN_CHECK_OK(tn_set_(x, b));
  tn_tensor_release(a);
  tn_tensor_release(b);
  TN_CHECK_DOUBLE(at(of_own, 0), 1, 0);
  TN_CHECK_DOUBLE(at(of_a, 0), 2, 0);
  TN_CHECK_DOUBLE(at(x, 299), 3, 0);
  tn_tensor_release(x);
  TN_CHECK_DOUBLE(at(of_own, 0), 1, 0);
  TN_CHECK_DOUBLE(at(of_a, 0), 2, 0);
  tn_tensor_release(of_own);
  tn_tensor_release(of_a);
}

TN_TEST(tensor_set, retired_memory_that_comes_back_is_counted_for_both_uses) {
  tn_tensor *x = vector(4, 1), *a = vector(4, 2), *b = vector(4, 3), *view;
  TN_CHECK_OK(tn_set_(x, a));
  TN_CHECK_OK(tn_select(x, 0, 0, &view));
  TN_CHECK_OK(tn_set_(x, b)); /* a is retired: the view sees it */
  tn_tensor_release(view);
  TN_CHECK_OK(tn_set_(x, a));
  TN_CHECK_OK(tn_set_(x, b));
  tn_tensor_release(x);
  TN_CHECK_INT(atomic_load(&a->keep), 1);
  TN_CHECK_INT(atomic_load(&b->keep), 1);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

typedef struct exchange {
  tn_tensor *x, *view, *a, *b;
} exchange;

static tn_status set_again(void *ctx) {
  exchange *e = ctx;
  return tn_set_(e->x, e->b);
}

static void set_after(void *ctx, tn_status status) {
  exchange *e = ctx;
  TN_CHECK_DOUBLE(at(e->view, 0), 2, 0);
  TN_CHECK_DOUBLE(at(e->x, 0), status == TN_OK ? 3 : 2, 0);
  TN_CHECK_INT(tn_tensor_ndim(e->x), status == TN_OK ? 8 : 1);
}

TN_TEST(tensor_set, missing_memory_leaves_the_old_one_in_place) {
  exchange e = {.x = vector(4, 1), .a = vector(4, 2), .b = full(ones8, 8, 3)};
  TN_CHECK_OK(tn_set_(e.x, e.a));
  TN_CHECK_OK(tn_select(e.x, 0, 0, &e.view));
  tn_stress_run(set_again, set_after, &e);
  tn_tensor_release(e.view);
  tn_tensor_release(e.x);
  TN_CHECK_INT(atomic_load(&e.a->keep), 1);
  TN_CHECK_INT(atomic_load(&e.b->keep), 1);
  tn_tensor_release(e.a);
  tn_tensor_release(e.b);
}

TN_TEST(tensor_resize, growing_with_views_or_aliases_around_is_refused) {
  tn_tensor *x = vector(4, 1), *view, *alias;
  TN_CHECK_OK(tn_select(x, 0, 0, &view));
  TN_CHECK_FAILS(resize(x, (const int64_t[]){1000}, 1), TN_ERR_STATE, "refused");
  TN_CHECK_FAILS(resize(view, (const int64_t[]){1000}, 1), TN_ERR_STATE, "refused");
  tn_tensor_release(view);
  TN_CHECK_OK(tn_detach(x, &alias));
  TN_CHECK_FAILS(resize(x, (const int64_t[]){1000}, 1), TN_ERR_STATE, "refused");
  TN_CHECK_FAILS(resize(alias, (const int64_t[]){1000}, 1), TN_ERR_STATE, "refused");
  tn_tensor_release(alias);
  for (int64_t n = 1000; n <= 3000; n += 1000)
    TN_CHECK_OK(resize(x, &n, 1)); /* alone it may, again and again */
  TN_CHECK_DOUBLE(at(x, 3), 1, 0);
  TN_CHECK_OK(tn_detach(x, &alias));
  TN_CHECK_FAILS(resize(x, (const int64_t[]){4000}, 1), TN_ERR_STATE, "refused");
  tn_tensor_release(x);
  TN_CHECK_OK(resize(alias, (const int64_t[]){4000}, 1));
  TN_CHECK_DOUBLE(at(alias, 3), 1, 0);
  tn_tensor_release(alias);
}

static tn_status grow(void *ctx) { return resize(*(tn_tensor **)ctx, (const int64_t[]){1000}, 1); }

static void grow_after(void *ctx, tn_status status) {
  tn_tensor **x = ctx;
  TN_CHECK_INT(tn_tensor_numel(*x), status == TN_OK ? 1000 : 4);
  TN_CHECK_DOUBLE(at(*x, 3), 1, 0);
}

TN_TEST(tensor_resize, missing_memory_leaves_the_old_geometry) {
  tn_tensor *x = vector(4, 1);
  tn_stress_run(grow, grow_after, &x);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ foreign memory */

TN_TEST(tensor_foreign, strided_memory_reaches_as_far_as_its_strides) {
  float data[12] = {0};
  tn_tensor *t, *v;
  const tn_dim sizes[] = {3, 2}, strides[] = {4, 1};
  data[9] = 5;
  tn_foreign f = {.data = data, .sizes = sizes, .strides = strides, .ndim = 2, .dtype = TN_FLOAT32};
  TN_CHECK_OK(tn_tensor_from_memory(&f, &t));
  TN_CHECK_OK(tn_as_strided(t, sizes, 2, strides, 2, NULL, &v));
  TN_CHECK_DOUBLE(at(v, 9), 5, 0);
  tn_tensor_release(v);
  TN_CHECK_FAILS(tn_as_strided(t, (const int64_t[]){11}, 1, (const int64_t[]){1}, 1, NULL, &v),
                 TN_ERR_INVALID_ARGUMENT, "holds 10 elements");
  tn_tensor_release(t);
}

/* ------------------------------------------------------------------ ranks */

TN_TEST(tensor_rank, sixty_four_dims_are_a_rank_as_others) {
  tn_dim sizes[TN_MAX_RANK];
  tn_tensor *x, *y, *v, *m;
  for (int i = 0; i < TN_MAX_RANK; ++i) sizes[i] = i == 5 || i == 60 ? 3 : 1;
  TN_CHECK_OK(tn_full(sizes, TN_MAX_RANK, tn_float(2), NULL, &x));
  TN_CHECK_OK(tn_transpose(x, 5, 60, &v));
  TN_CHECK_OK(tn_mul(x, v, &y));
  TN_CHECK_INT(tn_tensor_ndim(y), TN_MAX_RANK);
  TN_CHECK_DOUBLE(at(y, 8), 4, 0);
  TN_CHECK_OK(tn_add_(y, v, tn_int(1)));
  TN_CHECK_DOUBLE(at(y, 8), 6, 0);
  TN_CHECK_OK(tn_select(y, 0, 0, &m));
  TN_CHECK_OK(resize(m, (const int64_t[]){9}, 1));
  TN_CHECK_DOUBLE(at(m, 8), 6, 0);
  TN_CHECK_OK(tn_set_(x, y));
  tn_tensor_release(m);
  tn_tensor_release(y);
  tn_tensor_release(v);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ every call of the API, short of memory */

static int deleted;
static void count_deleted(void *ctx) {
  (void)ctx;
  ++deleted;
}

static tn_status make_and_read(void *ctx) {
  tn_tensor *t = NULL, *turned = NULL;
  float values[6] = {0, 1, 2, 3, 4, 5};
  const tn_dim sizes[8] = {2, 3, 1, 1, 1, 1, 1, 1};
  (void)ctx;
  TN_TRY(tn_tensor_from_host(values, sizes, 8, NULL, &t));
  tn_status status = tn_transpose(t, 0, 1, &turned);
  if (status == TN_OK) status = tn_tensor_to_host(turned, values, sizeof values);
  if (status == TN_OK) TN_CHECK_DOUBLE(values[1], 3, 0);
  FILE *file = fopen("/dev/null", "w");
  TN_CHECK_NOT_NULL(file);
  if (status == TN_OK) status = tn_tensor_print(turned, file);
  fclose(file);
  tn_tensor_release(turned);
  tn_tensor_release(t);
  return status;
}

static tn_status import_and_scope(void *ctx) {
  float value = 1;
  const tn_dim sizes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const tn_foreign f = {
      .data = &value, .sizes = sizes, .ndim = 8, .dtype = TN_FLOAT32, .deleter = count_deleted};
  tn_scope *scope;
  tn_generator *g = NULL;
  tn_tensor *t;
  (void)ctx;
  deleted = 0;
  TN_TRY(tn_scope_begin(&scope));
  tn_status status = tn_tensor_from_memory(&f, &t);
  if (status == TN_OK && !tn_scope_add(t)) status = TN_ERR_OUT_OF_MEMORY;
  if (status == TN_OK) status = tn_generator_new(1, &g);
  tn_generator_release(g);
  tn_status ended = tn_scope_end(scope);
  TN_CHECK_INT(deleted, 1);
  return status == TN_OK ? ended : status;
}

static void nothing_after(void *ctx, tn_status status) { (void)ctx, (void)status; }

TN_TEST(tensor_api, missing_memory_leaks_nothing) {
  TN_CHECK_OK(tn_init());
  tn_stress_run(make_and_read, nothing_after, NULL);
  tn_stress_run(import_and_scope, nothing_after, NULL);
}

TN_TEST(tensor_api, absent_out_parameters_are_refused) {
  TN_CHECK_FAILS(tn_generator_new(1, NULL), TN_ERR_INVALID_ARGUMENT, "out_generator");
  TN_CHECK_FAILS(tn_generator_default((tn_device){0}, NULL), TN_ERR_INVALID_ARGUMENT, "out_generator");
  const tn_op *op;
  tn_tensor *x = vector(4, 1);
  tn_value args[2] = {tn_value_tensor(x), tn_int(0)}, out = tn_value_none();
  TN_CHECK_OK(tn_op_find("unbind.int", &op));
  TN_CHECK_FAILS(tn_op_call(op, args, 2, &out, 1), TN_ERR_INVALID_ARGUMENT, "returns a list");
  tn_tensor_release(x);
}
