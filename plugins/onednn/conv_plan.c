/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the primitives of a convolution; see conv_plan.h.
 */
#include "plugins/onednn/conv_plan.h"

#include <tenon/kit/status.h>

static dnnl_data_type_t type_of(const od_conv *c) { return c->dtype == TN_FLOAT32 ? dnnl_f32 : dnnl_bf16; }

/* ------------------------------------------------------------------ descriptors */

static tn_status image(const od_conv *c, int64_t batch, bool big, bool last, dnnl_memory_desc_t *out) {
  static const dnnl_format_tag_t tags[2][OD_SPATIAL] = {{dnnl_ncw, dnnl_nchw, dnnl_ncdhw},
                                                        {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc}};
  dnnl_dims_t dims = {batch, big ? c->big_channels : c->small_channels};
  for (int64_t d = 0; d < c->spatial; ++d) dims[2 + d] = big ? c->big[d] : c->small[d];
  return od_status(
      dnnl_memory_desc_init_by_tag(out, (int)c->spatial + 2, dims, type_of(c), tags[last][c->spatial - 1]),
      "describe an image");
}

/* [groups,] small channels, big channels, kernel; strides NULL: as the library likes it. */
static tn_status weight(const od_conv *c, dnnl_data_type_t type, const int64_t *strides,
                        dnnl_memory_desc_t *out) {
  dnnl_dims_t dims = {0}, steps = {0};
  int n = 0;
  if (c->groups > 1) {
    dims[n] = c->groups;
    steps[n++] = strides ? strides[0] * (c->small_channels / c->groups) : 0;
  }
  for (int64_t i = 0; i < c->spatial + 2; ++i) {
    dims[n] = i == 0   ? c->small_channels / c->groups
              : i == 1 ? c->big_channels / c->groups
                       : c->kernel[i - 2];
    steps[n++] = strides ? strides[i] : 0;
  }
  return od_status(strides ? dnnl_memory_desc_init_by_strides(out, n, dims, type, steps)
                           : dnnl_memory_desc_init_by_tag(out, n, dims, type, dnnl_format_tag_any),
                   "describe a weight");
}

static tn_status bias(const od_conv *c, dnnl_data_type_t type, dnnl_memory_desc_t *out) {
  dnnl_dims_t dims = {c->small_channels};
  return od_status(dnnl_memory_desc_init_by_tag(out, 1, dims, type, dnnl_a), "describe a bias");
}

/* mds as in od_conv_plan.run. */
static dnnl_status_t describe(const od_conv *c, od_conv_kind kind, const dnnl_memory_desc_t *mds,
                              dnnl_convolution_desc_t *out) {
  const dnnl_memory_desc_t *big = &mds[OD_BIG], *small = &mds[OD_SMALL], *w = &mds[OD_WEIGHT],
                           *b = c->bias ? &mds[OD_BIAS] : NULL;
  dnnl_dims_t gaps = {0}, stride = {0}, padding = {0};
  for (int64_t d = 0; d < c->spatial; ++d) {
    gaps[d] = c->dilation[d] - 1;
    stride[d] = c->stride[d];
    padding[d] = c->padding[d];
  }
  if (kind == OD_TO_SMALL)
    return dnnl_dilated_convolution_forward_desc_init(out, dnnl_forward_training, dnnl_convolution_direct,
                                                      big, w, b, small, stride, gaps, padding, padding);
  if (kind == OD_TO_BIG)
    return dnnl_dilated_convolution_backward_data_desc_init(out, dnnl_convolution_direct, big, w, small,
                                                            stride, gaps, padding, padding);
  return dnnl_dilated_convolution_backward_weights_desc_init(out, dnnl_convolution_direct, big, w, b, small,
                                                             stride, gaps, padding, padding);
}

static tn_status fill_mds(const od_conv *c, int64_t batch, const dnnl_memory_desc_t *layout,
                          dnnl_memory_desc_t *mds) {
  /* Sums over the pieces of a gradient are kept in float32, whatever the operands are. */
  dnnl_data_type_t type = c->kind == OD_TO_WEIGHT ? dnnl_f32 : type_of(c);
  TN_TRY(image(c, batch, true, true, &mds[OD_BIG]));
  TN_TRY(image(c, batch, false, true, &mds[OD_SMALL]));
  TN_TRY(bias(c, type, &mds[OD_BIAS]));
  if (!layout) return weight(c, type, NULL, &mds[OD_WEIGHT]);
  mds[OD_WEIGHT] = *layout;
  return TN_OK;
}

/* ------------------------------------------------------------------ the convolution itself */

/* Backward primitives are described with a forward one at hand. NULL if there is none. */
static tn_status make_hint(const od_conv *c, int64_t batch, dnnl_primitive_attr_t attributes,
                           dnnl_primitive_desc_t *out) {
  od_conv forward = *c;
  od_primitive p = {0};
  dnnl_convolution_desc_t descriptor;
  *out = NULL;
  forward.kind = OD_TO_SMALL;
  forward.bias = 0;
  TN_TRY(fill_mds(&forward, batch, NULL, p.mds));
  if (describe(&forward, OD_TO_SMALL, p.mds, &descriptor) != dnnl_success) return TN_OK;
  TN_TRY(od_primitive_make(&descriptor, attributes, NULL, &p, out));
  od_primitive_drop(&p);
  return TN_OK;
}

static const dnnl_memory_desc_t *weight_of(od_conv_kind kind, const_dnnl_primitive_desc_t description) {
  return dnnl_primitive_desc_query_md(
      description, kind == OD_TO_WEIGHT ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
}

/* For `batch` images. layout: of the weights, or NULL: the library's choice, which then stands in out->mds. */
static tn_status make_run(const od_conv *c, int64_t batch, const dnnl_memory_desc_t *layout,
                          dnnl_primitive_attr_t attributes, od_primitive *out) {
  dnnl_convolution_desc_t descriptor;
  dnnl_primitive_desc_t hint = NULL, description = NULL;
  TN_TRY(fill_mds(c, batch, layout, out->mds));
  /* What the library does not take is invalid to it: there is no primitive then. */
  if (describe(c, (od_conv_kind)c->kind, out->mds, &descriptor) != dnnl_success) return TN_OK;
  if (c->kind != OD_TO_SMALL) {
    TN_TRY(make_hint(c, batch, attributes, &hint));
    if (!hint) return TN_OK;
  }
  tn_status status = od_primitive_make(&descriptor, attributes, hint, out, &description);
  if (description) out->mds[OD_WEIGHT] = *weight_of((od_conv_kind)c->kind, description);
  if (description) dnnl_primitive_desc_destroy(description);
  if (hint) dnnl_primitive_desc_destroy(hint);
  return status;
}

/* A shorter last piece must read the same weights as the others. */
static tn_status make_convolution(const od_conv *c, od_primitive *out) {
  dnnl_primitive_attr_t attributes;
  TN_TRY(od_attributes(1, 0, &attributes));
  tn_status status = make_run(c, c->batch_of_layout, NULL, attributes, out);
  if (status == TN_OK && out->handle && c->batch != c->batch_of_layout) {
    dnnl_memory_desc_t layout = out->mds[OD_WEIGHT];
    od_primitive_drop(out);
    *out = (od_primitive){0};
    status = make_run(c, c->batch, &layout, attributes, out);
  }
  dnnl_primitive_attr_destroy(attributes);
  return status;
}

/* ------------------------------------------------------------------ around it */

static tn_status make_turn(const od_conv *c, bool big, const dnnl_memory_desc_t *ours, od_primitive *out) {
  dnnl_memory_desc_t theirs;
  bool result = c->kind == (big ? OD_TO_BIG : OD_TO_SMALL);
  TN_TRY(image(c, c->batch, big, big ? c->big_last : c->small_last, &theirs));
  return result ? od_reorder_make(ours, &theirs, out) : od_reorder_make(&theirs, ours, out);
}

static tn_status make_turns(const od_conv *c, od_conv_plan *plan) {
  dnnl_memory_desc_t theirs;
  TN_TRY(make_turn(c, true, &plan->run.mds[OD_BIG], &plan->big));
  TN_TRY(make_turn(c, false, &plan->run.mds[OD_SMALL], &plan->small));
  TN_TRY(weight(c, type_of(c), c->weight_strides, &theirs));
  const dnnl_memory_desc_t *ours = &plan->run.mds[OD_WEIGHT];
  return c->kind == OD_TO_WEIGHT ? od_reorder_make(ours, &theirs, &plan->weight)
                                 : od_reorder_make(&theirs, ours, &plan->weight);
}

static void drop_plan(void *value) {
  od_conv_plan *plan = value;
  od_primitive_drop(&plan->run);
  od_primitive_drop(&plan->big);
  od_primitive_drop(&plan->small);
  od_primitive_drop(&plan->weight);
}

static tn_status make_plan(const void *key, void *value) {
  od_conv_plan *plan = value;
  tn_status status = make_convolution(key, &plan->run);
  if (status == TN_OK && plan->run.handle) status = make_turns(key, plan);
  if (status != TN_OK) drop_plan(plan);
  return status;
}

const od_kind od_conv_kind_of_cache = {sizeof(od_conv), sizeof(od_conv_plan), make_plan, drop_plan};
