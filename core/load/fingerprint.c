/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling files apart: by what stat says, which costs nothing, and by content.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tenon/kit/sha256.h>
#include <unistd.h>

#include "core/load/load_int.h"

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

bool tni_file_id_of(int fd, tni_file_id *out_id) {
  struct stat st;
  *out_id = (tni_file_id){0};
  if (fstat(fd, &st) != 0) return false;
  *out_id = (tni_file_id){st.st_dev, st.st_ino, (uint64_t)st.st_size, nanoseconds(st.st_mtim),
                          nanoseconds(st.st_ctim)};
  return true;
}

bool tni_file_id_same(const tni_file_id *a, const tni_file_id *b) {
  return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->modified_ns == b->modified_ns &&
         a->changed_ns == b->changed_ns;
}

tn_status tni_file_hash(int fd, char out_hex[65]) {
  enum { PIECE = 1 << 16 };
  unsigned char *piece = tni_alloc(PIECE);
  if (!piece) return tni_oom(PIECE, "a file's bytes");
  tn_sha256 sha;
  tn_sha256_init(&sha);
  tn_status status = TN_OK;
  for (off_t at = 0;;) {
    ssize_t n = pread(fd, piece, PIECE, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = TN_FAIL(TN_ERR_IO, "cannot be read: %s", strerror(errno));
    if (n <= 0) break;
    tn_sha256_add(&sha, piece, (size_t)n);
    at += n;
  }
  tni_free(piece);
  tn_sha256_end(&sha, out_hex);
  return status;
}

/* ------------------------------------------------------------------ mapped with a plugin */

void tni_libraries_write(FILE *to, const tni_plugin *p, const char *paths) {
  for (const char *path = paths; *path;) {
    size_t n = strcspn(path, "\n");
    struct stat st;
    char *name = strndup(path, n);
    if (name && stat(name, &st) == 0 && !(st.st_ino == p->ino && st.st_dev == p->dev))
      fprintf(to, "library %llu %llu %lld %lld.%09ld %s\n", (unsigned long long)st.st_dev,
              (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
              st.st_mtim.tv_nsec, name);
    free(name);
    path += n + (path[n] == '\n');
  }
}

bool tni_library_is_same(const char *line) {
  unsigned long long dev, ino;
  long long size, seconds;
  long nanoseconds;
  int at = 0;
  struct stat st;
  if (sscanf(line, "%llu %llu %lld %lld.%ld %n", &dev, &ino, &size, &seconds, &nanoseconds, &at) != 5 || !at)
    return false;
  return stat(line + at, &st) == 0 && st.st_dev == dev && st.st_ino == ino && st.st_size == size &&
         st.st_mtim.tv_sec == seconds && st.st_mtim.tv_nsec == nanoseconds;
}
