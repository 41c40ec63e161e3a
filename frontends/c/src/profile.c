/* SPDX-License-Identifier: Apache-2.0
 *
 * Events summed up by name. Each thread has a stack of what it is in, so that a call's own time is what its parts
 * leave of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "frontends/c/src/support.h"
#include <tenon/trace.h>

/* A call that has not ended. */
typedef struct frame {
  uint64_t id, begun_ns, parts_ns;
  size_t row;
} frame;

typedef struct stack {
  uint64_t thread;
  frame *frames;
  size_t n, capacity;
} stack;

struct tn_profile {
  pthread_mutex_t mutex;
  uint64_t handle, begun_ns, ended_ns;
  bool listening;
  bool short_of_memory; /* something was left out */
  tn_profile_row *rows; /* names owned */
  size_t n_rows, row_capacity;
  uint32_t *slots; /* open addressing: row + 1, by name and kind */
  size_t n_slots;
  stack *stacks;
  size_t n_stacks, stack_capacity;
};

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ rows and stacks: the mutex is held */

static size_t hash(const char *name, uint32_t kind) {
  uint64_t h = 1469598103934665603u + kind;
  for (; *name; ++name) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return (size_t)(h ^ h >> 29);
}

static uint32_t *slot_of(const tn_profile *p, const char *name, uint32_t kind) {
  size_t i = hash(name, kind) & (p->n_slots - 1);
  for (; p->slots[i]; i = (i + 1) & (p->n_slots - 1)) {
    const tn_profile_row *row = &p->rows[p->slots[i] - 1];
    if (row->kind == kind && strcmp(row->name, name) == 0) break;
  }
  return &p->slots[i];
}

static tn_status slots_grow(tn_profile *p) {
  uint32_t *old = p->slots;
  size_t n = p->n_slots ? 2 * p->n_slots : 256;
  TN_TRY(tni_nn_alloc(n, sizeof *p->slots, "names of a profile", &p->slots));
  p->n_slots = n;
  for (size_t i = 0; i < p->n_rows; ++i) *slot_of(p, p->rows[i].name, p->rows[i].kind) = (uint32_t)i + 1;
  free(old);
  return TN_OK;
}

static tn_status row_find(tn_profile *p, const char *name, uint32_t kind, size_t *out_row) {
  if (2 * (p->n_rows + 1) > p->n_slots) TN_TRY(slots_grow(p));
  uint32_t *slot = slot_of(p, name, kind);
  if (!*slot) {
    char *copy;
    TN_TRY(tni_nn_grow(&p->rows, &p->row_capacity, p->n_rows, sizeof *p->rows, "a profile"));
    TN_TRY(tni_nn_strdup(name, &copy));
    p->rows[p->n_rows++] = (tn_profile_row){.name = copy, .kind = kind};
    *slot = (uint32_t)p->n_rows;
  }
  *out_row = *slot - 1;
  return TN_OK;
}

static tn_status stack_of(tn_profile *p, uint64_t thread, stack **out_stack) {
  for (size_t i = 0; i < p->n_stacks; ++i)
    if (p->stacks[i].thread == thread) {
      *out_stack = &p->stacks[i];
      return TN_OK;
    }
  TN_TRY(tni_nn_grow(&p->stacks, &p->stack_capacity, p->n_stacks, sizeof *p->stacks, "a thread of a profile"));
  *out_stack = &p->stacks[p->n_stacks++];
  **out_stack = (stack){.thread = thread};
  return TN_OK;
}

/* ------------------------------------------------------------------ events */

static tn_status take_begin(tn_profile *p, const tn_profile_event *e) {
  stack *s;
  size_t row;
  TN_TRY(stack_of(p, e->thread, &s));
  TN_TRY(row_find(p, e->name, e->kind, &row));
  TN_TRY(tni_nn_grow(&s->frames, &s->capacity, s->n, sizeof *s->frames, "calls of a profile"));
  s->frames[s->n++] = (frame){.id = e->id, .begun_ns = e->time_ns, .row = row};
  return TN_OK;
}

static void on_begin(void *ctx, const tn_profile_event *e) {
  tn_profile *p = ctx;
  if (e->kind > TN_PROFILE_BACKWARD) return;
  pthread_mutex_lock(&p->mutex);
  if (take_begin(p, e) != TN_OK) p->short_of_memory = true;
  pthread_mutex_unlock(&p->mutex);
}

/* A frame whose begin was left out is not there; its time then counts to what stands around it. */
static void take_end(tn_profile *p, const tn_profile_event *e) {
  stack *s;
  if (stack_of(p, e->thread, &s) != TN_OK || !s->n || s->frames[s->n - 1].id != e->id) return;
  const frame *f = &s->frames[--s->n];
  tn_profile_row *row = &p->rows[f->row];
  const uint64_t ns = e->time_ns - f->begun_ns;
  row->n_calls++;
  row->total_ns += ns;
  row->self_ns += ns > f->parts_ns ? ns - f->parts_ns : 0;
  if (ns > row->max_ns) row->max_ns = ns;
  if (s->n) s->frames[s->n - 1].parts_ns += ns;
}

static void on_end(void *ctx, const tn_profile_event *e) {
  tn_profile *p = ctx;
  if (e->kind > TN_PROFILE_BACKWARD) return;
  pthread_mutex_lock(&p->mutex);
  take_end(p, e);
  pthread_mutex_unlock(&p->mutex);
}

static void on_memory(void *ctx, const tn_profile_event *e) {
  tn_profile *p = ctx;
  stack *s;
  if (e->kind != TN_PROFILE_ALLOC) return;
  pthread_mutex_lock(&p->mutex);
  if (stack_of(p, e->thread, &s) == TN_OK && s->n) p->rows[s->frames[s->n - 1].row].bytes += e->bytes;
  pthread_mutex_unlock(&p->mutex);
}

static void on_device_time(void *ctx, const tn_profile_device_time *e) {
  tn_profile *p = ctx;
  size_t row;
  pthread_mutex_lock(&p->mutex);
  if (row_find(p, e->name, TN_PROFILE_OPERATOR, &row) == TN_OK) p->rows[row].device_ns += e->ns;
  pthread_mutex_unlock(&p->mutex);
}

/* ------------------------------------------------------------------ life */

tn_status tn_profile_begin(tn_profile **out_profile) {
  tn_profile *p;
  TN_TRY(tni_nn_not_null(out_profile, "tn_profile_begin: out_profile"));
  *out_profile = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *p, "a profile", &p));
  pthread_mutex_init(&p->mutex, NULL);
  p->begun_ns = now_ns();
  const tn_profiler_def def = {.struct_size = sizeof def,
                               .ctx = p,
                               .begin = on_begin,
                               .end = on_end,
                               .memory = on_memory,
                               .device_time = on_device_time};
  tn_status status = tn_profiler_attach(&def, &p->handle);
  p->listening = status == TN_OK;
  if (status == TN_OK)
    *out_profile = p;
  else
    tn_profile_free(p);
  return status;
}

static int by_self(const void *a, const void *b) {
  const tn_profile_row *x = a, *y = b;
  if (x->self_ns != y->self_ns) return x->self_ns < y->self_ns ? 1 : -1;
  return strcmp(x->name, y->name);
}

tn_status tn_profile_end(tn_profile *p) {
  TN_TRY(tni_nn_not_null(p, "tn_profile_end: profile"));
  if (!p->listening) return TN_OK;
  p->ended_ns = now_ns();
  TN_TRY(tn_profiler_detach(p->handle));
  p->listening = false;
  if (p->n_rows) qsort(p->rows, p->n_rows, sizeof *p->rows, by_self);
  if (!p->short_of_memory) return TN_OK;
  return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: some events are not in the profile");
}

void tn_profile_free(tn_profile *p) {
  if (!p) return;
  if (p->listening) (void)tn_profiler_detach(p->handle);
  for (size_t i = 0; i < p->n_rows; ++i) free((char *)(uintptr_t)p->rows[i].name);
  for (size_t i = 0; i < p->n_stacks; ++i) free(p->stacks[i].frames);
  free(p->rows);
  free(p->slots);
  free(p->stacks);
  pthread_mutex_destroy(&p->mutex);
  free(p);
}

size_t tn_profile_count(const tn_profile *p) { return p && !p->listening ? p->n_rows : 0; }

tn_status tn_profile_get(const tn_profile *p, size_t i, tn_profile_row *out_row) {
  TN_TRY(tni_nn_not_null(out_row, "tn_profile_get: out_row"));
  if (i >= tn_profile_count(p))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_profile_get: row %zu of %zu", i, tn_profile_count(p));
  *out_row = p->rows[i];
  return TN_OK;
}

uint64_t tn_profile_wall_ns(const tn_profile *p) { return p && !p->listening ? p->ended_ns - p->begun_ns : 0; }

/* ------------------------------------------------------------------ the table */

static double ms(uint64_t ns) { return 1e-6 * (double)ns; }

tn_status tn_profile_print(const tn_profile *p, FILE *file) {
  uint64_t self = 0, device = 0, calls = 0;
  TN_TRY(tni_nn_not_null(p, "tn_profile_print: profile"));
  TN_TRY(tni_nn_not_null(file, "tn_profile_print: file"));
  const double wall = ms(tn_profile_wall_ns(p));
  for (size_t i = 0; i < tn_profile_count(p); ++i) device += p->rows[i].device_ns;
  fprintf(file, "%-36s %9s %11s %11s %6s %10s %10s%s %12s\n", "name", "calls", "total ms", "self ms", "wall", "mean us",
          "max us", device ? "   device ms" : "", "bytes");
  for (size_t i = 0; i < tn_profile_count(p); ++i) {
    const tn_profile_row *r = &p->rows[i];
    if (!r->n_calls) continue;
    fprintf(file, "%-36s %9" PRIu64 " %11.3f %11.3f %5.1f%% %10.2f %10.2f", r->name, r->n_calls, ms(r->total_ns),
            ms(r->self_ns), wall > 0 ? 100 * ms(r->self_ns) / wall : 0, 1e3 * ms(r->total_ns) / (double)r->n_calls,
            1e3 * ms(r->max_ns));
    if (device) fprintf(file, " %11.3f", ms(r->device_ns));
    fprintf(file, " %12" PRIu64 "\n", r->bytes);
    self += r->self_ns;
    calls += r->n_calls;
  }
  fprintf(file, "%-36s %9" PRIu64 " %11s %11.3f %5.1f%% of %.3f ms; times of several threads add up\n", "all", calls, "",
          ms(self), wall > 0 ? 100 * ms(self) / wall : 0, wall);
  if (fflush(file) == 0 && !ferror(file)) return TN_OK;
  return tn_fail(TN_ERR_IO, "the profile could not be written");
}
