/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled objects on disk: $XDG_CACHE_HOME/tenon/compiled, else ~/.cache/tenon/compiled; a file an object, named by
 * the key of what it was made of. A line `tenon-compiled 2 LIBRARIES OBJECT LOG SHA-256` (sizes in bytes, a hash of what
 * follows), then lines that tell of the libraries below the compiler, the object's bytes, and the log's. Which libraries a
 * compiler has is known only after it ran, so they are no part of the key; where one of them has changed, the object is
 * not found. A damaged file counts as none and is written anew; no folder or a full disk: nothing is remembered. What was
 * not used for three months goes when something is stored and more than COMPILED_MOST files are there.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tenon/kit/sha256.h>
#include <time.h>
#include <unistd.h>

#include "core/load/load_int.h"

enum { HEAD_MOST = 192, COMPILED_MOST = 1000, UNUSED_SECONDS = 90 * 86400 };
static const char folder_name[] = "compiled";

static void hash_of(const tni_piece *pieces, int n, char out_hex[65]) {
  tn_sha256 sha;
  tn_sha256_init(&sha);
  for (int i = 0; i < n; ++i) tn_sha256_add(&sha, pieces[i].bytes, pieces[i].n);
  tn_sha256_end(&sha, out_hex);
}

/* Lines of tni_libraries_write, which are cut apart here. */
static bool are_same(char *libraries, size_t size) {
  for (char *line = libraries, *end; (end = memchr(line, '\n', size)) != NULL; line = end + 1) {
    *end = 0;
    size -= (size_t)(end + 1 - line);
    if (strncmp(line, "library ", 8) != 0 || !tni_library_is_same(line + 8)) return false;
  }
  return size == 0;
}

/* Fills out if the bytes are a whole record of what would be made today as well. */
static tn_status parse(char *bytes, size_t size, tn_compiled *out) {
  uint64_t libraries, object, log;
  char sha[65], now[65];
  const char *end = memchr(bytes, '\n', size < HEAD_MOST ? size : HEAD_MOST);
  if (!end || sscanf(bytes, "tenon-compiled 2 %" SCNu64 " %" SCNu64 " %" SCNu64 " %64[0-9a-f]", &libraries,
                     &object, &log, sha) != 4)
    return TN_OK;
  char *body = bytes + (end + 1 - bytes);
  uint64_t rest = size - (uint64_t)(body - bytes);
  if (log > rest || libraries > rest - log || rest - log - libraries != object) return TN_OK;
  hash_of(&(tni_piece){body, rest}, 1, now);
  if (strcmp(sha, now) != 0 || !are_same(body, libraries)) return TN_OK;
  body += libraries;
  out->object = tni_alloc(object ? object : 1);
  out->log = tni_alloc(log + 1);
  if (!out->object || !out->log) return tni_oom(object + log, "a compiled object");
  memcpy(out->object, body, object);
  memcpy(out->log, body + object, log);
  out->log[log] = 0;
  out->object_bytes = object;
  out->cached = 1;
  return TN_OK;
}

tn_status tni_compiled_find(const char *key, tn_compiled *out) {
  int folder = tni_cache_open(folder_name, false);
  if (folder < 0) return TN_OK;
  size_t size = 0;
  char *bytes = tni_cache_read(folder, key, SIZE_MAX, &size);
  tn_status status = bytes ? parse(bytes, size, out) : TN_OK;
  free(bytes);
  if (out->cached) utimensat(folder, key, NULL, 0); /* for the age of what is not used */
  close(folder);
  return status;
}

/* Too many: those that nobody has used for long. */
static void forget_old(int folder) {
  DIR *dir = tni_cache_list(folder);
  size_t n = 0;
  if (!dir) return;
  while (readdir(dir)) ++n;
  rewinddir(dir);
  time_t now = time(NULL);
  for (struct dirent *entry; n > COMPILED_MOST && (entry = readdir(dir)) != NULL;) {
    struct stat st;
    if (entry->d_name[0] == '.' || fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (now - st.st_mtime > UNUSED_SECONDS) unlinkat(folder, entry->d_name, 0);
  }
  closedir(dir);
}

static void write_record(int folder, const char *key, const tn_compiled *compiled, const char *lines,
                         size_t n_lines) {
  char head[HEAD_MOST], sha[65];
  size_t log = strlen(compiled->log);
  tni_piece pieces[] = {
      {head, 0}, {lines, n_lines}, {compiled->object, compiled->object_bytes}, {compiled->log, log}};
  hash_of(pieces + 1, 3, sha);
  pieces[0].n = (size_t)snprintf(head, sizeof head, "tenon-compiled 2 %zu %" PRIu64 " %zu %s\n", n_lines,
                                 compiled->object_bytes, log, sha);
  tni_cache_write(folder, key, pieces, 4);
}

tn_status tni_compiled_store(const char *key, const tn_compiled *compiled, const tni_plugin *p,
                             const char *libraries) {
  char *lines = NULL;
  size_t n_lines = 0;
  /* A file that was replaced under a running compiler: what is there now is not what made the object. */
  if (strstr(libraries, " (deleted)\n")) return TN_OK;
  int folder = tni_cache_open(folder_name, true);
  if (folder < 0) return TN_OK;
  FILE *to = open_memstream(&lines, &n_lines);
  if (to) {
    tni_libraries_write(to, p, libraries);
    if (fclose(to) == 0) write_record(folder, key, compiled, lines, n_lines);
  }
  free(lines);
  forget_old(folder);
  close(folder);
  return TN_OK;
}
