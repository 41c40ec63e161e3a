/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.through, layer.threads, layer.off: a layer sees calls and hands them on. Results, failures and gradients are the
 * same bits with it on, on one thread and on eight, and where it is off it takes no time. A layer that is meant to change
 * results says so in its expected-failures file.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frontends/check/host.h"
#include "frontends/check/ops.h"
#include "frontends/check/tools.h"
#include "frontends/check/train.h"

enum { N_THREADS = 8, ROUNDS = 60, N = 300, TIMEOUT_S = 20, CALLS = 50000, TRIES = 7, LOOKS = 40 };

/* Calls fn for each layer of the plugin, which is open and off. */
static void each_layer(tni_check_report *r, const tni_check_context *c,
                       void (*fn)(tni_check_report *r, const tni_check_context *c, const char *name)) {
  for (size_t i = 0; i < c->n_layers; i++) {
    bool before;
    tni_check_at(r, c->layers[i].name);
    if (!tni_check_ok(r, tn_init(), c->layers[i].name, "tn_init failed")) return;
    if (!tni_check_ok(r, tn_layer_set(c->layers[i].name, true, &before), c->layers[i].name,
                      "it cannot be switched on"))
      continue;
    (void)tn_layer_set(c->layers[i].name, false, &before);
    fn(r, c, c->layers[i].name);
  }
}

/* ------------------------------------------------------------------ layer.through */

/* What a call gave: its status and the bytes of its results. */
typedef struct trace {
  tn_status status;
  unsigned char *bytes;
  size_t size;
} trace;

static void add_bytes(trace *t, const void *bytes, size_t n) {
  unsigned char *more = tni_check_alloc(t->size + n);
  if (t->size) memcpy(more, t->bytes, t->size);
  memcpy(more + t->size, bytes, n);
  free(t->bytes);
  t->bytes = more;
  t->size += n;
}

static void add_result(trace *t, tn_tensor *result) {
  size_t n = 0;
  tn_dtype dtype = tn_tensor_dtype(result);
  void *bytes = tni_ops_bytes(result, &n);
  add_bytes(t, &dtype, sizeof dtype);
  add_bytes(t, tn_tensor_sizes(result), (size_t)tn_tensor_ndim(result) * sizeof(tn_dim));
  if (bytes) add_bytes(t, bytes, n);
  free(bytes);
}

/* Results whose values no rule fixes: their memory is as it was found. */
static bool has_values(const char *op) {
  return strncmp(op, "empty", 5) && strncmp(op, "new_empty", 9) && strncmp(op, "resize", 6);
}

static trace call(const char *layer, const tni_ops_op *op, const tn_sample *sample, bool on) {
  tni_ops_case c;
  tni_ops_results results;
  trace t = {.status = tni_ops_case_make(&c, op, sample, TN_FLOAT32, (tn_device){0}, TNI_OPS_AS_SAMPLE)};
  if (t.status != TN_OK) return t;
  bool before = false;
  (void)tn_layer_set(layer, on, &before);
  t.status = tni_ops_call(&c, op, &results);
  (void)tn_layer_set(layer, before, NULL);
  for (uint32_t i = 0; t.status == TN_OK && i < results.n; i++)
    if (results.t[i] && has_values(op->report.name)) add_result(&t, results.t[i]);
  if (t.status == TN_OK) tni_ops_results_release(&results);
  tni_ops_case_release(&c);
  return t;
}

/* NULL, or how a sample differs with the layer on (static). */
static const char *differs(const char *layer, const tni_ops_op *op, const tn_sample *sample) {
  trace off = call(layer, op, sample, false), on = call(layer, op, sample, true);
  bool same = off.size == on.size && (!off.size || !memcmp(off.bytes, on.bytes, off.size));
  const char *wrong = NULL;
  if (off.status != on.status)
    wrong =
        on.status == TN_OK ? "it succeeds with the layer on and fails without" : "it fails with the layer on";
  else if (!same)
    wrong = "results differ with the layer on";
  free(off.bytes);
  free(on.bytes);
  ref_reset();
  return wrong;
}

static void check_op(tni_check_report *r, const char *layer, const char *name) {
  tni_ops_op op = {0};
  if (tni_ops_op_open(name, &op) != TN_OK) return;
  char *item = tni_check_text("%s %s", layer, name);
  const char *wrong = NULL, *text = NULL;
  size_t tried = 0;
  tni_check_at(r, item);
  for (const tn_sample *s = op.samples; s && !wrong && tni_ops_is_sample(&op, s); s++, tried++)
    if ((wrong = differs(layer, &op, s))) text = s->text;
  if (tried) tni_check_that(r, !wrong, item, "%s: %s", text, wrong);
  tni_ops_op_close(&op);
  free(item);
}

static void check_gradients(tni_check_report *r, const char *layer) {
  static tni_train_history off, on;
  char *item = tni_check_text("%s gradients", layer);
  tni_check_at(r, item);
  tn_status status = tni_train_run((tn_device){0}, &off);
  if (status == TN_OK) status = tn_layer_set(layer, true, NULL);
  if (status == TN_OK) status = tni_train_run((tn_device){0}, &on);
  (void)tn_layer_set(layer, false, NULL);
  if (tni_check_ok(r, status, item, "training with the layer on"))
    tni_check_that(r, !memcmp(&off, &on, sizeof on), item, "gradients or weights differ with the layer on");
  free(item);
}

static void through(tni_check_report *r, const tni_check_context *c, const char *layer) {
  (void)c;
  for (size_t i = 0; i < tn_op_count(); i++) {
    tn_op_report op;
    if (tn_op_get(i, &op) == TN_OK) check_op(r, layer, op.name);
  }
  check_gradients(r, layer);
}

static void run_through(tni_check_report *r, const tni_check_context *c) { each_layer(r, c, through); }

const tni_check tni_check_layer_through = {
    .name = "layer.through",
    .about = "with the layer on every operator gives the same bits, and gradients are the same",
    .kinds = TNI_CHECK_LAYER,
    .timeout_s = 60,
    .run = run_through};

/* ------------------------------------------------------------------ layer.threads */

typedef struct worker {
  pthread_t thread;
  const char *layer;
  unsigned number;
  const char *wrong; /* static, or NULL */
} worker;

static tn_status subtract(unsigned seed, bool *out_same) {
  const tn_dim size = N;
  float a[N], b[N], c[N];
  tn_tensor *x = NULL, *y = NULL, *z = NULL;
  tni_host_values(a, N, seed);
  tni_host_values(b, N, seed * 3 + 1);
  tn_status status = tni_host_tensor(a, &size, 1, (tn_device){0}, &x);
  if (status == TN_OK) status = tni_host_tensor(b, &size, 1, (tn_device){0}, &y);
  if (status == TN_OK) status = tn_sub(x, y, tn_int(1), &z);
  if (status == TN_OK) status = tni_host_read(z, c, N);
  *out_same = status == TN_OK;
  for (int i = 0; i < N && *out_same; i++) *out_same = c[i] == a[i] - b[i];
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
  return status;
}

static void *work(void *ctx) {
  worker *w = ctx;
  if (tn_layer_set(w->layer, true, NULL) != TN_OK) return w->wrong = "the layer cannot be switched on", NULL;
  for (unsigned i = 0; i < ROUNDS && !w->wrong; i++) {
    bool same;
    if (subtract(w->number * 100 + i, &same) != TN_OK)
      w->wrong = "a call failed";
    else if (!same)
      w->wrong = "a call gave another thread's result";
  }
  return NULL;
}

static void in_threads(tni_check_report *r, const tni_check_context *c, const char *layer) {
  (void)c;
  worker workers[N_THREADS];
  char *item = tni_check_text("%s threads", layer);
  const char *wrong = NULL;
  tni_check_at(r, item);
  for (int round = 0; round < 4 && !wrong; round++) { /* threads end, and others come */
    int started = 0;
    for (; started < N_THREADS; started++) {
      workers[started] = (worker){.layer = layer, .number = (unsigned)started};
      if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) break;
    }
    for (int i = 0; i < started; i++) {
      pthread_join(workers[i].thread, NULL);
      if (workers[i].wrong) wrong = workers[i].wrong;
    }
  }
  tni_check_that(r, !wrong, item, "%d threads with the layer on: %s", N_THREADS, wrong);
  free(item);
}

static void run_threads(tni_check_report *r, const tni_check_context *c) { each_layer(r, c, in_threads); }

const tni_check tni_check_layer_threads = {.name = "layer.threads",
                                           .about =
                                               "the layer works in many threads at once, which come and go",
                                           .kinds = TNI_CHECK_LAYER,
                                           .run = run_threads};

/* ------------------------------------------------------------------ layer.off */

/* Processor time of this thread for a call: what other programs and threads do is not in it. The least of several tries:
 * a busy machine's caches make it longer, never shorter. Seconds; < 0: a call failed. */
static double cost(void) {
  const tn_dim size = 1;
  float one = 1;
  tn_tensor *x = NULL;
  double least = -1;
  tn_status status = tni_host_tensor(&one, &size, 1, (tn_device){0}, &x);
  for (int try = 0; try <= TRIES && status == TN_OK; try++) { /* the first warms up */
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < CALLS && status == TN_OK; i++) {
      tn_tensor *y = NULL;
      status = tn_add(x, x, tn_int(1), &y);
      tn_tensor_release(y);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    double took = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    if (try > 0 && (least < 0 || took / CALLS < least)) least = took / CALLS;
  }
  tn_tensor_release(x);
  return status == TN_OK ? least : -1;
}

/* Is a thread of this process other than the calling one running, or waiting for a processor? */
static bool another_runs(void) {
  DIR *tasks = opendir("/proc/self/task");
  bool runs = false;
  for (struct dirent *e; tasks && !runs && (e = readdir(tasks));) {
    if (*e->d_name == '.' || strtol(e->d_name, NULL, 10) == gettid()) continue;
    char *path = tni_check_text("/proc/self/task/%s/stat", e->d_name), text[128] = "";
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = 0;
    const char *name_end = strrchr(text, ')'); /* "TID (NAME) STATE ..." */
    runs = name_end && name_end[1] == ' ' && name_end[2] == 'R';
    if (file) fclose(file);
    free(path);
  }
  if (tasks) closedir(tasks);
  return runs;
}

/* A thread's state says whether it has something to do. Its processor time would not: that is what other programs leave. */
static void check_rest(tni_check_report *r, const char *layer) {
  char *item = tni_check_text("%s rests", layer);
  int busy = 0;
  tni_check_at(r, item);
  for (int i = 0; i < LOOKS; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 5300000}, NULL);
    busy += another_runs();
  }
  tni_check_that(
      r, busy <= LOOKS / 2, item,
      "with the layer off and no call under way, a thread of the process had something to do in %d of %d "
      "looks: it never rests",
      busy, LOOKS);
  free(item);
}

static double bare; /* seconds a call without the plugin */

static void when_off(tni_check_report *r, const tni_check_context *c, const char *layer) {
  (void)c;
  char *item = tni_check_text("%s off", layer);
  /* Half as much again: less than one call more would cost. */
  tni_check_at(r, item);
  double off = cost();
  tni_check_that(r, off >= 0 && off <= 1.5 * bare + 5e-9, item,
                 "opened and off, a call takes %.0f ns of processor time; without the plugin it takes %.0f",
                 1e9 * off, 1e9 * bare);
  free(item);
  check_rest(r, layer);
}

/* The time without the plugin is left in a file of the run's folder. */
static void measure_bare(tni_check_report *r, const tni_check_context *c) {
  tni_check_end end;
  char *path = tni_check_text("%s/bare", c->folder);
  tni_check_stage(r, c, "bare", (const char *const[]){"TENON_PLUGIN_PATH=", NULL}, TIMEOUT_S, &end);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%lf", &bare) != 1) bare = 0;
  if (file) fclose(file);
  free(path);
}

static void run_stage(const tni_check_context *c) {
  char *path = tni_check_text("%s/bare", c->folder);
  FILE *file = fopen(path, "w");
  if (file) fprintf(file, "%.3e\n", cost());
  if (file) fclose(file);
  free(path);
}

static void run_off(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) return run_stage(c);
  measure_bare(r, c);
  if (bare <= 0) return tni_check_skip(r, "off", "the time of a call could not be taken");
  each_layer(r, c, when_off);
}

const tni_check tni_check_layer_off = {
    .name = "layer.off",
    .about = "opened and switched off, the layer takes no time and its threads rest",
    .kinds = TNI_CHECK_LAYER,
    .timeout_s = 60,
    .run = run_off};
