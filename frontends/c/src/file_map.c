/* SPDX-License-Identifier: Apache-2.0
 *
 * Files mapped to memory and tensors over them. Writers of this library replace a file by renaming, so a mapping
 * keeps the old contents; a file that somebody else shortens while it is mapped cannot be guarded against.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/c/src/file_int.h"

tn_status tni_file_bad(const char *path, uint64_t offset, const char *format, ...) {
  char words[512];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  return tn_fail(TN_ERR_DATA, "%s: byte %llu: %s", path, (unsigned long long)offset, words);
}

/* ------------------------------------------------------------------ the mapping */

static tn_status open_failed(const char *path) {
  if (errno == ENOENT) return tn_fail(TN_ERR_NOT_FOUND, "%s: there is no such file", path);
  return tn_fail(TN_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
}

static tn_status map_file(int fd, tni_file_map *map) {
  struct stat about;
  if (fstat(fd, &about)) return tn_fail(TN_ERR_IO, "%s: cannot be read: %s", map->path, strerror(errno));
  if (!S_ISREG(about.st_mode))
    return tn_fail(TN_ERR_IO, "%s: cannot be read: it is not a regular file", map->path);
  map->size_bytes = (uint64_t)about.st_size;
  if (map->size_bytes == 0) return TN_OK;
  void *at = mmap(NULL, (size_t)map->size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED)
    return tn_fail(errno == ENOMEM ? TN_ERR_OUT_OF_MEMORY : TN_ERR_IO, "%s: %llu bytes cannot be mapped: %s",
                   map->path, (unsigned long long)map->size_bytes, strerror(errno));
  map->at = at;
  return TN_OK;
}

tn_status tni_file_map_open(const char *path, tni_file_map **out_map) {
  *out_map = NULL;
  TN_TRY(tni_nn_not_null(path, "the path"));
  tni_file_map *map = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *map, "a file", &map));
  atomic_init(&map->refs, 1);
  tn_status status = tni_nn_strdup(path, &map->path);
  if (status == TN_OK) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not be waited for */
    status = fd < 0 ? open_failed(path) : map_file(fd, map);
    if (fd >= 0) close(fd);
  }
  if (status == TN_OK)
    *out_map = map;
  else
    tni_file_map_release(map);
  return status;
}

void tni_file_map_release(tni_file_map *map) {
  if (!map || atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1) return;
  if (map->at) munmap(map->at, (size_t)map->size_bytes);
  free(map->path);
  free(map);
}

static void release_map(void *ctx) { tni_file_map_release(ctx); }

/* ------------------------------------------------------------------ tensors */

tn_status tni_file_bits(const char *path, uint64_t offset, const tn_dim *sizes, int32_t ndim, uint32_t bits,
                        uint64_t *out_bits) {
  int64_t product = bits, unit;
  bool empty = false;
  for (int32_t d = 0; d < ndim; d++) {
    empty |= sizes[d] == 0;
    unit = sizes[d] > 1 ? sizes[d] : 1;
    if (__builtin_mul_overflow(product, unit, &product))
      return tni_file_bad(path, offset, "the shape gives more than 2^63 bits");
  }
  *out_bits = empty ? 0 : (uint64_t)product;
  return TN_OK;
}

static tn_status check_bools(const char *path, uint64_t offset, const unsigned char *data, uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    if (data[i] > 1)
      return tni_file_bad(path, offset + i, "a bool must be 0 or 1, %u is there", (unsigned)data[i]);
  return TN_OK;
}

/* deleter and ctx are consumed. */
static tn_status make_tensor(const tni_file_array *array, unsigned char *data, void (*deleter)(void *),
                             void *ctx, tn_tensor **out_tensor) {
  tn_dim strides[TN_MAX_RANK], step = 1;
  for (int32_t d = 0; d < array->ndim; d++) {
    strides[d] = step;
    step *= array->sizes[d] > 1 ? array->sizes[d] : 1;
  }
  tn_foreign memory = {.data = data,
                       .sizes = array->sizes,
                       .strides = array->fortran ? strides : NULL,
                       .ndim = array->ndim,
                       .dtype = array->dtype,
                       .read_only = true,
                       .deleter = deleter,
                       .ctx = ctx};
  return tn_tensor_from_memory(&memory, out_tensor);
}

void tni_file_swap(unsigned char *data, uint64_t size_bytes, size_t itemsize) {
  for (uint64_t at = 0; at < size_bytes; at += itemsize)
    for (size_t i = 0; i < itemsize / 2; i++) {
      unsigned char *a = data + at + i, *b = data + at + itemsize - 1 - i, kept = *a;
      *a = *b;
      *b = kept;
    }
}

tn_status tni_file_tensor_owned(const char *path, uint64_t offset, unsigned char *data, uint64_t size_bytes,
                                const tni_file_array *array, tn_tensor **out_tensor) {
  tn_status status = array->dtype == TN_BOOL ? check_bools(path, offset, data, size_bytes) : TN_OK;
  if (status != TN_OK) {
    free(data);
    return status;
  }
  if (array->swapped) tni_file_swap(data, size_bytes, tn_dtype_size(array->dtype));
  return make_tensor(array, data, free, data, out_tensor);
}

tn_status tni_file_tensor(tni_file_map *map, uint64_t offset, uint64_t size_bytes,
                          const tni_file_array *array, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  unsigned char *data = map->at + offset;
  if (!array->swapped && (uintptr_t)data % tn_dtype_size(array->dtype) == 0) {
    if (array->dtype == TN_BOOL) TN_TRY(check_bools(map->path, offset, data, size_bytes));
    atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
    return make_tensor(array, data, release_map, map, out_tensor);
  }
  unsigned char *copy = NULL;
  TN_TRY(tni_nn_alloc((size_t)size_bytes, 1, "a tensor of a file", &copy));
  memcpy(copy, data, (size_t)size_bytes);
  return tni_file_tensor_owned(map->path, offset, copy, size_bytes, array, out_tensor);
}
