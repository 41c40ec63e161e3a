/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution by register tiles over the images themselves (per-isa/conv_tile.inc), forward and to the
 * gradient of the input. Here `source` is what is read and `target` what is written: big and small, or (up)
 * small and big.
 *
 * Note [Regions]
 * Work goes by blocks: some rows (and, where rows are long, some columns) of one slice of one image. A tile
 * wants the channels innermost and may not look beside the image. Rows and slices outside the image are left
 * out of the sum. Columns beside it concern the first and last few targets of a row: those go by `edges`,
 * tiles that run down a column instead of along a row, each with the taps that its column meets. Where that
 * does not suit (other memory order, strides on the way up, edges wider than what is between them) the part
 * of the source that a block reads, its region, is copied into scratch, channels innermost and with zeros
 * beside it.
 *
 * Going up with a stride, neighbours of a target row meet different taps; targets one stride apart meet the
 * same. So a row falls into `phases`, each with its taps, and a phase's targets read neighbours of the
 * source.
 */
#include "plugins/backend-cpu/conv.h"

enum { REGION_BYTES = 256 << 10, WEIGHT_BYTES = 256 << 10, MOST_ROW_BYTES = 64 << 10 };
enum { MOST_POSITIONS = 2048, MOST_REGION_BYTES = 1 << 20, MOST_PHASES = 1 << 16 };

typedef struct direct {
  const cpu_conv_work *work;
  const cpu_conv *c;
  bool up, pack, edges; /* pack: regions are copied */
  bool together, whole; /* all panels of a row before the next row; a block is an image */
  int64_t source[3], target[3];
  int64_t channels, all_channels; /* of the source: in a group, in all */
  int64_t width, all_width;       /* of the target */
  int64_t rows, columns;          /* of a block */
  int64_t row_blocks, column_blocks;
  int64_t inner[3][2];            /* targets of each dim whose taps all fall inside; where there are edges */
  int64_t panels, panel_elements; /* of a group; of the weights of one */
  /* Phase f has the taps along a row entry[begin[f]] to entry[begin[f + 1]]; at: the source column of its
   * first target. */
  int64_t phases, *begin, *tap, *at;
  char *weights, *bias, *scratch;
  size_t region_bytes, out_bytes, scratch_each;
} direct;

/* Where the elements of a source lie: (slice, row, column) from data + that of the origin on, in elements. */
typedef struct grid {
  const char *data;
  int64_t slice, row, column, origin;
} grid;

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t reach(const direct *d, int dim) {
  return (d->c->window.kernel[dim] - 1) * d->c->window.dilation[dim];
}

/* The source coordinates [*low, *high) that targets first to last read along dim, those outside included. */
static void source_range(const direct *d, int dim, int64_t first, int64_t last, int64_t *low, int64_t *high) {
  const int64_t stride = d->c->window.stride[dim], padding = d->c->window.padding[dim];
  if (d->up) {
    *low = floor_div(first + padding - reach(d, dim), stride);
    *high = floor_div(last + padding, stride) + 1;
  } else {
    *low = first * stride - padding;
    *high = last * stride - padding + reach(d, dim) + 1;
  }
}

/* The source coordinate that target o reads under a tap of dim, or -1. */
static int64_t source_at(const direct *d, int dim, int64_t o, int64_t tap) {
  const cpu_window *w = &d->c->window;
  int64_t at = o * w->stride[dim] - w->padding[dim] + tap * w->dilation[dim];
  if (d->up) {
    at = o + w->padding[dim] - tap * w->dilation[dim];
    if (at < 0 || at % w->stride[dim]) return -1;
    at /= w->stride[dim];
  }
  return at < d->source[dim] ? at : -1;
}

/* Most source coordinates that n neighbouring targets read. */
static int64_t span(const direct *d, int dim, int64_t n) {
  const int64_t stride = d->c->window.stride[dim];
  const int64_t all = d->up ? (n - 1 + reach(d, dim)) / stride + 2 : (n - 1) * stride + reach(d, dim) + 1;
  return dim == 2 ? all : least(all, d->source[dim]);
}

static int64_t region_elements(const direct *d, int64_t rows, int64_t columns) {
  return span(d, 0, 1) * span(d, 1, rows) * span(d, 2, columns) * d->channels;
}

/* ------------------------------------------------------------------ plans */

/* The targets along dim whose taps all fall inside, perhaps none. Not for strides on the way up. */
static void find_inner(direct *d, int dim) {
  const int64_t stride = d->c->window.stride[dim], padding = d->c->window.padding[dim];
  int64_t low = d->up ? reach(d, dim) - padding : (padding + stride - 1) / stride;
  int64_t high =
      d->up ? d->source[dim] - padding : floor_div(d->source[dim] - 1 - reach(d, dim) + padding, stride) + 1;
  low = most(low, 0);
  d->inner[dim][0] = least(low, d->target[dim]);
  d->inner[dim][1] = most(least(high, d->target[dim]), d->inner[dim][0]);
}

static direct direct_of(const cpu_conv *c, bool up) {
  const cpu_window *w = &c->window;
  direct d = {.c = c,
              .up = up,
              .channels = up ? c->rows : w->channels,
              .all_channels = up ? c->small_channels : c->big_channels,
              .width = up ? w->channels : c->rows,
              .all_width = up ? c->big_channels : c->small_channels};
  for (int i = 0; i < 3; ++i) {
    d.source[i] = up ? w->out[i] : w->in[i];
    d.target[i] = up ? w->in[i] : w->out[i];
  }
  d.panels = (d.width + c->tile->panel - 1) / c->tile->panel;
  d.panel_elements = c->taps * d.channels * c->tile->panel;
  d.phases = up ? least(w->stride[2], d.target[2]) : 1;
  int64_t low, high;
  source_range(&d, 2, 0, d.target[2] - 1, &low, &high);
  const bool beside = low < 0 || high > d.source[2];
  for (int i = 1; i < 3; ++i) find_inner(&d, i);
  const int64_t inner = d.inner[2][1] - d.inner[2][0];
  d.edges =
      beside && c->last && inner > d.target[2] - inner && (!up || (w->stride[1] == 1 && w->stride[2] == 1));
  d.pack = !c->last || (beside && !d.edges);
  return d;
}

/* Rows and columns of a block: a region that stays in the second-level cache. */
static void plan_blocks(direct *d) {
  const int64_t room = REGION_BYTES / (int64_t)d->c->size;
  d->columns = d->target[2];
  while (d->pack && d->columns > 64 && region_elements(d, 1, d->columns) > room) d->columns /= 2;
  if (d->columns < d->target[2]) d->columns = (d->columns + d->phases - 1) / d->phases * d->phases;
  d->rows = least(d->target[1], most(1, MOST_POSITIONS / d->columns));
  while (d->rows > 1 && region_elements(d, d->rows, d->columns) > room) --d->rows;
  d->row_blocks = (d->target[1] + d->rows - 1) / d->rows;
  d->rows = (d->target[1] + d->row_blocks - 1) / d->row_blocks;
  d->column_blocks = (d->target[2] + d->columns - 1) / d->columns;
}

/* Rows of all panels at once where the weights stay in the second-level cache: a row is read and written once. */
static void plan_order(direct *d) {
  const cpu_conv *c = d->c;
  d->together = c->last && c->groups == 1 && d->panels * d->panel_elements * (int64_t)c->size <= WEIGHT_BYTES;
  d->whole = c->groups == 1 && d->target[0] * d->row_blocks * d->column_blocks == 1;
}

bool cpu_conv_direct_suits(const cpu_conv *c, bool up) {
  if (c->pointwise || !c->columns || !c->rows || !c->small_positions || !c->big_positions) return false;
  direct d = direct_of(c, up);
  if (d.width < c->tile->panel / 2 || d.phases > MOST_PHASES / c->window.kernel[2]) return false;
  plan_blocks(&d);
  return !d.pack || region_elements(&d, d.rows, d.columns) <= MOST_REGION_BYTES / (int64_t)c->size;
}

static void plan_phases(direct *d) {
  const cpu_window *w = &d->c->window;
  int64_t n = 0;
  for (int64_t f = 0; f < d->phases; ++f) {
    d->begin[f] = n;
    for (int64_t t = 0; t < w->kernel[2]; ++t) {
      int64_t at = d->up ? f + w->padding[2] - t * w->dilation[2] : t * w->dilation[2] - w->padding[2];
      if (d->up && at % w->stride[2]) continue;
      d->tap[n] = t;
      d->at[n++] = d->up ? at / w->stride[2] : at;
    }
  }
  d->begin[d->phases] = n;
}

static tn_status plan(tn_call *call, direct *d) {
  const cpu_conv *c = d->c;
  void *memory;
  plan_blocks(d);
  plan_order(d);
  TN_TRY(cpu_scratch(call, (size_t)(d->phases + 1 + 2 * c->window.kernel[2]) * sizeof(int64_t), &memory));
  d->begin = memory;
  d->tap = d->begin + d->phases + 1;
  d->at = d->tap + c->window.kernel[2];
  plan_phases(d);
  const size_t weights = (size_t)(c->groups * d->panels * d->panel_elements) * c->size;
  const size_t bias = (size_t)(c->groups * d->panels * c->tile->panel) * c->size;
  TN_TRY(cpu_scratch(call, weights + bias, &memory));
  d->weights = memory;
  d->bias = d->weights + weights;
  d->region_bytes = d->pack ? ((size_t)region_elements(d, d->rows, d->columns) * c->size + 63) / 64 * 64 : 0;
  d->out_bytes = c->last ? 0 : (size_t)(d->rows * d->columns * c->tile->panel) * c->size;
  d->scratch_each = (d->region_bytes + d->out_bytes + 2 * (size_t)c->taps * sizeof(int64_t) + 63) / 64 * 64;
  TN_TRY(cpu_scratch(call, d->scratch_each * (size_t)tn_kit_host()->num_threads(), &memory));
  d->scratch = memory;
  return TN_OK;
}

/* ------------------------------------------------------------------ weights */

/* out[i * out_step] = in[i * in_step] */
static void spread(const cpu_conv *c, char *out, int64_t out_step, const char *in, int64_t in_step,
                   int64_t n) {
  if (c->dtype == TN_FLOAT32)
    for (int64_t i = 0; i < n; ++i)
      ((float *)(void *)out)[i * out_step] = ((const float *)(const void *)in)[i * in_step];
  else
    for (int64_t i = 0; i < n; ++i)
      ((double *)(void *)out)[i * out_step] = ((const double *)(const void *)in)[i * in_step];
}

/* Panel p of a group as [tap][channel of the source][panel], zeros beyond the target's channels. */
static void pack_panel(const direct *d, int64_t group, int64_t p) {
  const cpu_conv *c = d->c;
  const int64_t wide = c->tile->panel, width = least(wide, d->width - p * wide);
  const int64_t inner = c->last ? 1 : c->taps, tap_step = c->last ? c->window.channels : 1;
  const int64_t target_step = d->up ? inner : c->columns, source_step = d->up ? c->columns : inner;
  const char *from =
      cpu_conv_weight_of(c, d->work->other, group) + (size_t)(p * wide * target_step) * c->size;
  char *to = d->weights + (size_t)((group * d->panels + p) * d->panel_elements) * c->size;
  if (width < wide) memset(to, 0, (size_t)d->panel_elements * c->size);
  for (int64_t t = 0; t < c->taps; ++t, to += (size_t)(d->channels * wide) * c->size) {
    const char *at = from + (size_t)(t * tap_step) * c->size;
    if (source_step == 1) {
      c->tile->turn(to, wide, at, target_step, width, d->channels);
      continue;
    }
    for (int64_t k = 0; k < d->channels; ++k)
      spread(c, to + (size_t)(k * wide) * c->size, 1, at + (size_t)(k * source_step) * c->size, target_step,
             width);
  }
  char *bias = d->bias + (size_t)((group * d->panels + p) * wide) * c->size;
  memset(bias, 0, (size_t)wide * c->size);
  if (d->work->bias)
    memcpy(bias, d->work->bias + (size_t)(group * d->width + p * wide) * c->size, (size_t)width * c->size);
}

static tn_status pack_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const direct *d = ctx;
  for (int64_t i = begin; i < end; ++i) pack_panel(d, i / d->panels, i % d->panels);
  return TN_OK;
}

/* ------------------------------------------------------------------ regions */

typedef struct range3 {
  int64_t low[3], high[3];
} range3;

/* n columns from column on of one row of the source, channels innermost, to out. */
static void copy_row(const direct *d, const char *image, int64_t at, int64_t n, char *out) {
  const cpu_conv *c = d->c;
  const int64_t positions = d->source[0] * d->source[1] * d->source[2];
  if (!c->last) {
    c->tile->turn(out, d->channels, image + (size_t)at * c->size, positions, d->channels, n);
  } else if (d->channels == d->all_channels) {
    memcpy(out, image + (size_t)(at * d->channels) * c->size, (size_t)(n * d->channels) * c->size);
  } else {
    const size_t bytes = (size_t)d->channels * c->size;
    for (int64_t i = 0; i < n; ++i)
      memcpy(out + (size_t)i * bytes, image + (size_t)((at + i) * d->all_channels) * c->size, bytes);
  }
}

static grid copy_region(const direct *d, const char *image, const range3 *r, char *out) {
  const size_t pixel = (size_t)d->channels * d->c->size;
  const int64_t width = r->high[2] - r->low[2], low = least(most(r->low[2], 0), d->source[2]);
  const int64_t high = most(least(r->high[2], d->source[2]), low);
  const int64_t before = least(low - r->low[2], width), after = width - before - (high - low);
  grid g = {.data = out, .column = d->channels, .row = width * d->channels};
  g.slice = (r->high[1] - r->low[1]) * g.row;
  g.origin = r->low[0] * g.slice + r->low[1] * g.row + r->low[2] * g.column;
  for (int64_t z = r->low[0]; z < r->high[0]; ++z) {
    const int64_t at = (z * d->source[1] + r->low[1]) * d->source[2];
    if (width == d->source[2] && before == 0 && after == 0) { /* whole rows: one copy */
      const int64_t n = (r->high[1] - r->low[1]) * width;
      copy_row(d, image, at, n, out);
      out += (size_t)n * pixel;
      continue;
    }
    for (int64_t y = r->low[1]; y < r->high[1]; ++y) {
      memset(out, 0, (size_t)before * pixel);
      copy_row(d, image, at + (y - r->low[1]) * d->source[2] + low, high - low, out + (size_t)before * pixel);
      memset(out + (size_t)(before + high - low) * pixel, 0, (size_t)after * pixel);
      out += (size_t)width * pixel;
    }
  }
  return g;
}

/* ------------------------------------------------------------------ blocks */

/* One block: slice z, rows y[0] to y[1], columns x[0] to x[1] of the target. */
typedef struct block {
  int64_t image, group, z, y[2], x[2];
  grid source;
  char *out; /* [position][panel], for planes */
  int64_t *from, *weight;
} block;

static grid source_of(const direct *d, const block *b, char *scratch) {
  const cpu_conv *c = d->c;
  const int64_t positions = d->source[0] * d->source[1] * d->source[2];
  const int64_t first = b->group * d->channels * (c->last ? 1 : positions);
  const char *image = d->work->from + (size_t)(b->image * positions * d->all_channels + first) * c->size;
  if (!d->pack)
    return (grid){image, d->source[1] * d->source[2] * d->all_channels, d->source[2] * d->all_channels,
                  d->all_channels, 0};
  range3 r;
  const int64_t begin[3] = {b->z, b->y[0], b->x[0]}, end[3] = {b->z, b->y[1] - 1, b->x[1] - 1};
  for (int i = 0; i < 3; ++i) {
    source_range(d, i, begin[i], end[i], &r.low[i], &r.high[i]);
    if (i == 2) continue;
    r.low[i] = least(most(r.low[i], 0), d->source[i]);
    r.high[i] = most(least(r.high[i], d->source[i]), r.low[i]);
  }
  return copy_region(d, image, &r, scratch);
}

/* The taps of row y, phase f, as offsets for the tile; the result is their number. */
static int64_t list_taps(const direct *d, const block *b, int64_t y, int64_t f) {
  const cpu_window *w = &d->c->window;
  const int64_t first = b->x[0] / d->phases * (d->up ? 1 : w->stride[2]);
  const int64_t tap_elements = d->channels * d->c->tile->panel;
  int64_t n = 0;
  for (int64_t i = 0; i < w->kernel[0]; ++i) {
    const int64_t slice = source_at(d, 0, b->z, i);
    if (slice < 0) continue;
    for (int64_t j = 0; j < w->kernel[1]; ++j) {
      const int64_t row = source_at(d, 1, y, j);
      if (row < 0) continue;
      const int64_t at = slice * b->source.slice + row * b->source.row - b->source.origin;
      for (int64_t k = d->begin[f]; k < d->begin[f + 1]; ++k) {
        b->from[n] = at + (d->at[k] + first) * b->source.column;
        b->weight[n++] = ((i * w->kernel[1] + j) * w->kernel[2] + d->tap[k]) * tap_elements;
      }
    }
  }
  return n;
}

/* What panel p of row y asks for (Note [What comes next]): the source rows that only the next row reads, further on by
 * a kernel, so that the next image's first rows are among them, and the next row of the target; or, of images that are
 * copied, the next one, and the planes that this one goes to. */
static void ask(const direct *d, const block *b, int64_t p, int64_t y, cpu_ahead *ahead) {
  const int64_t size = (int64_t)d->c->size, from_row = d->source[2] * d->all_channels * size,
                to_row = d->target[2] * d->all_width * size, rows = d->target[1];
  const bool neighbours = d->together && d->column_blocks == 1 && most(from_row, to_row) <= MOST_ROW_BYTES;
  int64_t low, high, next;
  if (neighbours) {
    const int64_t row = (b->image * d->target[0] + b->z) * rows + y + 1;
    ahead[1] = cpu_conv_ahead(d->work->to, row * to_row, to_row, p, d->panels);
  }
  if (neighbours && !d->pack) {
    source_range(d, 0, b->z, b->z, &low, &high);
    const int64_t slice = most(0, least(high, d->source[0]) - 1);
    source_range(d, 1, y + 1, y + 1, &low, &next);
    source_range(d, 1, y, y, &low, &high);
    ahead[0] = cpu_conv_ahead(b->source.data, (slice * d->source[1] + high + reach(d, 1)) * from_row,
                              (next - high) * from_row, p, d->panels);
  } else if (d->pack && d->whole) {
    const int64_t bytes = d->source[0] * d->source[1] * from_row;
    ahead[0] = cpu_conv_ahead(d->work->from, (b->image + 1) * bytes, bytes,
                              d->together ? y * d->panels + p : p * rows + y, rows * d->panels);
  }
  if (!d->c->last && d->whole) {
    const int64_t plane = rows * d->target[2] * size, wide = d->c->tile->panel;
    ahead[1] = cpu_conv_ahead(d->work->to, (b->image * d->width + p * wide) * plane,
                              least(wide, d->width - p * wide) * plane, y, rows);
  }
}

/* ------------------------------------------------------------------ edges */

/* The taps of target (y, x) that fall inside. */
static int64_t list_taps_at(const direct *d, const block *b, int64_t y, int64_t x) {
  const cpu_window *w = &d->c->window;
  const int64_t tap_elements = d->channels * d->c->tile->panel;
  int64_t n = 0, t = 0;
  for (int64_t i = 0; i < w->kernel[0]; ++i)
    for (int64_t j = 0; j < w->kernel[1]; ++j)
      for (int64_t k = 0; k < w->kernel[2]; ++k, ++t) {
        const int64_t slice = source_at(d, 0, b->z, i), row = source_at(d, 1, y, j),
                      column = source_at(d, 2, x, k);
        if (slice < 0 || row < 0 || column < 0) continue;
        b->from[n] = slice * b->source.slice + row * b->source.row + column * b->source.column;
        b->weight[n++] = t * tap_elements;
      }
  return n;
}

/* n targets from (y, x) on, along a row or down a column, that all meet the taps of the first. */
static void do_run(const direct *d, const block *b, int64_t p, int64_t y, int64_t x, int64_t n, bool down) {
  const cpu_conv *c = d->c;
  const int64_t wide = c->tile->panel, at_panel = b->group * d->panels + p,
                stride = c->window.stride[down ? 1 : 2];
  if (n <= 0) return;
  cpu_conv_row r = {.n = n,
                    .step = (down ? b->source.row : b->source.column) * (d->up ? 1 : stride),
                    .out_step = d->all_width * (down ? d->target[2] : 1),
                    .width = least(wide, d->width - p * wide),
                    .channels = d->channels,
                    .taps = list_taps_at(d, b, y, x),
                    .from = b->from,
                    .weight = b->weight};
  if (!down) ask(d, b, p, y, r.ahead);
  const int64_t position = ((b->image * d->target[0] + b->z) * d->target[1] + y) * d->target[2] + x;
  c->tile->row(&r, b->source.data, d->weights + (size_t)(at_panel * d->panel_elements) * c->size,
               d->bias + (size_t)(at_panel * wide) * c->size,
               d->work->to + (size_t)(position * d->all_width + b->group * d->width + p * wide) * c->size);
}

/* Row y between the edges. */
static void do_inner(const direct *d, const block *b, int64_t p, int64_t y) {
  do_run(d, b, p, y, d->inner[2][0], d->inner[2][1] - d->inner[2][0], false);
}

/* Panel p of the edges' columns. */
static void do_edges(const direct *d, const block *b, int64_t p) {
  const int64_t *inner = d->inner[2], low = most(b->y[0], least(d->inner[1][0], b->y[1]));
  const int64_t high = most(low, least(d->inner[1][1], b->y[1]));
  for (int64_t x = 0; x < d->target[2]; ++x) {
    if (x >= inner[0] && x < inner[1]) {
      x = inner[1] - 1;
      continue;
    }
    for (int64_t y = b->y[0]; y < low; ++y) do_run(d, b, p, y, x, 1, true);
    do_run(d, b, p, low, x, high - low, true);
    for (int64_t y = high; y < b->y[1]; ++y) do_run(d, b, p, y, x, 1, true);
  }
}

/* ------------------------------------------------------------------ rows */

/* Panel p of row y. */
static void do_row(const direct *d, const block *b, int64_t p, int64_t y) {
  const cpu_conv *c = d->c;
  const int64_t wide = c->tile->panel, at_panel = b->group * d->panels + p;
  const int64_t step = c->last ? d->all_width : wide;
  char *out = b->out + (size_t)((y - b->y[0]) * (b->x[1] - b->x[0]) * wide) * c->size;
  if (c->last)
    out = d->work->to +
          (size_t)((((b->image * d->target[0] + b->z) * d->target[1] + y) * d->target[2] + b->x[0]) *
                       d->all_width +
                   b->group * d->width + p * wide) *
              c->size;
  for (int64_t f = 0; f < d->phases && f < b->x[1] - b->x[0]; ++f) {
    cpu_conv_row r = {.n = (b->x[1] - b->x[0] - f + d->phases - 1) / d->phases,
                      .step = b->source.column * (d->up ? 1 : c->window.stride[2]),
                      .out_step = d->phases * step,
                      .width = least(wide, d->width - p * wide),
                      .channels = d->channels,
                      .taps = list_taps(d, b, y, f),
                      .from = b->from,
                      .weight = b->weight};
    if (f == 0) ask(d, b, p, y, r.ahead);
    c->tile->row(&r, b->source.data, d->weights + (size_t)(at_panel * d->panel_elements) * c->size,
                 d->bias + (size_t)(at_panel * wide) * c->size, out + (size_t)(f * step) * c->size);
  }
}

/* Panel p of the block from [position][panel] into its planes. */
static void to_planes(const direct *d, const block *b, int64_t p) {
  const cpu_conv *c = d->c;
  const int64_t wide = c->tile->panel, width = least(wide, d->width - p * wide), n = b->x[1] - b->x[0];
  const int64_t positions = d->target[0] * d->target[1] * d->target[2];
  const int64_t at = (b->z * d->target[1] + b->y[0]) * d->target[2] + b->x[0];
  char *to = d->work->to +
             (size_t)((b->image * d->all_width + b->group * d->width + p * wide) * positions + at) * c->size;
  if (n == d->target[2]) {
    c->tile->turn(to, positions, b->out, wide, n * (b->y[1] - b->y[0]), width);
    return;
  }
  for (int64_t y = 0; y < b->y[1] - b->y[0]; ++y)
    c->tile->turn(to + (size_t)(y * d->target[2]) * c->size, positions,
                  b->out + (size_t)(y * n * wide) * c->size, wide, n, width);
}

/* All of a block. */
static void do_block(const direct *d, const block *b) {
  const int64_t panels = d->panels, rows = b->y[1] - b->y[0];
  for (int64_t i = 0; i < panels * rows; ++i) {
    const int64_t p = d->together ? i % panels : i / rows,
                  y = b->y[0] + (d->together ? i / panels : i % rows);
    (d->edges ? do_inner : do_row)(d, b, p, y);
    if (!d->c->last && y == b->y[1] - 1) to_planes(d, b, p);
  }
  for (int64_t p = 0; p < panels && d->edges; ++p) do_edges(d, b, p);
}

static tn_status direct_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const direct *d = ctx;
  char *scratch = d->scratch + (size_t)worker * d->scratch_each;
  for (int64_t i = begin; i < end; ++i) {
    int64_t at = i / d->column_blocks, x = i % d->column_blocks * d->columns;
    const int64_t y = at % d->row_blocks * d->rows;
    block b = {.y = {y, least(y + d->rows, d->target[1])}, .x = {x, least(x + d->columns, d->target[2])}};
    at /= d->row_blocks;
    b.z = at % d->target[0];
    at /= d->target[0];
    b.group = at % d->c->groups;
    b.image = at / d->c->groups;
    b.out = scratch + d->region_bytes;
    b.from = (int64_t *)(void *)(b.out + d->out_bytes);
    b.weight = b.from + d->c->taps;
    b.source = source_of(d, &b, scratch);
    do_block(d, &b);
  }
  return TN_OK;
}

tn_status cpu_conv_direct(tn_call *call, const cpu_conv_work *work, bool up) {
  direct d = direct_of(&work->c, up);
  d.work = work;
  TN_TRY(plan(call, &d));
  const int64_t grain = CPU_GRAIN / d.panel_elements + 1;
  TN_TRY(tn_kit_host()->parallel_for(d.c->groups * d.panels, grain, pack_chunk, &d));
  const int64_t tasks = d.c->batch * d.c->groups * d.target[0] * d.row_blocks * d.column_blocks;
  return tn_kit_host()->parallel_for(tasks, cpu_conv_grain(d.c, d.rows * d.columns), direct_chunk, &d);
}
