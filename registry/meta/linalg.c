/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices and vectors: operands of one dtype, inner sizes that agree, row-major results.
 */
#include "registry/meta/rules.h"

static tn_status inner_mismatch(const tn_view *a, const tn_view *b) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected inner sizes that agree, got shapes %s and %s",
                 tn_shape_format(a->ndim, a->sizes, TN_SHAPE_TEXT),
                 tn_shape_format(b->ndim, b->sizes, TN_SHAPE_TEXT));
}

static tn_status product(tn_desc *desc, const char *name_a, const tn_view *a, const char *name_b,
                         const tn_view *b) {
  TN_TRY(tni_check_ndim(name_a, a, 2));
  TN_TRY(tni_check_ndim(name_b, b, 2));
  TN_TRY(tni_check_dtype_is(name_b, b, a->dtype));
  if (TN_DIM_NE(a->sizes[1], b->sizes[0])) return inner_mismatch(a, b);
  tni_desc_head(desc, a->dtype, 2, TN_DESC_CONTIGUOUS);
  desc->sizes[0] = a->sizes[0];
  desc->sizes[1] = b->sizes[1];
  return TN_OK;
}

static tn_status batch_product(tn_desc *desc, const char *name_a, const tn_view *a, const char *name_b,
                               const tn_view *b) {
  TN_TRY(tni_check_ndim(name_a, a, 3));
  TN_TRY(tni_check_ndim(name_b, b, 3));
  TN_TRY(tni_check_dtype_is(name_b, b, a->dtype));
  if (TN_DIM_NE(a->sizes[0], b->sizes[0]))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected stacks of one length, got shapes %s and %s",
                   tn_shape_format(3, a->sizes, TN_SHAPE_TEXT), tn_shape_format(3, b->sizes, TN_SHAPE_TEXT));
  if (TN_DIM_NE(a->sizes[2], b->sizes[1])) return inner_mismatch(a, b);
  tni_desc_head(desc, a->dtype, 3, TN_DESC_CONTIGUOUS);
  desc->sizes[0] = a->sizes[0];
  desc->sizes[1] = a->sizes[1];
  desc->sizes[2] = b->sizes[2];
  return TN_OK;
}

/* The added tensor of addmm and baddbmm, and their two numbers (args[3], args[4]). */
static tn_status check_added(const tn_desc *desc, const tn_value *args) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_dtype_is("self", self, desc->dtype));
  TN_TRY(tn_shape_check_expand(self->ndim, self->sizes, desc->ndim, desc->sizes));
  TN_TRY(tni_check_number_fits(&args[3], desc->dtype));
  return tni_check_number_fits(&args[4], desc->dtype);
}

TN_META(mm) { return product(&meta->out[0], "self", args[0].u.v, "mat2", args[1].u.v); }

TN_META(bmm) { return batch_product(&meta->out[0], "self", args[0].u.v, "mat2", args[1].u.v); }

TN_META(addmm) {
  TN_TRY(product(&meta->out[0], "mat1", args[1].u.v, "mat2", args[2].u.v));
  return check_added(&meta->out[0], args);
}

TN_META(baddbmm) {
  TN_TRY(batch_product(&meta->out[0], "batch1", args[1].u.v, "batch2", args[2].u.v));
  return check_added(&meta->out[0], args);
}

TN_META(mv) {
  const tn_view *self = args[0].u.v, *vec = args[1].u.v;
  TN_TRY(tni_check_ndim("self", self, 2));
  TN_TRY(tni_check_ndim("vec", vec, 1));
  TN_TRY(tni_check_dtype_is("vec", vec, self->dtype));
  if (TN_DIM_NE(self->sizes[1], vec->sizes[0])) return inner_mismatch(self, vec);
  tni_desc_head(&meta->out[0], self->dtype, 1, TN_DESC_CONTIGUOUS);
  meta->out[0].sizes[0] = self->sizes[0];
  return TN_OK;
}

TN_META(dot) {
  const tn_view *self = args[0].u.v, *tensor = args[1].u.v;
  TN_TRY(tni_check_ndim("self", self, 1));
  TN_TRY(tni_check_ndim("tensor", tensor, 1));
  TN_TRY(tni_check_dtype_is("tensor", tensor, self->dtype));
  if (TN_DIM_NE(self->sizes[0], tensor->sizes[0])) return inner_mismatch(self, tensor);
  tni_desc_head(&meta->out[0], self->dtype, 0, TN_DESC_CONTIGUOUS);
  return TN_OK;
}
