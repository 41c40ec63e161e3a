/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon-probe FD FILE: does opening this plugin end or block a process? Maps the file, negotiates, runs init against
 * a host table that only records, counts devices. What it gets done it writes to FD, a line a step; the process that
 * started it draws its conclusions from the last line and from how this one ended, so a plugin cannot answer for it
 * by calling exit.
 *
 * Lines: `stage NAME` before each step; `library PATH` for every file that was mapped (again at the end); `device NAME COUNT`;
 * `refused WORDS` if a step answered a failure (which is harmless: the real opening says the same); `done`.
 *
 * The plugin may do with stdout, stderr, signals and memory what it likes: FD is moved out of the way first, and
 * this process is thrown away.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tenon/kit/dtype.h>
#include <tenon/operator.h>
#include <tenon/plugin_backend.h>
#include <tenon/plugin_compiler.h>
#include <tenon/plugin_layer.h>
#include <tenon/plugin_profiler.h>
#include <unistd.h>

enum { BACKENDS = 24, WORDS = 4096, HIGH_FD = 64, CANNOT_START = 97 };

static int out_fd;
static char words[WORDS]; /* of the last failure; a reason in a report may be cut, this process ends anyway */
static tn_backend_def backends[BACKENDS];
static char *backend_names[BACKENDS];
static int n_backends;

/* ------------------------------------------------------------------ saying */

/* Safe in a signal handler. */
static void say_bytes(const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t done = write(out_fd, bytes, n);
    if (done <= 0) return;
    bytes += done;
    n -= (size_t)done;
  }
}
static void say_text(const char *text) { say_bytes(text, strlen(text)); }

static void say_line(const char *key, const char *text) {
  char line[WORDS + 64];
  int n = snprintf(line, sizeof line, "%s %s", key, text);
  size_t used = n < 0 ? 0 : (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
  for (size_t i = 0; i < used; ++i)
    if (line[i] == '\n' || line[i] == '\r') line[i] = ' ';
  line[used] = '\n';
  say_bytes(line, used + 1);
}

/* Every file of /proc/self/maps, once: where its first page is mapped. Safe in a signal handler. */
static void say_libraries(void) {
  static char buffer[1 << 16];
  static char line[8192];
  size_t length = 0;
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] != '\n') {
        if (length + 1 < sizeof line) line[length++] = buffer[i];
        continue;
      }
      line[length] = 0;
      length = 0;
      const char *path = strchr(line, '/');
      if (!path || !strstr(line, " 00000000 ")) continue;
      say_text("library ");
      say_text(path);
      say_text("\n");
    }
  }
  close(fd);
}

static void on_crash(int sig) {
  say_libraries();
  signal(sig, SIG_DFL);
  raise(sig);
}
static void on_exit_call(void) { say_libraries(); }

/* ------------------------------------------------------------------ the host that records */

static tn_status row_fail(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  return code;
}

static tn_status row_wrap(tn_status code, const char *format, ...) {
  char was[WORDS];
  va_list args;
  memcpy(was, words, sizeof was);
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  size_t n = strlen(words), more = strlen(was);
  if (n + 2 + more >= sizeof words) return code;
  memcpy(words + n, ": ", 2);
  memcpy(words + n + 2, was, more + 1);
  return code;
}

static const char *row_words(void) { return words; }
static void row_log(int32_t level, const char *format, ...) { (void)level, (void)format; }
static tn_status row_parallel_for(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx) {
  (void)grain;
  return n > 0 ? fn(0, n, 0, ctx) : TN_OK;
}
static int32_t row_num_threads(void) { return 1; }

/* An operator is a name here; calling one is refused, as in every init. */
struct tn_op {
  struct tn_op *next;
  char name[];
};

static tn_status row_find_op(const char *name, const tn_op **out_op) {
  static struct tn_op *ops;
  struct tn_op *op = ops;
  *out_op = NULL;
  if (!name) return row_fail(TN_ERR_INVALID_ARGUMENT, "find_op: the name is NULL");
  while (op && strcmp(op->name, name) != 0) op = op->next;
  if (!op) {
    op = malloc(sizeof *op + strlen(name) + 1);
    if (!op) return row_fail(TN_ERR_OUT_OF_MEMORY, "find_op");
    strcpy(op->name, name);
    op->next = ops;
    ops = op;
  }
  *out_op = op;
  return TN_OK;
}
static const char *row_op_name(const tn_op *op) { return op ? op->name : "?"; }
static const char *row_op_schema(const tn_op *op) { return op ? op->name : ""; }
static uint32_t row_op_n_args(const tn_op *op) { return op != NULL; }
static const char *row_backend_name(uint8_t id) { return id < n_backends ? backend_names[id] : "?"; }
static const char *row_dtype_name(tn_dtype dtype) { return tn_kit_dtype_name(dtype); }

static tn_status not_in_init(void) {
  return row_fail(TN_ERR_STATE, "a plugin's init may not dispatch or open devices");
}
static tn_status row_call(const tn_op *op, const tn_value *args, tn_value *out) {
  (void)op, (void)args, (void)out;
  return not_in_init();
}
static tn_status row_call_n(const tn_op *op, const tn_value *args, uint32_t n, tn_value *out) {
  (void)op, (void)args, (void)n, (void)out;
  return not_in_init();
}
static tn_status row_redispatch(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return not_in_init();
}
static tn_status row_redispatch_n(tn_call *call, const tn_value *args, uint32_t n, tn_value *out) {
  (void)call, (void)args, (void)n, (void)out;
  return not_in_init();
}
static tn_status row_new_output(tn_call *call, uint32_t i, uint32_t ndim, const tn_dim *sizes, tn_view **out_view) {
  (void)call, (void)i, (void)ndim, (void)sizes, (void)out_view;
  return not_in_init();
}
static tn_status row_scratch(tn_call *call, size_t size_bytes, tn_memory *out_memory) {
  (void)call, (void)size_bytes, (void)out_memory;
  return not_in_init();
}
static tn_status row_layer_slot(tn_call *call, void ***out_slot) {
  (void)call, (void)out_slot;
  return not_in_init();
}
static tn_status row_from_memory(const tn_foreign_def *desc, tn_tensor **out_tensor) {
  (void)out_tensor;
  if (desc && desc->deleter) desc->deleter(desc->ctx);
  return not_in_init();
}
static tn_status row_find_interface(const char *name, uint32_t version, const void **out_table) {
  (void)name, (void)version, (void)out_table;
  return not_in_init();
}
static tn_status row_pinned_alloc(tn_device device, uint64_t size_bytes, tn_memory *out_memory) {
  (void)device, (void)size_bytes, (void)out_memory;
  return not_in_init();
}
static void row_pinned_free(tn_device device, const tn_memory *memory) { (void)device, (void)memory; }
static void row_tensor(tn_tensor *tensor) { (void)tensor; }
static tn_status row_profiler_attach(const struct tn_profiler_def *def, uint64_t *out_handle) {
  (void)def;
  *out_handle = 1;
  return TN_OK;
}
static tn_status row_profiler_detach(uint64_t handle) {
  (void)handle;
  return TN_OK;
}
static void row_range_begin(const char *name) { (void)name; }
static void row_range_end(void) {}
static tn_status row_compile(const struct tn_compile_def *def, struct tn_compiled *out_compiled) {
  (void)def, (void)out_compiled;
  return not_in_init();
}
static void row_compiled_free(struct tn_compiled *compiled) { (void)compiled; }

#ifdef TN_ABI_FUTURE
static tn_status row_future(int32_t *out_answer) {
  *out_answer = 42;
  return TN_OK;
}
#endif

/* ------------------------------------------------------------------ registrations */

static tn_status row_register_kernel(tn_registration *reg, const tn_kernel_def *def) {
  (void)reg, (void)def;
  return TN_OK;
}
static tn_status row_register_layer(tn_registration *reg, const struct tn_layer_def *def) {
  (void)reg, (void)def;
  return TN_OK;
}
static tn_status row_register_operator(tn_registration *reg, const struct tn_operator_def *def) {
  (void)reg, (void)def;
  return TN_OK;
}
static tn_status row_register_interface(tn_registration *reg, const char *name, uint32_t version,
                                        const void *table) {
  (void)reg, (void)name, (void)version, (void)table;
  return TN_OK;
}

static tn_status row_register_backend(tn_registration *reg, const struct tn_backend_def *def) {
  (void)reg;
  if (!def || n_backends == BACKENDS) return row_fail(TN_ERR_PLUGIN, "register_backend: no definition, or no room");
  tn_backend_def copy = {0};
  memcpy(&copy, def, def->struct_size < sizeof copy ? def->struct_size : sizeof copy);
  if (!copy.device_name || !copy.device_count) return row_fail(TN_ERR_PLUGIN, "register_backend: a row is NULL");
  backend_names[n_backends] = strdup(copy.device_name);
  if (!backend_names[n_backends]) return row_fail(TN_ERR_OUT_OF_MEMORY, "register_backend");
  backends[n_backends++] = copy;
  return TN_OK;
}

static const tn_host host = {.struct_size = sizeof host,
                             .abi_major = TN_ABI_MAJOR,
                             .abi_minor = TN_ABI_MINOR,
                             .version = TN_VERSION_TEXT,
                             .fail = row_fail,
                             .wrap = row_wrap,
                             .error_message = row_words,
                             .log = row_log,
                             .parallel_for = row_parallel_for,
                             .num_threads = row_num_threads,
                             .new_output = row_new_output,
                             .scratch = row_scratch,
                             .op_name = row_op_name,
                             .backend_name = row_backend_name,
                             .dtype_name = row_dtype_name,
                             .find_op = row_find_op,
                             .call = row_call,
                             .redispatch = row_redispatch,
                             .tensor_retain = row_tensor,
                             .tensor_release = row_tensor,
                             .register_kernel = row_register_kernel,
                             .register_backend = row_register_backend,
                             .register_layer = row_register_layer,
                             .register_operator = row_register_operator,
                             .register_interface = row_register_interface,
                             .op_schema = row_op_schema,
                             .layer_slot = row_layer_slot,
                             .tensor_from_memory = row_from_memory,
                             .find_interface = row_find_interface,
                             .call_n = row_call_n,
                             .redispatch_n = row_redispatch_n,
                             .op_n_args = row_op_n_args,
                             .pinned_alloc = row_pinned_alloc,
                             .pinned_free = row_pinned_free,
                             .profiler_attach = row_profiler_attach,
                             .profiler_detach = row_profiler_detach,
                             .range_begin = row_range_begin,
                             .range_end = row_range_end,
                             .compile = row_compile,
#ifdef TN_ABI_FUTURE
                             .future = row_future,
#endif
                             .compiled_free = row_compiled_free};

/* ------------------------------------------------------------------ the steps */

static void count_devices(void) {
  for (int i = 0; i < n_backends; ++i) {
    int32_t n = 0;
    char text[32];
    words[0] = 0;
    if (backends[i].device_count(backends[i].ctx, &n) != TN_OK) n = 0;
    snprintf(text, sizeof text, " %d", (int)n);
    say_text("device ");
    say_text(backend_names[i]);
    say_line("", text + 1);
  }
}

/* NULL, or what a step answered. */
static const char *try_plugin(const char *path) {
  say_text("stage mapping\n");
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return dlerror();
  say_libraries(); /* this process may be stopped before it could at its end */
  void *symbol = dlsym(handle, TN_PLUGIN_SYMBOL);
  if (!symbol) return "does not export " TN_PLUGIN_SYMBOL;
  tn_plugin_query_fn query;
  memcpy(&query, &symbol, sizeof query);
  say_text("stage query\n");
  tn_query q = {.struct_size = sizeof q, .host_major = TN_ABI_MAJOR, .host_minor = TN_ABI_MINOR};
  if (query(&q) != TN_OK || !q.init) return "refuses this host";
  say_text("stage init\n");
  if (q.init(&host, (tn_registration *)words) != TN_OK) return words[0] ? words : "init failed";
  say_text("stage device_count\n");
  count_devices();
  return NULL;
}

static void prepare(void) {
  static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; ++i) signal(deadly[i], on_crash);
  signal(SIGPIPE, SIG_DFL); /* nobody listens any more */
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  atexit(on_exit_call);
}

int main(int argc, char **argv) {
  if (argc != 3) return CANNOT_START;
  out_fd = fcntl(atoi(argv[1]), F_DUPFD_CLOEXEC, HIGH_FD);
  if (out_fd < 0) return CANNOT_START;
  close(atoi(argv[1]));
  prepare();
  const char *refusal = try_plugin(argv[2]);
  if (refusal) say_line("refused", refusal);
  say_libraries();
  say_text("done\n");
  _exit(0); /* handlers of the plugin are not what was asked about */
}
