/* SPDX-License-Identifier: Apache-2.0
 *
 * Run-time compilation in a process of its own: tenon-cc opens the plugin that offers the compiler and calls it there
 * (tenon/plugin_compiler.h). Two plugins that carry different LLVMs abort when both work in one process, a compiler may
 * crash or never end, and its memory is given back with its process.
 *
 * What goes in and what comes out are files in memory that the child inherits: sources and objects may be large, and
 * the pipe is for its words, and for the files that were mapped when it was done. The request: lines `KEY VALUE` and an empty one, then the bytes of name, options and source,
 * one after the other. The result: the object's bytes, then the log's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/kit/sha256.h>
#include <tenon/plugin_compiler.h>
#include <unistd.h>

#include "core/load/load_int.h"

enum { TIMEOUT_MS = 60000, HIGH_FD = 10 };

/* ------------------------------------------------------------------ the request */

static tn_status check(const tn_compile_def *given, tn_compile_def *out_def, tn_compiled *out) {
  if (!out) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "compile: the result's place is NULL");
  *out = (tn_compiled){.struct_size = sizeof *out};
  if (!given) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "compile: the request is NULL");
  tni_copy_sized(out_def, sizeof *out_def, given);
  if (!out_def->compiler || !out_def->source)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "compile: %s is NULL", out_def->compiler ? "the source" : "the compiler's name");
  if (!out_def->options) out_def->options = "";
  if (!out_def->name) out_def->name = "source";
  if (!out_def->timeout_ms) out_def->timeout_ms = TIMEOUT_MS;
  if (secure_getenv("TENON_INSIDE_CC"))
    return TN_FAIL(TN_ERR_STATE, "compile: a compiler may not ask for another one");
  return TN_OK;
}

static bool put(int fd, const void *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t now = write(fd, (const char *)bytes + done, n - done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    done += (size_t)now;
  }
  return true;
}

/* Out of the way of the numbers that the child gets them under. */
static int memory_file(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
  if (fd >= 0) close(fd);
  return high;
}

static tn_status write_request(int fd, const tn_compile_def *def) {
  char head[256];
  size_t name = strlen(def->name), options = strlen(def->options);
  int n = snprintf(head, sizeof head, "name %zu\noptions %zu\nsource %" PRIu64 "\n\n", name, options, def->source_bytes);
  if (put(fd, head, (size_t)n) && put(fd, def->name, name) && put(fd, def->options, options) &&
      put(fd, def->source, def->source_bytes))
    return TN_OK;
  return TN_FAIL(TN_ERR_IO, "compile: the request could not be written: %s", strerror(errno));
}

/* ------------------------------------------------------------------ the key */

static void add_part(tn_sha256 *sha, const void *bytes, uint64_t n) {
  tn_sha256_add(sha, &n, sizeof n);
  tn_sha256_add(sha, bytes, n);
}

/* Everything that the result depends on, as far as it can be seen from here: the compiler's file among it. What is below
 * that file is compared with what the child had (compile_cache.c). */
static tn_status make_key(const tni_plugin *p, const tn_compile_def *def, char out_hex[65]) {
  char file[65], environment[65];
  TN_TRY(tni_cache_hash(p, file));
  tni_cache_environment(p, environment);
  tn_sha256 sha;
  tn_sha256_init(&sha);
  add_part(&sha, "tenon-compiled 2", 16);
  add_part(&sha, TN_VERSION_TEXT, strlen(TN_VERSION_TEXT));
  add_part(&sha, file, 64);
  add_part(&sha, environment, 64);
  add_part(&sha, def->compiler, strlen(def->compiler));
  add_part(&sha, def->name, strlen(def->name));
  add_part(&sha, def->options, strlen(def->options));
  add_part(&sha, def->source, def->source_bytes);
  tn_sha256_end(&sha, out_hex);
  return TN_OK;
}

/* ------------------------------------------------------------------ the result */

/* object_bytes and log_bytes of fd into memory of their own. */
static tn_status take_result(int fd, uint64_t object_bytes, uint64_t log_bytes, tn_compiled *out) {
  struct stat st;
  if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < log_bytes || (uint64_t)st.st_size - log_bytes != object_bytes)
    return TN_FAIL(TN_ERR_PLUGIN, "tenon-cc announced %" PRIu64 " and %" PRIu64 " bytes and wrote another number",
                   object_bytes, log_bytes);
  out->object = tni_alloc(object_bytes ? object_bytes : 1);
  out->log = tni_alloc(log_bytes + 1);
  if (!out->object || !out->log) return tni_oom(object_bytes + log_bytes, "a compiler's result");
  if (!tni_pread_all(fd, out->object, object_bytes, 0) || !tni_pread_all(fd, out->log, log_bytes, object_bytes))
    return TN_FAIL(TN_ERR_IO, "the compiler's result could not be read: %s", strerror(errno));
  out->log[log_bytes] = 0;
  out->object_bytes = object_bytes;
  return TN_OK;
}

/* The last line that begins with key, its value; NULL if there is none. */
static const char *said(const char *output, const char *key) {
  const char *found = NULL;
  size_t n = strlen(key);
  for (const char *line = output; line; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (strncmp(line, key, n) == 0 && line[n] == ' ') found = line + n + 1;
  }
  return found;
}

static tn_status fail_ended(const tn_compile_def *def, const tni_child *child) {
  const char *stage = said(child->output, "stage");
  int length = stage ? (int)strcspn(stage, "\n") : 0;
  if (child->timed_out)
    return TN_FAIL(TN_ERR_UNAVAILABLE, "compiler %s: not done after %u ms, at %.*s; it was stopped", def->compiler,
                   def->timeout_ms, length, length ? stage : "");
  if (child->status >= 0 && WIFSIGNALED(child->status))
    return TN_FAIL(TN_ERR_PLUGIN, "compiler %s: crashed at %.*s (%s)", def->compiler, length, length ? stage : "",
                   strsignal(WTERMSIG(child->status)));
  return TN_FAIL(TN_ERR_PLUGIN, "compiler %s: tenon-cc ended at %.*s without an answer", def->compiler, length,
                 length ? stage : "");
}

/* What the child says: `done STATUS OBJECT LOG`, and `words ...` if the status is a failure. */
static tn_status read_answer(const tn_compile_def *def, const tni_child *child, int result, tn_compiled *out) {
  int code = 0;
  uint64_t object = 0, log = 0;
  const char *done = said(child->output, "done"), *words = said(child->output, "words");
  if (!done || sscanf(done, "%d %" SCNu64 " %" SCNu64, &code, &object, &log) != 3) return fail_ended(def, child);
  TN_TRY(take_result(result, object, log, out));
  if (code == TN_OK) return TN_OK;
  int length = words ? (int)strcspn(words, "\n") : 0;
  return TN_FAIL((tn_status)code, "compiler %s: %.*s%s%s", def->compiler, length, length ? words : "",
                 *out->log ? "\n" : "", out->log);
}

/* The paths behind `library`, a line each; owned (free), NULL: no memory. */
static char *libraries_of(const char *output) {
  char *paths = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&paths, &size);
  for (const char *line = output; to && *line;) {
    size_t n = strcspn(line, "\n");
    if (strncmp(line, "library ", 8) == 0) fprintf(to, "%.*s\n", (int)(n - 8), line + 8);
    line += n + (line[n] == '\n');
  }
  if (to && fclose(to) == 0) return paths;
  free(paths);
  return NULL;
}

/* ------------------------------------------------------------------ running */

static tn_status run_with(const tn_compile_def *def, int request, int result, tn_compiled *out,
                          char **out_libraries) {
  char *program;
  if (request < 0 || result < 0) return TN_FAIL(TN_ERR_IO, "compile: no file in memory: %s", strerror(errno));
  TN_TRY(write_request(request, def));
  TN_TRY(tni_helper_path("tenon-cc", &program));
  const int files[2] = {request, result};
  tni_child child;
  tn_status status = tni_child_run(program, def->compiler, files, 2, def->timeout_ms, &child);
  if (status == TN_OK) status = read_answer(def, &child, result, out);
  if (status == TN_OK) *out_libraries = libraries_of(child.output);
  free(child.output);
  tni_free(program);
  return status;
}

static tn_status run(const tn_compile_def *def, tn_compiled *out, char **out_libraries) {
  int request = memory_file("tenon-cc-request"), result = memory_file("tenon-cc-result");
  tn_status status = run_with(def, request, result, out, out_libraries);
  if (request >= 0) close(request);
  if (result >= 0) close(result);
  return status;
}

tn_status tni_compile(const tn_compile_def *given, tn_compiled *out) {
  tn_compile_def def;
  const tni_plugin *p;
  char key[65];
  TN_TRY(check(given, &def, out));
  TN_TRY(tni_interface_plugin(def.compiler, 1, &p));
  TN_TRY(make_key(p, &def, key));
  TN_TRY(tni_compiled_find(key, out));
  if (out->cached) return TN_OK;
  char *libraries = NULL;
  TN_TRY(run(&def, out, &libraries));
  tn_status status = libraries ? tni_compiled_store(key, out, p, libraries) : TN_OK;
  free(libraries);
  return status;
}

void tni_compiled_free(tn_compiled *compiled) {
  if (!compiled) return;
  tni_free(compiled->object);
  tni_free(compiled->log);
  compiled->object = NULL;
  compiled->log = NULL;
}
