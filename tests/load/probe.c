/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test sees of the loader in a process of its own: the environment is read once per process, so each
 * test starts this program with its own folders. Arguments are commands, run in order; each prints lines.
 *
 *   plugins | devices | open-all | open DEVICE | add DEVICE | threads DEVICE | twice DEVICE | why OP DEVICE | runtimes |
 *   clear NAME|all | unload PLUGIN | shutdown | busy DEVICE (threads that compute on while the process ends) |
 *   hold DEVICE (a handler of exit that computes and frees) | stream DEVICE (another thread has a stream of its own) |
 *   ask-stream (which one has it now)
 * and, for what a host may be like:
 *   close-standard | ignore-children | block-signals | fork
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

static void say_failure(const char *what, tn_status status) {
  printf("%s: error %d: %s\n", what, (int)status, tn_error_message());
}

static void list_plugins(void) {
  for (size_t i = 0, n = tn_plugin_count(); i < n; ++i) {
    tn_plugin_report r;
    if (tn_plugin_get(i, &r) != TN_OK) return say_failure("plugins", TN_ERR_INTERNAL);
    const char *slash = strrchr(r.path, '/');
    printf("%s [%s] %s: %s\n", slash && slash[1] ? slash + 1 : r.path, r.name, tn_plugin_state_name(r.state),
           r.reason);
  }
}

static void list_devices(void) {
  for (size_t i = 0, n = tn_device_count(); i < n; ++i) {
    tn_device_report r;
    if (tn_device_get(i, &r) != TN_OK) return say_failure("devices", TN_ERR_INTERNAL);
    printf("%s [%s] %s: %s%s\n", r.name, r.plugin, tn_plugin_state_name(r.state), r.reason, r.description);
  }
}

static void open_device(const char *name) {
  tn_device device;
  tn_status status = tn_device_open(name, &device);
  char words[64];
  if (status != TN_OK) return say_failure(name, status);
  printf("%s: open as %s\n", name, tn_device_name(device, words, sizeof words));
}

/* op: NULL for [1,2,3] + [10,20,30], else a unary operator called by name. */
static tn_status compute(const char *name, const char *op_name, float result[3]) {
  const float left[3] = {1, 2, 3}, right[3] = {10, 20, 30};
  const tn_dim size = 3;
  tn_device device;
  tn_tensor *a = NULL, *b = NULL, *c = NULL;
  tn_status status = tn_device_open(name, &device);
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  if (status == TN_OK) status = tn_tensor_from_host(left, &size, 1, &options, &a);
  if (status == TN_OK) status = tn_tensor_from_host(right, &size, 1, &options, &b);
  if (status == TN_OK && !op_name) status = tn_add(a, b, tn_int(1), &c);
  if (status == TN_OK && op_name) {
    const tn_op *op;
    tn_value arg = tn_value_tensor(a), out = tn_value_none();
    status = tn_op_find(op_name, &op);
    if (status == TN_OK) status = tn_op_call(op, &arg, 1, &out, 1);
    if (status == TN_OK) c = out.u.t;
  }
  if (status == TN_OK) status = tn_tensor_to_host(c, result, 3 * sizeof *result);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(c);
  return status;
}

static void run(const char *command, const char *device, const char *op_name) {
  float r[3];
  tn_status status = compute(device, op_name, r);
  if (status != TN_OK) return say_failure(command, status);
  printf("%s %s: %g %g %g\n", command, device, (double)r[0], (double)r[1], (double)r[2]);
}

static void *add_in_thread(void *device) {
  float r[3] = {0};
  tn_status status = compute(device, NULL, r);
  return (void *)(intptr_t)(status == TN_OK && r[2] == 33);
}

/* Several threads ask for the same device and the same cell at once. */
static void run_threads(const char *device) {
  enum { N = 8 };
  pthread_t threads[N];
  int started = 0, good = 0;
  while (started < N &&
         pthread_create(&threads[started], NULL, add_in_thread, (void *)(uintptr_t)device) == 0)
    ++started;
  for (int i = 0; i < started; ++i) {
    void *result;
    if (pthread_join(threads[i], &result) == 0) good += (int)(intptr_t)result;
  }
  printf("threads %s: %d of %d\n", device, good, N);
}

static void *add_for_ever(void *device) {
  for (float r[3];;) (void)compute(device, NULL, r);
  return NULL;
}

static void keep_busy(const char *device) {
  pthread_t thread;
  float r[3] = {0};
  tn_status status = compute(device, NULL, r);
  if (status != TN_OK) return say_failure("busy", status);
  for (int i = 0; i < 4; ++i)
    if (pthread_create(&thread, NULL, add_for_ever, (void *)(uintptr_t)device) == 0) pthread_detach(thread);
  printf("busy %s: %g\n", device, (double)r[2]);
}

static tn_tensor *held;

static void use_at_exit(void) {
  float values[3];
  tn_tensor *sum = NULL;
  tn_status status = tn_add(held, held, tn_int(1), &sum);
  printf("at exit: error %d: %s\n", (int)status, tn_error_message());
  status = tn_tensor_to_host(held, values, sizeof values);
  printf("at exit: error %d: %s\n", (int)status, tn_error_message());
  tn_tensor_release(held);
}

/* The handler is registered before the plugin's own, so it runs after them. */
static void hold(const char *name) {
  const float values[3] = {1, 2, 3};
  const tn_dim size = 3;
  tn_device device;
  if (atexit(use_at_exit) != 0 || tn_device_open(name, &device) != TN_OK) return say_failure("hold", TN_ERR_STATE);
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  tn_status status = tn_tensor_from_host(values, &size, 1, &options, &held);
  if (status != TN_OK) say_failure("hold", status);
}

static struct {
  const char *name;
  pthread_t thread;
  pthread_barrier_t turn;
} other;

static void *live_on_a_stream(void *unused) {
  tn_device device;
  tn_stream *s = NULL;
  (void)unused;
  tn_status status = tn_device_open(other.name, &device);
  if (status == TN_OK) status = tn_stream_new(device, &s);
  if (status == TN_OK) status = tn_stream_set(device, s);
  if (status != TN_OK) say_failure("stream", status);
  tn_stream_release(s);
  pthread_barrier_wait(&other.turn);
  pthread_barrier_wait(&other.turn);
  printf("stream %s: %s\n", other.name, s && tn_stream_get(device) == s ? "the same" : "another");
  return NULL;
}

static void start_stream(const char *name) {
  other.name = name;
  pthread_barrier_init(&other.turn, NULL, 2);
  if (pthread_create(&other.thread, NULL, live_on_a_stream, NULL) != 0) exit(2);
  pthread_barrier_wait(&other.turn);
}

static void ask_stream(void) {
  pthread_barrier_wait(&other.turn);
  pthread_join(other.thread, NULL);
}

static void unload(const char *plugin) {
  tn_status status = tn_plugin_unload(plugin);
  if (status != TN_OK) return say_failure("unload", status);
  printf("unload %s: done\n", plugin);
}

static void say_line(void *ctx, const char *words) {
  (void)ctx;
  printf("why: %s\n", words);
}

static void why(const char *op, const char *device) {
  tn_status status = tn_op_why(op, device, TN_FLOAT32, say_line, NULL);
  if (status != TN_OK) say_failure("why", status);
}

static void say_runtime(void *ctx, const char *words) {
  (void)ctx;
  printf("runtimes: %s\n", words);
}

static void clear(const char *name) {
  size_t n;
  tn_status status = tn_plugins_clear(strcmp(name, "all") ? name : NULL, &n);
  if (status != TN_OK) return say_failure("clear", status);
  printf("clear %s: %zu\n", name, n);
}

/* stdout moves to a higher place, where the rest of the program writes. */
static void close_standard(void) {
  int out = dup(1);
  for (int fd = 0; fd < 3; ++fd) close(fd);
  if (out >= 0) stdout = fdopen(out, "w");
}

static void block_signals(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
}

/* The rest runs in a child; this process ends as that does. */
static void go_on_in_child(void) {
  fflush(stdout);
  pid_t child = fork();
  if (child <= 0) return;
  int status = 1;
  waitpid(child, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* What changes the host itself. */
static bool change_host(const char *command) {
  if (strcmp(command, "close-standard") == 0)
    close_standard();
  else if (strcmp(command, "ignore-children") == 0)
    signal(SIGCHLD, SIG_IGN);
  else if (strcmp(command, "block-signals") == 0)
    block_signals();
  else if (strcmp(command, "fork") == 0)
    go_on_in_child();
  else
    return false;
  return true;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const char *command = argv[i];
    if (strcmp(command, "plugins") == 0)
      list_plugins();
    else if (strcmp(command, "devices") == 0)
      list_devices();
    else if (strcmp(command, "open-all") == 0)
      tn_devices_open_all();
    else if (strcmp(command, "runtimes") == 0)
      (void)tn_threads_describe(say_runtime, NULL);
    else if (strcmp(command, "shutdown") == 0)
      tn_shutdown();
    else if (strcmp(command, "clear") == 0 && i + 1 < argc)
      clear(argv[++i]);
    else if (strcmp(command, "unload") == 0 && i + 1 < argc)
      unload(argv[++i]);
    else if (strcmp(command, "busy") == 0 && i + 1 < argc)
      keep_busy(argv[++i]);
    else if (strcmp(command, "ask-stream") == 0)
      ask_stream();
    else if (strcmp(command, "stream") == 0 && i + 1 < argc)
      start_stream(argv[++i]);
    else if (strcmp(command, "hold") == 0 && i + 1 < argc)
      hold(argv[++i]);
    else if (change_host(command))
      continue;
    else if (strcmp(command, "open") == 0 && i + 1 < argc)
      open_device(argv[++i]);
    else if (strcmp(command, "add") == 0 && i + 1 < argc)
      run(command, argv[++i], NULL);
    else if (strcmp(command, "threads") == 0 && i + 1 < argc)
      run_threads(argv[++i]);
    else if (strcmp(command, "twice") == 0 && i + 1 < argc)
      run(command, argv[++i], "acme::twice");
    else if (strcmp(command, "why") == 0 && i + 2 < argc)
      why(argv[i + 1], argv[i + 2]), i += 2;
    else
      return 2;
  }
  return 0;
}
