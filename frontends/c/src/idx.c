/* SPDX-License-Identifier: Apache-2.0
 *
 * The IDX reader. The header is two zero bytes, a type code, the number of dims, then each dim and the data
 * in big-endian order. zlib's gz functions read both plain and compressed files. Memory is taken only as data
 * arrives (a header may claim anything), and the file must end where the header says.
 */
#include <errno.h>
#include <tenon/data.h>
#include <zlib.h>

#include "frontends/c/src/support.h"

typedef struct idx {
  const char *path;
  gzFile file;
  tn_dtype dtype;
  size_t itemsize;
  int32_t ndim;
  tn_dim sizes[TN_MAX_RANK];
  uint64_t size_bytes;
  unsigned char *data;
} idx;

static tn_status read_failed(const idx *x) {
  int code = 0;
  const char *words = gzerror(x->file, &code);
  if (code == Z_ERRNO) return tn_fail(TN_ERR_IO, "%s: cannot be read: %s", x->path, strerror(errno));
  return tn_fail(TN_ERR_DATA, "%s: damaged compressed data: %s", x->path,
                 words && *words ? words : "unknown error");
}

/* Reads up to n bytes; *out_got is less only at the end of the file. */
static tn_status read_some(idx *x, void *to, size_t n, size_t *out_got) {
  *out_got = 0;
  while (*out_got < n) {
    size_t left = n - *out_got;
    int got = gzread(x->file, (char *)to + *out_got, left > (1u << 20) ? 1u << 20 : (unsigned)left);
    if (got < 0) return read_failed(x);
    if (got == 0) break;
    *out_got += (size_t)got;
  }
  int code = Z_OK;
  gzerror(x->file, &code);
  /* A compressed stream that ends early gives its bytes, then this. */
  return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR ? TN_OK : read_failed(x);
}

static tn_status set_dtype(idx *x, unsigned char code) {
  static const struct {
    unsigned char code;
    tn_dtype dtype;
  } known[] = {{0x08, TN_UINT8}, {0x09, TN_INT8},    {0x0B, TN_INT16},
               {0x0C, TN_INT32}, {0x0D, TN_FLOAT32}, {0x0E, TN_FLOAT64}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].code == code) x->dtype = known[i].dtype;
  if (x->dtype == TN_DTYPE_NONE)
    return tn_fail(TN_ERR_DATA, "%s: unknown IDX type code 0x%02x; 0x08, 09, 0b, 0c, 0d or 0e was expected",
                   x->path, code);
  x->itemsize = tn_dtype_size(x->dtype);
  return TN_OK;
}

static tn_status read_header(idx *x) {
  unsigned char magic[4], dim[4];
  size_t got;
  TN_TRY(read_some(x, magic, 4, &got));
  if (got < 4)
    return tn_fail(TN_ERR_DATA, "%s: an IDX header of 4 bytes was expected, the file has %zu", x->path, got);
  if (magic[0] || magic[1])
    return tn_fail(TN_ERR_DATA, "%s: not an IDX file: it begins with %02x %02x, 00 00 was expected", x->path,
                   magic[0], magic[1]);
  TN_TRY(set_dtype(x, magic[2]));
  if (magic[3] > TN_MAX_RANK)
    return tn_fail(TN_ERR_DATA, "%s: %u dims; at most %d were expected", x->path, magic[3], TN_MAX_RANK);
  x->ndim = magic[3];
  x->size_bytes = x->itemsize;
  for (int32_t d = 0; d < x->ndim; d++) {
    TN_TRY(read_some(x, dim, 4, &got));
    if (got < 4) return tn_fail(TN_ERR_DATA, "%s: the header ends inside dim %d of %d", x->path, d, x->ndim);
    uint32_t size = (uint32_t)dim[0] << 24 | (uint32_t)dim[1] << 16 | (uint32_t)dim[2] << 8 | dim[3];
    x->sizes[d] = size;
    if (__builtin_mul_overflow(x->size_bytes, (uint64_t)size, &x->size_bytes) || x->size_bytes > INT64_MAX)
      return tn_fail(TN_ERR_DATA, "%s: the dims of the header give more than 2^63 bytes", x->path);
  }
  return TN_OK;
}

static tn_status read_data(idx *x) {
  size_t have = 0, room = 0, got = 0;
  while (have < x->size_bytes) {
    size_t next = room ? room * 2 : (size_t)1 << 20;
    room = next < x->size_bytes ? next : (size_t)x->size_bytes;
    unsigned char *p = realloc(x->data, room);
    if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for %s", room, x->path);
    x->data = p;
    TN_TRY(read_some(x, x->data + have, room - have, &got));
    have += got;
    if (have < room)
      return tn_fail(TN_ERR_DATA, "%s: truncated: %llu bytes of data were expected, %zu are there", x->path,
                     (unsigned long long)x->size_bytes, have);
  }
  unsigned char more;
  TN_TRY(read_some(x, &more, 1, &got));
  if (got)
    return tn_fail(TN_ERR_DATA, "%s: too long: %llu bytes of data were expected, more are there", x->path,
                   (unsigned long long)x->size_bytes);
  int code = Z_OK;
  gzerror(x->file, &code);
  if (code == Z_BUF_ERROR)
    return tn_fail(TN_ERR_DATA, "%s: truncated: the compressed stream has no end", x->path);
  return TN_OK;
}

static void to_native(idx *x) {
  const uint16_t probe = 1;
  if (x->itemsize == 1 || !*(const unsigned char *)&probe) return; /* bytes, or a big-endian machine */
  for (uint64_t at = 0; at < x->size_bytes; at += x->itemsize)
    for (size_t i = 0; i < x->itemsize / 2; i++) {
      unsigned char *a = x->data + at + i, *b = x->data + at + x->itemsize - 1 - i, kept = *a;
      *a = *b;
      *b = kept;
    }
}

static tn_status read_all(idx *x, tn_tensor **out_tensor) {
  TN_TRY(read_header(x));
  TN_TRY(read_data(x));
  to_native(x);
  tn_foreign memory = {.data = x->data,
                       .sizes = x->sizes,
                       .ndim = x->ndim,
                       .dtype = x->dtype,
                       .deleter = free,
                       .ctx = x->data};
  x->data = NULL; /* consumed, also on failure */
  return tn_tensor_from_memory(&memory, out_tensor);
}

tn_status tn_idx_read(const char *path, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  TN_TRY(tni_nn_not_null(path, "tn_idx_read: the path"));
  idx x = {.path = path};
  errno = 0;
  x.file = gzopen(path, "rb");
  if (!x.file && errno == ENOENT) return tn_fail(TN_ERR_NOT_FOUND, "%s: there is no such file", path);
  if (!x.file)
    return tn_fail(TN_ERR_IO, "%s: cannot be opened: %s", path, errno ? strerror(errno) : "out of memory");
  gzbuffer(x.file, 1u << 17);
  tn_status status = read_all(&x, out_tensor);
  gzclose(x.file);
  free(x.data);
  return status;
}
