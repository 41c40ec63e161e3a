/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops that move elements and compute nothing: stores past the caches, transposed tiles, choice by a mask.
 * One per size of an element serves every dtype.
 *
 * Note [Transposed tiles]
 * A square of registers is transposed by rounds of interleaving: row i with row i + half, lower halves and
 * upper halves; after log2(lanes) rounds rows are columns. Bytes and 2-byte elements use 16-byte vectors on
 * every set, larger ones the set's own. Each source row is loaded once and whole: where rows are a power of
 * two apart, 16 of them do not fit the first cache's ways, and loads in pieces (as products pack their
 * operands) fetch a line again for each (4096 x 4096 float32: 13 instead of 32 GB/s). Squares are taken so
 * that a whole cache line of the target is written before the next one begins: then streaming stores fill
 * their buffers, and ordinary ones touch a line once.
 */
#include <string.h>

#include "plugins/backend-cpu/per-isa/per_isa.h"

/* ------------------------------------------------------------------ past the caches */

enum { LINE = CPU_LINE };

static void stream(void *dst, const void *src, int64_t size_bytes) {
  char *d = dst;
  const char *s = src;
  int64_t i = -(intptr_t)d & (LINE - 1);
  if (i > size_bytes) i = size_bytes;
  if (i) memcpy(d, s, (size_t)i);
  for (; i + LINE <= size_bytes; i += LINE)
    for (int64_t j = 0; j < LINE; j += VEC_BYTES) {
      vf v;
      memcpy(&v, s + i + j, sizeof v); /* aligned to nothing */
      vec_stream(d + i + j, v);
    }
  if (i < size_bytes) memcpy(d + i, s + i, (size_t)(size_bytes - i));
}

/* A target that is not aligned to lines gets the pattern turned round. */
static void fill(void *dst, const void *line, int64_t size_bytes, bool past) {
  char *d = dst, turned[2 * LINE];
  int64_t head = -(intptr_t)d & (LINE - 1);
  if (head > size_bytes) head = size_bytes;
  memcpy(turned, line, LINE);
  memcpy(turned + LINE, line, LINE);
  memcpy(d, turned, (size_t)head);
  vf v[LINE / VEC_BYTES];
  memcpy(v, turned + head, LINE);
  int64_t i = head;
  if (past)
    for (; i + LINE <= size_bytes; i += LINE)
      for (int j = 0; j < LINE / VEC_BYTES; ++j) vec_stream(d + i + j * VEC_BYTES, v[j]);
  else
    for (; i + LINE <= size_bytes; i += LINE)
      for (int j = 0; j < LINE / VEC_BYTES; ++j) vf_store((float *)(d + i + j * VEC_BYTES), v[j]);
  memcpy(d + i, turned + head, (size_t)(size_bytes - i));
}

/* ------------------------------------------------------------------ transposed tiles */

#define SQUARE_UNROLL _Pragma("GCC unroll 16")
typedef uint8_t v16u8 __attribute__((vector_size(16), may_alias));
typedef uint16_t v8u16 __attribute__((vector_size(16), may_alias));
#define V16U8_LO(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define V16U8_HI(a, b) \
  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define V8U16_LO(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define V8U16_HI(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Over a whole vector, not within 16 bytes as simd/vec.h has them: see the note. */
#if defined(__AVX512F__)
#define WIDE_LO_4(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define WIDE_HI_4(a, b) \
  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define WIDE_LO_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define WIDE_HI_8(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif defined(__AVX2__)
#define WIDE_LO_4(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define WIDE_HI_4(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define WIDE_LO_8(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define WIDE_HI_8(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define WIDE_LO_4 VF_LANE_LO
#define WIDE_HI_4 VF_LANE_HI
#define WIDE_LO_8 VD_LANE_LO
#define WIDE_HI_8 VD_LANE_HI
#endif

/* One square of V: N x N elements. Source rows are read, target rows written, whole vectors each. */
#define SQUARE(T, V, N, LO, HI, STORE)                                                        \
  static inline __attribute__((always_inline)) void square_##T##_##STORE(                     \
      char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {                   \
    V v[N], w[N];                                                                             \
    SQUARE_UNROLL for (int i = 0; i < N; ++i) memcpy(&v[i], src + i * src_stride, sizeof(V)); \
    SQUARE_UNROLL for (int round = 1; round < N; round *= 2) {                                \
      SQUARE_UNROLL for (int i = 0; i < N / 2; ++i) {                                         \
        w[2 * i] = LO(v[i], v[i + N / 2]);                                                    \
        w[2 * i + 1] = HI(v[i], v[i + N / 2]);                                                \
      }                                                                                       \
      SQUARE_UNROLL for (int i = 0; i < N; ++i) v[i] = w[i];                                  \
    }                                                                                         \
    SQUARE_UNROLL for (int i = 0; i < N; ++i) STORE(dst + i * dst_stride, v[i]);              \
  }
#define PUT(p, v)  memcpy((p), &(v), sizeof(v))
#define PAST(p, v) vec_stream((p), (vf)(v))

/* Whole squares of the tile, a cache line of target columns after the other. The lines of the next step are
 * asked for ahead: rows lie too far apart for the processor to guess them. */
#define SQUARES(T, N, STORE, OWN)                                                                       \
  static void squares_##T##_##STORE(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, \
                                    int64_t rows, int64_t columns) {                                    \
    enum { STEP = LINE / (int)sizeof(T) < N ? N : LINE / (int)sizeof(T) };                              \
    for (int64_t c = 0; c < columns; c += STEP) {                                                       \
      const int64_t end = c + STEP < columns ? c + STEP : columns;                                      \
      for (int64_t r = 0; r < rows; r += N) {                                                           \
        for (int64_t k = c; k < end; k += N)                                                            \
          square_##T##_##STORE(dst + r * dst_stride + k * (int64_t)sizeof(T), dst_stride,               \
                               src + k * src_stride + r * (int64_t)sizeof(T), src_stride);              \
        if (OWN && end < columns)                                                                       \
          for (int i = 0; i < N; ++i)                                                                   \
            __builtin_prefetch(dst + (r + i) * dst_stride + end * (int64_t)sizeof(T), 1, 3);            \
      }                                                                                                 \
    }                                                                                                   \
  }

/* What whole squares leave over: target rows [begin, rows), columns [first, columns). */
#define LEFT_OVER(T)                                                                                         \
  static void left_over_##T(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,              \
                            int64_t begin, int64_t rows, int64_t first, int64_t columns) {                   \
    for (int64_t r = begin; r < rows; ++r)                                                                   \
      for (int64_t c = first; c < columns; ++c)                                                              \
        memcpy(dst + r * dst_stride + c * (int64_t)sizeof(T), src + c * src_stride + r * (int64_t)sizeof(T), \
               sizeof(T));                                                                                   \
  }

#define TRANSPOSE(T, N, PAST_OR_PUT)                                                            \
  static void transpose_##T(void *dst, int64_t dst_stride, const void *src, int64_t src_stride, \
                            int64_t rows, int64_t columns, bool past) {                         \
    const int64_t r = rows / N * N, c = columns / N * N;                                        \
    const bool aligned = (((uintptr_t)dst | (uintptr_t)dst_stride) & (LINE - 1)) == 0;          \
    if (past && aligned)                                                                        \
      squares_##T##_##PAST_OR_PUT(dst, dst_stride, src, src_stride, r, c);                      \
    else                                                                                        \
      squares_##T##_PUT(dst, dst_stride, src, src_stride, r, c);                                \
    left_over_##T(dst, dst_stride, src, src_stride, 0, r, c, columns);                          \
    left_over_##T(dst, dst_stride, src, src_stride, r, rows, 0, columns);                       \
  }

SQUARE(uint8_t, v16u8, 16, V16U8_LO, V16U8_HI, PUT)
SQUARE(uint16_t, v8u16, 8, V8U16_LO, V8U16_HI, PUT)
SQUARE(uint32_t, vf, (VEC_BYTES / 4), WIDE_LO_4, WIDE_HI_4, PUT)
SQUARE(uint32_t, vf, (VEC_BYTES / 4), WIDE_LO_4, WIDE_HI_4, PAST)
SQUARE(uint64_t, vd, (VEC_BYTES / 8), WIDE_LO_8, WIDE_HI_8, PUT)
SQUARE(uint64_t, vd, (VEC_BYTES / 8), WIDE_LO_8, WIDE_HI_8, PAST)
SQUARES(uint8_t, 16, PUT, 1)
SQUARES(uint16_t, 8, PUT, 1)
SQUARES(uint32_t, (VEC_BYTES / 4), PUT, 1)
SQUARES(uint32_t, VEC_BYTES / 4, PAST, 0)
SQUARES(uint64_t, VEC_BYTES / 8, PUT, 1)
SQUARES(uint64_t, VEC_BYTES / 8, PAST, 0)
LEFT_OVER(uint8_t)
LEFT_OVER(uint16_t)
LEFT_OVER(uint32_t)
LEFT_OVER(uint64_t)
TRANSPOSE(uint8_t, 16, PUT)
TRANSPOSE(uint16_t, 8, PUT)
TRANSPOSE(uint32_t, (VEC_BYTES / 4), PAST)
TRANSPOSE(uint64_t, (VEC_BYTES / 8), PAST)

/* ------------------------------------------------------------------ choice by a mask */

/* Both are read wherever the mask points: a choice between loaded values needs no branch. */
#define CHOOSE(T)                                                                                   \
  static void choose_##T(void *out, const uint8_t *mask, const void *a, const void *b, int64_t n) { \
    T *o = out;                                                                                     \
    const T *x = a, *y = b;                                                                         \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                               \
      const T p = x[i], q = y[i];                                                                   \
      o[i] = mask[i] ? p : q;                                                                       \
    }                                                                                               \
  }
/* The same past the caches, in groups (Note [Past the caches]). */
#define CHOOSE_PAST(T)                                                                                   \
  static void choose_past_##T(void *out, const uint8_t *mask, const void *a, const void *b, int64_t n) { \
    T *o = out;                                                                                          \
    const T *x = a, *y = b;                                                                              \
    for (int64_t g = 0; g < n; g += CPU_STREAM_GROUP) {                                                  \
      T group[CPU_STREAM_GROUP] __attribute__((aligned(LINE)));                                          \
      CPU_INDEPENDENT for (int64_t j = 0; j < CPU_STREAM_GROUP; ++j) {                                   \
        const T p = x[g + j], q = y[g + j];                                                              \
        group[j] = mask[g + j] ? p : q;                                                                  \
      }                                                                                                  \
      vec_stream_group(o + g, group, sizeof group);                                                      \
    }                                                                                                    \
  }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)
CHOOSE_PAST(uint8_t)
CHOOSE_PAST(uint16_t)
CHOOSE_PAST(uint32_t)
CHOOSE_PAST(uint64_t)

/* ------------------------------------------------------------------ the table */

#define BY_SIZE(name, itemsize)        \
  ((itemsize) == 1   ? name##_uint8_t  \
   : (itemsize) == 2 ? name##_uint16_t \
   : (itemsize) == 4 ? name##_uint32_t \
                     : name##_uint64_t)
static cpu_transpose_fn transpose_of(size_t itemsize) { return BY_SIZE(transpose, itemsize); }
static cpu_choose_fn choose_of(size_t itemsize, bool past) {
  return past ? BY_SIZE(choose_past, itemsize) : BY_SIZE(choose, itemsize);
}

const cpu_move_fns CPU_FN(cpu_move) = {stream, fill, transpose_of, choose_of};
