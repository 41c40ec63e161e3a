/* SPDX-License-Identifier: Apache-2.0
 *
 * See folder.h. Failures of the file system end the test with a sentence.
 */
#include "folder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tn_test.h"

#define NEED(cond, what)                                                              \
  do {                                                                                \
    if (!(cond)) tn_test_fail(__FILE__, __LINE__, "%s: %s", (what), strerror(errno)); \
  } while (0)

folder folder_make(void) {
  folder f;
  snprintf(f.path, sizeof f.path, "%s/folder-XXXXXX", TN_LOAD_WORK_DIR);
  NEED(mkdtemp(f.path), f.path);
  return f;
}

void folder_remove(const folder *f) {
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", f->path);
  NEED(system(command) == 0, command);
}

static void built_path(char *buffer, size_t size, const char *plugin) {
  snprintf(buffer, size, "%s/%s.so", TN_LOAD_PLUGIN_DIR, plugin);
}

void folder_add(const folder *f, const char *plugin) {
  char from[512], to[600];
  built_path(from, sizeof from, plugin);
  snprintf(to, sizeof to, "%s/%s.so", f->path, plugin);
  NEED(symlink(from, to) == 0, to);
}

static char *read_whole(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  NEED(file, path);
  NEED(fseek(file, 0, SEEK_END) == 0, path);
  *out_size = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*out_size);
  NEED(bytes && fread(bytes, 1, *out_size, file) == *out_size, path);
  fclose(file);
  return bytes;
}

void folder_add_bytes(const folder *f, const char *name, const char *bytes, size_t n) {
  char to[600];
  snprintf(to, sizeof to, "%s/%s", f->path, name);
  FILE *file = fopen(to, "wb");
  NEED(file, to);
  NEED(fwrite(bytes, 1, n, file) == n, to);
  NEED(fclose(file) == 0, to);
}

void folder_add_copy(const folder *f, const char *plugin, const char *name, size_t keep, long patch_at,
                     unsigned char patch) {
  char from[512];
  size_t size;
  built_path(from, sizeof from, plugin);
  char *bytes = read_whole(from, &size);
  if (patch_at >= 0) bytes[patch_at] = (char)patch;
  folder_add_bytes(f, name, bytes, keep && keep < size ? keep : size);
  free(bytes);
}

static char *run_program(const char *program, const char *path, const char *settings, const char *commands) {
  char command[2048];
  int n = snprintf(command, sizeof command,
                   "XDG_CACHE_HOME='" TN_LOAD_WORK_DIR "/cache' TENON_PLUGIN_PATH='%s' %s '%s' %s 2>/dev/null", path,
                   settings, program, commands);
  if (n < 0 || (size_t)n >= sizeof command)
    tn_test_fail(__FILE__, __LINE__, "the command is too long: %s", commands);
  FILE *pipe = popen(command, "r");
  NEED(pipe, command);
  size_t size = 0, capacity = 1 << 16;
  char *text = malloc(capacity);
  NEED(text, "probe output");
  for (size_t got; (got = fread(text + size, 1, capacity - 1 - size, pipe)) > 0;) {
    size += got;
    if (size + 1 < capacity) continue;
    text = realloc(text, capacity *= 2);
    NEED(text, "probe output");
  }
  text[size] = 0;
  int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    tn_test_fail(__FILE__, __LINE__, "%s: ended with status %d after:\n%s", command, status, text);
  return text;
}

char *probe(const char *path, const char *settings, const char *commands) {
  return run_program(TN_LOAD_PROBE, path, settings, commands);
}
char *probe_devices(const char *path, const char *commands) {
  return run_program(TN_LOAD_DEVICES_PROBE, path, "", commands);
}

void shell(const char *format, ...) {
  char *command;
  va_list args;
  va_start(args, format);
  NEED(vasprintf(&command, format, args) >= 0, "a command");
  va_end(args);
  int status = system(command);
  if (status != 0) tn_test_fail(__FILE__, __LINE__, "status %d of: %s", status, command);
  free(command);
}

char *probe_cached(const folder *f, const folder *cache, const char *settings, const char *commands) {
  char all[1400];
  snprintf(all, sizeof all, "XDG_CACHE_HOME='%s' %s", cache->path, settings);
  return probe(f ? f->path : "", all, commands);
}
