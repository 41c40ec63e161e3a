/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that writes a line for every operator call. Each thread puts its line together in a buffer of its own and
 * hands it to the file in one write, so that lines of threads do not mix.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/kit/signature.h>
#include <tenon/plugin_layer.h>
#include <time.h>
#include <unistd.h>

TN_MANIFEST(TN_MANIFEST_HEADER_NEEDS("call-log", "1.0", "Apache-2.0", 2)
            "layer call_log class mode\n"
            "kernel call_log * all 0\n")

static int file = STDERR_FILENO; /* set once, in init */
static bool as_json;
static int n_threads; /* threads that have written a line */

/* ------------------------------------------------------------------ a thread's state */

typedef struct writer {
  int thread; /* 1, 2, ... in the order of their first call */
  char *text;
  size_t length, room;
  bool broken; /* memory ran out: the line is dropped */
} writer;

static void *writer_new(void) {
  writer *w = calloc(1, sizeof *w);
  if (w) w->thread = __atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED);
  return w;
}

/* A worker of the backward pass is a thread of its own: it gets a number of its own. */
static void *writer_dup(void *state) {
  (void)state;
  return writer_new();
}

static void writer_free(void *state) {
  free(((writer *)state)->text);
  free(state);
}

static void TN_PRINTF(2, 3) put(writer *w, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(w->text ? w->text + w->length : NULL, w->room - w->length, format, args);
  if (n >= 0 && w->length + (size_t)n >= w->room) {
    size_t room = 2 * w->room + (size_t)n + 256;
    char *text = realloc(w->text, room);
    w->broken |= !text;
    if (text) {
      w->text = text;
      w->room = room;
      vsnprintf(w->text + w->length, w->room - w->length, format, again);
    }
  }
  if (n >= 0 && !w->broken) w->length += (size_t)n;
  va_end(again);
  va_end(args);
}

/* ------------------------------------------------------------------ values */

static void put_tensor(writer *w, const tn_tensor *t) {
  const tn_view *v = tn_tensor_view(t);
  const tn_host *host = tn_kit_host();
  if (as_json)
    put(w, "{\"dtype\":\"%s\",\"device\":\"%s:%d\",\"shape\":[", host->dtype_name(v->dtype), host->backend_name(v->backend),
        v->device_index);
  else
    put(w, "%s@%s:%d[", host->dtype_name(v->dtype), host->backend_name(v->backend), v->device_index);
  for (uint32_t i = 0; i < v->ndim; i++) put(w, "%s%lld", i ? "," : "", (long long)v->sizes[i]);
  put(w, as_json ? "]}" : "]");
}

static void put_tensors(writer *w, const tn_value *v) {
  tn_tensor *const *ts;
  put(w, "[");
  for (uint32_t k = 0, n = tn_kit_tensors(v, &ts); k < n; k++) {
    if (k) put(w, ",");
    if (ts[k])
      put_tensor(w, ts[k]);
    else
      put(w, "null");
  }
  put(w, "]");
}

static void put_number(writer *w, double value) {
  if (as_json && !(value - value == 0)) /* JSON has no infinity and no NaN */
    put(w, "\"%g\"", value);
  else
    put(w, "%.17g", value);
}

static void put_value(writer *w, const tn_value *v) {
  switch (v->kind) {
    case TN_VAL_NONE: put(w, "null"); return;
    case TN_VAL_BOOL: put(w, v->u.i ? "true" : "false"); return;
    case TN_VAL_INT: put(w, "%lld", (long long)v->u.i); return;
    case TN_VAL_FLOAT: put_number(w, v->u.f); return;
    case TN_VAL_DTYPE: put(w, "\"%s\"", tn_kit_host()->dtype_name((tn_dtype)v->u.i)); return;
    case TN_VAL_DEVICE: put(w, "\"%s:%d\"", tn_kit_host()->backend_name(v->u.d.backend), v->u.d.index); return;
    case TN_VAL_TENSOR: put_tensor(w, v->u.t); return;
    default: break;
  }
  if (v->kind == TN_VAL_LIST && (v->elem == TN_VAL_TENSOR || v->elem == TN_VAL_OPTIONAL_TENSOR)) {
    put_tensors(w, v);
  } else if (v->kind == TN_VAL_LIST && v->elem == TN_VAL_INT) {
    put(w, "[");
    for (uint32_t i = 0; i < v->count; i++) put(w, "%s%lld", i ? "," : "", (long long)v->u.ints[i]);
    put(w, "]");
  } else {
    put(w, "\"kind %d\"", v->kind);
  }
}

static void put_values(writer *w, const tn_value *values, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) put(w, as_json ? "," : ", ");
    put_value(w, &values[i]);
  }
}

/* ------------------------------------------------------------------ the layer */

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void put_line(writer *w, const tn_call *call, const tn_value *args, const tn_value *out, tn_status status,
                     int64_t begin, int64_t end) {
  const tn_host *host = tn_kit_host();
  const char *name = host->op_name(call->op);
  tn_kit_signature s = tn_kit_signature_read(host->op_schema(call->op));
  w->length = 0;
  w->broken = false;
  if (as_json)
    put(w, "{\"start_ns\":%lld,\"ns\":%lld,\"thread\":%d,\"status\":%d,\"op\":\"%s\",\"args\":[", (long long)begin,
        (long long)(end - begin), w->thread, (int)status, name);
  else
    put(w, "%lld.%06lld ms %8lld ns thread %d %s(", (long long)(begin / 1000000), (long long)(begin % 1000000),
        (long long)(end - begin), w->thread, name);
  put_values(w, args, s.n_args);
  put(w, as_json ? "],\"results\":[" : ") -> ");
  if (status == TN_OK)
    put_values(w, out, s.n_results);
  else if (!as_json)
    put(w, "failed, status %d", (int)status);
  put(w, as_json ? "]}\n" : "\n");
}

/* What cannot be written is no failure of the program that is watched. */
static void hand_over(const writer *w) {
  for (size_t done = 0; !w->broken && done < w->length;) {
    ssize_t n = write(file, w->text + done, w->length - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += (size_t)n;
  }
}

static tn_status record(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_host *host = tn_kit_host();
  void **slot;
  TN_TRY(host->layer_slot(call, &slot));
  if (!*slot) *slot = writer_new();
  writer *w = *slot;
  if (!w) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "call_log: a thread's buffer");
  int64_t begin = now_ns();
  tn_status status = host->redispatch(call, args, out);
  int64_t end = now_ns();
  put_line(w, call, args, out, status, begin, end);
  hand_over(w);
  return status;
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {
      .struct_size = sizeof layer, .name = "call_log", .state_dup = writer_dup, .state_free = writer_free};
  const tn_kernel_def kernel = TN_KERNEL("call_log", "*", record, 0, .flags = TN_KERNEL_LAYER_FALLBACK);
  const char *path = secure_getenv("TENON_CALL_LOG");
  if (path && *path) {
    size_t n = strlen(path);
    as_json = n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) return TN_FAIL(TN_ERR_IO, "TENON_CALL_LOG: %s: %s", path, strerror(errno));
  }
  TN_TRY(host->register_layer(reg, &layer));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "call-log", .version = "1.0", .init = init, .needs_minor = 2)
