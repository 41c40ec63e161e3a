/* SPDX-License-Identifier: Apache-2.0
 *
 * convolution and convolution_backward over 1 to 3 spatial dims as oneDNN takes them. The table says how many images a
 * piece has, the host's threads run the pieces. Every reason to decline is known before the first write.
 *
 * Note [Chunks of a sum]
 * A weight gradient is a sum over images. The batch is cut into chunks by sizes alone; each chunk is summed in order of its
 * pieces, and the chunks are added in order. So bits do not depend on the number of threads.
 */
#include "plugins/onednn/conv.h"

#include <string.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/status.h>

#include "plugins/onednn/conv_plan.h"
#include "plugins/onednn/table.h"

/* One of the three products, ready to run once scratch and places are filled in. */
typedef struct job {
  od_conv c;                       /* c.batch: images of the whole */
  const od_conv_plan *full, *last; /* of all pieces but the last, and of that one */
  od_images cut;
  int64_t pieces;
  char *big, *small, *weight; /* operands as they lie; weight: in the plan's layout once begun */
  const char *bias;
  size_t big_bytes, small_bytes; /* of one image */
  char *scratch;                 /* per worker: the primitives', turned images, one sum */
  size_t scratch_each, big_at, small_at, sum_at;
  float *sums; /* to_weight: `chunks` times weight and bias, each up to a whole line */
  size_t weight_floats, sum_floats;
} job;

/* ------------------------------------------------------------------ what is asked */

static int64_t entry(const tn_value *list, uint32_t i) { return list->u.ints[list->count == 1 ? 0 : i]; }
static const tn_view *view(const tn_value *v) { return v->kind == TN_VAL_TENSOR ? v->u.v : NULL; }

/* Is v row-major with its dims in the order given, dims of one element apart? */
static bool is_in_order(const tn_view *v, bool last) {
  int64_t expected = 1;
  for (uint32_t i = v->ndim; i-- > 0;) {
    /* Memory order of channels innermost: 0, 2, 3, ..., 1. */
    uint32_t d = !last || i == 0 ? i : i == v->ndim - 1u ? 1 : i + 1;
    if (v->sizes[d] != 1 && v->strides[d] != expected) return false;
    expected *= v->sizes[d];
  }
  return true;
}

/* False if v lies in neither of the two orders. */
static bool order_of(const tn_view *v, int64_t *out_last) {
  *out_last = is_in_order(v, true);
  return *out_last || is_in_order(v, false);
}

/* lists: stride padding dilation transposed output_padding groups. False: not ours. */
static bool describe(const tn_view *big, const tn_view *small, const tn_view *weight, const tn_value *lists,
                     od_conv_kind kind, od_conv *out) {
  if (big->ndim < 3 || big->ndim > OD_SPATIAL + 2) return false;
  *out = (od_conv){.kind = kind,
                   .dtype = big->dtype,
                   .spatial = big->ndim - 2,
                   .batch = big->sizes[0],
                   .groups = lists[5].u.i,
                   .big_channels = big->sizes[1],
                   .small_channels = small->sizes[1]};
  if (small->dtype != big->dtype || weight->dtype != big->dtype) return false;
  if (big->numel == 0 || small->numel == 0 || weight->numel == 0) return false;
  if (!order_of(big, &out->big_last) || !order_of(small, &out->small_last)) return false;
  for (uint32_t d = 0; d < big->ndim; ++d) out->weight_strides[d] = weight->strides[d];
  for (uint32_t d = 0; d + 2 < big->ndim; ++d) {
    out->big[d] = big->sizes[d + 2];
    out->small[d] = small->sizes[d + 2];
    out->kernel[d] = weight->sizes[d + 2];
    out->stride[d] = entry(&lists[0], d);
    out->padding[d] = entry(&lists[1], d);
    out->dilation[d] = entry(&lists[2], d);
  }
  return (weight->flags & TN_VIEW_DENSE) != 0;
}

/* ------------------------------------------------------------------ plans */

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static od_images cut_of(const od_conv *c, uint32_t products) {
  double big = (double)c->big_channels, small = (double)c->small_channels, taps = 1, out = 1;
  double size = (double)tn_kit_dtype_size((tn_dtype)c->dtype);
  for (int64_t d = 0; d < c->spatial; ++d) {
    big *= (double)c->big[d];
    small *= (double)c->small[d];
    out *= (double)c->small[d];
    taps *= (double)c->kernel[d];
  }
  double weights = taps * (double)c->small_channels * (double)c->big_channels / (double)c->groups;
  od_conv_shape shape = {.batch = c->batch,
                         .groups = c->groups,
                         .group_channels = c->big_channels / c->groups,
                         .taps = (int64_t)taps,
                         .last = c->big_last && c->small_last,
                         .products = products,
                         .work = weights * out,
                         .image_bytes = (big + small) * size,
                         .weight_bytes = weights * 4};
  return od_cut_images(od_library_isa(), (tn_dtype)c->dtype, &shape);
}

static void give_plans(job *j) {
  od_give(j->full);
  od_give(j->last);
  j->full = j->last = NULL;
}

static tn_status take_plan(const job *j, int64_t images, const od_conv_plan **out) {
  od_conv key = j->c;
  const void *value = NULL;
  key.batch = images;
  key.batch_of_layout = j->cut.images;
  TN_TRY(od_take(&od_conv_kind_of_cache, &key, &value));
  *out = value;
  return (*out)->run.handle ? TN_OK : TN_DECLINED;
}

/* Where things lie in a worker's scratch. The full plan's images are the larger ones. */
static void lay_out(job *j) {
  const od_conv_plan *p = j->full;
  size_t own = 0;
  for (int i = 0; i < 2; ++i) {
    const od_conv_plan *q = i ? j->last : j->full;
    own = most(own, most(most(q->run.scratch_bytes, q->weight.scratch_bytes),
                         most(q->big.scratch_bytes, q->small.scratch_bytes)));
  }
  size_t big = p->big.handle ? dnnl_memory_desc_get_size(&p->run.mds[OD_BIG]) : 0;
  size_t small = p->small.handle ? dnnl_memory_desc_get_size(&p->run.mds[OD_SMALL]) : 0;
  j->weight_floats = (dnnl_memory_desc_get_size(&p->run.mds[OD_WEIGHT]) + 63) / 64 * 16;
  j->sum_floats = j->weight_floats + (j->c.bias ? ((size_t)j->c.small_channels + 15) / 16 * 16 : 0);
  bool sums = j->c.kind == OD_TO_WEIGHT && j->pieces > j->cut.chunks;
  j->big_at = own;
  j->small_at = j->big_at + (big + 63) / 64 * 64;
  j->sum_at = j->small_at + (small + 63) / 64 * 64;
  j->scratch_each = j->sum_at + (sums ? j->sum_floats * sizeof(float) : 0);
}

/* products: all that the call computes, bits 1 << od_conv_kind. TN_DECLINED if the table or the library has nothing for
 * it; then nothing is held. */
static tn_status plan(job *j, uint32_t products) {
  j->cut = cut_of(&j->c, products);
  if (j->cut.images == 0) return TN_DECLINED;
  j->pieces = (j->c.batch + j->cut.images - 1) / j->cut.images;
  tn_status status = take_plan(j, j->cut.images, &j->full);
  if (status == TN_OK) status = take_plan(j, j->c.batch - (j->pieces - 1) * j->cut.images, &j->last);
  if (status == TN_OK)
    lay_out(j);
  else
    give_plans(j);
  return status;
}

static void place(job *j, const tn_view *big, const tn_view *small, const tn_view *weight,
                  const tn_view *bias) {
  j->big = big->data;
  j->small = small->data;
  j->weight = weight->data;
  j->bias = bias ? bias->data : NULL;
  j->big_bytes = (size_t)(big->numel / big->sizes[0]) * big->itemsize;
  j->small_bytes = (size_t)(small->numel / small->sizes[0]) * small->itemsize;
}

/* ------------------------------------------------------------------ a piece */

static tn_status scratch_of(tn_call *call, size_t bytes, void *out) {
  tn_memory memory = {0};
  if (bytes) TN_TRY(tn_kit_host()->scratch(call, bytes, &memory));
  *(void **)out = memory.address;
  return TN_OK;
}

static const od_conv_plan *plan_of(const job *j, int64_t piece) {
  return piece == j->pieces - 1 ? j->last : j->full;
}

/* An image that is read, in the layout of the primitive. */
static tn_status turned_in(const od_primitive *turn, char *image, char *room, char *scratch, char **out) {
  *out = turn->handle ? room : image;
  return turn->handle ? od_reorder(turn, image, room, scratch) : TN_OK;
}

/* to_small or to_big. */
static tn_status run_image(const job *j, int64_t piece, char *scratch) {
  const od_conv_plan *p = plan_of(j, piece);
  bool forward = j->c.kind == OD_TO_SMALL;
  char *big = j->big + (size_t)(piece * j->cut.images) * j->big_bytes;
  char *small = j->small + (size_t)(piece * j->cut.images) * j->small_bytes;
  char *big_room = p->big.handle ? scratch + j->big_at : big;
  char *small_room = p->small.handle ? scratch + j->small_at : small;
  const dnnl_memory_desc_t *mds = p->run.mds;
  const od_operand operands[] = {{forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, &mds[OD_BIG], big_room},
                                 {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, &mds[OD_SMALL], small_room},
                                 {DNNL_ARG_WEIGHTS, &mds[OD_WEIGHT], j->weight},
                                 {DNNL_ARG_BIAS, &mds[OD_BIAS], (void *)(uintptr_t)j->bias}};
  char *unused;
  TN_TRY(forward ? turned_in(&p->big, big, big_room, scratch, &unused)
                 : turned_in(&p->small, small, small_room, scratch, &unused));
  TN_TRY(od_run(&p->run, j->bias ? 4 : 3, operands, scratch));
  if (forward) return p->small.handle ? od_reorder(&p->small, small_room, small, scratch) : TN_OK;
  return p->big.handle ? od_reorder(&p->big, big_room, big, scratch) : TN_OK;
}

/* to_weight: one piece's gradient of weight and bias into sum. */
static tn_status run_weight(const job *j, int64_t piece, char *scratch, float *sum) {
  const od_conv_plan *p = plan_of(j, piece);
  const dnnl_memory_desc_t *mds = p->run.mds;
  char *big, *small;
  TN_TRY(turned_in(&p->big, j->big + (size_t)(piece * j->cut.images) * j->big_bytes, scratch + j->big_at,
                   scratch, &big));
  TN_TRY(turned_in(&p->small, j->small + (size_t)(piece * j->cut.images) * j->small_bytes,
                   scratch + j->small_at, scratch, &small));
  const od_operand operands[] = {{DNNL_ARG_SRC, &mds[OD_BIG], big},
                                 {DNNL_ARG_DIFF_DST, &mds[OD_SMALL], small},
                                 {DNNL_ARG_DIFF_WEIGHTS, &mds[OD_WEIGHT], sum},
                                 {DNNL_ARG_DIFF_BIAS, &mds[OD_BIAS], sum + j->weight_floats}};
  return od_run(&p->run, j->c.bias ? 4 : 3, operands, scratch);
}

/* ------------------------------------------------------------------ to small, to big */

static tn_status image_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const job *j = ctx;
  tn_status status = TN_OK;
  int before = od_single_begin();
  for (int64_t piece = begin; piece < end && status == TN_OK; ++piece)
    status = run_image(j, piece, j->scratch + (size_t)worker * j->scratch_each);
  od_single_end(before);
  return status;
}

static tn_status prepare_weight(tn_call *call, job *j) {
  const od_primitive *turn = &j->full->weight;
  char *prepared;
  if (!turn->handle) return TN_OK;
  TN_TRY(scratch_of(call, dnnl_memory_desc_get_size(&turn->mds[1]), &prepared));
  int before = od_single_begin();
  tn_status status = od_reorder(turn, j->weight, prepared, j->scratch);
  od_single_end(before);
  j->weight = prepared;
  return status;
}

static tn_status run_images(tn_call *call, job *j) {
  TN_TRY(scratch_of(call, j->scratch_each * (size_t)tn_kit_host()->num_threads(), &j->scratch));
  TN_TRY(prepare_weight(call, j));
  return tn_kit_host()->parallel_for(j->pieces, 1, image_chunk, j);
}

/* ------------------------------------------------------------------ to weight */

static void add_floats(float *to, const float *from, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

/* Pieces [first, last) of a chunk: the first one's gradient is its sum, the others' are added. See
 * Note [Chunks of a sum]. */
static tn_status sum_chunk(const job *j, int64_t chunk, char *scratch) {
  int64_t first = chunk * j->pieces / j->cut.chunks, last = (chunk + 1) * j->pieces / j->cut.chunks;
  float *sum = j->sums + (size_t)chunk * j->sum_floats, *one = (float *)(void *)(scratch + j->sum_at);
  TN_TRY(run_weight(j, first, scratch, sum));
  for (int64_t piece = first + 1; piece < last; ++piece) {
    TN_TRY(run_weight(j, piece, scratch, one));
    add_floats(sum, one, j->sum_floats);
  }
  return TN_OK;
}

static tn_status weight_chunks(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const job *j = ctx;
  tn_status status = TN_OK;
  int before = od_single_begin();
  for (int64_t chunk = begin; chunk < end && status == TN_OK; ++chunk)
    status = sum_chunk(j, chunk, j->scratch + (size_t)worker * j->scratch_each);
  od_single_end(before);
  return status;
}

static tn_status add_chunks(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const job *j = ctx;
  for (int64_t chunk = 1; chunk < j->cut.chunks; ++chunk)
    add_floats(j->sums + begin, j->sums + (size_t)chunk * j->sum_floats + begin, (size_t)(end - begin));
  return TN_OK;
}

static void put_bias(const job *j, const tn_view *bias) {
  const float *sum = j->sums + j->weight_floats;
  char *at = bias->data;
  for (int64_t i = 0; i < j->c.small_channels; ++i, at += bias->strides[0] * bias->itemsize) {
    if (bias->dtype == TN_FLOAT32) {
      memcpy(at, &sum[i], sizeof sum[i]);
    } else {
      tn_bfloat16 half = tn_bfloat16_from_float(sum[i]);
      memcpy(at, &half, sizeof half);
    }
  }
}

static tn_status put_weight(const job *j) {
  const od_primitive *turn = &j->full->weight;
  if (!turn->handle) {
    memcpy(j->weight, j->sums, dnnl_memory_desc_get_size(&turn->mds[1]));
    return TN_OK;
  }
  int before = od_single_begin();
  tn_status status = od_reorder(turn, j->sums, j->weight, j->scratch);
  od_single_end(before);
  return status;
}

static tn_status run_weights(tn_call *call, job *j, const tn_view *bias) {
  enum { GRAIN = 32768 };
  const tn_host *host = tn_kit_host();
  size_t floats = (size_t)j->cut.chunks * j->sum_floats;
  TN_TRY(scratch_of(call, floats * sizeof(float), &j->sums));
  TN_TRY(scratch_of(call, j->scratch_each * (size_t)host->num_threads(), &j->scratch));
  TN_TRY(host->parallel_for(j->cut.chunks, 1, weight_chunks, j));
  if (j->cut.chunks > 1) TN_TRY(host->parallel_for((int64_t)j->sum_floats, GRAIN, add_chunks, j));
  if (bias) put_bias(j, bias);
  return put_weight(j);
}

/* ------------------------------------------------------------------ operators */

/* args: input weight bias stride padding dilation transposed output_padding groups */
tn_status od_convolution(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[0].u.v, *weight = args[1].u.v, *bias = view(&args[2]), *result = out[0].u.v;
  bool transposed = args[6].u.i;
  const tn_view *big = transposed ? result : input, *small = transposed ? input : result;
  job j = {0};
  if (bias && (transposed || bias->dtype != input->dtype || bias->strides[0] != 1)) return TN_DECLINED;
  if (!describe(big, small, weight, &args[3], transposed ? OD_TO_BIG : OD_TO_SMALL, &j.c)) return TN_DECLINED;
  j.c.bias = bias != NULL;
  TN_TRY(plan(&j, 1u << j.c.kind));
  place(&j, big, small, weight, bias);
  tn_status status = run_images(call, &j);
  give_plans(&j);
  return status;
}

/* The image's gradient and the weight's, as far as they are wanted: plans for both, or a refusal of both. */
static tn_status plan_both(job *image, bool wants_image, job *weight, bool wants_weight) {
  uint32_t products = (wants_image ? 1u << image->c.kind : 0) | (wants_weight ? 1u << weight->c.kind : 0);
  if (wants_image) TN_TRY(plan(image, products));
  tn_status status = wants_weight ? plan(weight, products) : TN_OK;
  if (status != TN_OK && wants_image) give_plans(image);
  return status;
}

/* args: grad_output input weight bias_sizes stride padding dilation transposed output_padding groups output_mask */
tn_status od_convolution_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v, *weight = args[2].u.v;
  const tn_view *to_image = view(&out[0]), *to_weight = view(&out[1]), *to_bias = view(&out[2]);
  bool transposed = args[7].u.i;
  job i = {0}, w = {0};
  /* A bias's gradient comes with the weight's, or not at all. */
  if (to_bias && (transposed || !to_weight)) return TN_DECLINED;
  if (to_image && !describe(transposed ? grad : to_image, transposed ? to_image : grad, weight, &args[4],
                            transposed ? OD_TO_SMALL : OD_TO_BIG, &i.c))
    return TN_DECLINED;
  if (to_weight && !describe(transposed ? grad : input, transposed ? input : grad, to_weight, &args[4],
                             OD_TO_WEIGHT, &w.c))
    return TN_DECLINED;
  w.c.bias = to_bias != NULL;
  TN_TRY(plan_both(&i, to_image != NULL, &w, to_weight != NULL));
  tn_status status = TN_OK;
  if (to_image) {
    place(&i, transposed ? grad : to_image, transposed ? to_image : grad, weight, NULL);
    status = run_images(call, &i);
    give_plans(&i);
  }
  if (to_weight) {
    place(&w, transposed ? grad : input, transposed ? input : grad, to_weight, NULL);
    if (status == TN_OK) status = run_weights(call, &w, to_bias);
    give_plans(&w);
  }
  return status;
}
