/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a convolution's weight where input channels are too few to fill a vector: register tiles of
 * (tap, input channel) by output channels. Each block's part of the big image is copied into scratch with its
 * padding, so that every tap meets every position; with few channels it is small.
 */
#include "plugins/backend-cpu/conv.h"

enum { BLOCK_BYTES = 64 << 10, MOST_COLUMNS = 1024, MOST_BLOCK_BYTES = 1 << 20 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Big coordinates that n neighbouring small ones meet, padding included. */
static int64_t span(const cpu_window *w, int dim, int64_t n) {
  return (n - 1) * w->stride[dim] + (w->kernel[dim] - 1) * w->dilation[dim] + 1;
}

typedef struct blocks {
  int64_t rows, columns, big, small; /* of small; elements of both parts */
} blocks;

static blocks blocks_of(const cpu_conv *c, int64_t rows, int64_t columns) {
  const cpu_window *w = &c->window;
  return (blocks){rows, columns, span(w, 0, 1) * span(w, 1, rows) * span(w, 2, columns) * w->channels,
                  rows * columns * c->rows};
}

static blocks plan(const cpu_conv *c) {
  const int64_t room = BLOCK_BYTES / (int64_t)c->size;
  blocks b = blocks_of(c, 1, c->window.out[2]);
  while (b.columns > 64 && b.big + b.small > room) b = blocks_of(c, 1, b.columns / 2);
  while (b.columns == c->window.out[2] && b.rows < c->window.out[1]) {
    const blocks next = blocks_of(c, b.rows + 1, b.columns);
    if (next.big + next.small > room) break;
    b = next;
  }
  return b;
}

bool cpu_conv_direct_few_suits(const cpu_conv *c) {
  if (c->pointwise || !c->columns || !c->rows || c->rows % c->tile->panel || c->columns > MOST_COLUMNS)
    return false;
  if (c->window.channels >= c->tile->panel / 2 || !c->small_positions) return false;
  const blocks b = plan(c);
  return b.big + b.small <= MOST_BLOCK_BYTES / (int64_t)c->size;
}

/* Scratch: the sums [columns][rows], the big part, the small one where it is copied, the offsets of columns.
 */
static size_t sums_bytes(const cpu_conv *c) { return (size_t)(c->columns * c->rows) * c->size; }
size_t cpu_conv_direct_few_scratch(const cpu_conv *c) {
  const blocks b = plan(c);
  const size_t parts = (size_t)(b.big + (c->last ? 0 : b.small)) * c->size;
  return (sums_bytes(c) + parts + (size_t)c->columns * sizeof(int64_t) + 127) / 64 * 64;
}

/* Columns [low, high) of one row of big with zeros beside the image; image: of the group's first channel. */
static void copy_row(const cpu_conv *c, const char *image, int64_t row, int64_t low, int64_t high,
                     char *out) {
  const cpu_window *w = &c->window;
  const int64_t from = least(most(low, 0), w->in[2]), until = most(least(high, w->in[2]), from);
  const size_t pixel = (size_t)w->channels * c->size;
  const int64_t at = row * w->in[2] + from, before = least(from - low, high - low);
  memset(out, 0, (size_t)before * pixel);
  out += (size_t)before * pixel;
  if (!c->last)
    c->tile->turn(out, w->channels, image + (size_t)at * c->size, c->big_positions, w->channels,
                  until - from);
  for (int64_t i = 0; c->last && i < until - from; ++i)
    memcpy(out + (size_t)i * pixel, image + (size_t)((at + i) * c->big_channels) * c->size, pixel);
  memset(out + (size_t)(until - from) * pixel, 0, (size_t)(high - low - before - (until - from)) * pixel);
}

/* The part of big that rows from y and columns from x of slice z meet. */
static void copy_part(const cpu_conv *c, const char *image, const blocks *b, const int64_t *first,
                      char *out) {
  const cpu_window *w = &c->window;
  int64_t low[3], high[3];
  const int64_t n[3] = {1, b->rows, b->columns};
  for (int i = 0; i < 3; ++i) {
    low[i] = first[i] * w->stride[i] - w->padding[i];
    high[i] = low[i] + span(w, i, n[i]);
  }
  const size_t row = (size_t)((high[2] - low[2]) * w->channels) * c->size;
  for (int64_t z = low[0]; z < high[0]; ++z)
    for (int64_t y = low[1]; y < high[1]; ++y, out += row) {
      if (z < 0 || z >= w->in[0] || y < 0 || y >= w->in[1])
        memset(out, 0, row);
      else
        copy_row(c, image, z * w->in[1] + y, low[2], high[2], out);
    }
}

/* Where (tap, channel) lies from a position's first element of a part on. */
static void list_columns(const cpu_conv *c, const blocks *b, int64_t *from) {
  const cpu_window *w = &c->window;
  const int64_t row = span(w, 2, b->columns) * w->channels, slice = span(w, 1, b->rows) * row;
  for (int64_t d = 0; d < w->kernel[0]; ++d)
    for (int64_t h = 0; h < w->kernel[1]; ++h)
      for (int64_t k = 0; k < w->kernel[2]; ++k)
        for (int64_t i = 0; i < w->channels; ++i)
          *from++ =
              d * w->dilation[0] * slice + h * w->dilation[1] * row + k * w->dilation[2] * w->channels + i;
}

/* Rows of small, channels innermost: the image's own, or a copy. */
static const char *small_part(const cpu_conv *c, const char *image, const blocks *b, const int64_t *first,
                              char *copy) {
  const cpu_window *w = &c->window;
  const int64_t at = (first[0] * w->out[1] + first[1]) * w->out[2] + first[2];
  if (c->last) return image + (size_t)(at * c->small_channels) * c->size;
  for (int64_t y = 0; y < b->rows; ++y)
    c->tile->turn(copy + (size_t)(y * b->columns * c->rows) * c->size, c->rows,
                  image + (size_t)(at + y * w->out[2]) * c->size, c->small_positions, c->rows, b->columns);
  return copy;
}

void cpu_conv_direct_few(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
                         char *scratch) {
  const cpu_conv *c = &work->c;
  const cpu_window *w = &c->window;
  const blocks whole = plan(c);
  char *big = scratch + sums_bytes(c), *small = big + (size_t)whole.big * c->size;
  char *after = small + (c->last ? 0 : (size_t)whole.small * c->size);
  int64_t *from = (int64_t *)(void *)(after + (64 - (uintptr_t)after % 64) % 64);
  const int64_t big_step = c->last ? 1 : c->big_positions, small_step = c->last ? 1 : c->small_positions;
  memset(scratch, 0, sums_bytes(c));
  for (int64_t image = first; image < until; ++image)
    for (int64_t z = 0; z < w->out[0]; ++z)
      for (int64_t y = 0; y < w->out[1]; y += whole.rows)
        for (int64_t x = 0; x < w->out[2]; x += whole.columns) {
          const blocks b =
              blocks_of(c, least(whole.rows, w->out[1] - y), least(whole.columns, w->out[2] - x));
          const int64_t at[3] = {z, y, x}, row = span(w, 2, b.columns) * w->channels;
          const int64_t big_at = image * c->big_positions * c->big_channels + group * w->channels * big_step;
          const int64_t small_at =
              image * c->small_positions * c->small_channels + group * c->rows * small_step;
          copy_part(c, work->from + (size_t)big_at * c->size, &b, at, big);
          list_columns(c, &b, from);
          const cpu_conv_sum s = {.rows = b.rows,
                                  .n = b.columns,
                                  .small_row = c->last ? w->out[2] * c->small_channels : b.columns * c->rows,
                                  .big_row = row * w->stride[1],
                                  .small_step = c->last ? c->small_channels : c->rows,
                                  .big_step = w->channels * w->stride[2],
                                  .small_channels = c->rows,
                                  .to_row = c->rows};
          c->tile->sum_few(&s, from, c->columns,
                           small_part(c, work->other + (size_t)small_at * c->size, &b, at, small), big,
                           scratch);
        }
  c->tile->turn(to, c->columns, scratch, c->rows, c->columns, c->rows);
}
