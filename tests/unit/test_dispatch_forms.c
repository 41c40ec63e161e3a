/* SPDX-License-Identifier: Apache-2.0
 *
 * In-place and out= calls where memory is shared or changes hands: targets that are inputs too, targets that are
 * resized, memory imported twice; one version step per call; results on meta.
 */
#include <math.h>
#include <tenon/tenon.h>

#include "core/tensor/tensor.h"
#include "tn_stress.h"
#include "tn_test.h"

static tn_tensor *arange(int64_t n) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_arange(tn_int(n), TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  return t;
}

static tn_tensor *part(tn_tensor *t, int64_t start, int64_t end) {
  tn_tensor *v = NULL;
  TN_CHECK_OK(tn_slice(t, 0, &start, &end, 1, &v));
  return v;
}

static float at(tn_tensor *t, int64_t i) { return ((float *)tn_tensor_data(t))[i]; }

static void check_counts_up(tn_tensor *t, int64_t n) {
  TN_CHECK_INT(tn_tensor_numel(t), n);
  for (int64_t i = 0; i < n; ++i) TN_CHECK_DOUBLE(at(t, i), i, 0);
}

static uint32_t version(tn_tensor *t) {
  uint32_t v = 0;
  TN_CHECK_OK(tn_tensor_version(t, &v));
  return v;
}

/* ------------------------------------------------------------------ out= beside inputs */

TN_TEST(dispatch_out, a_target_in_a_list_of_inputs_is_refused) {
  tn_tensor *a = arange(3), *b = arange(3), *ab[] = {a, b};
  TN_CHECK_FAILS(tn_cat_out(ab, 2, 0, a), TN_ERR_OVERLAP, "also an input");
  check_counts_up(a, 3);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(dispatch_out, an_input_is_not_resized_under_the_kernel) {
  tn_tensor *x = arange(3), *wide, *row;
  TN_CHECK_OK(tn_ones((const int64_t[]){2, 3}, 2, NULL, &wide));
  TN_CHECK_OK(tn_unsqueeze(x, 0, &row));
  TN_CHECK_FAILS(tn_add_out(x, wide, tn_int(1), x), TN_ERR_OVERLAP, "also an input");
  check_counts_up(x, 3);
  tn_tensor_release(row);
  tn_tensor_release(wide);
  tn_tensor_release(x);
}

/* An empty slice may be resized over the elements behind it: they may not be those of an input. */
TN_TEST(dispatch_out, a_target_that_would_grow_over_an_input_is_refused) {
  tn_tensor *x = arange(12), *in = part(x, 2, 8), *out = part(x, 0, 0), *two;
  TN_CHECK_FAILS(tn_neg_out(in, out), TN_ERR_OVERLAP, "shares part of its memory");
  check_counts_up(x, 12);
  TN_CHECK_OK(tn_view_op(in, (const int64_t[]){2, 3}, 2, &two));
  tn_tensor_release(two);
  tn_tensor *behind = part(x, 8, 8), *four = part(x, 0, 4);
  TN_CHECK_OK(tn_neg_out(four, behind)); /* these do not meet */
  TN_CHECK_DOUBLE(at(x, 9), -1, 0);
  TN_CHECK_INT(tn_tensor_numel(behind), 4);
  tn_tensor_release(behind);
  tn_tensor_release(four);
  tn_tensor_release(in);
  tn_tensor_release(out);
  tn_tensor_release(x);
}

TN_TEST(dispatch_out, a_view_gets_no_memory_of_its_own) {
  tn_tensor *x = arange(4), *end = part(x, 4, 4), *many = arange(100);
  TN_CHECK_FAILS(tn_neg_out(many, end), TN_ERR_STATE, "growing");
  TN_CHECK_INT(tn_tensor_numel(end), 0);
  tn_tensor_release(end);
  tn_tensor_release(many);
  tn_tensor_release(x);
}

TN_TEST(dispatch_out, an_out_that_is_an_input_may_take_the_result_of_its_own_shape) {
  tn_tensor *x = arange(4), *alias;
  TN_CHECK_OK(tn_add_out(x, x, tn_int(1), x));
  TN_CHECK_DOUBLE(at(x, 3), 6, 0);
  TN_CHECK_OK(tn_detach(x, &alias));
  TN_CHECK_OK(tn_mul_out(x, alias, x)); /* the same memory by another handle */
  TN_CHECK_DOUBLE(at(x, 3), 36, 0);
  tn_tensor_release(alias);
  tn_tensor_release(x);
}

TN_TEST(dispatch_inplace, memory_imported_twice_is_one_memory) {
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  tn_tensor *a, *b;
  const tn_dim n = 6;
  tn_foreign f = {.data = data, .sizes = &n, .ndim = 1, .dtype = TN_FLOAT32};
  TN_CHECK_OK(tn_tensor_from_memory(&f, &a));
  f.data = data + 1;
  TN_CHECK_OK(tn_tensor_from_memory(&f, &b));
  TN_CHECK_FAILS(tn_add_(a, b, tn_int(1)), TN_ERR_OVERLAP, "shares part of its memory");
  TN_CHECK_FAILS(tn_add_out(b, b, tn_int(1), a), TN_ERR_OVERLAP, "shares part of its memory");
  for (int i = 0; i < 8; ++i) TN_CHECK_DOUBLE(data[i], i, 0);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

/* ------------------------------------------------------------------ versions */

TN_TEST(dispatch_version, one_step_a_call_also_when_the_target_is_resized) {
  tn_tensor *x = arange(3), *out, *square, *product;
  TN_CHECK_OK(tn_empty((const int64_t[]){0}, 1, NULL, 0, &out));
  TN_CHECK_OK(tn_neg_out(x, out));
  TN_CHECK_INT(version(out), 1);
  TN_CHECK_OK(tn_ones((const int64_t[]){3, 3}, 2, NULL, &square));
  TN_CHECK_OK(tn_empty((const int64_t[]){0}, 1, NULL, 0, &product));
  TN_CHECK_OK(tn_matmul_out(square, x, product)); /* a composite */
  TN_CHECK_INT(version(product), 1);
  TN_CHECK_OK(tn_resize_(product, (const int64_t[]){100}, 1, TN_MEMORY_FORMAT_NONE));
  TN_CHECK_INT(version(product), 2);
  TN_CHECK_OK(tn_set_(product, x));
  TN_CHECK_INT(version(product), 3);
  tn_tensor_release(product);
  tn_tensor_release(square);
  tn_tensor_release(out);
  tn_tensor_release(x);
}

TN_TEST(dispatch_version, one_step_for_casts_and_temporaries) {
  tn_tensor *x = arange(4), *wide, *flags;
  TN_CHECK_OK(tn_to_dtype(x, TN_FLOAT64, false, true, TN_PRESERVE_FORMAT, &wide));
  TN_CHECK_OK(tn_add_(x, wide, tn_int(1))); /* computed in float64 */
  TN_CHECK_INT(version(x), 1);
  TN_CHECK_DOUBLE(at(x, 3), 6, 0);
  TN_CHECK_OK(tn_lt_scalar_(x, tn_int(3))); /* bool into float */
  TN_CHECK_INT(version(x), 2);
  TN_CHECK_DOUBLE(at(x, 1), 1, 0);
  TN_CHECK_DOUBLE(at(x, 2), 0, 0);
  TN_CHECK_OK(tn_empty((const int64_t[]){4}, 1, TN_OPTIONS(.dtype = TN_FLOAT64), 0, &flags));
  TN_CHECK_OK(tn_lt_scalar_out(wide, tn_int(2), flags));
  TN_CHECK_INT(version(flags), 1);
  tn_tensor_release(flags);
  tn_tensor_release(wide);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ lists */

TN_TEST(dispatch_lists, cat_casts_entries_of_other_dtypes) {
  tn_tensor *x = arange(3), *ints, *strided, *square, *y;
  TN_CHECK_OK(tn_arange(tn_int(2), TN_OPTIONS(.dtype = TN_INT64), &ints));
  TN_CHECK_OK(tn_arange(tn_int(6), TN_OPTIONS(.dtype = TN_FLOAT64), &square));
  TN_CHECK_OK(tn_slice(square, 0, NULL, NULL, 2, &strided));
  tn_tensor *all[] = {x, ints, strided, x};
  TN_CHECK_OK(tn_cat(all, 4, 0, &y));
  TN_CHECK_INT(tn_tensor_dtype(y), TN_FLOAT64);
  static const double expected[] = {0, 1, 2, 0, 1, 0, 2, 4, 0, 1, 2};
  TN_CHECK_INT(tn_tensor_numel(y), 11);
  for (int i = 0; i < 11; ++i) TN_CHECK_DOUBLE(((double *)tn_tensor_data(y))[i], expected[i], 0);
  tn_tensor_release(y);
  tn_tensor_release(strided);
  tn_tensor_release(square);
  tn_tensor_release(ints);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ meta */

TN_TEST(dispatch_meta, random_fills_draw_nothing_on_meta) {
  const tn_options *on_meta = TN_OPTIONS(.has_device = true, .device = {.backend = TN_BACKEND_META});
  tn_tensor *r;
  TN_CHECK_OK(tn_rand((const int64_t[]){3, 4}, 2, on_meta, &r));
  TN_CHECK_INT(tn_tensor_numel(r), 12);
  TN_CHECK_INT(version(r), 1);
  tn_tensor_release(r);
}

TN_TEST(dispatch_meta, a_meta_operand_beside_a_target_with_data_is_refused) {
  tn_tensor *x = arange(3), *m;
  TN_CHECK_OK(tn_empty((const int64_t[]){3}, 1,
                       TN_OPTIONS(.has_device = true, .device = {.backend = TN_BACKEND_META}), 0, &m));
  TN_CHECK_FAILS(tn_add_(x, m, tn_int(1)), TN_ERR_DEVICE, "meta");
  TN_CHECK_FAILS(tn_copy_(x, m, false), TN_ERR_DEVICE, "no data");
  check_counts_up(x, 3);
  TN_CHECK_INT(version(x), 0);
  TN_CHECK_OK(tn_copy_(m, x, false));
  tn_tensor_release(m);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ failures leave things as they were */

typedef struct grown {
  tn_tensor *x, *out;
} grown;

static tn_status grow(void *ctx) {
  grown *g = ctx;
  return tn_neg_out(g->x, g->out);
}

static void grow_after(void *ctx, tn_status status) {
  grown *g = ctx;
  if (status == TN_OK) {
    TN_CHECK_INT(tn_tensor_numel(g->out), 300);
    TN_CHECK_DOUBLE(at(g->out, 299), -299, 0);
  }
  tn_tensor_release(g->out);
  g->out = NULL;
  TN_CHECK_OK(tn_empty((const int64_t[]){2}, 1, NULL, 0, &g->out));
}

static void silent(void *ctx, int32_t level, const char *words) { (void)ctx, (void)level, (void)words; }

TN_TEST(dispatch_out, growing_a_target_survives_missing_memory) {
  grown g = {arange(300), NULL};
  tn_log_set(silent, NULL);
  TN_CHECK_OK(tn_empty((const int64_t[]){2}, 1, NULL, 0, &g.out));
  tn_stress_run(grow, grow_after, &g);
  tn_log_set(NULL, NULL);
  tn_tensor_release(g.out);
  tn_tensor_release(g.x);
}

/* ------------------------------------------------------------------ modes */

TN_TEST(dispatch_modes, inference_mode_leaves_the_layers_exclusions_alone) {
  uint64_t outer = tni_tls.modes.exclude;
  tni_tls.modes.exclude |= TNI_KEY_AUTOGRAD; /* as a layer below which no history is made */
  tn_inference_mode_set(true);
  tn_inference_mode_set(false);
  TN_CHECK(tni_tls.modes.exclude & TNI_KEY_AUTOGRAD);
  tni_tls.modes.exclude = outer;
  tn_inference_mode_set(true);
  uint64_t inner = tni_tls.modes.exclude;
  tni_tls.modes.exclude |= TNI_KEY_AUTOGRAD;
  tn_inference_mode_set(false); /* inside: the layer's exclusion stays, and goes with the layer */
  TN_CHECK(tni_tls.modes.exclude & TNI_KEY_AUTOGRAD);
  tni_tls.modes.exclude = inner;
  TN_CHECK(!(tni_tls.modes.exclude & TNI_KEY_AUTOGRAD));
  tni_tls.modes.exclude = outer;
}

TN_TEST(dispatch_modes, nothing_is_recorded_in_inference_mode) {
  tn_tensor *x = arange(3), *y, *z;
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  bool before = tn_inference_mode_set(true);
  TN_CHECK_OK(tn_mul(x, x, &y));
  TN_CHECK(!tn_requires_grad(y));
  TN_CHECK_FAILS(tn_tensor_version(y, &(uint32_t){0}), TN_ERR_STATE, "inference");
  tn_inference_mode_set(before);
  TN_CHECK_OK(tn_mul(x, x, &z));
  TN_CHECK(tn_requires_grad(z));
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
}
