/* SPDX-License-Identifier: Apache-2.0
 *
 * Note [Kernel, body, gradient]: which of a kernel, a body and a formula serve a call, with operators of the
 * tests' own, whose kernel, body and gradient can be told apart by what they compute.
 */
#include "core/autograd/autograd_int.h"
#include "core/load/load.h"
#include "tools.h"

/* Meta rule of one tensor in, its like out. */
static tn_status like_self(tn_meta *meta, const tn_value *args) {
  const tn_view *v = args[0].u.v;
  meta->out[0].dtype = v->dtype;
  meta->out[0].ndim = v->ndim;
  for (unsigned i = 0; i < v->ndim; ++i) meta->out[0].sizes[i] = v->sizes[i];
  return TN_OK;
}

/* Kernel: self + 1. */
static tn_status add_one(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  for (int64_t i = 0; i < self->numel; ++i) ((double *)result->data)[i] = ((const double *)self->data)[i] + 1;
  return TN_OK;
}

/* Body: self * 3. */
static tn_status times_three(tn_call *call, const tn_value *args, tn_value *out) {
  tn_tensor *result;
  TN_TRY(tn_mul_scalar(args[0].u.t, tn_int(3), &result));
  out[0] = tn_value_tensor(result);
  return TN_OK;
}

/* Formula: 100 * grad. */
static tn_status hundred(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins) {
  return tn_mul_scalar(grad_outs[0], tn_int(100), &grad_ins[0]);
}

static const uint8_t first_argument[] = {0};
static const tn_saves saves_nothing[1];
static const tn_grad_def hundred_def = {.struct_size = sizeof hundred_def,
                                        .n_inputs = 1,
                                        .input_args = first_argument,
                                        .saves = saves_nothing,
                                        .fn = hundred,
                                        .node_name = "HundredBackward0"};

/* Operators live as long as the process: each is made once. */
static tn_tensor *call(const tn_operator_def *def, tni_kernel *kernel, tn_tensor *self) {
  tn_op *op;
  tn_value arg = tn_value_tensor(self), out = tn_value_none();
  TN_CHECK_OK(tni_load_init());
  tni_registry_lock();
  tn_status status = tni_op_add(def, "tests", &op);
  if (status == TN_OK && kernel) status = tni_op_add_kernel(op, kernel);
  tni_registry_unlock();
  TN_CHECK_OK(status);
  TN_CHECK_OK(tni_call(op, &arg, &out));
  return tn_scope_add(out.u.t);
}

TN_TEST(autograd_record, formula_beats_body_and_the_kernel_runs) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "t_all(Tensor self) -> Tensor",
                                      .meta = like_self,
                                      .body = times_three,
                                      .grad = &hundred_def};
  static tni_kernel kernel = {
      .fn = add_one, .plugin = "tests", .dtypes = TN_DTYPES_ALL, .max_rank = TN_MAX_RANK,
      .max_numel = INT64_MAX, .max_args = 1};
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = call(&def, &kernel, x);
  VALUES(y, 2, 3);
  TN_CHECK_STR(tn_grad_fn_name(y, NULL), "HundredBackward0");
  VALUES(grad_one(total(y), x, false), 100, 100);
  close_scope(scope);
}

TN_TEST(autograd_record, formula_over_a_body_is_one_node) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "t_body(Tensor self) -> Tensor",
                                      .body = times_three,
                                      .grad = &hundred_def};
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = call(&def, NULL, x);
  VALUES(y, 3, 6);
  TN_CHECK_STR(tn_grad_fn_name(y, NULL), "HundredBackward0");
  VALUES(grad_one(total(y), x, false), 100, 100);
  close_scope(scope);
}

TN_TEST(autograd_record, body_without_formula_is_recorded_by_its_parts) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "t_parts(Tensor self) -> Tensor",
                                      .meta = like_self,
                                      .body = times_three};
  static tni_kernel kernel = {
      .fn = add_one, .plugin = "tests", .dtypes = TN_DTYPES_ALL, .max_rank = TN_MAX_RANK,
      .max_numel = INT64_MAX, .max_args = 1};
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = call(&def, &kernel, x);
  VALUES(y, 3, 6); /* grad needed: the body, although there is a kernel */
  VALUES(grad_one(total(y), x, false), 3, 3);
  tn_op *op = tni_op_find("t_parts");
  tn_value arg = tn_value_tensor(VEC(1, 2)), out = tn_value_none();
  TN_CHECK_OK(tni_call(op, &arg, &out));
  VALUES(tn_scope_add(out.u.t), 2, 3); /* not needed: the kernel */
  close_scope(scope);
}

TN_TEST(autograd_record, neither_raises_at_backward) {
  static const tn_operator_def def = {
      .struct_size = sizeof def, .schema = "t_none(Tensor self) -> Tensor", .meta = like_self};
  static tni_kernel kernel = {
      .fn = add_one, .plugin = "tests", .dtypes = TN_DTYPES_ALL, .max_rank = TN_MAX_RANK,
      .max_numel = INT64_MAX, .max_args = 1};
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = total(call(&def, &kernel, x));
  TN_CHECK(tn_requires_grad(y));
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_NOT_DIFFERENTIABLE,
                 "derivative of t_none is not implemented");
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

/* Takes vectors only, though the body would take anything. */
static tn_status vectors_only(tn_meta *meta, const tn_value *args) {
  const tn_view *v = args[0].u.v;
  if (v->ndim != 1) return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a vector, got rank %u", v->ndim);
  meta->out[0].dtype = v->dtype;
  meta->out[0].ndim = 1;
  meta->out[0].sizes[0] = v->sizes[0];
  return TN_OK;
}

TN_TEST(autograd_record, a_body_meets_its_meta_rule_with_and_without_grad) {
  static const tn_operator_def def = {.struct_size = sizeof def,
                                      .schema = "t_vectors(Tensor self) -> Tensor",
                                      .meta = vectors_only,
                                      .body = times_three};
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *matrix = tns_unsqueeze(x, 0), *plain = tns_detach(matrix);
  VALUES(grad_one(total(call(&def, NULL, x)), x, false), 3, 3);
  for (int grad = 0; grad < 2; ++grad) {
    tn_value arg = tn_value_tensor(grad ? matrix : plain), out = tn_value_none();
    TN_CHECK_FAILS(tni_call(tni_op_find("t_vectors"), &arg, &out), TN_ERR_INVALID_ARGUMENT,
                   "expected a vector");
  }
  close_scope(scope);
}

TN_TEST(autograd_record, in_place_form_of_a_body) {
  static const tn_operator_def def = {
      .struct_size = sizeof def, .schema = "t_form(Tensor self) -> Tensor", .body = times_three};
  static const tn_operator_def in_place = {.struct_size = sizeof in_place,
                                           .schema = "t_form_(Tensor(a!) self) -> Tensor(a!)",
                                           .functional = "t_form",
                                           .form = TN_FORM_INPLACE};
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = call(&def, NULL, x), *h = tns_mul(y, y),
            *v = tns_slice(h, 0, NULL, &(int64_t){1}, 1);
  tn_op *op;
  tni_registry_lock();
  tn_status status = tni_op_add(&in_place, "tests", &op);
  tni_registry_unlock();
  TN_CHECK_OK(status);
  const tn_value arg = tn_value_tensor(v);
  TN_CHECK_OK(tni_call(op, &arg, NULL));
  VALUES(h, 27, 36);
  TN_CHECK_STR(tn_grad_fn_name(h, NULL), "CopySlices");
  VALUES(grad_one(total(h), x, false), 54, 36);
  close_scope(scope);
}

/* Who records a call keeps no pointer into what the caller has: its numbers may lie on a stack. */
TN_TEST(autograd_record, numbers_of_two_parts_are_copied_alone_and_in_lists) {
  double one[] = {1, 2}, other[] = {3, 4};
  tn_value number = {.u = {.p = one}, .kind = TN_VAL_COMPLEX};
  tn_value entries[] = {{.u = {.p = other}, .kind = TN_VAL_COMPLEX}, tn_value_int(7)};
  tn_value list = {.u = {.p = entries}, .kind = TN_VAL_LIST, .elem = TN_VAL_SCALAR, .count = 2};
  TN_CHECK_INT(tni_value_payload(&number), sizeof one);
  TN_CHECK_INT(tni_value_payload(&list), sizeof entries + sizeof other);
  _Alignas(8) char room[sizeof one + sizeof entries + sizeof other], *pool = room;
  tn_value kept = tni_value_copy(&number, &pool), kept_list = tni_value_copy(&list, &pool);
  TN_CHECK_INT(pool - room, sizeof room);
  one[1] = other[1] = 0;
  entries[1] = tn_value_int(0);
  const tn_value *in_list = kept_list.u.p;
  TN_CHECK(kept.u.floats[1] == 2);
  TN_CHECK(in_list[0].u.floats[1] == 4);
  TN_CHECK_INT(in_list[1].u.i, 7);
}
