/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a convolution's weight by register tiles over the images themselves: for each tap, the
 * outer products of the small image's channels with the big one's, summed over the positions where the tap
 * falls inside the image. Row-major images are copied with their channels innermost, a block at a time.
 */
#include "plugins/backend-cpu/conv.h"

/* A block of small rows and the big rows that they meet, read with every tap: in the second-level cache, with room for
 * the next one; the longer the sums, the fewer the loads and stores of the results. */
enum { NEAR_BYTES = 128 << 10, COPIED_BYTES = 256 << 10, MOST_BLOCK_BYTES = 1 << 20 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }

/* Elements of small and of big that a block of rows x columns of small reads. */
typedef struct sizes {
  int64_t rows, columns, small, big;
} sizes;

static int64_t span(const cpu_window *w, int dim, int64_t n) {
  return least(w->in[dim], (n - 1) * w->stride[dim] + (w->kernel[dim] - 1) * w->dilation[dim] + 1);
}

static sizes sizes_of(const cpu_conv *c, int64_t rows, int64_t columns) {
  const cpu_window *w = &c->window;
  return (sizes){rows, columns, rows * columns * c->rows,
                 span(w, 0, 1) * span(w, 1, rows) * span(w, 2, columns) * w->channels};
}

static sizes plan_block(const cpu_conv *c) {
  const cpu_window *w = &c->window;
  const int64_t room = (c->last ? NEAR_BYTES : COPIED_BYTES) / (int64_t)c->size;
  int64_t rows = 1, columns = w->out[2];
  sizes s = sizes_of(c, rows, columns);
  while (columns > 64 && s.small + s.big > room) s = sizes_of(c, rows, columns /= 2);
  while (columns == w->out[2] && rows < w->out[1]) {
    const sizes next = sizes_of(c, rows + 1, columns);
    if (next.small + next.big > room) break;
    s = next;
    ++rows;
  }
  const int64_t blocks = most(1, ceil_div(w->out[1], rows));
  return rows > 1 ? sizes_of(c, ceil_div(w->out[1], blocks), columns) : s;
}

bool cpu_conv_direct_weight_suits(const cpu_conv *c) {
  if (c->pointwise || !c->rows || c->window.channels % c->tile->panel || !c->window.channels) return false;
  if (c->last) return true;
  const sizes s = plan_block(c);
  return s.small + s.big <= MOST_BLOCK_BYTES / (int64_t)c->size;
}

size_t cpu_conv_direct_weight_scratch(const cpu_conv *c) {
  const sizes s = plan_block(c);
  return c->last ? 0 : ((size_t)(s.small + s.big) * c->size + 63) / 64 * 64;
}

/* Where element (slice, row, column) lies: data + slice, row, column times these, less the origin. */
typedef struct grid {
  const char *data;
  int64_t slice, row, column, origin;
} grid;

/* The part [low, high) of an image with `channels` channels of a group, `all` in all. */
static grid part_of(const cpu_conv *c, const char *image, const int64_t *size, int64_t channels, int64_t all,
                    const int64_t *low, const int64_t *high, char *copy) {
  const int64_t width = high[2] - low[2], positions = size[0] * size[1] * size[2];
  if (c->last) return (grid){image, size[1] * size[2] * all, size[2] * all, all, 0};
  grid g = {.data = copy, .column = channels, .row = width * channels};
  g.slice = (high[1] - low[1]) * g.row;
  g.origin = low[0] * g.slice + low[1] * g.row + low[2] * g.column;
  for (int64_t z = low[0]; z < high[0]; ++z)
    for (int64_t y = low[1]; y < high[1]; ++y) {
      const int64_t n = width == size[2] ? width * (high[1] - low[1]) : width; /* whole rows: all at once */
      c->tile->turn(copy, channels, image + (size_t)((z * size[1] + y) * size[2] + low[2]) * c->size,
                    positions, channels, n);
      copy += (size_t)(n * channels) * c->size;
      if (n > width) break;
    }
  return g;
}

static const char *image_of(const cpu_conv *c, const char *data, int64_t image, int64_t group,
                            int64_t channels, int64_t all, int64_t positions) {
  const int64_t first = group * channels * (c->last ? 1 : positions);
  return data + (size_t)(image * positions * all + first) * c->size;
}

typedef struct meeting {
  const cpu_conv *c;
  grid small, big;
  int64_t z, y[2], x[2]; /* of small */
  char *to;
  const char *small_data, *big_data;
  int64_t next_small, small_bytes, next_big, big_bytes; /* what to ask for, from those on */
} meeting;

/* The small coordinates within [low, high) whose big one under the tap lies inside the image; the big one of
 * the first. */
static bool inside(const cpu_window *w, int dim, int64_t tap, int64_t *low, int64_t *high, int64_t *out_big) {
  const int64_t shift = tap * w->dilation[dim] - w->padding[dim], stride = w->stride[dim];
  *low = most(*low, ceil_div(-shift, stride));
  *high = least(*high, ceil_div(w->in[dim] - shift, stride));
  *out_big = *low * stride + shift;
  return *low < *high;
}

static void add_tap(const meeting *m, int64_t td, int64_t th, int64_t tw) {
  const cpu_conv *c = m->c;
  const cpu_window *w = &c->window;
  int64_t low[3] = {m->z, m->y[0], m->x[0]}, high[3] = {m->z + 1, m->y[1], m->x[1]}, big[3];
  const int64_t tap[3] = {td, th, tw}, t = (td * w->kernel[1] + th) * w->kernel[2] + tw;
  for (int i = 0; i < 3; ++i)
    if (!inside(w, i, tap[i], &low[i], &high[i], &big[i])) return;
  const cpu_conv_sum s = {.rows = high[1] - low[1],
                          .n = high[2] - low[2],
                          .small_row = m->small.row,
                          .big_row = m->big.row * w->stride[1],
                          .small_step = m->small.column,
                          .big_step = m->big.column * w->stride[2],
                          .small_channels = c->rows,
                          .big_channels = w->channels,
                          .to_row = c->columns,
                          .ahead = {cpu_conv_ahead(m->small_data, m->next_small, m->small_bytes, t, c->taps),
                                    cpu_conv_ahead(m->big_data, m->next_big, m->big_bytes, t, c->taps)}};
  const int64_t small_at =
      low[0] * m->small.slice + low[1] * m->small.row + low[2] * m->small.column - m->small.origin;
  const int64_t big_at = big[0] * m->big.slice + big[1] * m->big.row + big[2] * m->big.column - m->big.origin;
  c->tile->sum(&s, m->small.data + small_at * (int64_t)c->size, m->big.data + big_at * (int64_t)c->size,
               m->to + (size_t)(t * w->channels) * c->size);
}

/* The big coordinates that small ones [low, high) of dim read, cut to the image. */
static void big_range(const cpu_window *w, int dim, int64_t low, int64_t high, int64_t *out_low,
                      int64_t *out_high) {
  const int64_t first = low * w->stride[dim] - w->padding[dim];
  const int64_t until =
      (high - 1) * w->stride[dim] - w->padding[dim] + (w->kernel[dim] - 1) * w->dilation[dim] + 1;
  *out_low = least(most(first, 0), w->in[dim]);
  *out_high = most(least(until, w->in[dim]), *out_low);
}

/* What comes next (see the note in per-isa/conv_tile.inc): as many rows again where they follow in memory, those of big
 * further on by a kernel, so that the next image's first ones are among them; or the next image where blocks are
 * images. read: the slices and rows of big that the block reads end there. */
static void find_next(meeting *m, const int64_t *read) {
  const cpu_conv *c = m->c;
  const cpu_window *w = &c->window;
  const int64_t rows = m->y[1] - m->y[0], size = (int64_t)c->size,
                small_row = w->out[2] * c->small_channels * size, big_row = w->in[2] * c->big_channels * size;
  const bool whole = w->out[0] == 1 && rows == w->out[1] && m->x[1] - m->x[0] == w->out[2];
  if (c->groups > 1 || !(c->last || whole)) return;
  const int64_t reach = (w->kernel[1] - 1) * w->dilation[1];
  m->small_bytes = rows * small_row;
  m->big_bytes = whole ? w->in[0] * w->in[1] * big_row : rows * w->stride[1] * big_row;
  m->next_small = (m->z * w->out[1] + m->y[1]) * small_row;
  m->next_big = whole ? m->big_bytes : ((read[0] - 1) * w->in[1] + read[1] + reach) * big_row;
}

void cpu_conv_direct_weight(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
                            char *scratch) {
  const cpu_conv *c = &work->c;
  const cpu_window *w = &c->window;
  const sizes s = plan_block(c);
  memset(to, 0, (size_t)(c->rows * c->columns) * c->size);
  for (int64_t image = first; image < until; ++image) {
    const char *small =
        image_of(c, work->other, image, group, c->rows, c->small_channels, c->small_positions);
    const char *big = image_of(c, work->from, image, group, w->channels, c->big_channels, c->big_positions);
    for (int64_t z = 0; z < w->out[0]; ++z)
      for (int64_t y = 0; y < w->out[1]; y += s.rows)
        for (int64_t x = 0; x < w->out[2]; x += s.columns) {
          int64_t low[3] = {z, y, x},
                  high[3] = {z + 1, least(y + s.rows, w->out[1]), least(x + s.columns, w->out[2])};
          meeting m = {.c = c,
                       .z = z,
                       .y = {y, high[1]},
                       .x = {x, high[2]},
                       .to = to,
                       .small_data = small,
                       .big_data = big};
          m.small = part_of(c, small, w->out, c->rows, c->small_channels, low, high, scratch);
          for (int i = 0; i < 3; ++i) big_range(w, i, low[i], high[i], &low[i], &high[i]);
          find_next(&m, high);
          m.big = part_of(c, big, w->in, w->channels, c->big_channels, low, high,
                          scratch + (size_t)s.small * c->size);
          for (int64_t d = 0; d < w->kernel[0]; ++d)
            for (int64_t h = 0; h < w->kernel[1]; ++h)
              for (int64_t k = 0; k < w->kernel[2]; ++k) add_tap(&m, d, h, k);
        }
  }
}
