/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of samples and their places in memory. The numbers come from a small generator of our own, seeded by the
 * operator's and the sample's text, so that a finding repeats whatever ran before it.
 */
#include "make.h"

#include <math.h>

/* ------------------------------------------------------------------ numbers */

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static uint64_t hash(const char *text) {
  uint64_t h = 1469598103934665603u;
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
  return h;
}

uint64_t ref_seed(const char *op, const char *sample) { return hash(op) ^ mix(hash(sample)); }

double ref_unit(uint64_t *state) { return (double)(mix(++*state) >> 11) * 0x1p-53; }

static bool is_int(tn_dtype dtype) { return dtype >= TN_BOOL && dtype <= TN_INT64; }

/* One value of a sample's tensor. Ranges of integers are whole numbers in [low, high); what a dtype cannot
 * hold (negative ones in uint8 and bool) moves to its nearest value. */
static double draw(const tn_sample_tensor *s, tn_dtype dtype, uint64_t *state) {
  double low = s->has_range ? s->low : is_int(dtype) ? -4 : -2;
  double high = s->has_range ? s->high : is_int(dtype) ? 5 : 2;
  if (!is_int(dtype)) return low + (high - low) * ref_unit(state);
  if (dtype == TN_BOOL && !s->has_range) return ref_unit(state) < 0.5;
  low = ceil(low);
  if ((dtype == TN_BOOL || dtype == TN_UINT8) && low < 0) low = 0;
  double count = ceil(high) - low;
  double value = low + floor((count > 1 ? count : 1) * ref_unit(state));
  return dtype == TN_BOOL ? value != 0 : value;
}

/* What element i in row-major order gets beside its drawn value. */
static double on_diagonal(const tn_sample_tensor *s, int64_t i) {
  if (s->diagonal == 0) return 0;
  int64_t columns = s->sizes[s->ndim - 1], rows = s->sizes[s->ndim - 2];
  return i % columns == i / columns % rows ? s->diagonal : 0;
}

/* ------------------------------------------------------------------ places */

void ref_layout_of(const tn_sample_tensor *s, bool contiguous, ref_layout *out_layout) {
  int nd = s->ndim;
  uint8_t layout = contiguous ? TN_SAMPLE_CONTIGUOUS : s->layout;
  int64_t step = layout == TN_SAMPLE_SLICED ? 2 : 1, total = step, *strides = out_layout->strides;
  bool swap = layout == TN_SAMPLE_TRANSPOSED && nd >= 2;
  out_layout->numel = 1;
  for (int d = 0; d < nd; d++) out_layout->numel *= s->sizes[d];
  for (int k = nd - 1; k >= 0; k--) {
    int d = swap && k >= nd - 2 ? 2 * nd - 3 - k : k;
    strides[d] = total;
    total *= s->sizes[d];
  }
  if (layout == TN_SAMPLE_CHANNELS_LAST) {
    total = s->sizes[1];
    strides[1] = 1;
    for (int d = nd - 1; d >= 2; d--) strides[d] = total, total *= s->sizes[d];
    strides[0] = total;
    total *= s->sizes[0];
  }
  out_layout->offset = layout == TN_SAMPLE_SLICED ? 1 : 0;
  if (layout == TN_SAMPLE_EXPANDED && nd) strides[0] = 0;
  for (int d = 0; layout == TN_SAMPLE_FLIPPED && d < nd; d++) {
    if (s->sizes[d] > 0) out_layout->offset += (s->sizes[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  out_layout->elements = total + out_layout->offset;
}

void ref_draw(const tn_sample_tensor *s, tn_dtype dtype, const ref_layout *layout, uint64_t *state, void *memory) {
  int64_t index[RT_RANK];
  size_t size = ref_item_size(dtype);
  rt shape = {.nd = s->ndim, .numel = layout->numel};
  for (int d = 0; d < s->ndim; d++) shape.n[d] = s->sizes[d];
  for (int64_t i = 0; i < layout->numel; i++) {
    int64_t at = layout->offset;
    rt_unravel(&shape, i, index);
    for (int d = 0; d < s->ndim; d++) at += index[d] * layout->strides[d];
    ref_store((char *)memory + (size_t)at * size, dtype, draw(s, dtype, state) + on_diagonal(s, i));
  }
}

rt *ref_read(const void *data, tn_dtype dtype, int nd, const int64_t *sizes, const int64_t *strides) {
  rt *out = rt_new(nd, sizes);
  int64_t index[RT_RANK], size = (int64_t)ref_item_size(dtype);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t at = 0;
    rt_unravel(out, i, index);
    for (int d = 0; d < nd; d++) at += index[d] * strides[d];
    out->p[i] = ref_load((const char *)data + at * size, dtype);
  }
  return out;
}
