/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled objects on disk: $XDG_CACHE_HOME/tenon/compiled, else ~/.cache/tenon/compiled; a file an object, named by
 * the key of what it was made of. A line `tenon-compiled 1 OBJECT LOG SHA-256`, then the object's bytes, then the log's.
 * A damaged file counts as none and is written anew; no folder or a full disk: nothing is remembered. What was not used
 * for three months goes when something is stored and more than COMPILED_MOST files are there.
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

static void hash_of(const void *object, uint64_t object_bytes, const char *log, uint64_t log_bytes, char out_hex[65]) {
  tn_sha256 sha;
  tn_sha256_init(&sha);
  tn_sha256_add(&sha, object, object_bytes);
  tn_sha256_add(&sha, log, log_bytes);
  tn_sha256_end(&sha, out_hex);
}

/* Fills out if the bytes are a whole record. */
static tn_status parse(const char *bytes, size_t size, tn_compiled *out) {
  uint64_t object, log;
  char sha[65], now[65];
  const char *end = memchr(bytes, '\n', size < HEAD_MOST ? size : HEAD_MOST);
  if (!end || sscanf(bytes, "tenon-compiled 1 %" SCNu64 " %" SCNu64 " %64[0-9a-f]", &object, &log, sha) != 3)
    return TN_OK;
  const char *body = end + 1;
  uint64_t rest = size - (uint64_t)(body - bytes);
  if (log > rest || rest - log != object) return TN_OK;
  hash_of(body, object, body + object, log, now);
  if (strcmp(sha, now) != 0) return TN_OK;
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

tn_status tni_compiled_store(const char *key, const tn_compiled *compiled) {
  int folder = tni_cache_open(folder_name, true);
  if (folder < 0) return TN_OK;
  char head[HEAD_MOST], sha[65];
  size_t log = strlen(compiled->log);
  hash_of(compiled->object, compiled->object_bytes, compiled->log, log, sha);
  int n = snprintf(head, sizeof head, "tenon-compiled 1 %" PRIu64 " %zu %s\n", compiled->object_bytes, log, sha);
  const tni_piece pieces[] = {{head, (size_t)n}, {compiled->object, compiled->object_bytes}, {compiled->log, log}};
  tni_cache_write(folder, key, pieces, 3);
  forget_old(folder);
  close(folder);
  return TN_OK;
}
