/* SPDX-License-Identifier: Apache-2.0
 *
 * Files to code points. Every byte is checked, and what is not UTF-8 is named by file and offset: a text that was
 * cut or is in another encoding should not train a model on rubbish.
 */
#include "frontends/cli/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/cli/cli.h"
#include <tenon/kit/sha256.h>

/* ------------------------------------------------------------------ UTF-8 */

size_t tni_utf8_decode(const unsigned char *bytes, size_t n, uint32_t *out_point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char c = bytes[0];
  size_t length = c < 0x80                ? 1
                  : c >= 0xC2 && c < 0xE0 ? 2
                  : (c & 0xF0) == 0xE0    ? 3
                  : (c & 0xF8) == 0xF0    ? 4
                                          : 0;
  if (length == 0 || length > n) return 0;
  uint32_t point = length == 1 ? c : c & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xC0) != 0x80) return 0;
    point = point << 6 | (bytes[i] & 0x3Fu);
  }
  if (point < least[length] || point >= TNI_TEXT_POINTS || (point >= 0xD800 && point < 0xE000)) return 0;
  *out_point = point;
  return length;
}

size_t tni_utf8_encode(uint32_t point, char out_bytes[5]) {
  size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = length; i-- > 1; point >>= 6) out_bytes[i] = (char)(0x80 | (point & 0x3F));
  out_bytes[0] = (char)(first[length] | point);
  out_bytes[length] = 0;
  return length;
}

/* ------------------------------------------------------------------ one file */

/* A whole file in memory, whose size need not be known before. */
typedef struct bytes {
  unsigned char *at;
  size_t count, capacity;
} bytes;

static tn_status read_failed(const char *path) {
  int code = errno;
  return tn_fail(code == ENOENT ? TN_ERR_NOT_FOUND : TN_ERR_IO, "%s: the text cannot be read: %s", path,
                 strerror(code));
}

static tn_status fill(int fd, const char *path, bytes *b) {
  for (;;) {
    if (b->count == b->capacity) {
      size_t wanted = b->capacity ? b->capacity * 2 : 1 << 16;
      unsigned char *p = wanted > b->capacity ? realloc(b->at, wanted) : NULL;
      if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "%s: out of memory: %zu bytes of text", path, wanted);
      b->at = p;
      b->capacity = wanted;
    }
    ssize_t n = read(fd, b->at + b->count, b->capacity - b->count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return read_failed(path);
    if (n == 0) return TN_OK;
    b->count += (size_t)n;
  }
}

static tn_status read_bytes(const char *path, bytes *out_bytes) {
  struct stat about;
  *out_bytes = (bytes){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return read_failed(path);
  tn_status status = TN_OK;
  if (fstat(fd, &about))
    status = read_failed(path);
  else if (!S_ISREG(about.st_mode))
    status = tn_fail(TN_ERR_IO, "%s: a regular file was expected for a text", path);
  if (status == TN_OK) status = fill(fd, path, out_bytes);
  close(fd);
  return status;
}

static tn_status add_points(tni_text *text, const char *path, const bytes *b) {
  size_t wanted = text->count + b->count; /* not more code points than bytes */
  if (wanted > text->capacity) {
    uint32_t *p = wanted <= SIZE_MAX / sizeof *p ? realloc(text->points, wanted * sizeof *p) : NULL;
    if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "%s: out of memory: %zu characters", path, wanted);
    text->points = p;
    text->capacity = wanted;
  }
  for (size_t i = 0; i < b->count;) {
    size_t n = tni_utf8_decode(b->at + i, b->count - i, &text->points[text->count]);
    if (n == 0)
      return tn_fail(TN_ERR_DATA, "%s: byte %zu: the text is not UTF-8 there (0x%02X)", path, i, b->at[i]);
    text->count++;
    i += n;
  }
  return TN_OK;
}

static tn_status add_file(tni_text *text, tn_sha256 *sha, const char *path) {
  bytes b;
  tn_status status = read_bytes(path, &b);
  if (status == TN_OK) {
    tn_sha256_add(sha, b.at, b.count);
    status = add_points(text, path, &b);
  }
  free(b.at);
  return status;
}

/* ------------------------------------------------------------------ a folder */

typedef struct entry {
  char *path;
  bool link;
  struct stat about; /* of what the path leads to */
} entry;

typedef struct folder {
  entry *entries;
  size_t count, capacity;
} folder;

static tn_status add_entry(folder *f, const char *path, const char *name) {
  struct stat about;
  if (f->count == f->capacity) {
    size_t wanted = f->capacity ? f->capacity * 2 : 32;
    entry *p = wanted <= SIZE_MAX / sizeof *p ? realloc(f->entries, wanted * sizeof *p) : NULL;
    if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "%s: out of memory: %zu names", path, wanted);
    f->entries = p;
    f->capacity = wanted;
  }
  entry *e = &f->entries[f->count];
  size_t size = strlen(path) + strlen(name) + 2;
  e->path = malloc(size);
  if (!e->path) return tn_fail(TN_ERR_OUT_OF_MEMORY, "%s: out of memory: a name", path);
  snprintf(e->path, size, "%s/%s", path, name);
  bool is_file = !stat(e->path, &e->about) && S_ISREG(e->about.st_mode);
  e->link = !lstat(e->path, &about) && S_ISLNK(about.st_mode);
  if (is_file)
    f->count++;
  else
    free(e->path);
  return TN_OK;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

/* Is e a link to a file that the folder holds under its own name? */
static bool repeats(const folder *f, const entry *e) {
  for (size_t i = 0; e->link && i < f->count; i++) {
    const entry *other = &f->entries[i];
    if (!other->link && other->about.st_dev == e->about.st_dev && other->about.st_ino == e->about.st_ino)
      return true;
  }
  return false;
}

static tn_status list_folder(const char *path, folder *f) {
  DIR *dir = opendir(path);
  if (!dir) return read_failed(path);
  tn_status status = TN_OK;
  for (struct dirent *e; status == TN_OK && (errno = 0, e = readdir(dir));)
    if (e->d_name[0] != '.') status = add_entry(f, path, e->d_name);
  if (status == TN_OK && errno) status = read_failed(path);
  closedir(dir);
  if (f->count) qsort(f->entries, f->count, sizeof *f->entries, by_path);
  return status;
}

static tn_status add_folder(tni_text *text, tn_sha256 *sha, const char *path) {
  folder f = {0};
  tn_status status = list_folder(path, &f);
  for (size_t i = 0; status == TN_OK && i < f.count; i++)
    if (!repeats(&f, &f.entries[i])) status = add_file(text, sha, f.entries[i].path);
  if (status == TN_OK && f.count == 0)
    status = tn_fail(TN_ERR_DATA, "%s: the folder holds no files to make a text of", path);
  for (size_t i = 0; i < f.count; i++) free(f.entries[i].path);
  free(f.entries);
  return status;
}

/* ------------------------------------------------------------------ either */

tn_status tni_text_read(const char *path, tni_text *out_text) {
  struct stat about;
  tn_sha256 sha;
  *out_text = (tni_text){0};
  if (stat(path, &about)) return read_failed(path);
  tn_sha256_init(&sha);
  tn_status status =
      S_ISDIR(about.st_mode) ? add_folder(out_text, &sha, path) : add_file(out_text, &sha, path);
  if (status == TN_OK && out_text->count == 0) status = tn_fail(TN_ERR_DATA, "%s: the text is empty", path);
  tn_sha256_end(&sha, out_text->sha256);
  if (status != TN_OK) tni_text_free(out_text);
  return status;
}

void tni_text_free(tni_text *text) {
  free(text->points);
  *text = (tni_text){0};
}
