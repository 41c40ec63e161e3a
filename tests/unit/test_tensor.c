/* SPDX-License-Identifier: Apache-2.0
 *
 * core/tensor and core/dispatch: who keeps whom alive, geometry, foreign memory, versions, the provider-free parts
 * of the structured step, refusals.
 */
#include "core/tensor/tensor.h"

#include <stdlib.h>
#include <tenon/tenon.h>

#include "core/dispatch/dispatch.h"
#include "tn_test.h"

static tn_tensor *arange(int64_t n) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_arange(tn_int(n), TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  return t;
}

TN_TEST(tensor_memory, small_data_lives_in_the_tensors_block) {
  tn_tensor *small, *large;
  const tn_dim n = 4, m = 100000;
  TN_CHECK_OK(tn_empty(&n, 1, NULL, 0, &small));
  TN_CHECK_OK(tn_empty(&m, 1, NULL, 0, &large));
  TN_CHECK_INT(tni_storage_of(small)->kind, TNI_STORAGE_INLINE);
  TN_CHECK_INT(tni_storage_of(large)->kind, TNI_STORAGE_ALLOCATED);
  TN_CHECK_INT((uintptr_t)tn_tensor_data(small) % 64, 0);
  TN_CHECK_INT((uintptr_t)tn_tensor_data(large) % 64, 0);
  tn_tensor_release(small);
  tn_tensor_release(large);
}

TN_TEST(tensor_memory, a_view_keeps_its_base_and_detach_only_the_memory) {
  tn_tensor *x = arange(6), *row, *alias;
  const int64_t shape[] = {2, 3};
  TN_CHECK_OK(tn_view_op(x, shape, 2, &row));
  TN_CHECK_OK(tn_detach(x, &alias));
  TN_CHECK(tn_tensor_base(row) == x);
  TN_CHECK_PTR_NULL(tn_tensor_base(alias));
  TN_CHECK_INT(atomic_load(&x->refs), 2); /* ours and the view's */
  TN_CHECK_INT(atomic_load(&x->keep), 2); /* the handles' and the alias's */
  tn_tensor_release(x);
  const float *data = tn_tensor_data(alias);
  TN_CHECK_DOUBLE(data[5], 5, 0);
  tn_tensor_release(row);
  TN_CHECK_DOUBLE(data[5], 5, 0); /* the alias still has it */
  tn_tensor_release(alias);
}

TN_TEST(tensor_memory, a_long_chain_of_views_is_freed_without_recursion) {
  tn_tensor *t = arange(2);
  for (int i = 0; i < 200000; ++i) {
    tn_tensor *next;
    TN_CHECK_OK(tn_unsqueeze(t, 0, &next));
    tn_tensor_release(t);
    TN_CHECK_OK(tn_squeeze_dim(next, 0, &t));
    tn_tensor_release(next);
  }
  tn_tensor_release(t);
}

TN_TEST(tensor_version, writes_count_once_and_are_seen_by_views_and_detach) {
  tn_tensor *x = arange(4), *half, *alias;
  uint32_t v0, v1;
  TN_CHECK_OK(tn_slice(x, 0, NULL, &(int64_t){2}, 1, &half));
  TN_CHECK_OK(tn_detach(x, &alias));
  TN_CHECK_OK(tn_tensor_version(x, &v0));
  TN_CHECK_OK(tn_add_scalar_(half, tn_int(1), tn_int(1)));
  TN_CHECK_OK(tn_tensor_version(alias, &v1));
  TN_CHECK_INT(v1, v0 + 1);
  tn_tensor_release(x);
  tn_tensor_release(half);
  tn_tensor_release(alias);
}

static int freed;
static void count_free(void *ctx) { freed += *(int *)ctx; }

TN_TEST(tensor_foreign, the_deleter_runs_once_when_the_last_view_is_gone) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const tn_dim sizes[] = {2, 3};
  int one = 1;
  tn_tensor *t, *row;
  freed = 0;
  tn_foreign f = {.data = data, .sizes = sizes, .ndim = 2, .dtype = TN_FLOAT32, .deleter = count_free, .ctx = &one};
  TN_CHECK_OK(tn_tensor_from_memory(&f, &t));
  TN_CHECK_OK(tn_select(t, 0, 1, &row));
  tn_tensor_release(t);
  TN_CHECK_INT(freed, 0);
  TN_CHECK_DOUBLE(((float *)tn_tensor_data(row))[2], 5, 0);
  tn_tensor_release(row);
  TN_CHECK_INT(freed, 1);
}

TN_TEST(tensor_foreign, a_refused_import_still_consumes_the_memory) {
  int one = 1;
  tn_tensor *t;
  freed = 0;
  tn_foreign f = {.sizes = (const tn_dim[]){2}, .ndim = 1, .dtype = 99, .deleter = count_free, .ctx = &one};
  TN_CHECK_FAILS(tn_tensor_from_memory(&f, &t), TN_ERR_DTYPE, "dtype code 99");
  TN_CHECK_PTR_NULL(t);
  TN_CHECK_INT(freed, 1);
}

TN_TEST(tensor_foreign, read_only_memory_refuses_in_place_writes) {
  float data[2] = {1, 2};
  tn_tensor *t, *v;
  tn_foreign f = {.data = data, .sizes = (const tn_dim[]){2}, .ndim = 1, .dtype = TN_FLOAT32, .read_only = true};
  TN_CHECK_OK(tn_tensor_from_memory(&f, &t));
  TN_CHECK_FAILS(tn_add_scalar_(t, tn_int(1), tn_int(1)), TN_ERR_INVALID_ARGUMENT, "read-only");
  TN_CHECK_OK(tn_select(t, 0, 0, &v));
  TN_CHECK_FAILS(tn_fill_(v, tn_int(3)), TN_ERR_INVALID_ARGUMENT, "read-only");
  TN_CHECK_DOUBLE(data[0], 1, 0);
  tn_tensor_release(v);
  tn_tensor_release(t);
}

TN_TEST(dispatch_rules, overlapping_targets_are_refused_and_unchanged) {
  tn_tensor *x = arange(5), *a, *b, *wide;
  TN_CHECK_OK(tn_slice(x, 0, NULL, &(int64_t){4}, 1, &a));
  TN_CHECK_OK(tn_slice(x, 0, &(int64_t){1}, NULL, 1, &b));
  TN_CHECK_FAILS(tn_add_(a, b, tn_int(1)), TN_ERR_OVERLAP, "shares part of its memory");
  TN_CHECK_OK(tn_expand(x, (const int64_t[]){3, 5}, 2, false, &wide));
  TN_CHECK_FAILS(tn_fill_(wide, tn_int(7)), TN_ERR_OVERLAP, "share memory");
  for (int i = 0; i < 5; ++i) TN_CHECK_DOUBLE(((float *)tn_tensor_data(x))[i], i, 0);
  TN_CHECK_OK(tn_add_(a, a, tn_int(1))); /* exact overlap is harmless */
  TN_CHECK_DOUBLE(((float *)tn_tensor_data(x))[3], 6, 0);
  tn_tensor_release(wide);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(x);
}

TN_TEST(dispatch_rules, in_place_results_must_fit_shape_and_category) {
  tn_tensor *x = arange(3), *wide, *ints;
  TN_CHECK_OK(tn_ones((const int64_t[]){2, 3}, 2, NULL, &wide));
  TN_CHECK_FAILS(tn_add_(x, wide, tn_int(1)), TN_ERR_INVALID_ARGUMENT, "[2, 3]");
  TN_CHECK_OK(tn_arange(tn_int(3), TN_OPTIONS(.dtype = TN_INT64), &ints));
  TN_CHECK_FAILS(tn_add_(ints, x, tn_int(1)), TN_ERR_DTYPE, "float32 cannot be stored in a target of dtype int64");
  TN_CHECK_INT(((int64_t *)tn_tensor_data(ints))[2], 2);
  tn_tensor_release(wide);
  tn_tensor_release(ints);
  tn_tensor_release(x);
}

TN_TEST(dispatch_rules, out_forms_resize_and_cast) {
  tn_tensor *x = arange(3), *out;
  TN_CHECK_OK(tn_empty((const int64_t[]){0}, 1, TN_OPTIONS(.dtype = TN_FLOAT64), 0, &out));
  TN_CHECK_OK(tn_mul_out(x, x, out));
  TN_CHECK_INT(tn_tensor_numel(out), 3);
  TN_CHECK_DOUBLE(((double *)tn_tensor_data(out))[2], 4, 0);
  tn_tensor_release(out);
  tn_tensor_release(x);
}

TN_TEST(dispatch_rules, null_handles_are_refused_by_name) {
  tn_tensor *x = arange(3), *y = x;
  TN_CHECK_FAILS(tn_mul(x, NULL, &y), TN_ERR_INVALID_ARGUMENT, "mul.Tensor: argument 'other' is NULL");
  TN_CHECK_PTR_NULL(y);
  TN_CHECK_FAILS(tn_mul(x, x, NULL), TN_ERR_INVALID_ARGUMENT, "mul.Tensor");
  tn_tensor_release(x);
}

TN_TEST(dispatch_rules, the_fast_path_agrees_with_the_general_one) {
  tn_tensor *x = arange(6), *plain, *odd, *a, *b;
  TN_CHECK_OK(tn_view_op(x, (const int64_t[]){6, 1}, 2, &plain));
  TN_CHECK_OK(tn_as_strided(x, (const int64_t[]){6, 1}, 2, (const int64_t[]){1, 7}, 2, NULL, &odd));
  TN_CHECK_OK(tn_add(plain, plain, tn_float(0.5), &a));
  TN_CHECK_OK(tn_add(odd, odd, tn_float(0.5), &b));
  for (int i = 0; i < 6; ++i)
    TN_CHECK_DOUBLE(((float *)tn_tensor_data(a))[i], ((float *)tn_tensor_data(b))[i], 0);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(odd);
  tn_tensor_release(plain);
  tn_tensor_release(x);
}

TN_TEST(dispatch_boxed, a_call_by_name_fills_defaults_and_checks_kinds) {
  tn_tensor *x = arange(3);
  const tn_op *op;
  tn_value args[3] = {tn_value_tensor(x), tn_value_tensor(x), tn_value_none()}, out[1];
  TN_CHECK_OK(tn_op_find("add.Tensor", &op));
  TN_CHECK_OK(tn_op_call(op, args, 2, out, 1));
  TN_CHECK_DOUBLE(((float *)tn_tensor_data(out[0].u.t))[2], 4, 0);
  tn_tensor_release(out[0].u.t);
  args[1] = tn_int(3);
  TN_CHECK_FAILS(tn_op_call(op, args, 2, out, 1), TN_ERR_INVALID_ARGUMENT, "argument 'other'");
  TN_CHECK_FAILS(tn_op_call(op, args, 1, out, 1), TN_ERR_INVALID_ARGUMENT, "'other' is missing");
  TN_CHECK_FAILS(tn_op_find("no.such", &op), TN_ERR_NOT_FOUND, "no.such");
  tn_tensor_release(x);
}

TN_TEST(dispatch_meta, meta_tensors_have_shapes_and_no_data) {
  tn_tensor *m, *y;
  tn_device meta;
  TN_CHECK_OK(tn_device_open("meta", &meta));
  TN_CHECK_OK(tn_empty((const int64_t[]){1000000, 1000000}, 2,
                       TN_OPTIONS(.has_device = true, .device = meta), 0, &m));
  TN_CHECK_OK(tn_sum_dim(m, (const int64_t[]){1}, 1, false, TN_DTYPE_NONE, &y));
  TN_CHECK_INT(tn_tensor_ndim(y), 1);
  TN_CHECK_INT(tn_tensor_sizes(y)[0], 1000000);
  double v;
  tn_tensor *one;
  TN_CHECK_OK(tn_select(y, 0, 3, &one));
  TN_CHECK_FAILS(tn_tensor_item_double(one, &v), TN_ERR_DEVICE, "meta");
  tn_tensor_release(one);
  tn_tensor_release(y);
  tn_tensor_release(m);
}

TN_TEST(random_streams, states_can_be_taken_and_put_back) {
  tn_generator *g;
  tn_generator_state s;
  tn_tensor *a, *b;
  TN_CHECK_OK(tn_manual_seed(11));
  TN_CHECK_OK(tn_generator_default(tn_default_device(), &g));
  TN_CHECK_OK(tn_generator_get_state(g, &s));
  TN_CHECK_INT(s.seed, 11);
  TN_CHECK_OK(tn_rand((const int64_t[]){5}, 1, NULL, &a));
  TN_CHECK_OK(tn_generator_set_state(g, &s));
  TN_CHECK_OK(tn_rand((const int64_t[]){5}, 1, NULL, &b));
  for (int i = 0; i < 5; ++i) {
    float va = ((float *)tn_tensor_data(a))[i];
    TN_CHECK_DOUBLE(va, ((float *)tn_tensor_data(b))[i], 0);
    TN_CHECK(va >= 0 && va < 1);
  }
  tn_tensor_release(a);
  tn_tensor_release(b);
}

/* What was drawn is gone for those who draw later, and comes from a generator that is set to it. */
TN_TEST(random_streams, counters_can_be_drawn_and_used_later) {
  tn_generator *g, *own;
  tn_generator_state first, after;
  tn_tensor *a, *b;
  TN_CHECK_OK(tn_generator_new(3, &g));
  TN_CHECK_OK(tn_generator_new(0, &own));
  TN_CHECK_OK(tn_generator_set_state(g, &(tn_generator_state){3, 8}));
  TN_CHECK_OK(tn_generator_draw(g, 5, &first));
  TN_CHECK_OK(tn_generator_get_state(g, &after));
  TN_CHECK_INT(first.seed, 3);
  TN_CHECK_INT(first.offset, 8);
  TN_CHECK_INT(after.offset, 13);
  TN_CHECK_OK(tn_generator_set_state(own, &first));
  TN_CHECK_OK(tn_generator_set_state(g, &first));
  TN_CHECK_OK(tn_empty((const int64_t[]){5}, 1, NULL, TN_MEMORY_FORMAT_NONE, &a));
  TN_CHECK_OK(tn_empty((const int64_t[]){5}, 1, NULL, TN_MEMORY_FORMAT_NONE, &b));
  TN_CHECK_OK(tn_uniform_(a, 0, 1, g));
  TN_CHECK_OK(tn_uniform_(b, 0, 1, own));
  for (int i = 0; i < 5; ++i) TN_CHECK_DOUBLE(((float *)tn_tensor_data(a))[i], ((float *)tn_tensor_data(b))[i], 0);
  TN_CHECK_FAILS(tn_generator_draw(NULL, 1, &first), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_generator_release(g);
  tn_generator_release(own);
}

TN_TEST(scopes, free_what_they_own_and_keep_the_first_failure) {
  tn_scope *scope;
  tn_tensor *kept;
  TN_CHECK_OK(tn_scope_begin(&scope));
  tn_tensor *x = tns_ones((const int64_t[]){2, 3}, 2, NULL);
  tn_tensor *y = tns_mul(x, tns_add(x, x, tn_int(1)));
  kept = tn_scope_keep(y);
  tn_tensor *bad = tns_mm(x, x);
  TN_CHECK_PTR_NULL(bad);
  TN_CHECK_PTR_NULL(tns_mul(bad, x));
  TN_CHECK_FAILS(tn_scope_end(scope), TN_ERR_INVALID_ARGUMENT, "mm");
  TN_CHECK_DOUBLE(((float *)tn_tensor_data(kept))[0], 2, 0);
  tn_tensor_release(kept);
}
