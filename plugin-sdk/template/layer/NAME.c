/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer "@NAME@": counts the calls of every operator, and prints the table when the process ends its use of Tenon
 * (tn_shutdown). It stands above autograd, so it sees what an application and a gradient formula call, once each, and
 * nothing of what happens below: redispatch switches it off for that.
 *
 * Each thread counts in a table of its own, which hangs in the thread's slot (layer_slot), so that a call touches no
 * memory of another thread. A worker's slot begins with a new table (state_dup); one that ends adds its table to that of
 * the ended threads (state_free).
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_layer.h>

#include "@NAME@.h"

TN_MANIFEST(TN_MANIFEST_HEADER("@NAME@", "0.1.0", "Apache-2.0")
            "layer @NAME@ class record above autograd\n"
            "kernel @NAME@ * all 0\n"
            "interface " @UPPER@_COUNTS " 1\n")

/* ------------------------------------------------------------------ tables */

typedef struct row {
  const tn_op *op;        /* NULL: empty */
  _Atomic uint64_t calls; /* written by its thread, read by whoever asks */
} row;

/* Open addressing over a power of two. Only the owner adds rows, with the lock; it finds them without. */
typedef struct table {
  struct table *next, *previous;
  row *rows;
  size_t capacity, used;
} table;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table live = {.next = &live, .previous = &live}; /* tables of running threads, in a ring */
static table ended;                                     /* sums of the threads that have ended */

static row *table_find(row *rows, size_t capacity, const tn_op *op) {
  size_t i = ((uintptr_t)op >> 4) * 0x9e3779b1u & (capacity - 1);
  while (rows[i].op && rows[i].op != op) i = (i + 1) & (capacity - 1);
  return &rows[i];
}

/* Lock held. Doubles the table when it gets more than half full. */
static tn_status table_grow(table *t) {
  if (2 * (t->used + 1) <= t->capacity) return TN_OK;
  size_t capacity = t->capacity ? 2 * t->capacity : 64;
  row *rows = calloc(capacity, sizeof *rows);
  if (!rows) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "@NAME@: no memory to count in");
  for (size_t i = 0; i < t->capacity; i++)
    if (t->rows[i].op) {
      row *to = table_find(rows, capacity, t->rows[i].op);
      to->op = t->rows[i].op;
      to->calls = t->rows[i].calls;
    }
  free(t->rows);
  t->rows = rows;
  t->capacity = capacity;
  return TN_OK;
}

/* Lock held. */
static tn_status table_add(table *t, const tn_op *op, uint64_t calls) {
  TN_TRY(table_grow(t));
  row *r = table_find(t->rows, t->capacity, op);
  if (!r->op) t->used++;
  r->op = op;
  r->calls += calls;
  return TN_OK;
}

/* Lock held. What does not fit for want of memory is left out of the sums. */
static tn_status table_add_all(table *to, const table *from) {
  for (size_t i = 0; i < from->capacity; i++)
    if (from->rows[i].op && from->rows[i].calls) TN_TRY(table_add(to, from->rows[i].op, from->rows[i].calls));
  return TN_OK;
}

/* ------------------------------------------------------------------ the state of a thread */

static table *table_new(void) {
  table *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_mutex_lock(&lock);
  t->next = live.next, t->previous = &live;
  t->next->previous = live.next = t;
  pthread_mutex_unlock(&lock);
  return t;
}

static void *state_dup(void *state) { return state ? table_new() : NULL; }

static void state_free(void *state) {
  table *t = state;
  if (!t) return;
  pthread_mutex_lock(&lock);
  t->next->previous = t->previous;
  t->previous->next = t->next;
  if (table_add_all(&ended, t) != TN_OK)
    tn_kit_host()->log(TN_LOG_WARN, "@NAME@: a thread's calls are not counted");
  pthread_mutex_unlock(&lock);
  free(t->rows);
  free(t);
}

/* ------------------------------------------------------------------ the layer's kernel */

static tn_status count(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_host *host = tn_kit_host();
  void **slot;
  TN_TRY(host->layer_slot(call, &slot));
  if (!*slot) *slot = table_new();
  table *t = *slot;
  if (!t) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "@NAME@: no memory to count in");
  row *r = t->capacity ? table_find(t->rows, t->capacity, call->op) : NULL;
  if (r && r->op) {
    atomic_store_explicit(&r->calls, atomic_load_explicit(&r->calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
  } else {
    pthread_mutex_lock(&lock);
    tn_status status = table_add(t, call->op, 1);
    pthread_mutex_unlock(&lock);
    TN_TRY(status);
  }
  return host->redispatch(call, args, out);
}

/* ------------------------------------------------------------------ sums */

static int more_calls(const void *a, const void *b) {
  const row *x = a, *y = b;
  return x->calls != y->calls ? (x->calls < y->calls ? 1 : -1) : 0;
}

/* The rows of all threads, the most called first; owned by the caller. */
static tn_status sum_up(table *total) {
  pthread_mutex_lock(&lock);
  tn_status status = table_add_all(total, &ended);
  for (table *t = live.next; t != &live && status == TN_OK; t = t->next) status = table_add_all(total, t);
  pthread_mutex_unlock(&lock);
  if (total->capacity) qsort(total->rows, total->capacity, sizeof *total->rows, more_calls);
  return status;
}

static tn_status counts_read(void (*each)(void *ctx, const char *op, uint64_t calls), void *ctx) {
  table total = {0};
  tn_status status = sum_up(&total);
  for (size_t i = 0; i < total.used && status == TN_OK; i++)
    each(ctx, tn_kit_host()->op_name(total.rows[i].op), total.rows[i].calls);
  free(total.rows);
  return status;
}

static void forget(table *t) {
  for (size_t i = 0; i < t->capacity; i++) t->rows[i].calls = 0;
}

static void counts_reset(void) {
  pthread_mutex_lock(&lock);
  forget(&ended);
  for (table *t = live.next; t != &live; t = t->next) forget(t);
  pthread_mutex_unlock(&lock);
}

static void print_row(void *ctx, const char *op, uint64_t calls) {
  fprintf(ctx, "  %12" PRIu64 "  %s\n", calls, op);
}

/* Called once, by tn_shutdown. */
static void end(void) {
  fprintf(stderr, "@NAME@: calls by operator\n");
  if (counts_read(print_row, stderr) != TN_OK)
    fprintf(stderr, "@NAME@: %s\n", tn_kit_host()->error_message());
}

/* ------------------------------------------------------------------ the door */

static const @IDENT@_counts counts = {.struct_size = sizeof counts, .read = counts_read, .reset = counts_reset};

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {
      .struct_size = sizeof layer, .name = "@NAME@", .state_dup = state_dup, .state_free = state_free};
  const tn_kernel_def kernel = TN_KERNEL("@NAME@", "*", count, 0, .flags = TN_KERNEL_LAYER_FALLBACK);
  TN_TRY(host->register_layer(reg, &layer));
  TN_TRY(host->register_kernel(reg, &kernel));
  return host->register_interface(reg, @UPPER@_COUNTS, @UPPER@_COUNTS_VERSION, &counts);
}

TN_PLUGIN(.name = "@NAME@", .version = "0.1.0", .init = init, .shutdown = end)
