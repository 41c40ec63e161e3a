/* SPDX-License-Identifier: Apache-2.0
 *
 * Images to columns and back, the two ways round, in float32 and float64: what turns a convolution into a
 * product of matrices. `planes` has a row for each (channel, tap) and a column for each output position;
 * `pixels` (channels innermost) has a row for each position and a column for each (tap, channel). Taps that
 * fall into the padding read as 0 and are not added back.
 */
#include <string.h>

#include "plugins/backend-cpu/per-isa/per_isa.h"

/* Positions of one output row: the first `before` and those from `until` on fall into the padding; the others
 * read the image from `at` on, `step` elements apart. */
typedef struct run {
  int64_t n, before, until, at, step;
} run;

static int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }
static int64_t within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* The positions from p on that lie in one output row, at most up to end, under the tap (d, h, w). */
static run next_run(const cpu_window *g, const int64_t *tap, int64_t p, int64_t end) {
  const int64_t column = p % g->out[2], row = p / g->out[2] % g->out[1], slice = p / g->out[2] / g->out[1];
  const int64_t z = slice * g->stride[0] - g->padding[0] + tap[0] * g->dilation[0];
  const int64_t y = row * g->stride[1] - g->padding[1] + tap[1] * g->dilation[1];
  const int64_t shift = tap[2] * g->dilation[2] - g->padding[2];
  run r = {.n = g->out[2] - column < end - p ? g->out[2] - column : end - p, .step = g->stride[2]};
  if (z < 0 || z >= g->in[0] || y < 0 || y >= g->in[1]) return r; /* before = until = 0: all padding */
  const int64_t from = ceil_div(-shift, g->stride[2]), to = ceil_div(g->in[2] - shift, g->stride[2]);
  r.before = within(from - column, 0, r.n);
  r.until = within(to - column, r.before, r.n);
  r.at = (z * g->in[1] + y) * g->in[2] + (column + r.before) * g->stride[2] + shift;
  return r;
}

/* Calls f(tap) for every tap in order. */
#define EACH_TAP(g, tap)                                              \
  for (int64_t tap[3] = {0, 0, 0}; tap[0] < (g)->kernel[0]; ++tap[0]) \
    for (tap[1] = 0; tap[1] < (g)->kernel[1]; ++tap[1])               \
      for (tap[2] = 0; tap[2] < (g)->kernel[2]; ++tap[2])

#define CONV(P, T)                                                                                 \
  static void P##_planes(const cpu_window *g, const void *image, int64_t begin, int64_t end,       \
                         void *columns) {                                                          \
    const int64_t plane = g->in[0] * g->in[1] * g->in[2];                                          \
    T *o = columns;                                                                                \
    for (int64_t c = 0; c < g->channels; ++c) {                                                    \
      const T *x = (const T *)image + c * plane;                                                   \
      EACH_TAP(g, tap) {                                                                           \
        for (int64_t p = begin; p < end;) {                                                        \
          const run r = next_run(g, tap, p, end);                                                  \
          memset(o, 0, (size_t)r.before * sizeof(T));                                              \
          if (r.step == 1)                                                                         \
            memcpy(o + r.before, x + r.at, (size_t)(r.until - r.before) * sizeof(T));              \
          else                                                                                     \
            for (int64_t i = r.before, at = r.at; i < r.until; ++i, at += r.step) o[i] = x[at];    \
          memset(o + r.until, 0, (size_t)(r.n - r.until) * sizeof(T));                             \
          o += r.n;                                                                                \
          p += r.n;                                                                                \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void P##_add_planes(const cpu_window *g, const void *columns, int64_t begin, int64_t end, \
                             void *image) {                                                        \
    const int64_t plane = g->in[0] * g->in[1] * g->in[2];                                          \
    const T *o = columns;                                                                          \
    for (int64_t c = 0; c < g->channels; ++c) {                                                    \
      T *x = (T *)image + c * plane;                                                               \
      EACH_TAP(g, tap) {                                                                           \
        for (int64_t p = begin; p < end;) {                                                        \
          const run r = next_run(g, tap, p, end);                                                  \
          T *to = x + r.at;                                                                        \
          const T *from = o + r.before;                                                            \
          if (r.step == 1)                                                                         \
            for (int64_t i = 0; i < r.until - r.before; ++i) to[i] += from[i];                     \
          else                                                                                     \
            for (int64_t i = 0; i < r.until - r.before; ++i) to[i * r.step] += from[i];            \
          o += r.n;                                                                                \
          p += r.n;                                                                                \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void P##_pixels(const cpu_window *g, const void *image, int64_t begin, int64_t end,       \
                         void *columns) {                                                          \
    const size_t bytes = (size_t)g->channels * sizeof(T);                                          \
    const int64_t taps = g->kernel[0] * g->kernel[1] * g->kernel[2], row = taps * g->channels;     \
    const T *x = image;                                                                            \
    int64_t t = 0;                                                                                 \
    EACH_TAP(g, tap) {                                                                             \
      T *o = (T *)columns + t++ * g->channels;                                                     \
      for (int64_t p = begin; p < end;) {                                                          \
        const run r = next_run(g, tap, p, end);                                                    \
        for (int64_t i = 0; i < r.n; ++i, o += row) {                                              \
          if (i < r.before || i >= r.until)                                                        \
            memset(o, 0, bytes);                                                                   \
          else                                                                                     \
            memcpy(o, x + (r.at + (i - r.before) * r.step) * g->all_channels, bytes);              \
        }                                                                                          \
        p += r.n;                                                                                  \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void P##_add_pixels(const cpu_window *g, const void *columns, int64_t begin, int64_t end, \
                             void *image) {                                                        \
    const int64_t taps = g->kernel[0] * g->kernel[1] * g->kernel[2], row = taps * g->channels;     \
    T *x = image;                                                                                  \
    int64_t t = 0;                                                                                 \
    EACH_TAP(g, tap) {                                                                             \
      const T *o = (const T *)columns + t++ * g->channels;                                         \
      for (int64_t p = begin; p < end;) {                                                          \
        const run r = next_run(g, tap, p, end);                                                    \
        for (int64_t i = r.before; i < r.until; ++i) {                                             \
          T *to = x + (r.at + (i - r.before) * r.step) * g->all_channels;                          \
          for (int64_t c = 0; c < g->channels; ++c) to[c] += o[i * row + c];                       \
        }                                                                                          \
        o += r.n * row;                                                                            \
        p += r.n;                                                                                  \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  const cpu_conv_fns CPU_FN(cpu_conv_##P) = {P##_planes, P##_add_planes, P##_pixels, P##_add_pixels};
CONV(f32, float)
CONV(f64, double)
