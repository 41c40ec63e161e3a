/* SPDX-License-Identifier: Apache-2.0
 *
 * leaks.cycle: the same work over and over; what the process holds must not grow with it. Counted are bytes of the C heap,
 * resident pages, descriptors, threads, and what the core's statistics say of the device. Three batches of the same
 * length: caches fill in the first, so what grows in each of the later ones grows for ever.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontends/check/door.h"
#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { BATCHES = 4, ROUNDS = 200, N = 500, BYTES = 5000, TIMEOUT_S = 15, PAGE_SLACK = 64 };

/* Sanitizers keep the heap themselves. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

typedef struct held {
  size_t heap_bytes, pages, descriptors, threads;
} held;

static size_t count_entries(const char *path) {
  size_t n = 0;
  DIR *dir = opendir(path);
  while (dir && readdir(dir)) n++;
  if (dir) closedir(dir);
  return n;
}

static held take_stock(void) {
  held h = {.descriptors = count_entries("/proc/self/fd"), .threads = count_entries("/proc/self/task")};
  if (__sanitizer_get_current_allocated_bytes) {
    h.heap_bytes = __sanitizer_get_current_allocated_bytes();
  } else {
    struct mallinfo2 m = mallinfo2();
    h.heap_bytes = m.uordblks + m.hblkhd;
  }
  FILE *statm = fopen("/proc/self/statm", "r");
  if (statm && fscanf(statm, "%*u %zu", &h.pages) != 1) h.pages = 0;
  if (statm) fclose(statm);
  return h;
}

/* NULL, or what grew in every batch but the first (owned). */
static char *judge(const held *h) {
  size_t heap = 0, pages = 0, descriptors = 0, threads = 0;
  for (int i = 2; i <= BATCHES; i++) {
    heap += h[i].heap_bytes >= h[i - 1].heap_bytes + ROUNDS;
    pages += h[i].pages > h[i - 1].pages + PAGE_SLACK;
    descriptors += h[i].descriptors > h[i - 1].descriptors;
    threads += h[i].threads > h[i - 1].threads;
  }
  const size_t all = BATCHES - 1;
  double rounds = (double)all * ROUNDS;
  if (heap == all)
    return tni_check_text("%.1f bytes of heap a round",
                          (double)(h[BATCHES].heap_bytes - h[1].heap_bytes) / rounds);
  if (pages == all &&
      !__sanitizer_get_current_allocated_bytes) /* a sanitizer keeps freed memory for a while */
    return tni_check_text("%.2f pages a round", (double)(h[BATCHES].pages - h[1].pages) / rounds);
  if (descriptors == all)
    return tni_check_text("open files: %zu more", h[BATCHES].descriptors - h[1].descriptors);
  if (threads == all) return tni_check_text("threads: %zu more", h[BATCHES].threads - h[1].threads);
  return NULL;
}

/* ------------------------------------------------------------------ raw rows */

static tn_status raw_round(const tni_raw *d, unsigned char *bytes) {
  tn_memory m;
  tn_status status = tni_raw_alloc(d, BYTES, &m);
  if (status != TN_OK) return status;
  status = tni_raw_write(d, &m, 0, bytes, BYTES);
  if (status == TN_OK) status = tni_raw_read(d, &m, 0, bytes, BYTES);
  tni_raw_free(d, &m);
  void *stream = NULL, *event = NULL;
  if (status == TN_OK && d->def->stream_new && d->def->stream_free) {
    status = d->def->stream_new(d->def->ctx, d->index, &stream);
    if (status == TN_OK) d->def->stream_free(d->def->ctx, d->index, stream);
  }
  if (status == TN_OK && d->def->event_new && d->def->event_free) {
    status = d->def->event_new(d->def->ctx, d->index, &event);
    if (status == TN_OK) d->def->event_free(d->def->ctx, d->index, event);
  }
  return status;
}

static void visit(tni_check_report *r, const tni_raw *d) {
  char *item = tni_raw_item(d, "rows");
  unsigned char *bytes = tni_check_alloc(BYTES);
  held h[BATCHES + 1];
  tn_status status = TN_OK;
  tni_check_at(r, item);
  h[0] = take_stock();
  for (int i = 1; i <= BATCHES; i++) {
    for (int k = 0; k < ROUNDS && status == TN_OK; k++) status = raw_round(d, bytes);
    h[i] = take_stock();
  }
  if (tni_check_ok(r, status, item, "a round failed")) {
    char *grew = judge(h);
    tni_check_that(r, !grew, item, "alloc, two copies, free; it grows by %s", grew);
    free(grew);
  }
  free(bytes);
  free(item);
}

/* ------------------------------------------------------------------ through the core */

typedef struct kept {
  tn_tensor *x, *y, *z;
} kept;

static tn_status operator_round(tn_device device, const float *values, float *back) {
  const tn_dim size = N;
  kept k = {0};
  tn_status status = tni_host_tensor(values, &size, 1, device, &k.x);
  if (status == TN_OK) status = tn_mul(k.x, k.x, &k.y);
  if (tni_host_is_missing(status)) status = TN_OK;
  if (status == TN_OK) status = tn_add(k.x, k.x, tn_int(1), &k.z);
  if (tni_host_is_missing(status)) status = TN_OK;
  if (status == TN_OK) status = tni_host_read(k.z ? k.z : k.x, back, N);
  tn_tensor_release(k.x);
  tn_tensor_release(k.y);
  tn_tensor_release(k.z);
  return status;
}

static void check_device(tni_check_report *r, const char *name) {
  tn_device device;
  float values[N], back[N];
  held h[BATCHES + 1];
  tn_memory_stats stats[2];
  tn_status status = TN_OK;
  char *item = tni_check_text("%s operators", name);
  tni_check_at(r, item);
  if (!tni_check_device(r, name, &device)) return free(item);
  tni_host_values(values, N, 1);
  h[0] = take_stock();
  status = tn_memory_get_stats(device, &stats[0]);
  for (int i = 1; i <= BATCHES; i++) {
    for (int k = 0; k < ROUNDS && status == TN_OK; k++) status = operator_round(device, values, back);
    h[i] = take_stock();
  }
  if (status == TN_OK) status = tn_memory_get_stats(device, &stats[1]);
  if (tni_check_ok(r, status, item, "a round failed")) {
    char *grew = judge(h);
    tni_check_that(r, !grew, item, "tensors in, operators, tensors out; it grows by %s", grew);
    tni_check_that(r, stats[1].current_bytes == stats[0].current_bytes, "statistics",
                   "%llu bytes of the device are in use; before the work it was %llu",
                   (unsigned long long)stats[1].current_bytes, (unsigned long long)stats[0].current_bytes);
    free(grew);
  }
  free(item);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) {
    for (size_t i = 0; i < c->n_devices; i++) check_device(r, c->devices[i]);
    tn_empty_cache();
    tn_shutdown();
    tni_check_pass(r, "shutdown");
    return;
  }
  tni_check_end end;
  if (tni_check_stage(r, c, "operators", NULL, TIMEOUT_S, &end) && (!end.finished || end.exit_status))
    tni_check_fail(r, "operators", "the process %s", end.words);
  tni_door_devices(r, c, visit);
}

const tni_check tni_check_leaks_cycle = {
    .name = "leaks.cycle",
    .about = "the same work over and over holds no more memory, files or threads",
    .kinds = TNI_CHECK_BACKEND,
    .timeout_s = 40,
    .run = run};
