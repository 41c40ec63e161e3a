/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling files apart: by what stat says, which costs nothing, and by content.
 */
#include <errno.h>
#include <sys/stat.h>
#include <tenon/kit/sha256.h>
#include <unistd.h>

#include "core/load/load_int.h"

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

bool tni_file_id_of(int fd, tni_file_id *out_id) {
  struct stat st;
  *out_id = (tni_file_id){0};
  if (fstat(fd, &st) != 0) return false;
  *out_id = (tni_file_id){st.st_dev, st.st_ino, (uint64_t)st.st_size, nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
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
