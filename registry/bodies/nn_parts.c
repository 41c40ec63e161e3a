/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with an addend, softmax, the negative log likelihood and embeddings out of mm, bmm, elementwise operators, sums,
 * gather and scatter_add: for backends that have no kernels of their own. Half types are computed in float32.
 */
#include "registry/bodies/scoped_body.h"

/* ------------------------------------------------------------------ products */

static bool is_number(const tn_value *v, double number) { return tni_double_of(v) == number; }

/* beta * self + alpha * product; beta 0 ignores self, whatever it holds. */
static tn_tensor *add_product(const tn_value *args, tn_tensor *product) {
  tn_tensor *scaled = is_number(&args[4], 1) ? product : tns_mul_scalar(product, args[4]);
  if (is_number(&args[3], 0)) return scaled;
  tn_tensor *self = is_number(&args[3], 1) ? args[0].u.t : tns_mul_scalar(args[0].u.t, args[3]);
  return tns_add(scaled, self, tn_int(1));
}

static tn_tensor *addmm(const tn_value *args) { return add_product(args, tns_mm(args[1].u.t, args[2].u.t)); }
TN_SCOPED_BODY(addmm, addmm)

static tn_tensor *baddbmm(const tn_value *args) {
  return add_product(args, tns_bmm(args[1].u.t, args[2].u.t));
}
TN_SCOPED_BODY(baddbmm, baddbmm)

static tn_tensor *mv(const tn_value *args) {
  return tns_squeeze_dim(tns_mm(args[0].u.t, tns_unsqueeze(args[1].u.t, 1)), 1);
}
TN_SCOPED_BODY(mv, mv)

static tn_tensor *dot(const tn_value *args) {
  tn_tensor *product = tns_mm(tns_unsqueeze(args[0].u.t, 0), tns_unsqueeze(args[1].u.t, 1));
  return tns_reshape(product, NULL, 0);
}
TN_SCOPED_BODY(dot, dot)

/* ------------------------------------------------------------------ softmax */

/* What softmax computes on, less its largest element along dim. NULL results go on through the callers. */
static tn_tensor *shifted(const tn_value *args, const int64_t *dim, tn_dtype *out_dtype) {
  tn_tensor *self = args[0].u.t;
  tn_dtype own = tn_tensor_dtype(self);
  *out_dtype = args[2].u.i ? TN_FLOAT32 : own;
  tn_tensor *x = tni_as(self, tni_wide(own));
  return tns_sub(x, tns_amax(x, dim, 1, true), tn_int(1));
}

static tn_tensor *softmax(const tn_value *args) {
  const int64_t dim = args[1].u.i;
  tn_dtype dtype;
  if (tn_tensor_numel(args[0].u.t) == 0) return tns_clone(args[0].u.t, TN_CONTIGUOUS_FORMAT);
  tn_tensor *e = tns_exp(shifted(args, &dim, &dtype));
  return tni_as(tns_div(e, tns_sum_dim(e, &dim, 1, true, TN_DTYPE_NONE)), dtype);
}
TN_SCOPED_BODY(softmax_parts, softmax)

static tn_tensor *log_softmax(const tn_value *args) {
  const int64_t dim = args[1].u.i;
  tn_dtype dtype;
  if (tn_tensor_numel(args[0].u.t) == 0) return tns_clone(args[0].u.t, TN_CONTIGUOUS_FORMAT);
  tn_tensor *x = shifted(args, &dim, &dtype);
  tn_tensor *sum = tns_sum_dim(tns_exp(x), &dim, 1, true, TN_DTYPE_NONE);
  return tni_as(tns_sub(x, tns_log(sum), tn_int(1)), dtype);
}
TN_SCOPED_BODY(log_softmax_parts, log_softmax)

/* args: grad_output output dim input_dtype. (grad - sum(grad * output)) * output */
static tn_tensor *softmax_backward(const tn_value *args) {
  const int64_t dim = args[2].u.i;
  tn_dtype wide = tni_wide(tn_tensor_dtype(args[0].u.t));
  tn_tensor *grad = tni_as(args[0].u.t, wide), *output = tni_as(args[1].u.t, wide);
  tn_tensor *sum = tns_sum_dim(tns_mul(grad, output), &dim, 1, true, TN_DTYPE_NONE);
  return tni_as(tns_mul(tns_sub(grad, sum, tn_int(1)), output), (tn_dtype)args[3].u.i);
}
TN_SCOPED_BODY(softmax_backward_parts, softmax_backward)

/* grad - exp(output) * sum(grad) */
static tn_tensor *log_softmax_backward(const tn_value *args) {
  const int64_t dim = args[2].u.i;
  tn_dtype wide = tni_wide(tn_tensor_dtype(args[0].u.t));
  tn_tensor *grad = tni_as(args[0].u.t, wide), *output = tni_as(args[1].u.t, wide);
  tn_tensor *sum = tns_sum_dim(grad, &dim, 1, true, TN_DTYPE_NONE);
  return tni_as(tns_sub(grad, tns_mul(tns_exp(output), sum), tn_int(1)), (tn_dtype)args[3].u.i);
}
TN_SCOPED_BODY(log_softmax_backward_parts, log_softmax_backward)

/* ------------------------------------------------------------------ negative log likelihood */

enum { REDUCE_NONE = 0, REDUCE_MEAN = 1 };

/* Rows of classes: self as [n, classes], target as [n, 1], what is ignored as [n, 1], and a weight a row in float32 or
 * wider, which is 0 where the row is ignored. */
typedef struct rows {
  tn_tensor *self, *target, *ignored, *weight;
} rows;

static rows rows_of(tn_tensor *self, tn_tensor *target, tn_tensor *weight, int64_t ignore_index) {
  rows r;
  const int64_t classes = tn_tensor_sizes(self)[tn_tensor_ndim(self) - 1];
  const int64_t table[] = {-1, classes}, column[] = {-1, 1};
  const bool one = tn_tensor_ndim(self) == 1;
  tn_tensor *flat = tns_reshape(target, column, 2);
  r.self = one ? tns_unsqueeze(self, 0) : tn_tensor_numel(self) ? tns_reshape(self, table, 2) : self;
  r.ignored = tns_eq_scalar(flat, tn_int(ignore_index));
  r.target = tns_masked_fill(flat, r.ignored, tn_int(0));
  tn_dtype wide = tni_wide(tn_tensor_dtype(self));
  const tn_options like = {.dtype = wide, .has_device = true, .device = tn_tensor_device(self)};
  tn_tensor *each =
      r.target ? weight ? tni_as(tns_reshape(tns_index_select(weight, 0, tns_reshape(r.target, column, 1)),
                                             column, 2),
                                 wide)
                        : tns_ones(tn_tensor_sizes(r.target), 2, &like)
               : NULL;
  r.weight = tns_masked_fill(each, r.ignored, tn_int(0));
  return r;
}

/* args: self target weight reduction ignore_index */
static void nll_loss(const tn_value *args, tn_tensor **results) {
  tn_tensor *self = args[0].u.t;
  rows r = rows_of(self, args[1].u.t, tni_tensor_or_null(&args[2]), args[4].u.i);
  tn_dtype dtype = tn_tensor_dtype(self), wide = tni_wide(dtype);
  tn_tensor *picked = tni_as(tns_gather(r.self, 1, r.target, false), wide);
  tn_tensor *losses = tns_masked_fill(tns_neg(tns_mul(picked, r.weight)), r.ignored, tn_int(0));
  tn_tensor *total = tns_sum(r.weight, TN_DTYPE_NONE);
  tn_tensor *output;
  if (args[3].u.i == REDUCE_NONE)
    output = tns_reshape(losses, tn_tensor_sizes(args[1].u.t), (size_t)tn_tensor_ndim(args[1].u.t));
  else
    output = tns_sum(losses, TN_DTYPE_NONE);
  if (args[3].u.i == REDUCE_MEAN) output = tns_div(output, total);
  results[0] = tni_as(output, dtype);
  results[1] = tni_as(total, dtype);
}
TN_SCOPED_BODY2(nll_loss_parts, nll_loss)

/* args: grad_output self target weight reduction ignore_index total_weight. Each row has one element that is not 0. */
static tn_tensor *nll_loss_backward(const tn_value *args) {
  tn_tensor *self = args[1].u.t, *grad = args[0].u.t;
  rows r = rows_of(self, args[2].u.t, tni_tensor_or_null(&args[3]), args[5].u.i);
  tn_dtype dtype = tn_tensor_dtype(self), wide = tni_wide(dtype);
  const int64_t column[] = {-1, 1};
  grad = tni_as(args[4].u.i == REDUCE_NONE ? tns_reshape(grad, column, 2) : grad, wide);
  if (args[4].u.i == REDUCE_MEAN) grad = tns_div(grad, tni_as(args[6].u.t, wide));
  tn_tensor *values = tns_masked_fill(tns_neg(tns_mul(r.weight, grad)), r.ignored, tn_int(0));
  tn_tensor *zeros = tns_zeros_like(r.self, NULL, TN_CONTIGUOUS_FORMAT);
  tn_tensor *filled = tns_scatter_add(zeros, 1, r.target, tni_as(values, dtype));
  return tns_reshape(filled, tn_tensor_sizes(self), (size_t)tn_tensor_ndim(self));
}
TN_SCOPED_BODY(nll_loss_backward_parts, nll_loss_backward)

/* ------------------------------------------------------------------ embedding */

/* sizes of the indices, then the row's. */
static tn_tensor *embedding(const tn_value *args) {
  tn_tensor *weight = args[0].u.t, *indices = args[1].u.t;
  const int64_t flat = -1;
  int64_t sizes[TN_MAX_RANK + 1];
  int32_t n = tn_tensor_ndim(indices);
  for (int32_t i = 0; i < n; i++) sizes[i] = tn_tensor_sizes(indices)[i];
  sizes[n] = tn_tensor_sizes(weight)[1];
  return tns_reshape(tns_index_select(weight, 0, tns_reshape(indices, &flat, 1)), sizes, (size_t)n + 1);
}
TN_SCOPED_BODY(embedding_parts, embedding)

/* args: grad_output indices num_weights padding_idx scale_grad_by_freq */
static tn_tensor *embedding_backward(const tn_value *args) {
  tn_tensor *grad = args[0].u.t;
  const int64_t flat = -1, width = tn_tensor_sizes(grad)[tn_tensor_ndim(grad) - 1],
                n = tn_tensor_numel(args[1].u.t);
  const int64_t rows_sizes[] = {n, width}, column[] = {n, 1}, table[] = {args[2].u.i, width};
  tn_dtype dtype = tn_tensor_dtype(grad), wide = tni_wide(dtype);
  tn_tensor *index = tns_reshape(args[1].u.t, &flat, 1);
  tn_tensor *each = tni_as(tns_reshape(grad, rows_sizes, 2), wide);
  if (args[3].u.i >= 0)
    each =
        tns_masked_fill(each, tns_reshape(tns_eq_scalar(index, tn_int(args[3].u.i)), column, 2), tn_int(0));
  const tn_options like = {.dtype = wide, .has_device = true, .device = tn_tensor_device(grad)};
  if (args[4].u.i) {
    tn_tensor *counts =
        tns_index_add(tns_zeros(&table[0], 1, &like), 0, index, tns_ones(column, 1, &like), tn_int(1));
    each = tns_div(each, tns_reshape(tns_index_select(counts, 0, index), column, 2));
  }
  return tni_as(tns_index_add(tns_zeros(table, 2, &like), 0, index, each, tn_int(1)), dtype);
}
TN_SCOPED_BODY(embedding_backward_parts, embedding_backward)
