/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks stacks of matrices (tenon/kit/stack.h).
 */
#include <tenon/kit/stack.h>

#include <stddef.h>

/* Where nothing is: memory of no elements still has an address. */
static _Alignas(64) char nothing[64];

typedef struct walk {
  tn_iter places;
  tn_matrix shapes[TN_ITER_MAX_OPERANDS]; /* without data */
  uint32_t n_operands;
  char *work;
  size_t work_each;
  tn_stack_fn fn;
  void *ctx;
} walk;

static tn_matrix shape_of(const tn_view *v, uint8_t trailing) {
  tn_matrix m = {.dtype = v->dtype, .rows = 1, .columns = 1};
  if (trailing > 0) {
    m.columns = v->sizes[v->ndim - 1];
    m.column_stride = v->strides[v->ndim - 1] * v->itemsize;
  }
  if (trailing > 1) {
    m.rows = v->sizes[v->ndim - 2];
    m.row_stride = v->strides[v->ndim - 2] * v->itemsize;
  }
  return m;
}

/* v without its trailing dims. Matrices without elements may have no memory, but their places are visited: LU of an
 * empty matrix has an info. */
static tn_view stack_of(const tn_view *v, uint8_t trailing) {
  tn_view stack = *v;
  stack.ndim = (uint8_t)(v->ndim - trailing);
  stack.flags &= ~(uint32_t)(TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE);
  stack.numel = 1;
  for (uint32_t i = 0; i < stack.ndim; ++i) stack.numel *= stack.sizes[i];
  if (v->numel == 0) stack.data = nothing;
  return stack;
}

static tn_status run_places(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const walk *w = ctx;
  tn_stack_place place;
  place.work = w->work_each ? w->work + (size_t)worker * w->work_each : nothing;
  for (int64_t i = begin; i < end; ++i) {
    char *data[TN_ITER_MAX_OPERANDS];
    tn_iter_pointers(&w->places, NULL, i, data);
    place.number = i;
    for (uint32_t k = 0; k < w->n_operands; ++k) {
      place.matrices[k] = w->shapes[k];
      place.matrices[k].data = data[k];
    }
    TN_TRY(w->fn(&place, w->ctx));
  }
  return TN_OK;
}

/* A piece for every worker that may run, each on lines of its own. */
static tn_status take_work(tn_call *call, walk *w, size_t work_bytes) {
  enum { LINE = 64 };
  size_t all, workers = (size_t)tn_kit_host()->num_threads();
  tn_memory memory;
  if (work_bytes == 0) return TN_OK;
  if (work_bytes > SIZE_MAX - LINE ||
      __builtin_mul_overflow((work_bytes + LINE - 1) / LINE * LINE, workers, &all))
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "a matrix needs %zu bytes to be worked on", work_bytes);
  TN_TRY(tn_kit_host()->scratch(call, all, &memory));
  w->work = memory.address;
  w->work_each = all / workers;
  return TN_OK;
}

tn_status tn_stack_each(tn_call *call, uint32_t n_outputs, uint32_t n_operands,
                        const tn_view *const *operands, const uint8_t *trailing, size_t work_bytes,
                        int64_t grain, tn_stack_fn fn, void *ctx) {
  walk w = {.n_operands = n_operands, .fn = fn, .ctx = ctx};
  tn_view stacks[TN_ITER_MAX_OPERANDS];
  const tn_view *pointers[TN_ITER_MAX_OPERANDS];
  if (n_operands == 0 || n_operands > TN_ITER_MAX_OPERANDS)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 1 to %d operands of stacks, got %u",
                   TN_ITER_MAX_OPERANDS, n_operands);
  for (uint32_t k = 0; k < n_operands; ++k) {
    w.shapes[k] = shape_of(operands[k], trailing[k]);
    stacks[k] = stack_of(operands[k], trailing[k]);
    pointers[k] = &stacks[k];
  }
  TN_TRY(tn_iter_init(&w.places, stacks[0].ndim, stacks[0].sizes, n_outputs, n_operands, pointers,
                      TN_ITER_IN_ORDER));
  if (w.places.numel == 0) return TN_OK;
  TN_TRY(take_work(call, &w, work_bytes));
  return tn_kit_host()->parallel_for(w.places.numel, grain, run_places, &w);
}
