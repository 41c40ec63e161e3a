/* SPDX-License-Identifier: Apache-2.0
 *
 * The strided iterator: brings up to eight views to one shape, orders and merges their dims, and calls an
 * inner loop over all of it, in chunks on the host's threads where it pays. What ATen's TensorIterator does
 * for kernels, without its allocation, casting and operator knowledge: outputs exist, dtypes fit, shapes
 * broadcast.
 *
 * Note [Fast before set-up]
 * Most calls have contiguous operands of one shape, or one-element ones. tn_iter_each tests that inline and
 * then calls the loop at once; a tn_iter (5 KB, never zeroed) is built only when the test fails.
 *
 * Note [Order of elements]
 * A run visits elements in the order that memory likes, not in the order of indices. Kernels that number
 * their elements (random fills, arg-reductions) ask for TN_ITER_IN_ORDER and get the index of each row.
 */
#ifndef TENON_KIT_ITER_H
#define TENON_KIT_ITER_H

#include <tenon/kit/dim.h>
#include <tenon/kit/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_ITER_MAX_OPERANDS 8

/* One row: n elements, operand k at data[k], data[k] + strides[k], ... (bytes). data is the loop's to
 * change. */
typedef void (*tn_loop_fn)(void *ctx, char **data, const int64_t *strides, int64_t n);
/* n_outer rows; outer[k] bytes from one row to the next. */
typedef void (*tn_loop2_fn)(void *ctx, char **data, const int64_t *inner, const int64_t *outer,
                            int64_t n_inner, int64_t n_outer);
/* A row that knows its number: index of its first element in row-major order (TN_ITER_IN_ORDER only). */
typedef void (*tn_loop_indexed_fn)(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index);

/* tn_iter_init's flags */
enum {
  TN_ITER_IN_ORDER = 1u << 0 /* rows come in row-major order of the shape; dims are merged, not reordered */
};

/* A set-up iteration. Dim 0 is the innermost. Only the first ndim (at least 1) entries are filled. Const
 * while it runs: several threads may walk one. */
typedef struct tn_iter {
  uint32_t n_operands;
  uint32_t n_outputs;
  uint32_t ndim;
  uint32_t flags;
  int64_t numel;
  char *data[TN_ITER_MAX_OPERANDS];
  int64_t sizes[TN_MAX_RANK];
  int64_t strides[TN_MAX_RANK][TN_ITER_MAX_OPERANDS]; /* bytes */
} tn_iter;

/* operands: outputs first; each must broadcast to sizes. data may be NULL only if nothing is to be visited.
 * More than TN_ITER_MAX_OPERANDS, or a shape that does not fit: TN_ERR_INVALID_ARGUMENT. */
tn_status tn_iter_init(tn_iter *it, uint32_t ndim, const tn_dim *sizes, uint32_t n_outputs,
                       uint32_t n_operands, const tn_view *const *operands, uint32_t flags);

/* Calls the loop over everything. grain: fewest elements worth a thread of their own; numel <= grain, or
 * grain <= 0, runs here. */
tn_status tn_iter_run(const tn_iter *it, int64_t grain, tn_loop_fn fn, void *ctx);
tn_status tn_iter_run2(const tn_iter *it, int64_t grain, tn_loop2_fn fn, void *ctx);
tn_status tn_iter_run_indexed(const tn_iter *it, int64_t grain, tn_loop_indexed_fn fn, void *ctx);

/* The elements [begin, end) of the iteration's own order, on this thread. base replaces it->data (NULL: keeps
 * it): the same geometry at another place. */
void tn_iter_walk(const tn_iter *it, char *const *base, int64_t begin, int64_t end, tn_loop_fn fn, void *ctx);
void tn_iter_walk2(const tn_iter *it, char *const *base, int64_t begin, int64_t end, tn_loop2_fn fn,
                   void *ctx);
/* Where element `index` of the iteration's order lies, for each operand. */
void tn_iter_pointers(const tn_iter *it, char *const *base, int64_t index, char **out_data);

/* ------------------------------------------------------------------ the short way */

/* Both compilers leave the short way's loop rolled at -O2, which doubles its instructions. */
#define TN_ITER_INLINE __attribute__((always_inline))
#define TN_ITER_UNROLL _Pragma("GCC unroll 8")

/* True if every operand is contiguous with operand 0's number of elements, or holds one element: then one
 * call of the loop with the data, strides and n written here does everything. Operands broadcast to operand
 * 0 (the meta rule has seen to that), so equal counts are equal shapes. */
static inline TN_ITER_INLINE bool tn_iter_fast(uint32_t n_operands, const tn_view *const *operands,
                                               char **out_data, int64_t *out_strides, int64_t *out_n) {
  int64_t n = operands[0]->numel;
  if (!(operands[0]->flags & TN_VIEW_CONTIGUOUS)) return false;
  out_data[0] = (char *)operands[0]->data;
  out_strides[0] = operands[0]->itemsize;
  TN_ITER_UNROLL
  for (uint32_t k = 1; k < n_operands; k++) {
    const tn_view *v = operands[k];
    if (v->numel == n) {
      if (!(v->flags & TN_VIEW_CONTIGUOUS)) return false;
      out_strides[k] = v->itemsize;
    } else if (v->numel == 1) {
      out_strides[k] = 0;
    } else {
      return false;
    }
    out_data[k] = (char *)v->data;
  }
  *out_n = n;
  return true;
}

/* Runs fn over n elements of flat operands, on several threads if n > grain > 0. */
tn_status tn_iter_run_flat(uint32_t n_operands, char *const *data, const int64_t *strides, int64_t n,
                           int64_t grain, tn_loop_fn fn, void *ctx);
/* Set-up and run over operand 0's shape. */
tn_status tn_iter_run_views(uint32_t n_outputs, uint32_t n_operands, const tn_view *const *operands,
                            int64_t grain, tn_loop_fn fn, void *ctx);

/* An elementwise kernel's whole iteration. n_operands is a constant where it is called: the test unrolls. */
static inline TN_ITER_INLINE tn_status tn_iter_each(uint32_t n_outputs, uint32_t n_operands,
                                                    const tn_view *const *operands, int64_t grain,
                                                    tn_loop_fn fn, void *ctx) {
  char *data[TN_ITER_MAX_OPERANDS];
  int64_t strides[TN_ITER_MAX_OPERANDS];
  int64_t n;
  if (__builtin_expect(
          n_operands <= TN_ITER_MAX_OPERANDS && tn_iter_fast(n_operands, operands, data, strides, &n), 1)) {
    if (__builtin_expect(n > grain && grain > 0, 0)) {
      return tn_iter_run_flat(n_operands, data, strides, n, grain, fn, ctx);
    }
    if (n > 0) fn(ctx, data, strides, n);
    return TN_OK;
  }
  return tn_iter_run_views(n_outputs, n_operands, operands, grain, fn, ctx);
}

/* ------------------------------------------------------------------ reductions */

/* Kept dims outside, reduced dims inside. outer has the outputs, then the input at its first reduced element;
 * inner has the reduced dims of the input only (operand 0; its data is not set), in row-major order if
 * TN_ITER_IN_ORDER was asked for. */
typedef struct tn_reduce {
  tn_iter outer;
  tn_iter inner;
} tn_reduce;

/* One row of outputs: n of them along strides; data[n_outputs] is the input. Each output is the reduction
 * of the elements that inner describes from its input pointer: walk them with tn_iter_walk(inner, &base,
 * ...), or read inner->sizes and inner->strides[d][0] where the kernel has a shorter way (ndim 1 is
 * common). */
typedef void (*tn_reduce_fn)(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner);

/* mask: reduced dims of input. Outputs have the reduced shape, with or without the dims of size 1.
 * flags: TN_ITER_IN_ORDER concerns inner; outer is always reordered. */
tn_status tn_reduce_init(tn_reduce *r, uint64_t mask, uint32_t n_outputs, const tn_view *const *outputs,
                         const tn_view *input, uint32_t flags);
/* grain: in elements of the input. Splits between outputs only, so that each is computed by one thread in one
 * order; a single output of many elements is the kernel's to split, at borders that depend on sizes only. */
tn_status tn_reduce_run(const tn_reduce *r, int64_t grain, tn_reduce_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
