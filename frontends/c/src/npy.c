/* SPDX-License-Identifier: Apache-2.0
 *
 * Single arrays in NumPy's format.
 */
#include <inttypes.h>
#include <stdio.h>

#include "frontends/c/src/npy_int.h"

tn_status tn_npy_read(const char *path, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  tni_file_map *map = NULL;
  tni_npy npy;
  TN_TRY(tni_file_map_open(path, &map));
  size_t first = map->size_bytes < TNI_NPY_HEADER_LIMIT ? (size_t)map->size_bytes : TNI_NPY_HEADER_LIMIT;
  tn_status status = tni_npy_header_read(path, 0, map->at, first, &npy);
  if (status == TN_OK && map->size_bytes - npy.header_bytes != npy.data_bytes)
    status = tni_file_bad(path, map->size_bytes, "%llu bytes of data were expected, %llu are there",
                          (unsigned long long)npy.data_bytes,
                          (unsigned long long)(map->size_bytes - npy.header_bytes));
  if (status == TN_OK)
    status = tni_file_tensor(map, npy.header_bytes, npy.data_bytes, &npy.array, out_tensor);
  tni_file_map_release(map);
  return status;
}

/* ------------------------------------------------------------------ writing */

static const char *descr_of(tn_dtype dtype) {
  static const struct {
    tn_dtype dtype;
    const char *text;
  } known[] = {{TN_BOOL, "|b1"},    {TN_UINT8, "|u1"},   {TN_INT8, "|i1"},
               {TN_INT16, "<i2"},   {TN_INT32, "<i4"},   {TN_INT64, "<i8"},
               {TN_FLOAT16, "<f2"}, {TN_FLOAT32, "<f4"}, {TN_FLOAT64, "<f8"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].dtype == dtype) return known[i].text;
  return NULL;
}

/* Room for 64 dims of 21 characters and the rest. */
enum { HEADER_ROOM = 2048 };

/* Padded so that the data begins at a multiple of 64. Returns the length. */
static size_t make_header(const tn_tensor *tensor, const char *descr, char header[HEADER_ROOM]) {
  int32_t ndim = tn_tensor_ndim(tensor);
  size_t n = 10;
  n += (size_t)snprintf(header + n, HEADER_ROOM - n, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        descr);
  for (int32_t d = 0; d < ndim; d++)
    n += (size_t)snprintf(header + n, HEADER_ROOM - n, "%s%" PRId64, d ? ", " : "",
                          tn_tensor_sizes(tensor)[d]);
  n += (size_t)snprintf(header + n, HEADER_ROOM - n, "%s), }", ndim == 1 ? "," : "");
  while ((n + 1) % 64) header[n++] = ' ';
  header[n++] = '\n';
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)((n - 10) & 0xFF);
  header[9] = (char)((n - 10) >> 8);
  return n;
}

tn_status tn_npy_write(const char *path, tn_tensor *tensor) {
  char header[HEADER_ROOM];
  tni_file_out out;
  TN_TRY(tni_nn_not_null(tensor, "tn_npy_write: the tensor"));
  const char *descr = descr_of(tn_tensor_dtype(tensor));
  if (!descr)
    return tn_fail(TN_ERR_UNSUPPORTED, "npy has no dtype for %s; convert the tensor, to float32 for example",
                   tn_dtype_name(tn_tensor_dtype(tensor)));
  size_t n = make_header(tensor, descr, header);
  TN_TRY(tni_file_out_begin(&out, path));
  tn_status status = tni_file_out_add(&out, header, n);
  if (status == TN_OK) status = tni_file_out_tensor(&out, tensor);
  return tni_file_out_end(&out, status);
}
