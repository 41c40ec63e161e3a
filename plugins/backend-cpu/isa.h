/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of inner loops that exists once per instruction set (per-isa/, compiled for scalar, AVX2 and
 * AVX-512) and is chosen once, in select.c. Everything outside per-isa/ reaches vector code through
 * cpu_isa only.
 *
 * Loops here are contiguous: strides, threads, shapes and errors are the op_*.c files' work.
 */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <stdbool.h>
#include <tenon/types.h>

/* ------------------------------------------------------------------ elementwise */

/* A Scalar argument, converted once per call. */
typedef struct cpu_scalar {
  double f;
  int64_t i;
} cpu_scalar;

/* n elements of the compute dtype from each input; out has the result dtype. out may be an input exactly. */
typedef void (*cpu_ew_fn)(void *out, const void *const *in, const cpu_scalar *scalars, int64_t n);
enum { CPU_DTYPES = TN_FLOAT64 + 1, CPU_EW_INPUTS = 4, CPU_EW_SCALARS = 4 };
/* Loops that store past the caches take whole groups of elements, out aligned to a cache line. */
enum { CPU_LINE = 64, CPU_STREAM_GROUP = 64 };

/* dst[i] = (DST)src[i], n elements. */
typedef void (*cpu_cast_fn)(void *dst, const void *src, int64_t n);

/* ------------------------------------------------------------------ moving */

/* dst[i] = src[i], size_bytes of them, stored past the caches where the processor can (the result counts as
 * written only after cpu_stream_end); dst and src do not overlap. */
typedef void (*cpu_stream_fn)(void *dst, const void *src, int64_t size_bytes);
/* dst of size_bytes is `line`, 64 bytes, over and over from its first byte. stream: past the caches. */
typedef void (*cpu_fill_fn)(void *dst, const void *line, int64_t size_bytes, bool stream);
/* dst row r, column c = src row c, column r, for r < rows, c < columns; strides from row to row in bytes,
 * elements of a row lie side by side. stream: past the caches, where dst is aligned for it. */
typedef void (*cpu_transpose_fn)(void *dst, int64_t dst_stride, const void *src, int64_t src_stride,
                                 int64_t rows, int64_t columns, bool stream);
/* out[i] = mask[i] ? a[i] : b[i]; out may be a or b exactly (not of a loop that stores past the caches). */
typedef void (*cpu_choose_fn)(void *out, const uint8_t *mask, const void *a, const void *b, int64_t n);

/* By size of an element: 1, 2, 4 or 8 bytes. */
typedef struct cpu_move_fns {
  cpu_stream_fn stream;
  cpu_fill_fn fill;
  cpu_transpose_fn (*transpose)(size_t itemsize);
  cpu_choose_fn (*choose)(size_t itemsize, bool stream);
} cpu_move_fns;

/* ------------------------------------------------------------------ reductions */

enum { CPU_SUM = 0, CPU_PROD, CPU_MAX, CPU_MIN, CPU_ANY, CPU_ALL, CPU_SQUARES, CPU_REDUCTIONS };

/* What a reduction holds while it runs: f for floating elements, i for integers, any and all. */
typedef union cpu_acc {
  double f;
  int64_t i;
} cpu_acc;

/* Folds n contiguous elements into one accumulator (whose old value takes part). centre: of CPU_SQUARES. */
typedef void (*cpu_fold_fn)(const void *x, int64_t n, double centre, cpu_acc *acc);
/* Folds `rows` rows of n <= CPU_FOLD_WIDE elements, stride bytes apart, into n accumulators. */
typedef void (*cpu_fold_rows_fn)(const void *x, int64_t stride_bytes, int64_t rows, int64_t n,
                                 const double *centres, cpu_acc *acc);
enum { CPU_FOLD_COLUMNS = 64, CPU_FOLD_WIDE = 1024 };
/* How rows are read; changes no bits. Note [Rows] in per-isa/reduce.c. */
typedef enum cpu_rows_read {
  CPU_ROWS_AT_ONCE = 0,
  CPU_ROWS_BEGUN,
  CPU_ROWS_ASKED,
  CPU_ROWS_IN_ORDER
} cpu_rows_read;

/* ------------------------------------------------------------------ extremes with their place */

/* The most columns, and rows, of one call. */
enum { CPU_EXTREME_COLUMNS = 1024, CPU_EXTREME_ROWS = 1 << 24 };
typedef enum cpu_extreme_found { CPU_EXTREME_NONE, CPU_EXTREME_BETTER, CPU_EXTREME_NAN } cpu_extreme_found;

typedef struct cpu_extreme_fns {
  /* Is there in n >= 1 contiguous elements one that beats *best (first: whatever that holds)? Then *best and its
   * place in x are stored. A NaN beats all. */
  cpu_extreme_found (*run)(const void *x, int64_t n, bool largest, bool first, void *best,
                           int64_t *out_place);
  /* The extremes of n columns over `rows` >= 1 rows, stride bytes apart, and the rows they stand in. */
  void (*rows)(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, bool largest, void *best,
               int64_t *places);
} cpu_extreme_fns;

/* ------------------------------------------------------------------ matrix products */

/* Sum of products of n contiguous float32 or float64 elements, in double. */
typedef double (*cpu_dot_fn)(const void *a, const void *b, int64_t n);

/* c = beta * c + alpha * (a @ b); a is m x k, b is k x n; strides in elements. beta 0: c is not read. */
typedef struct cpu_gemm {
  int64_t m, n, k;
  const void *a;
  int64_t a_row, a_col;
  const void *b;
  int64_t b_row, b_col;
  void *c;
  int64_t c_row, c_col;
  double alpha, beta;
  const void *d; /* what beta multiplies, where beta is not 0; may be c; NULL: c. Its strides may be 0 */
  int64_t d_row, d_col;
} cpu_gemm;

typedef struct cpu_gemm_kernel {
  int32_t mr, nr; /* register tile */
  bool (*small)(const cpu_gemm *g); /* small ones in place, at once; false: nothing was done */
  size_t (*scratch_bytes)(const cpu_gemm *g);
  void (*run)(const cpu_gemm *g, void *scratch); /* scratch: 64-byte aligned */
} cpu_gemm_kernel;

/* ------------------------------------------------------------------ rows */

/* out from one or two rows of n contiguous elements. */
typedef void (*cpu_row_fn)(void *out, const void *x, int64_t n);
typedef void (*cpu_row2_fn)(void *out, const void *grad, const void *y, int64_t n);

/* One contiguous row of n float32 or float64 elements; out may be x. stream_*: results go past the caches, for
 * rows of large tensors; out is then no input, and stream_end follows the last row of each thread. */
typedef struct cpu_row_fns {
  cpu_row_fn softmax;
  cpu_row_fn log_softmax;
  cpu_row2_fn softmax_backward;
  cpu_row2_fn log_softmax_backward;
  double (*logsumexp)(const void *x, int64_t n);
  cpu_row_fn stream_softmax;
  cpu_row_fn stream_log_softmax;
  cpu_row2_fn stream_softmax_backward;
  cpu_row2_fn stream_log_softmax_backward;
  void (*stream_end)(void);
} cpu_row_fns;

/* ------------------------------------------------------------------ layer_norm, rms_norm */

/* Rows of n contiguous elements; weight and bias have n, or are NULL. rms: the mean is taken to be 0. stream: the
 * forward's results go past the caches, and stream_end follows the last row of each thread. */
typedef struct cpu_norm {
  int64_t n;
  const void *weight, *bias;
  double eps;
  bool rms, stream;
} cpu_norm;

typedef struct cpu_norm_fns {
  /* out_mean is not written with rms. */
  void (*forward)(const cpu_norm *s, const void *input, void *out, void *out_mean, void *out_rstd);
  void (*backward)(const cpu_norm *s, const void *grad, const void *input, double mean, double rstd,
                   void *out);
  /* Adds columns [begin, end) of `rows` rows into the gradients of weight and bias (not looked at with rms). */
  void (*columns)(const cpu_norm *s, const void *grad, const void *input, const void *mean, const void *rstd,
                  int64_t rows, int64_t begin, int64_t end, double *weight, double *bias);
  void (*stream_end)(void);
} cpu_norm_fns;

/* ------------------------------------------------------------------ batch_norm, group_norm */

/* What each element of a channel becomes: g * grad + (x - centre) * scale + shift. Forward there is no grad. */
typedef struct cpu_channel {
  double centre, scale, shift, g;
} cpu_channel;

/* A run is n contiguous elements of one channel; pixels are `rows` rows of n channels each, row-major. */
typedef struct cpu_channel_fns {
  void (*run)(const cpu_channel *c, const void *grad, const void *x, int64_t n, void *out);
  void (*pixels)(const cpu_channel *c, const void *grad, const void *x, int64_t rows, int64_t n, void *out);
  /* Adds the sums of grad and of grad * (x - centre): to two numbers, or two for each channel. */
  void (*run_sums)(double centre, const void *grad, const void *x, int64_t n, double *sum, double *product);
  void (*pixel_sums)(const cpu_channel *c, const void *grad, const void *x, int64_t rows, int64_t n,
                     double *sums, double *products);
} cpu_channel_fns;

/* ------------------------------------------------------------------ windows over images */

/* A window that moves over an image of one to three dims, in the last of three; the others have size 1. */
typedef struct cpu_window {
  int64_t channels, all_channels; /* to work on; of an image (its step where channels are innermost) */
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
} cpu_window;

/* Columns of the output positions [begin, end), from an image or added to it; see per-isa/conv.c. */
typedef struct cpu_conv_fns {
  void (*planes)(const cpu_window *w, const void *image, int64_t begin, int64_t end, void *columns);
  void (*add_planes)(const cpu_window *w, const void *columns, int64_t begin, int64_t end, void *image);
  void (*pixels)(const cpu_window *w, const void *image, int64_t begin, int64_t end, void *columns);
  void (*add_pixels)(const cpu_window *w, const void *columns, int64_t begin, int64_t end, void *image);
} cpu_conv_fns;

/* Convolution in register tiles; see Note [Convolution without columns]. Steps and offsets in elements. */

/* Memory that tiles ask for while they compute; see Note [What comes next] in per-isa/conv_tile.inc. An address
 * only: it may lie beyond what there is. */
typedef struct cpu_ahead {
  uintptr_t at;
  int64_t bytes;
} cpu_ahead;

/* n positions of an output row and up to `panel` output channels: position i reads source[from[t] + i * step + c] for
 * each tap t and channel c, and writes `width` elements at i * out_step. */
typedef struct cpu_conv_row {
  int64_t n, step, out_step, width;
  int64_t channels, taps;
  const int64_t *from, *weight; /* of each tap: in the source; in the panel, which is [tap][channel][panel] */
  cpu_ahead ahead[2];
} cpu_conv_row;

/* to[r * to_row + c] += the sum over `rows` rows of n positions of small[.. + r] * big[.. + c]. */
typedef struct cpu_conv_sum {
  int64_t rows, n, small_row, big_row, small_step, big_step;
  int64_t small_channels, big_channels; /* sum: big_channels is a multiple of `panel` */
  int64_t to_row;
  cpu_ahead ahead[2];
} cpu_conv_sum;

typedef struct cpu_conv_tile {
  int32_t panel; /* output channels of a tile */
  /* bias: `panel` elements, zeros if there is none. */
  void (*row)(const cpu_conv_row *r, const void *source, const void *panel, const void *bias, void *out);
  void (*sum)(const cpu_conv_sum *s, const void *small, const void *big, void *to);
  /* For few channels of big, and small_channels a multiple of `panel`: to[k * to_row + r] += the sum of small[.. + r] *
   * big[.. + from[k]] for k < columns. */
  void (*sum_few)(const cpu_conv_sum *s, const int64_t *from, int64_t columns, const void *small, const void *big,
                  void *to);
  /* out[j * out_step + i] = in[i * in_step + j] */
  void (*turn)(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t columns);
} cpu_conv_tile;

/* ------------------------------------------------------------------ pooling */

/* The windows of pooling over the last two dims (or [H, W, C]): output row o reads the input rows
 * begin[0][o], begin[0][o] + step[0], ... below end[0][o], and so for columns. A mean's divisor is the
 * product of both. */
typedef struct cpu_pool {
  int64_t channels; /* 1 for a plane */
  int64_t in[2], out[2], step[2];
  int64_t *begin[2], *end[2];
  double *divisor[2];
  /* Output columns inner[0] to inner[1] have whole windows, each `advance` to the right of the one before. */
  int64_t inner[2], advance;
  bool tiles; /* in both dims windows begin where the one before ended, the first at 0 */
} cpu_pool;

/* Each for a plane [0] and for an image with its channels innermost [1]. un*: add to the zeroed gradient. */
typedef struct cpu_pool_fns {
  void (*max[2])(const cpu_pool *p, const void *input, void *output, int64_t *index);
  void (*unmax[2])(const cpu_pool *p, const void *grad, const int64_t *index, void *input);
  void (*mean[2])(const cpu_pool *p, const void *input, void *output);
  void (*unmean[2])(const cpu_pool *p, const void *grad, void *input);
  /* unmax for channels innermost where the windows are `tiles`: writes every element of the gradient, which need not
   * be zeroed. False if an index lies beside its window; what was written then means nothing. */
  bool (*unmax_tiles)(const cpu_pool *p, const void *grad, const int64_t *index, void *input);
} cpu_pool_fns;

/* ------------------------------------------------------------------ attention */

/* Rows and columns of a table of scores. */
enum { CPU_TILE = 64 };

/* A matrix where it lies; strides in elements. */
typedef struct cpu_matrix {
  const void *data;
  int64_t row, col;
} cpu_matrix;

/* Weights are kept if the first 53 bits of their counter's Philox words are below `kept`; see per-isa/attention.c. */
typedef struct cpu_dropout {
  uint64_t seed, offset;
  uint64_t kept; /* the probability times 2^53, rounded up; 0: no dropout */
  double scale;  /* of what is kept */
} cpu_dropout;

/* Some rows of queries against some keys of one head; see per-isa/attention.inc. All of one floating type, tables
 * [CPU_TILE][CPU_TILE]; "turned" is transposed, [width][CPU_TILE]; other operands are rows, as wide as whole panels. */
typedef struct cpu_attention_tile {
  int64_t rows, keys; /* 1 to CPU_TILE */
  int64_t seen;       /* row i sees the first seen + i keys, or all */
  int64_t e, v;       /* widths of query and key, of value */
  const void *query_turned, *key_turned;
  const void *mask; /* a table added to the scores; NULL: none */
  bool mask_hides;  /* instead: 0 hides a key, whatever its score */
  const void *left; /* a table of what dropout multiplies weights by; NULL: no dropout */
  void *scores;
  const void *value; /* forward */
  int64_t value_row;
  void *sums, *tops;                     /* running: weights times values, greatest scores, ... */
  double *totals;                        /* ... sums of exponentials */
  const void *value_turned, *grad_turned; /* backward */
  const void *query, *key, *grad;
  int64_t query_row, key_row, grad_row;
  const void *logsumexp, *deltas;
  void *second;                              /* a second table */
  void *query_sums, *key_sums, *value_sums; /* gradients, added to unless NULL; the first two lack the scale */
} cpu_attention_tile;

typedef struct cpu_attention_fns {
  int32_t panel; /* widths are rounded up to a multiple of it */
  /* Row i of t's table of what is left, from place `first` of all weights on, as far as it sees keys. */
  void (*leave)(const cpu_attention_tile *t, int64_t i, const cpu_dropout *d, uint64_t first, void *table);
  /* out[p][j] = scale * x[j][p] for j < n, 0 for the other columns. */
  void (*turn)(void *out, const cpu_matrix *x, int64_t n, int64_t width, double scale);
  /* n rows of x side by side, each as wide as whole panels; what is added is 0. */
  void (*flat)(void *out, const cpu_matrix *x, int64_t n, int64_t width);
  /* deltas[j] = the sum of x[j] * y[j]; both have unit strides along a row. */
  void (*dots)(void *deltas, const cpu_matrix *x, const cpu_matrix *y, int64_t n, int64_t width);
  void (*forward)(const cpu_attention_tile *t);
  /* The results from what forward left: t's sums over its totals to out (row: its stride; may be sums). */
  void (*finish)(const cpu_attention_tile *t, void *out, int64_t row, void *logsumexp);
  void (*backward)(const cpu_attention_tile *t);
  /* out[j][p] = scale * x[j][p]; unit strides along a row; out may be x. */
  void (*scale)(void *out, int64_t row, const cpu_matrix *x, int64_t n, int64_t width, double scale);
} cpu_attention_fns;

/* ------------------------------------------------------------------ optimiser steps */

/* Plain numbers of one step over one tensor; see per-isa/optim.c. */
typedef struct cpu_step {
  double lr, weight_decay, beta1, beta2, eps, correction1, correction2_sqrt; /* adam */
  double momentum, dampening;                                                /* sgd */
  double grad_scale;                                                         /* 1, or -1 for maximize */
  bool decoupled, amsgrad, nesterov, first, no_momentum;
} cpu_step;

typedef void (*cpu_adam_fn)(const cpu_step *s, void *param, const void *grad, void *exp_avg, void *exp_avg_sq,
                            void *max_exp_avg_sq, int64_t n);
/* beta2 is alpha; grad_avg and momentum_buffer may be NULL */
typedef void (*cpu_rmsprop_fn)(const cpu_step *s, void *param, const void *grad, void *square_avg,
                               void *grad_avg, void *momentum_buffer, int64_t n);
typedef void (*cpu_sgd_fn)(const cpu_step *s, void *param, const void *grad, void *momentum_buffer,
                           int64_t n);

/* ------------------------------------------------------------------ the table */

typedef struct cpu_isa {
  const char *name;
  cpu_ew_fn (*elementwise)(uint32_t op, tn_dtype dtype); /* op: CPU_EW_...; NULL if not defined for dtype */
  cpu_cast_fn (*cast)(tn_dtype dst, tn_dtype src);
  /* NULL: elements must be widened first (int64, float32 or float64, bool for any and all). */
  cpu_fold_fn (*fold)(uint32_t reduction, tn_dtype dtype);
  cpu_fold_rows_fn (*fold_rows)(uint32_t reduction, tn_dtype dtype, cpu_rows_read read);
  const cpu_gemm_kernel *gemm_f32;
  const cpu_gemm_kernel *gemm_f64;
  cpu_dot_fn dot_f32, dot_f64;
  const cpu_row_fns *rows_f32;
  const cpu_row_fns *rows_f64;
  const cpu_norm_fns *norm_f32;
  const cpu_norm_fns *norm_f64;
  const cpu_conv_fns *conv_f32;
  const cpu_conv_fns *conv_f64;
  const cpu_pool_fns *pool_f32;
  const cpu_pool_fns *pool_f64;
  cpu_adam_fn adam_f32, adam_f64;
  cpu_rmsprop_fn rmsprop_f32, rmsprop_f64;
  cpu_sgd_fn sgd_f32, sgd_f64;
  const cpu_conv_tile *conv_tile_f32;
  const cpu_conv_tile *conv_tile_f64;
  const cpu_attention_fns *attention_f32;
  const cpu_attention_fns *attention_f64;
  const cpu_move_fns *move;
  /* The loops of elementwise and cast once more, storing past the caches; NULL where there is none. */
  cpu_ew_fn (*elementwise_stream)(uint32_t op, tn_dtype dtype);
  cpu_cast_fn (*cast_stream)(tn_dtype dst, tn_dtype src);
  const cpu_extreme_fns *extreme_f32, *extreme_f64, *extreme_i64;
  const cpu_channel_fns *channel_f32, *channel_f64;
} cpu_isa;

extern const cpu_isa cpu_isa_scalar;
#if defined(__x86_64__)
extern const cpu_isa cpu_isa_avx2;
extern const cpu_isa cpu_isa_avx512;
#endif

/* The set in use. Set once, by cpu_select, before any kernel can run. */
extern const cpu_isa *cpu_now;
tn_status cpu_select(void);

#endif
