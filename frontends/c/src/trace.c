/* SPDX-License-Identifier: Apache-2.0
 *
 * Events as Chrome's trace format. See Note [A file that is always whole].
 *
 * Note [A file that is always whole]
 * Events gather in a buffer. When it is full, it is written behind what was written before together with the closing
 * brackets, in one write, and the next one begins where the brackets stand. So a reader finds whole JSON at any time.
 * But the kernel may end the write of a process that is killed at a border of two pages. So no write crosses one: what
 * does not fit into its page begins the next, and the brackets go there before it. They stand in front of spaces, which
 * JSON allows anywhere, in the last bytes of the page; then one store through a mapping, which no signal halves, blanks
 * them and sets them behind the border. A file that cannot be mapped is written across.
 * What cannot be written at a place (a pipe) is written in order, with the brackets at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "frontends/c/src/file_int.h"
#include "frontends/c/src/support.h"
#include <tenon/trace.h>

/* An event with its comma and the ending fits into the smallest page there is. */
enum { PAGE_LEAST = 4 << 10, ENOUGH = 2 << 10, ENDING = 4, LONGEST = PAGE_LEAST - ENDING - 2, DEVICE_PID = 1000000000 };
static const char ending[ENDING + 1] = "\n]}\n";

/* A thread or device that has its line with the name. */
typedef struct track {
  uint64_t pid, tid;
} track;

struct tn_trace {
  pthread_mutex_t mutex;
  char *path;
  int fd;
  bool seekable;
  uint64_t page; /* bytes; borders are its multiples */
  int error; /* errno of the first failure: nothing is written behind it */
  uint64_t written, begun_ns, handle;
  size_t used;
  bool first; /* no event so far */
  track *tracks;
  size_t n_tracks, track_capacity;
  char buffer[PAGE_LEAST];
};

/* ------------------------------------------------------------------ writing */

static void write_at(tn_trace *t, uint64_t place, const char *bytes, size_t n) {
  for (size_t at = 0; at < n && !t->error;) {
    ssize_t k = t->seekable ? pwrite(t->fd, bytes + at, n - at, (off_t)(place + at)) : write(t->fd, bytes + at, n - at);
    if (k >= 0)
      at += (size_t)k;
    else if (errno != EINTR)
      t->error = errno;
  }
}

/* The ending, in the last bytes before border, goes behind it. */
static bool move_ending(const tn_trace *t, uint64_t border) {
  static const char moved[2 * ENDING + 1] = "    \n]}\n";
  typedef struct __attribute__((packed, may_alias)) {
    uint64_t bits;
  } anywhere;
  char *pages = mmap(NULL, 2 * t->page, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, (off_t)(border - t->page));
  if (pages == MAP_FAILED) return false;
  anywhere both;
  memcpy(&both, moved, sizeof both);
  *(volatile anywhere *)(pages + t->page - ENDING) = both;
  munmap(pages, 2 * t->page);
  return true;
}

/* Where n bytes and the ending would cross a border, they begin behind it. Note [A file that is always whole]. */
static void cross_border(tn_trace *t, size_t n) {
  char spaces[PAGE_LEAST];
  const uint64_t border = (t->written / t->page + 1) * t->page, left = border - t->written;
  if (!t->written || n + ENDING <= left || left < ENDING || left > PAGE_LEAST) return;
  memset(spaces, ' ', sizeof spaces);
  write_at(t, t->written + ENDING, spaces, left - ENDING);
  for (uint64_t at = 0; at < t->page; at += PAGE_LEAST) write_at(t, border + at, spaces, PAGE_LEAST);
  memcpy(spaces + left - ENDING, ending, ENDING);
  write_at(t, t->written, spaces, left);
  if (t->error) return;
  t->written = border - ENDING;
  if (move_ending(t, border)) t->written = border;
}

static void flush(tn_trace *t, bool end) {
  const bool closing = end || t->seekable;
  const size_t n = t->used;
  if (t->error) return;
  if (t->seekable) cross_border(t, n);
  if (closing) memcpy(t->buffer + n, ending, ENDING);
  write_at(t, t->written, t->buffer, n + (closing ? ENDING : 0));
  t->written += n;
  t->used = 0;
  /* Spaces behind the ending may stay if this fails. */
  if (end && t->seekable && !t->error && ftruncate(t->fd, (off_t)(t->written + ENDING)) != 0) errno = 0;
}

/* One event's text, put together before it is taken over whole. */
typedef struct text {
  char bytes[LONGEST];
  size_t n;
} text;

static void put(text *x, const char *format, ...) TN_PRINTF(2, 3);
static void put(text *x, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(x->bytes + x->n, sizeof x->bytes - x->n, format, args);
  va_end(args);
  if (n > 0) x->n = x->n + (size_t)n < sizeof x->bytes ? x->n + (size_t)n : sizeof x->bytes - 1;
}

/* A JSON string; a long one is cut, where no character of it is broken. Bytes that are no UTF-8 become code points. */
static void put_string(text *x, const char *s) {
  enum { MOST = 200 };
  size_t n = strlen(s);
  if (n > MOST)
    for (n = MOST; n && ((unsigned char)s[n] & 0xc0) == 0x80;) --n;
  const size_t good = tni_utf8_end((const unsigned char *)s, n);
  put(x, "\"");
  for (size_t i = 0; i < n; ++i) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\')
      put(x, "\\%c", c);
    else if (c < 0x20 || c == 0x7f || (i >= good && c >= 0x80))
      put(x, "\\u%04x", c);
    else
      put(x, "%c", c);
  }
  put(x, "\"");
}

/* The mutex is held. */
static void add(tn_trace *t, const text *x) {
  if (t->error) return;
  if (t->used + x->n + 2 > ENOUGH) flush(t, false);
  memcpy(t->buffer + t->used, t->first ? "\n" : ",\n", t->first ? 1 : 2);
  t->used += t->first ? 1 : 2;
  t->first = false;
  memcpy(t->buffer + t->used, x->bytes, x->n);
  t->used += x->n;
}

/* ------------------------------------------------------------------ names of tracks */

static void name_track(tn_trace *t, const char *what, uint64_t pid, uint64_t tid, const char *name) {
  text x = {.n = 0};
  put(&x, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"args\":{\"name\":", what, pid, tid);
  put_string(&x, name);
  put(&x, "}}");
  add(t, &x);
}

/* false: it is new, and known from now on. Without memory it stays new: its name then comes more than once. */
static bool track_known(tn_trace *t, uint64_t pid, uint64_t tid) {
  for (size_t i = t->n_tracks; i-- > 0;)
    if (t->tracks[i].pid == pid && t->tracks[i].tid == tid) return true;
  if (t->n_tracks == t->track_capacity) {
    size_t more = t->track_capacity ? 2 * t->track_capacity : 16;
    track *grown = realloc(t->tracks, more * sizeof *grown);
    if (!grown) return false;
    t->tracks = grown;
    t->track_capacity = more;
  }
  t->tracks[t->n_tracks++] = (track){pid, tid};
  return false;
}

static void thread_track(tn_trace *t, uint64_t thread) {
  char name[64] = "main", path[64];
  const uint64_t pid = (uint64_t)getpid();
  if (track_known(t, pid, thread)) return;
  if (thread != pid) {
    snprintf(name, sizeof name, "thread");
    snprintf(path, sizeof path, "/proc/self/task/%" PRIu64 "/comm", thread);
    FILE *file = fopen(path, "r");
    if (file && fgets(name, sizeof name, file)) name[strcspn(name, "\n")] = 0;
    if (file) fclose(file);
  }
  name_track(t, "thread_name", pid, thread, name);
}

static uint64_t device_pid(tn_device d) { return DEVICE_PID + d.backend * 65536u + (uint16_t)d.index; }

static void device_track(tn_trace *t, tn_device device, uint64_t stream) {
  char name[96] = "device ";
  const uint64_t pid = device_pid(device);
  if (!track_known(t, pid, UINT64_MAX)) {
    tn_device_name(device, name + strlen(name), sizeof name - strlen(name));
    name_track(t, "process_name", pid, 0, name);
  }
  if (track_known(t, pid, stream)) return;
  snprintf(name, sizeof name, stream ? "stream %" PRIx64 : "default stream", stream);
  name_track(t, "thread_name", pid, stream, name);
}

/* ------------------------------------------------------------------ events */

static void put_time(const tn_trace *t, text *x, const char *key, uint64_t ns) {
  ns = ns > t->begun_ns ? ns - t->begun_ns : 0;
  put(x, "\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* Is there no room for one more argument (a string of 200 bytes, each escaped, is the longest), a "null" for each of 64
 * and the end of the event? */
static bool is_full(const text *x) { return x->n + 1800 > sizeof x->bytes; }

static void put_tensor(text *x, const tn_tensor *tensor) {
  const tn_view *v = tn_tensor_view(tensor);
  char device[64];
  enum { MOST = 16 };
  put(x, "\"%s[", tn_dtype_name(v->dtype));
  for (uint32_t i = 0; i < v->ndim && i < MOST; ++i) put(x, i ? ",%lld" : "%lld", (long long)v->sizes[i]);
  put(x, "%s] %s\"", v->ndim > MOST ? ",..." : "", tn_device_name(tn_view_device(v), device, sizeof device));
}

static void put_value(text *x, const tn_value *v) {
  switch (v->kind) {
    case TN_VAL_BOOL: put(x, v->u.i ? "true" : "false"); break;
    case TN_VAL_INT: put(x, "%lld", (long long)v->u.i); break;
    case TN_VAL_FLOAT: put(x, "\"%.9g\"", v->u.f); break; /* a string: it may be no finite number */
    case TN_VAL_STRING: put_string(x, v->u.s); break;
    case TN_VAL_DTYPE: put(x, "\"%s\"", tn_dtype_name((tn_dtype)v->u.i)); break;
    case TN_VAL_TENSOR: put_tensor(x, v->u.t); break;
    default: put(x, "null"); break;
  }
}

/* Of a long list the beginning: the event has a bounded length. */
static void put_list(text *x, const tn_value *v) {
  enum { MOST = 16 };
  put(x, "[");
  for (uint32_t i = 0; i < v->count && i < MOST; ++i) {
    put(x, i ? "," : "");
    if (is_full(x))
      put(x, "null");
    else if (v->elem == TN_VAL_INT)
      put(x, "%lld", (long long)v->u.ints[i]);
    else if ((v->elem == TN_VAL_TENSOR || v->elem == TN_VAL_OPTIONAL_TENSOR) && v->u.ts[i])
      put_tensor(x, v->u.ts[i]);
    else
      put(x, "null");
  }
  if (v->count > MOST) put(x, ",\"and %u more\"", v->count - MOST);
  put(x, "]");
}

static void put_args(text *x, const tn_profile_event *e) {
  put(x, ",\"args\":{\"inputs\":[");
  for (uint32_t i = 0; i < e->n_args; ++i) {
    put(x, i ? "," : "");
    if (is_full(x))
      put(x, "null");
    else if (e->args[i].kind == TN_VAL_LIST)
      put_list(x, &e->args[i]);
    else
      put_value(x, &e->args[i]);
  }
  put(x, "],\"id\":%" PRIu64 "}", e->id);
}

static void on_begin(void *ctx, const tn_profile_event *e) {
  static const char *const category[] = {
      [TN_PROFILE_OPERATOR] = "operator", [TN_PROFILE_RANGE] = "range", [TN_PROFILE_BACKWARD] = "backward"};
  tn_trace *t = ctx;
  text x;
  x.n = 0;
  if (e->kind > TN_PROFILE_BACKWARD) return;
  put(&x, "{\"ph\":\"B\",\"name\":");
  put_string(&x, e->name);
  put(&x, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%" PRIu64 ",", category[e->kind], (int)getpid(), e->thread);
  put_time(t, &x, "ts", e->time_ns);
  if (e->args) put_args(&x, e);
  put(&x, "}");
  pthread_mutex_lock(&t->mutex);
  thread_track(t, e->thread);
  add(t, &x);
  pthread_mutex_unlock(&t->mutex);
}

static void on_end(void *ctx, const tn_profile_event *e) {
  tn_trace *t = ctx;
  text x;
  x.n = 0;
  if (e->kind > TN_PROFILE_BACKWARD) return;
  put(&x, "{\"ph\":\"E\",\"pid\":%d,\"tid\":%" PRIu64 ",", (int)getpid(), e->thread);
  put_time(t, &x, "ts", e->time_ns);
  if (e->status != TN_OK) put(&x, ",\"args\":{\"status\":%d}", (int)e->status);
  put(&x, "}");
  pthread_mutex_lock(&t->mutex);
  add(t, &x);
  pthread_mutex_unlock(&t->mutex);
}

static void on_memory(void *ctx, const tn_profile_event *e) {
  tn_trace *t = ctx;
  char device[64];
  text x;
  x.n = 0;
  put(&x, "{\"ph\":\"C\",\"name\":\"memory %s\",\"pid\":%d,", tn_device_name(e->device, device, sizeof device),
      (int)getpid());
  put_time(t, &x, "ts", e->time_ns);
  put(&x, ",\"args\":{\"bytes\":%" PRIu64 "}}", e->current_bytes);
  pthread_mutex_lock(&t->mutex);
  add(t, &x);
  pthread_mutex_unlock(&t->mutex);
}

static void on_device_time(void *ctx, const tn_profile_device_time *e) {
  tn_trace *t = ctx;
  const uint64_t stream = (uint64_t)(uintptr_t)e->stream;
  text x;
  x.n = 0;
  put(&x, "{\"ph\":\"X\",\"name\":");
  put_string(&x, e->name);
  put(&x, ",\"cat\":\"device\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",", device_pid(e->device), stream);
  put_time(t, &x, "ts", e->begin_ns);
  put(&x, ",\"dur\":%" PRIu64 ".%03u,\"args\":{\"id\":%" PRIu64 "}}", e->ns / 1000, (unsigned)(e->ns % 1000), e->id);
  pthread_mutex_lock(&t->mutex);
  device_track(t, e->device, stream);
  add(t, &x);
  pthread_mutex_unlock(&t->mutex);
}

/* ------------------------------------------------------------------ open, close */

static void trace_free(tn_trace *t) {
  if (t->fd >= 0) close(t->fd);
  pthread_mutex_destroy(&t->mutex);
  free(t->tracks);
  free(t->path);
  free(t);
}

/* A file is opened for reading too, which mappings want; a pipe is not, or this process would be its reader. */
static int open_file(const char *path) {
  struct stat info;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return fd;
  int both = open(path, O_RDWR | O_CLOEXEC);
  if (both < 0) return fd;
  close(fd);
  return both;
}

static tn_status start(tn_trace *t, const char *path) {
  TN_TRY(tni_nn_strdup(path, &t->path));
  t->fd = open_file(path);
  if (t->fd < 0) return tn_fail(TN_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
  t->seekable = lseek(t->fd, 0, SEEK_CUR) == 0;
  t->page = (uint64_t)sysconf(_SC_PAGESIZE);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  t->begun_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  t->used = (size_t)snprintf(t->buffer, sizeof t->buffer, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  t->first = true;
  name_track(t, "process_name", (uint64_t)getpid(), 0, "tenon");
  flush(t, false);
  if (t->error) return tn_fail(TN_ERR_IO, "%s: cannot be written: %s", path, strerror(t->error));
  const tn_profiler_def def = {.struct_size = sizeof def,
                               .ctx = t,
                               .begin = on_begin,
                               .end = on_end,
                               .memory = on_memory,
                               .device_time = on_device_time};
  return tn_profiler_attach(&def, &t->handle);
}

tn_status tn_trace_open(const char *path, tn_trace **out_trace) {
  tn_trace *t;
  TN_TRY(tni_nn_not_null(out_trace, "tn_trace_open: out_trace"));
  *out_trace = NULL;
  TN_TRY(tni_nn_not_null(path, "tn_trace_open: path"));
  TN_TRY(tni_nn_alloc(1, sizeof *t, "a trace", &t));
  pthread_mutex_init(&t->mutex, NULL);
  t->fd = -1;
  tn_status status = start(t, path);
  if (status == TN_OK)
    *out_trace = t;
  else
    trace_free(t);
  return status;
}

tn_status tn_trace_close(tn_trace *t) {
  if (!t) return TN_OK;
  tn_status status = tn_profiler_detach(t->handle);
  if (status == TN_ERR_NOT_FOUND) { /* a forked child: the file is the parent's */
    trace_free(t);
    return status;
  }
  flush(t, true);
  int fd = t->fd;
  t->fd = -1;
  if (close(fd) != 0 && !t->error) t->error = errno;
  if (t->error)
    status = tn_fail(TN_ERR_IO, "%s: the trace could not be written whole: %s", t->path, strerror(t->error));
  trace_free(t);
  return status;
}
