/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon-cc FD INTERFACE: compiles one source through the compiler that a plugin offers under that interface's name, for
 * the process that started it (core/load/compile.c says what stands in the files). FD is the pipe for words, FD + 1 the
 * request, FD + 2 the result. The compiler may write to its standard files, crash or hang: nobody else is in here.
 *
 * Lines on the pipe: `stage NAME` before each step; `words WORDS` if a step fails; `library PATH` for every file that is mapped
 * after a success; `done STATUS OBJECT_BYTES LOG_BYTES`.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tenon/plugin_compiler.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { CANNOT_START = 97 };

static FILE *pipe_out;

static void stage(const char *name) {
  fprintf(pipe_out, "stage %s\n", name);
  fflush(pipe_out);
}

/* What a line of the map tells of: a file, where its first page is mapped; or code whose file was replaced since and whose
 * path ends in " (deleted)". Files in memory are none, nor are deleted ones without code, which some runtimes map. */
static bool is_library(const char *line, const char *path) {
  const char *rights = strchr(line, ' '), *end = strstr(path, " (deleted)\n");
  if (strncmp(path, "/memfd:", 7) == 0) return false;
  return end ? rights < path && rights[3] == 'x' : strstr(line, " 00000000 ") != NULL;
}

static void say_libraries(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char *line = NULL;
  size_t room = 0;
  while (maps && getline(&line, &room, maps) > 0) {
    const char *path = strchr(line, '/');
    if (path && is_library(line, path)) fprintf(pipe_out, "library %s", path);
  }
  free(line);
  if (maps) fclose(maps);
}

static int end(tn_status status, uint64_t object_bytes, uint64_t log_bytes) {
  if (status != TN_OK) {
    fputs("words ", pipe_out);
    for (const char *c = tn_error_message(); *c; c++) fputc(*c == '\n' ? ' ' : *c, pipe_out);
    fputc('\n', pipe_out);
  } else {
    say_libraries();
  }
  fprintf(pipe_out, "done %d %" PRIu64 " %" PRIu64 "\n", (int)status, object_bytes, log_bytes);
  fflush(pipe_out);
  _exit(0); /* handlers of the plugin are not what was asked about */
}

/* ------------------------------------------------------------------ request and result */

/* The request's bytes, mapped for good. */
static const char *map_request(int fd, size_t *out_bytes) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size <= 0) return NULL;
  *out_bytes = (size_t)st.st_size;
  void *bytes = mmap(NULL, *out_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  return bytes == MAP_FAILED ? NULL : bytes;
}

/* name and options as strings of their own, the source where it lies. */
static int read_request(int fd, const char *compiler, tn_compile_def *out_def) {
  size_t size = 0, name, options;
  uint64_t source;
  const char *bytes = map_request(fd, &size), *body = bytes ? memmem(bytes, size, "\n\n", 2) : NULL;
  if (!body || sscanf(bytes, "name %zu\noptions %zu\nsource %" SCNu64, &name, &options, &source) != 3) return 0;
  body += 2;
  size_t rest = size - (size_t)(body - bytes);
  if (name > rest || options > rest - name || source != rest - name - options) return 0;
  *out_def = (tn_compile_def){.struct_size = sizeof *out_def,
                              .compiler = compiler,
                              .name = strndup(body, name),
                              .options = strndup(body + name, options),
                              .source = body + name + options,
                              .source_bytes = source};
  return out_def->name && out_def->options;
}

static int put(int fd, const void *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t now = write(fd, (const char *)bytes + done, n - done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return 0;
    done += (size_t)now;
  }
  return 1;
}

/* ------------------------------------------------------------------ compiling */

static int compile(const tn_compile_def *def, int result) {
  const tn_compiler *compiler;
  tn_compiled compiled = {.struct_size = sizeof compiled};
  stage("opening the plugin");
  tn_status status = tn_interface_find(def->compiler, 1, (const void **)&compiler);
  if (status != TN_OK) return end(status, 0, 0);
  if (compiler->struct_size < sizeof *compiler || !compiler->compile)
    return end(tn_fail(TN_ERR_PLUGIN, "the interface has no compile function"), 0, 0);
  stage("compiling");
  status = compiler->compile(compiler->ctx, def, &compiled);
  if (status == TN_OK && !compiled.object && compiled.object_bytes)
    status = tn_fail(TN_ERR_PLUGIN, "success was answered without an object");
  uint64_t object_bytes = status == TN_OK ? compiled.object_bytes : 0;
  size_t log_bytes = compiled.log ? strlen(compiled.log) : 0;
  stage("writing the result");
  if (!put(result, compiled.object, object_bytes) || !put(result, compiled.log, log_bytes))
    return end(tn_fail(TN_ERR_IO, "the result could not be written: %s", strerror(errno)), 0, 0);
  return end(status, object_bytes, log_bytes);
}

int main(int argc, char **argv) {
  if (argc != 3) return CANNOT_START;
  int fd = atoi(argv[1]);
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  setenv("TENON_INSIDE_CC", "1", 1);
  pipe_out = fdopen(fd, "w");
  tn_compile_def def;
  if (!pipe_out) return CANNOT_START;
  stage("reading the request");
  if (!read_request(fd + 1, argv[2], &def)) return CANNOT_START;
  return compile(&def, fd + 2);
}
