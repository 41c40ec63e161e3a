/* SPDX-License-Identifier: Apache-2.0
 *
 * What providers may count on: claims, the chain behind one that declines, contiguous copies, scratch, new_output,
 * random counters; and what they may not do. On backends of the test's own (private_backend.h).
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "private_backend.h"
#include "tn_stress.h"
#include "tn_test.h"

static tn_device lab(void) { return private_backend("lab", TN_BACKEND_HOST_MEMORY); }
static tn_device vault(void) { return private_backend("vault", 0); }

static tn_tensor *make(tn_device device, tn_dtype dtype, const void *data, const tn_dim *sizes,
                       int32_t ndim) {
  tn_tensor *t = NULL;
  const tn_options options = {.dtype = dtype, .has_device = true, .device = device};
  TN_CHECK_OK(tn_tensor_from_host(data, sizes, ndim, &options, &t));
  return t;
}

static const float counting[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static tn_tensor *vector(tn_device device, tn_dim n) { return make(device, TN_FLOAT32, counting, &n, 1); }
static tn_tensor *matrix(tn_device device, tn_dim rows, tn_dim columns) {
  return make(device, TN_FLOAT32, counting, (const tn_dim[]){rows, columns}, 2);
}

static void check_values(tn_tensor *t, const float *expected, int n) {
  float got[16];
  TN_CHECK_OK(tn_tensor_to_host(t, got, (size_t)n * sizeof *got));
  for (int i = 0; i < n; ++i) TN_CHECK_DOUBLE(got[i], expected[i], 0);
}

static uint32_t version(tn_tensor *t) {
  uint32_t v = 0;
  TN_CHECK_OK(tn_tensor_version(t, &v));
  return v;
}

static float *floats(const tn_value *v) { return v->u.v->data; }
static int calls;

static tn_status decline(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  ++calls;
  return TN_DECLINED;
}

/* ------------------------------------------------------------------ failures */

static tn_status answer = TN_ERR_IO;
static bool with_words;
static tn_status fail_barely(tn_call *call, const tn_value *args, tn_value *out) {
  (void)args, (void)out;
  return with_words ? call->host->fail(answer, "the paper is out") : answer;
}

static void check_failing_add(tn_status expected, const char *words) {
  tn_tensor *x = vector(lab(), 3), *y;
  TN_CHECK_INT(tn_add(x, x, tn_int(1), &y), expected);
  TN_CHECK_STR(tn_error_message(), words);
  TN_CHECK_INT(tn_add_out(x, x, tn_int(1), x), expected);
  TN_CHECK_CONTAINS(tn_error_message(), strchr(words, ':'));
  tn_tensor_release(x);
}

/* Whoever failed before, and of whatever kind: its words are not those of a kernel that has none. */
TN_TEST(dispatch_failures, a_bare_status_gets_no_words_of_an_earlier_failure) {
  static tni_kernel bare = {.fn = fail_barely};
  (void)lab();
  private_kernel_add("add.Tensor", "lab", &bare);
  answer = TN_ERR_IO, with_words = false;
  tn_error_clear();
  check_failing_add(TN_ERR_IO, "add.Tensor: input/output");
  check_failing_add(TN_ERR_IO, "add.Tensor: input/output");
  TN_CHECK(tn_plugin_open("nobody") != TN_OK);
  check_failing_add(TN_ERR_IO, "add.Tensor: input/output");
  with_words = true;
  check_failing_add(TN_ERR_IO, "add.Tensor: the paper is out");
  with_words = false;
  check_failing_add(TN_ERR_IO, "add.Tensor: input/output");
  private_kernel_remove("add.Tensor", &bare);
}

TN_TEST(dispatch_failures, a_number_that_is_no_status_is_a_broken_contract) {
  static tni_kernel bare = {.fn = fail_barely};
  (void)lab();
  private_kernel_add("add.Tensor", "lab", &bare);
  with_words = false;
  answer = 9999;
  check_failing_add(TN_ERR_PLUGIN, "add.Tensor: a plugin answered 9999, which is no status");
  answer = -7;
  check_failing_add(TN_ERR_PLUGIN, "add.Tensor: a plugin answered -7, which is no status");
  with_words = true;
  check_failing_add(TN_ERR_PLUGIN, "add.Tensor: a plugin answered -7, which is no status: the paper is out");
  private_kernel_remove("add.Tensor", &bare);
}

/* ------------------------------------------------------------------ claims on the fast path */

static tn_status add_without_alpha(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  ++calls;
  for (int64_t i = 0; i < out[0].u.v->numel; ++i)
    floats(&out[0])[i] = floats(&args[0])[i] + floats(&args[1])[i];
  return TN_OK;
}

TN_TEST(dispatch_claims, a_kernel_of_an_older_schema_gets_no_newer_arguments) {
  static tni_kernel two_args = {.fn = add_without_alpha, .max_args = 2};
  tn_tensor *x = vector(lab(), 3), *y;
  private_kernel_add("add.Tensor", "lab", &two_args);
  calls = 0;
  TN_CHECK_OK(tn_add(x, x, tn_int(1), &y)); /* the default */
  check_values(y, (const float[]){0, 2, 4}, 3);
  tn_tensor_release(y);
  TN_CHECK_FAILS(tn_add(x, x, tn_int(3), &y), TN_ERR_MISSING_KERNEL, "add.Tensor");
  TN_CHECK_FAILS(tn_add_(x, x, tn_int(3)), TN_ERR_MISSING_KERNEL, "add_.Tensor");
  TN_CHECK_INT(calls, 1);
  TN_CHECK_INT(version(x), 0);
  private_kernel_remove("add.Tensor", &two_args);
  tn_tensor_release(x);
}

static tn_status product_of_rows(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  ++calls;
  float sum = 0;
  for (int64_t i = 0; i < args[0].u.v->numel; ++i) sum += floats(&args[0])[i] * floats(&args[1])[i];
  floats(&out[0])[0] = sum;
  return TN_OK;
}

/* How often kernels were asked in a row times a column of n elements, fresh and into a tensor. */
static int asked_for_product(tn_dim n) {
  tn_tensor *row = matrix(lab(), 1, n), *column = matrix(lab(), n, 1), *y;
  calls = 0;
  TN_CHECK_OK(tn_mm(row, column, &y));
  TN_CHECK_OK(tn_mm_out(row, column, y));
  tn_tensor_release(y);
  tn_tensor_release(row);
  tn_tensor_release(column);
  return calls;
}

TN_TEST(dispatch_claims, who_declines_small_calls_is_not_asked_for_them) {
  static tni_kernel large = {.fn = decline, .priority = 2, .min_numel = 4}, any = {.fn = product_of_rows};
  static tni_kernel large_add = {.fn = decline, .priority = 2, .min_numel = 4},
                    any_add = {.fn = add_without_alpha, .priority = 1};
  (void)lab(); /* kernels want its name to be known */
  private_kernel_add("mm", "lab", &large);
  private_kernel_add("mm", "lab", &any);
  TN_CHECK_INT(asked_for_product(3), 2);
  TN_CHECK_INT(asked_for_product(4), 4); /* the result has one element, an operand four */
  private_kernel_remove("mm", &large);
  private_kernel_remove("mm", &any);
  private_kernel_add("add.Tensor", "lab", &large_add);
  private_kernel_add("add.Tensor", "lab", &any_add);
  for (tn_dim n = 3; n <= 4; ++n) {
    tn_tensor *x = vector(lab(), n), *y;
    calls = 0;
    TN_CHECK_OK(tn_add(x, x, tn_int(1), &y)); /* the fast path asks nobody whom it would have to leave out */
    TN_CHECK_INT(calls, n < 4 ? 1 : 2);
    tn_tensor_release(y);
    tn_tensor_release(x);
  }
  private_kernel_remove("add.Tensor", &large_add);
  private_kernel_remove("add.Tensor", &any_add);
}

TN_TEST(dispatch_claims, who_leaves_large_calls_is_not_asked_for_them) {
  static tni_kernel small = {.fn = decline, .priority = 2, .max_numel = 3}, any = {.fn = product_of_rows};
  static tni_kernel small_add = {.fn = decline, .priority = 2, .max_numel = 3},
                    any_add = {.fn = add_without_alpha, .priority = 1};
  (void)lab();
  private_kernel_add("mm", "lab", &small);
  private_kernel_add("mm", "lab", &any);
  TN_CHECK_INT(asked_for_product(3), 4); /* fresh and into a tensor: both kernels */
  TN_CHECK_INT(asked_for_product(4), 2);
  private_kernel_remove("mm", &small);
  private_kernel_remove("mm", &any);
  private_kernel_add("add.Tensor", "lab", &small_add);
  private_kernel_add("add.Tensor", "lab", &any_add);
  for (tn_dim n = 3; n <= 4; ++n) {
    tn_tensor *x = vector(lab(), n), *y;
    calls = 0;
    TN_CHECK_OK(tn_add(x, x, tn_int(1), &y));
    TN_CHECK_INT(calls, n < 4 ? 2 : 1);
    tn_tensor_release(y);
    tn_tensor_release(x);
  }
  private_kernel_remove("add.Tensor", &small_add);
  private_kernel_remove("add.Tensor", &any_add);
}

/* ------------------------------------------------------------------ contiguous copies */

static bool all_contiguous;

static tn_status join(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  float *to = floats(&out[0]);
  for (uint32_t i = 0; i < args[0].count; ++i) {
    const tn_view *v = args[0].u.vs[i];
    all_contiguous &= (v->flags & TN_VIEW_CONTIGUOUS) != 0;
    for (int64_t k = 0; k < v->numel; ++k) *to++ = ((const float *)v->data)[k];
  }
  return TN_OK;
}

TN_TEST(dispatch_contiguous, entries_of_lists_are_copied_too) {
  static tni_kernel cat = {.fn = join, .flags = TN_KERNEL_CONTIGUOUS};
  tn_tensor *m = matrix(lab(), 2, 3), *t, *y;
  private_kernel_add("cat", "lab", &cat);
  TN_CHECK_OK(tn_t(m, &t));
  tn_tensor *both[] = {t, t};
  all_contiguous = true;
  TN_CHECK_OK(tn_cat(both, 2, 0, &y));
  TN_CHECK(all_contiguous);
  check_values(y, (const float[]){0, 3, 1, 4, 2, 5, 0, 3, 1, 4, 2, 5}, 12);
  tn_tensor_release(y);
  tn_tensor_release(t);
  tn_tensor_release(m);
  private_kernel_remove("cat", &cat);
}

static bool was_in_place, was_same;

/* Writes only where the mask is set, if the result is self already. */
static tn_status fill_masked(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *to = out[0].u.v;
  const uint8_t *mask = args[1].u.v->data;
  was_in_place = (call->flags & TN_CALL_IN_PLACE) != 0;
  was_same = self->data == to->data;
  for (int64_t i = 0; i < to->numel; ++i) {
    if (mask[i])
      floats(&out[0])[i] = -1;
    else if (!was_in_place)
      floats(&out[0])[i] = floats(&args[0])[i];
  }
  return TN_OK;
}

TN_TEST(dispatch_contiguous, in_place_over_strides_keeps_what_the_kernel_does_not_write) {
  static tni_kernel masked = {.fn = fill_masked, .flags = TN_KERNEL_CONTIGUOUS};
  const uint8_t bits[6] = {1, 0, 0, 0, 0, 1};
  tn_tensor *m = matrix(lab(), 2, 3), *t, *y;
  tn_tensor *mask = make(lab(), TN_BOOL, bits, (const tn_dim[]){3, 2}, 2);
  private_kernel_add("masked_fill.Scalar", "lab", &masked);
  TN_CHECK_OK(tn_t(m, &t));
  TN_CHECK_OK(tn_masked_fill_(t, mask, tn_int(-1)));
  TN_CHECK(was_in_place && was_same);
  check_values(m, (const float[]){-1, 1, 2, 3, 4, -1}, 6);
  TN_CHECK_INT(version(m), 1);
  TN_CHECK_OK(tn_masked_fill(t, mask, tn_int(-1), &y));
  TN_CHECK(!was_in_place && !was_same);
  TN_CHECK_OK(tn_masked_fill_out(t, mask, tn_int(-1), y));
  TN_CHECK(!was_in_place && !was_same);
  check_values(y, (const float[]){-1, 3, 1, 4, 2, -1}, 6);
  tn_tensor_release(y);
  tn_tensor_release(t);
  tn_tensor_release(m);
  tn_tensor_release(mask);
  private_kernel_remove("masked_fill.Scalar", &masked);
}

typedef struct strided_cat {
  tn_tensor *both[2], *y;
} strided_cat;
static tn_status cat_strided(void *ctx) {
  strided_cat *c = ctx;
  return tn_cat(c->both, 2, 0, &c->y);
}
static void cat_strided_after(void *ctx, tn_status status) {
  strided_cat *c = ctx;
  TN_CHECK((c->y != NULL) == (status == TN_OK));
  tn_tensor_release(c->y);
  c->y = NULL;
}

TN_TEST(dispatch_contiguous, missing_memory_leaks_no_copy) {
  static tni_kernel cat = {.fn = join, .flags = TN_KERNEL_CONTIGUOUS};
  tn_tensor *m = matrix(lab(), 2, 3), *t;
  private_kernel_add("cat", "lab", &cat);
  TN_CHECK_OK(tn_t(m, &t));
  strided_cat c = {{t, t}, NULL};
  tn_stress_run(cat_strided, cat_strided_after, &c);
  tn_tensor_release(t);
  tn_tensor_release(m);
  private_kernel_remove("cat", &cat);
}

/* ------------------------------------------------------------------ declining */

static tn_status ask_and_decline(tn_call *call, const tn_value *args, tn_value *out) {
  tn_view *view;
  tn_memory memory;
  (void)args, (void)out;
  ++calls;
  TN_TRY(call->host->scratch(call, 100, &memory));
  TN_TRY(call->host->new_output(call, 0, 2, (const tn_dim[]){7, 1}, &view));
  return TN_DECLINED;
}

static tn_status none_nonzero(tn_call *call, const tn_value *args, tn_value *out) {
  tn_view *view;
  (void)out;
  ++calls;
  return call->host->new_output(call, 0, 2, (const tn_dim[]){0, args[0].u.v->ndim}, &view);
}

TN_TEST(dispatch_chain, who_declines_takes_its_new_output_back) {
  static tni_kernel first = {.fn = ask_and_decline, .priority = 5, .plugin = "first"};
  static tni_kernel second = {.fn = none_nonzero, .plugin = "second"};
  tn_tensor *x = vector(lab(), 3), *y;
  private_kernel_add("nonzero", "lab", &first);
  private_kernel_add("nonzero", "lab", &second);
  calls = 0;
  TN_CHECK_OK(tn_nonzero(x, &y));
  TN_CHECK_INT(calls, 2);
  TN_CHECK_INT(tn_tensor_sizes(y)[0], 0);
  tn_tensor_release(y);
  private_kernel_remove("nonzero", &second);
  private_kernel_remove("nonzero", &first);
  tn_tensor_release(x);
}

static uint64_t drawn_at;
static tn_status note_offset(tn_call *call, const tn_value *args, tn_value *out) {
  (void)args;
  ++calls;
  drawn_at = call->rng_offset;
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) floats(&out[0])[i] = 0.5f;
  return TN_OK;
}

TN_TEST(dispatch_chain, random_counters_are_drawn_once_whoever_serves) {
  static tni_kernel first = {.fn = decline, .priority = 5, .plugin = "first"};
  static tni_kernel second = {.fn = note_offset, .plugin = "second"};
  tn_tensor *x = vector(lab(), 3);
  tn_generator *g;
  tn_generator_state before, after;
  private_kernel_add("uniform_", "lab", &first);
  private_kernel_add("uniform_", "lab", &second);
  TN_CHECK_OK(tn_generator_default(lab(), &g));
  TN_CHECK_OK(tn_generator_get_state(g, &before));
  calls = 0;
  TN_CHECK_OK(tn_uniform_(x, 0, 1, NULL));
  TN_CHECK_OK(tn_generator_get_state(g, &after));
  TN_CHECK_INT(calls, 2);
  TN_CHECK_INT(drawn_at, before.offset);
  TN_CHECK_INT(after.offset, before.offset + 3);
  TN_CHECK_INT(version(x), 1);
  private_kernel_remove("uniform_", &second);
  private_kernel_remove("uniform_", &first);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ what a kernel may not do */

static tn_status redispatches(tn_call *call, const tn_value *args, tn_value *out) {
  return call->host->redispatch(call, args, out);
}

TN_TEST(dispatch_contract, a_backends_kernel_cannot_redispatch) {
  static tni_kernel wrong = {.fn = redispatches};
  tn_tensor *x = vector(lab(), 3), *y = NULL;
  private_kernel_add("neg", "lab", &wrong);
  TN_CHECK_FAILS(tn_neg(x, &y), TN_ERR_PLUGIN, "redispatch is for layers");
  TN_CHECK_PTR_NULL(y);
  private_kernel_remove("neg", &wrong);
  tn_tensor_release(x);
}

static tn_status body_with_scratch(tn_call *call, const tn_value *args, tn_value *out) {
  tn_memory memory;
  (void)args;
  out[0] = tn_value_none();
  return call->host->scratch(call, 64, &memory);
}

static tn_op *add_operator(const tn_operator_def *def) {
  tn_op *op = NULL;
  tni_registry_lock();
  tn_status status = tni_op_add(def, "private", &op);
  tni_registry_unlock();
  TN_CHECK_OK(status);
  return op;
}

TN_TEST(dispatch_contract, scratch_belongs_to_kernels) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "private::scratch(Tensor self) -> Tensor",
                                      .body = body_with_scratch};
  TN_CHECK_OK(tn_init());
  const tn_op *op = add_operator(&def);
  tn_tensor *x = vector(lab(), 3);
  tn_value arg = tn_value_tensor(x), out = tn_value_none();
  TN_CHECK_FAILS(tn_op_call(op, &arg, 1, &out, 1), TN_ERR_PLUGIN, "only inside a backend's kernel");
  tn_tensor_release(x);
}

TN_TEST(dispatch_contract, a_view_operator_needs_a_meta_rule) {
  static const tn_operator_def def = {
      .struct_size = sizeof def, .schema = "private::view(Tensor(a) self) -> Tensor(a)", .flags = TN_OP_VIEW};
  TN_CHECK_OK(tn_init());
  tn_op *op = NULL;
  tni_registry_lock();
  tn_status status = tni_op_add(&def, "private", &op);
  tni_registry_unlock();
  TN_CHECK_FAILS(status, TN_ERR_INVALID_ARGUMENT, "meta rule");
  TN_CHECK_PTR_NULL(op);
}

/* ------------------------------------------------------------------ operands of other dtypes */

/* Reads what it claims, float32, and no other dtype. */
static tn_status sum_float32(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  ++calls;
  TN_CHECK_INT(args[0].u.v->dtype, TN_FLOAT32);
  float sum = 0;
  for (int64_t i = 0; i < args[0].u.v->numel; ++i) sum += floats(&args[0])[i];
  floats(&out[0])[0] = sum;
  return TN_OK;
}

/* The short step for one fresh result hands on what it would have to cast. */
TN_TEST(dispatch_claims, a_kernel_sees_operands_in_the_dtype_of_the_rule) {
  static tni_kernel sum = {.fn = sum_float32, .dtypes = TN_DTYPE_BIT(TN_FLOAT32)};
  const int32_t whole[3] = {1, 2, 4};
  tn_tensor *x = make(lab(), TN_INT32, whole, (const tn_dim[]){3}, 1), *y;
  private_kernel_add("sum", "lab", &sum);
  calls = 0;
  TN_CHECK_OK(tn_sum(x, TN_FLOAT32, &y));
  TN_CHECK_INT(calls, 1);
  check_values(y, (const float[]){7}, 1);
  tn_tensor_release(y);
  tn_tensor_release(x);
  private_kernel_remove("sum", &sum);
}

/* ------------------------------------------------------------------ a kernel that breaks half way */

static tn_status breaks_half_way(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args;
  floats(&out[0])[0] = 100;
  return tn_fail(TN_ERR_IO, "the cable fell out");
}

TN_TEST(dispatch_version, a_kernel_that_fails_half_way_has_written) {
  static tni_kernel broken = {.fn = breaks_half_way, .flags = TN_KERNEL_CONTIGUOUS};
  static tni_kernel strided = {.fn = breaks_half_way};
  tni_kernel *both[] = {&broken, &strided};
  for (int i = 0; i < 2; ++i) {
    tn_tensor *m = matrix(lab(), 2, 3), *t, *y = vector(lab(), 3), *v = vector(lab(), 3);
    private_kernel_add("neg", "lab", both[i]);
    TN_CHECK_OK(tn_t(m, &t));
    TN_CHECK_FAILS(tn_neg_(t), TN_ERR_IO, "cable"); /* strides: the general step */
    TN_CHECK_INT(version(m), 1);
    TN_CHECK_FAILS(tn_neg_(v), TN_ERR_IO, "cable"); /* flat */
    TN_CHECK_INT(version(v), 1);
    TN_CHECK_FAILS(tn_neg_out(v, y), TN_ERR_IO, "cable");
    TN_CHECK_INT(version(y), 1);
    private_kernel_remove("neg", both[i]);
    tn_tensor_release(v);
    tn_tensor_release(y);
    tn_tensor_release(t);
    tn_tensor_release(m);
  }
}

static tn_status has_no_memory(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return tn_fail(TN_ERR_OUT_OF_MEMORY, "nothing left");
}

/* Kernels take their memory before the first write: a step that is made again later finds what was saved. */
TN_TEST(dispatch_version, a_kernel_without_memory_has_not_written) {
  static tni_kernel poor = {.fn = has_no_memory};
  tn_tensor *m = matrix(lab(), 2, 3), *t, *v = vector(lab(), 3), *y = vector(lab(), 3);
  private_kernel_add("neg", "lab", &poor);
  TN_CHECK_OK(tn_t(m, &t));
  TN_CHECK_FAILS(tn_neg_(t), TN_ERR_OUT_OF_MEMORY, "nothing left");
  TN_CHECK_FAILS(tn_neg_(v), TN_ERR_OUT_OF_MEMORY, "nothing left");
  TN_CHECK_FAILS(tn_neg_out(v, y), TN_ERR_OUT_OF_MEMORY, "nothing left");
  TN_CHECK_INT(version(m) + version(v) + version(y), 0);
  private_kernel_remove("neg", &poor);
  tn_tensor_release(y);
  tn_tensor_release(v);
  tn_tensor_release(t);
  tn_tensor_release(m);
}

/* ------------------------------------------------------------------ writes that are no result */

static tn_status scale(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)out;
  for (int64_t i = 0; i < args[0].u.v->numel; ++i) floats(&args[0])[i] *= (float)args[1].u.f;
  return TN_OK;
}

TN_TEST(dispatch_version, an_operator_that_returns_nothing_counts_its_write) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "private::scale_(Tensor(a!) self, float by) -> ()",
                                      .form = TN_FORM_INPLACE};
  static tni_kernel kernel = {.fn = scale, .flags = TN_KERNEL_CONTIGUOUS};
  tn_device device = lab();
  const tn_op *op = add_operator(&def);
  private_kernel_add("private::scale_", "lab", &kernel);
  tn_tensor *m = matrix(device, 2, 3), *t, *quiet;
  TN_CHECK_OK(tn_t(m, &t));
  tn_value args[2] = {tn_value_tensor(t), tn_value_float(2)};
  TN_CHECK_OK(tn_op_call(op, args, 2, NULL, 0));
  TN_CHECK_INT(version(m), 1);
  check_values(m, (const float[]){0, 2, 4, 6, 8, 10}, 6);
  bool before = tn_inference_mode_set(true);
  quiet = vector(device, 3);
  tn_inference_mode_set(before);
  args[0] = tn_value_tensor(quiet);
  TN_CHECK_FAILS(tn_op_call(op, args, 2, NULL, 0), TN_ERR_STATE, "inference tensor");
  check_values(quiet, counting, 3);
  tn_tensor_release(quiet);
  tn_tensor_release(t);
  tn_tensor_release(m);
}

static tn_status split_sign(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < args[0].u.v->numel; ++i) {
    float x = floats(&args[0])[i];
    floats(&out[0])[i] = x < 4 ? x : 0;
    floats(&out[1])[i] = x < 4 ? 0 : x;
  }
  return TN_OK;
}
static tn_status two_like(tn_meta *meta, const tn_value *args) {
  const tn_view *v = args[0].u.v;
  for (int i = 0; i < 2; ++i) {
    meta->out[i].dtype = v->dtype;
    meta->out[i].ndim = v->ndim;
    for (unsigned d = 0; d < v->ndim; ++d) meta->out[i].sizes[d] = v->sizes[d];
  }
  return TN_OK;
}

TN_TEST(dispatch_out, several_targets_are_checked_before_one_is_touched) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "private::parts(Tensor self) -> (Tensor low, Tensor high)",
                                      .meta = two_like};
  static const tn_operator_def def_out = {
      .struct_size = sizeof def,
      .schema =
          "private::parts.out(Tensor self, *, Tensor(a!) low, Tensor(b!) high) -> (Tensor(a!), Tensor(b!))",
      .functional = "private::parts",
      .form = TN_FORM_OUT};
  static tni_kernel kernel = {.fn = split_sign};
  tn_device device = lab();
  add_operator(&def);
  const tn_op *op = add_operator(&def_out);
  private_kernel_add("private::parts", "lab", &kernel);
  tn_tensor *x = vector(device, 6), *small = vector(device, 2), *good = vector(device, 6);
  tn_tensor *bits = make(device, TN_BOOL, "\1\0\1", (const tn_dim[]){3}, 1);
  tn_value args[3] = {tn_value_tensor(x), tn_value_tensor(small), tn_value_tensor(bits)};
  TN_CHECK_FAILS(tn_op_call(op, args, 3, NULL, 0), TN_ERR_DTYPE, "target of dtype bool");
  TN_CHECK_INT(tn_tensor_numel(small), 2);
  TN_CHECK_INT(version(small), 0);
  args[2] = args[1];
  TN_CHECK_FAILS(tn_op_call(op, args, 3, NULL, 0), TN_ERR_OVERLAP, "results 0 and 1 share memory");
  args[1] = tn_value_tensor(good);
  TN_CHECK_OK(tn_op_call(op, args, 3, NULL, 0));
  check_values(small, (const float[]){0, 0, 0, 0, 4, 5}, 6);
  check_values(good, (const float[]){0, 1, 2, 3, 0, 0}, 6);
  TN_CHECK_INT(version(small), 1);
  TN_CHECK_INT(version(good), 1);
  tn_tensor_release(bits);
  tn_tensor_release(good);
  tn_tensor_release(small);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ bodies where there is no kernel */

TN_TEST(dispatch_body, the_meta_rule_refuses_before_a_body_runs) {
  const tn_dim three = 3;
  tn_tensor *x = matrix(lab(), 2, 3), *weight = vector(lab(), 2), *a = NULL, *b = NULL, *c = NULL,
            *on_cpu = NULL;
  tn_status status = tn_native_layer_norm(x, &three, 1, weight, NULL, 1e-5, &a, &b, &c);
  TN_CHECK_FAILS(status, TN_ERR_INVALID_ARGUMENT, "[3]");
  char words[512];
  snprintf(words, sizeof words, "%s", tn_error_message());
  tn_device cpu = {.backend = TN_BACKEND_CPU};
  TN_CHECK_OK(tn_to_device(x, cpu, TN_FLOAT32, false, false, TN_PRESERVE_FORMAT, &on_cpu));
  tn_tensor *weight_cpu = vector(cpu, 2);
  TN_CHECK_FAILS(tn_native_layer_norm(on_cpu, &three, 1, weight_cpu, NULL, 1e-5, &a, &b, &c),
                 TN_ERR_INVALID_ARGUMENT, words); /* what a backend with a kernel says */
  tn_tensor_release(weight_cpu);
  tn_tensor_release(on_cpu);
  tn_tensor_release(weight);
  tn_tensor_release(x);
}

TN_TEST(dispatch_body, a_body_writes_only_what_may_be_written) {
  tn_tensor *x = vector(vault(), 4), *wide, *quiet, *cpu = vector((tn_device){0}, 4),
            *three = vector(vault(), 3);
  TN_CHECK_FAILS(tn_copy_(x, three, false), TN_ERR_INVALID_ARGUMENT, "copy_");
  TN_CHECK_OK(tn_expand(x, (const int64_t[]){2, 4}, 2, false, &wide));
  TN_CHECK_FAILS(tn_copy_(wide, cpu, false), TN_ERR_OVERLAP, "share memory");
  bool before = tn_inference_mode_set(true);
  quiet = vector(vault(), 4);
  tn_inference_mode_set(before);
  TN_CHECK_FAILS(tn_copy_(quiet, cpu, false), TN_ERR_STATE, "inference tensor");
  TN_CHECK_OK(tn_copy_(x, cpu, false));
  TN_CHECK_INT(version(x), 1);
  tn_tensor_release(three);
  tn_tensor_release(quiet);
  tn_tensor_release(wide);
  tn_tensor_release(cpu);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ copies without a copy_ kernel */

static void check_copies(tn_device device) {
  tn_device cpu = {.backend = TN_BACKEND_CPU};
  tn_tensor *m = matrix(device, 2, 3), *t, *home, *back, *other;
  TN_CHECK_OK(tn_t(m, &t));
  TN_CHECK_OK(tn_to_device(t, cpu, TN_FLOAT64, false, false, TN_PRESERVE_FORMAT, &home));
  static const double turned[6] = {0, 3, 1, 4, 2, 5};
  double got[6];
  TN_CHECK_OK(tn_contiguous(home, TN_CONTIGUOUS_FORMAT, &back));
  TN_CHECK_OK(tn_tensor_to_host(back, got, sizeof got));
  for (int i = 0; i < 6; ++i) TN_CHECK_DOUBLE(got[i], turned[i], 0);
  TN_CHECK_OK(tn_add_scalar_(home, tn_int(10), tn_int(1)));
  TN_CHECK_OK(tn_copy_(t, home, false)); /* strided target, cast */
  check_values(m, (const float[]){10, 11, 12, 13, 14, 15}, 6);
  TN_CHECK_INT(version(m), 1);
  tn_tensor *row = vector(cpu, 3);
  TN_CHECK_OK(tn_copy_(m, row, false)); /* broadcast */
  check_values(m, (const float[]){0, 1, 2, 0, 1, 2}, 6);
  const tn_options second = {.dtype = TN_FLOAT32, .has_device = true, .device = {device.backend, 0, 1}};
  TN_CHECK_OK(tn_empty((const int64_t[]){3, 2}, 2, &second, 0, &other));
  TN_CHECK_OK(tn_copy_(other, t, false)); /* to the second device */
  check_values(other, (const float[]){0, 0, 1, 1, 2, 2}, 6);
  tn_tensor_release(other);
  tn_tensor_release(row);
  tn_tensor_release(back);
  tn_tensor_release(home);
  tn_tensor_release(t);
  tn_tensor_release(m);
}

TN_TEST(dispatch_copy, host_memory_without_a_copy_kernel) { check_copies(lab()); }
TN_TEST(dispatch_copy, opaque_memory_without_a_copy_kernel) { check_copies(vault()); }

TN_TEST(dispatch_copy, between_host_memory_and_opaque_memory) {
  tn_tensor *a = matrix(lab(), 2, 3), *b = matrix(vault(), 3, 2), *t;
  TN_CHECK_OK(tn_t(b, &t));
  TN_CHECK_OK(tn_copy_(a, t, false));
  check_values(a, (const float[]){0, 2, 4, 1, 3, 5}, 6);
  TN_CHECK_OK(tn_copy_(t, a, false));
  check_values(b, (const float[]){0, 1, 2, 3, 4, 5}, 6);
  TN_CHECK_INT(version(b), 1);
  tn_tensor_release(t);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

/* ------------------------------------------------------------------ layers */

static int layer_met, layer_depth;

static tn_status count_and_pass(tn_call *call, const tn_value *args, tn_value *out) {
  ++layer_met;
  ++layer_depth;
  tn_status status = call->host->redispatch(call, args, out);
  --layer_depth;
  return status;
}

TN_TEST(dispatch_layers, a_layer_meets_all_forms_once_and_nothing_below_itself) {
  static tni_kernel on_neg = {.fn = count_and_pass, .plugin = "layer"};
  static tni_kernel on_matmul = {.fn = count_and_pass, .plugin = "layer"};
  static tni_kernel on_mm = {.fn = count_and_pass, .plugin = "layer"};
  private_kernel_add("neg", "trace", &on_neg);
  private_kernel_add("matmul", "trace", &on_matmul);
  private_kernel_add("mm", "trace", &on_mm);
  tn_tensor *x, *y, *bad;
  TN_CHECK_OK(tn_ones((const int64_t[]){2, 2}, 2, NULL, &x));
  uint64_t include = tni_tls.modes.include, exclude = tni_tls.modes.exclude;
  tni_tls.modes.include |= TNI_KEY(TNI_BIT_TRACE);
  layer_met = 0;
  TN_CHECK_OK(tn_neg(x, &y));
  TN_CHECK_OK(tn_neg_(y));
  TN_CHECK_OK(tn_neg_out(x, y));
  TN_CHECK_INT(layer_met, 3);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_matmul(x, x, &y)); /* its mm is called from below the layer */
  TN_CHECK_INT(layer_met, 4);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_ones((const int64_t[]){3, 1}, 2, NULL, &bad));
  TN_CHECK(tn_mm(x, bad, &y) != TN_OK);
  TN_CHECK(strncmp(tn_error_message(), "mm: ", 4) == 0 && strncmp(tn_error_message() + 4, "mm: ", 4) != 0);
  TN_CHECK_INT(layer_depth, 0);
  TN_CHECK(tni_tls.modes.exclude == exclude);
  private_kernel_remove("neg", &on_neg);
  private_kernel_remove("matmul", &on_matmul);
  private_kernel_remove("mm", &on_mm);
  TN_CHECK_OK(tn_neg(x, &y)); /* the layer left */
  TN_CHECK_INT(layer_met, 5);
  tni_tls.modes.include = include;
  tn_tensor_release(bad);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ results beside writes */

static tn_status copy_and_count(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < args[0].u.v->numel; ++i) floats(&out[0])[i] = floats(&args[0])[i];
  floats(&args[1])[0] += 1;
  return TN_OK;
}
static tn_status like_first(tn_meta *meta, const tn_value *args) {
  const tn_view *v = args[0].u.v;
  meta->out[0].dtype = v->dtype;
  meta->out[0].ndim = v->ndim;
  for (unsigned d = 0; d < v->ndim; ++d) meta->out[0].sizes[d] = v->sizes[d];
  return TN_OK;
}

TN_TEST(dispatch_autograd, history_goes_to_the_result_not_to_what_is_written_beside_it) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "private::count(Tensor self, Tensor(a!) calls) -> Tensor",
                                      .meta = like_first};
  static tni_kernel kernel = {.fn = copy_and_count};
  tn_device device = lab();
  const tn_op *op = add_operator(&def);
  private_kernel_add("private::count", "lab", &kernel);
  tn_tensor *x = vector(device, 3), *count = vector(device, 1), *seed = vector(device, 3);
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  tn_value args[2] = {tn_value_tensor(x), tn_value_tensor(count)}, out = tn_value_none();
  TN_CHECK_OK(tn_op_call(op, args, 2, &out, 1));
  TN_CHECK(tn_requires_grad(out.u.t) && !tn_requires_grad(count));
  TN_CHECK_INT(version(count), 1);
  TN_CHECK_FAILS(tn_backward_run(out.u.t, seed), TN_ERR_NOT_DIFFERENTIABLE, "private::count");
  tn_tensor_release(out.u.t);
  args[1] = args[0];
  TN_CHECK_FAILS(tn_op_call(op, args, 2, &out, 1), TN_ERR_STATE, "a leaf that requires grad is written");
  check_values(x, counting, 3);
  tn_tensor_release(seed);
  tn_tensor_release(count);
  tn_tensor_release(x);
}
