/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and cells. A cell is built at its first call: providers are opened and sorted, and the entry (structured
 * step, view step, body, layer kernel, "missing") is chosen. The first rows of all operators with the same mask
 * are one shared object, so that start-up allocates nothing per operator.
 */
#include "core/dispatch/row.h"

#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fallback.h"
#include "core/load/load.h"
#include "core/tensor/small.h"

/* A cell with its chain in one block; kept as rows are. */
typedef struct cell_block {
  struct cell_block *next;
  tni_cell cell;
  const tni_kernel *chain[];
} cell_block;

static cell_block *cells; /* every built cell; registry lock */
static tni_row *retired;  /* replaced rows; registry lock */
static const tni_row *over_all; /* NULL: each operator's own row; registry lock */
static tni_cell build_cells[64];
static tni_cell autograd_cell = {.fn = tni_autograd_cell, .bit = TNI_BIT_AUTOGRAD};
static tni_row first_rows[2]; /* without and with the autograd cell */
static bool first_rows_ready;

static const tni_cell start_cell = {.fn = tni_start};
const tni_row tni_start_row = {.mask = UINT64_MAX, .cells = {[0 ... 63] = &start_cell}};

bool tni_op_ready(const tn_op *op) {
  return atomic_load_explicit(&op->own_row, memory_order_acquire) != &tni_start_row;
}

static void first_rows_fill(void) {
  for (uint8_t bit = 0; bit < 64; ++bit) build_cells[bit] = (tni_cell){.fn = tni_cell_build, .bit = bit};
  for (int with = 0; with < 2; ++with) {
    tni_row *row = &first_rows[with];
    row->mask = TNI_KEYS_BACKENDS | (with ? TNI_KEY_AUTOGRAD : 0);
    for (int bit = 0; bit < 64; ++bit) row->cells[bit] = &build_cells[bit];
    if (with) row->cells[TNI_BIT_AUTOGRAD] = &autograd_cell;
  }
  first_rows_ready = true;
}

/* Operators whose results never require grad and that write nothing have nothing to do with autograd, unless all they
 * are is a body, whose parts have. */
static bool meets_autograd(const tn_op *op) {
  if (!(op->tensor_args | op->list_args)) return false;
  return op->write_args || !(op->flags & TN_OP_NONDIFF) || (op->body && !op->meta);
}

tn_status tni_row_first(const tn_op *op, const tni_row **out_row) {
  if (!first_rows_ready) first_rows_fill();
  *out_row = &first_rows[meets_autograd(op)];
  return TN_OK;
}

void tni_row_publish(tn_op *op, const tni_row *row) {
  atomic_store_explicit(&op->own_row, row, memory_order_release);
  atomic_store_explicit(&op->row, over_all ? over_all : row, memory_order_release);
}

void tni_rows_cover(const tni_row *cover) {
  if (over_all == &tni_exit_row) return; /* nothing comes after it */
  over_all = cover;
  for (size_t i = 0; i < tni_op_count(); ++i) {
    tn_op *op = tni_op_at(i);
    tni_row_publish(op, atomic_load_explicit(&op->own_row, memory_order_relaxed));
  }
}

/* Shared by operators: never freed. */
static bool is_first(const tni_row *row) {
  return row == &first_rows[0] || row == &first_rows[1] || row == &tni_start_row;
}

/* Publishes a copy of op's row with another cell at bit. met: calls meet it there. */
static tn_status row_replace(tn_op *op, unsigned bit, const tni_cell *cell, bool met) {
  const tni_row *old = atomic_load_explicit(&op->own_row, memory_order_relaxed);
  if (old->cells[bit] == cell && !(old->mask & TNI_KEY(bit)) == !met) return TN_OK;
  tni_row *row = tni_alloc(sizeof *row);
  if (!row) return tni_oom(sizeof *row, "a row of the dispatch table");
  *row = *old;
  row->mask = met ? row->mask | TNI_KEY(bit) : row->mask & ~TNI_KEY(bit);
  row->cells[bit] = cell;
  row->older = NULL;
  tni_row_publish(op, row);
  if (!is_first(old)) {
    tni_row *dead = (tni_row *)(uintptr_t)old;
    dead->older = retired;
    retired = dead;
  }
  return TN_OK;
}

static uint32_t count_kernels(const tn_op *op, uint8_t bit) {
  uint32_t n = 0;
  for (const tni_kernel *k = op->kernels; k; k = k->next) n += k->bit == bit;
  return n;
}

/* A layer whose last kernel went is met no more: it would have nothing to run. */
static tn_status reset_one(tn_op *op, uint8_t bit) {
  bool met = bit < TN_BACKEND_LIMIT || count_kernels(op->functional, bit) > 0;
  return row_replace(op, bit, &build_cells[bit], met);
}

tn_status tni_rows_reset(tn_op *op, uint8_t bit) {
  TN_TRY(reset_one(op, bit));
  for (size_t i = 0; i < tni_op_count(); ++i) {
    tn_op *other = tni_op_at(i);
    if (other->functional == op && other != op) TN_TRY(reset_one(other, bit));
  }
  return TN_OK;
}

void tni_row_retire(tn_op *op, const tni_row *row) {
  tni_row *old = (tni_row *)(uintptr_t)atomic_load_explicit(&op->own_row, memory_order_relaxed);
  atomic_store_explicit(&op->own_row, row, memory_order_release);
  atomic_store_explicit(&op->row, row, memory_order_release);
  if (is_first(old)) return;
  old->older = retired;
  retired = old;
}

void tni_row_drop(tn_op *op) {
  const tni_row *row = atomic_load_explicit(&op->own_row, memory_order_relaxed);
  if (!is_first(row)) tni_free((tni_row *)(uintptr_t)row);
}

/* ------------------------------------------------------------------ building a cell */

/* Insertion sort: chains are short. */
static void chain_add(const tni_kernel **chain, uint32_t n, const tni_kernel *kernel) {
  while (n && tni_kernel_before(kernel, chain[n - 1])) {
    chain[n] = chain[n - 1];
    --n;
  }
  chain[n] = kernel;
}

/* `f(Tensor self, Tensor other, ...)` with a result of the operands' dtype. */
static bool is_plain_binary(const tn_op *op) {
  const tni_arg *a = op->schema->args;
  return op->tensor_args == 3 && !a[0].optional && !a[1].optional && op->promote < TN_PROMOTE_COMPARE;
}

static tn_kernel_fn entry_of(const tn_op *op, uint8_t bit, const tni_kernel *const *chain, uint32_t n_chain) {
  const tn_op *f = op->functional;
  uint32_t flags = f->flags;
  bool fast = n_chain && (flags & TN_OP_ELEMENTWISE) && f->schema->n_results == 1 && !f->rng;
  if (flags & TN_OP_ALWAYS_BODY) return f->body ? tni_body_step : tni_missing;
  if (flags & TN_OP_VIEW) return op->list_result ? tni_view_list_step : tni_view_step;
  if (fast && op->form == TN_FORM_FUNCTIONAL && !op->write_args)
    return is_plain_binary(op) ? tni_structured_binary : tni_structured_elementwise;
  if (fast && op->form == TN_FORM_INPLACE && op->write_args == 1) return tni_structured_inplace;
  if (n_chain && tni_alone_fits(op)) return tni_structured_alone;
  if (bit != TN_BACKEND_META && (flags & TN_OP_NO_KERNEL) && tni_fresh_fits(op)) return tni_fresh_step;
  if (bit != TN_BACKEND_META && tni_single_fits(op, chain, n_chain)) return tni_structured_single;
  if (n_chain || ((flags & TN_OP_NO_KERNEL) && f->meta)) return tni_structured;
  if (bit == TN_BACKEND_META && f->meta) return tni_structured;
  if (f->body && f->meta) return tni_body_or_whole;
  return f->body ? tni_body_step : f->meta ? tni_bodyless : tni_missing;
}

static void fast_fill(tni_cell *cell, const tn_op *f, const tni_kernel *k) {
  if (k->max_args < f->n_args) return;
  if (k->max_rank < TN_MAX_RANK || k->min_numel > 0 || k->max_numel < INT64_MAX ||
      (k->flags & (TN_KERNEL_CONTIGUOUS | TN_KERNEL_NONDETERMINISTIC)))
    return;
  cell->fast_dtypes = (uint32_t)(k->dtypes & TN_DTYPES_FLOAT);
  cell->fast_fn = k->fn;
  cell->user = k->user;
}

static tn_status cell_make(tn_op *op, uint8_t bit, const tni_cell **out_cell) {
  const tn_op *f = op->functional;
  uint32_t n = bit == TN_BACKEND_META ? 0 : count_kernels(f, bit);
  size_t bytes = sizeof(cell_block) + n * sizeof(tni_kernel *);
  cell_block *block = tni_alloc_zero(bytes);
  if (!block) return tni_oom(bytes, "a cell of the dispatch table");
  uint32_t filled = 0;
  for (const tni_kernel *k = f->kernels; k && n; k = k->next)
    if (k->bit == bit) chain_add(block->chain, filled++, k);
  block->cell = (tni_cell){.fn = entry_of(op, bit, block->chain, n),
                           .chain = block->chain,
                           .n_chain = n,
                           .bit = bit,
                           .body_last = f->body != NULL};
  if (bit < TN_BACKEND_LIMIT) block->cell.n_devices = tni_backend_get(bit)->n_devices;
  if (bit < TN_BACKEND_LIMIT && (atomic_load(&tni_inline_backends) >> bit & 1)) {
    block->cell.small_bytes = TNI_SMALL_BYTES;
    block->cell.own_bytes = TNI_INLINE_BYTES;
  }
  if (bit >= TN_BACKEND_LIMIT && n) {
    block->cell.fn = tni_layer_step;
    block->cell.fast_fn = block->chain[0]->fn;
    block->cell.user = block->chain[0]->user;
  }
  if (n && bit < TN_BACKEND_LIMIT) {
    fast_fill(&block->cell, f, block->chain[0]);
    block->cell.pools = tni_backend_get(bit)->pools;
  }
  tni_cell_guard(&block->cell);
  block->next = cells;
  cells = block;
  *out_cell = &block->cell;
  return TN_OK;
}

tn_status tni_cell_get(const tn_op *op_shared, uint8_t bit, const tni_cell **out_cell) {
  tn_op *op = (tn_op *)(uintptr_t)op_shared;
  TN_TRY(tni_may_dispatch());
  if (bit < TN_BACKEND_LIMIT && !tni_backend_get(bit)) {
    const tni_backend *backend; /* the default device may be named by nobody before its first use */
    TN_TRY(tni_backend_open(tni_backend_name(bit), &backend));
  }
  if (bit < TN_BACKEND_LIMIT && tni_backend_get(bit)->closed)
    return tn_fail(TN_ERR_STATE, "device %s was unloaded: opening it by name loads its plugin again", tni_backend_name(bit));
  if (bit != TN_BACKEND_META) tni_open_providers(op->functional, bit);
  tni_registry_lock();
  tn_status status = TN_OK;
  const tni_row *row = atomic_load_explicit(&op->own_row, memory_order_relaxed);
  *out_cell = row->cells[bit];
  if ((*out_cell)->fn == tni_cell_build) { /* else another thread was faster */
    status = cell_make(op, bit, out_cell);
    if (status == TN_OK) status = row_replace(op, bit, *out_cell, true);
  }
  tni_registry_unlock();
  return status;
}

tn_status tni_cell_build(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  TN_TRY(tni_cell_get(call->op, cell->bit, &cell));
  call->cell = cell;
  call->user = cell->user;
  return cell->fn(call, args, out);
}

tn_status tni_missing(tn_call *call, const tn_value *args, tn_value *out) {
  (void)args;
  (void)out;
  const tni_cell *cell = call->cell;
  return tn_fail(TN_ERR_MISSING_KERNEL,
                 "no kernel for %s and no composite serves %s, which has no meta rule: the CPU cannot stand in; `tenon "
                 "why` names the providers",
                 tni_backend_name(cell->bit), call->op->functional->name);
}
