/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's npz: a zip archive of npy arrays. A deflated member gets the memory that its own npy header claims, after
 * that claim was held against the directory's size and against what deflate can do at most.
 */
#include <zlib.h>

#include "frontends/c/src/npy_int.h"
#include "frontends/c/src/npz_int.h"

/* Deflate packs no more than 1032 bytes into one. */
enum { DEFLATE_MOST = 1032 };

typedef struct reading {
  tni_file_map *map;
  tn_state_dict *dict;
} reading;

/* ------------------------------------------------------------------ stored */

static tn_status check_crc(const tni_file_map *map, const tni_zip_member *m, uLong crc) {
  if (crc == m->crc) return TN_OK;
  return tni_file_bad(map->path, m->at, "the checksum of member '%.*s' does not fit", (int)m->name_bytes,
                      m->name);
}

static tn_status check_sizes(const tni_file_map *map, const tni_zip_member *m, const tni_npy *npy) {
  if (m->plain_bytes - npy->header_bytes == npy->data_bytes) return TN_OK;
  return tni_file_bad(map->path, m->at, "member '%.*s': %llu bytes of data were expected, %llu are there",
                      (int)m->name_bytes, m->name, (unsigned long long)npy->data_bytes,
                      (unsigned long long)(m->plain_bytes - npy->header_bytes));
}

static tn_status read_stored(tni_file_map *map, const tni_zip_member *m, tn_tensor **out_tensor) {
  tni_npy npy;
  size_t first = m->plain_bytes < TNI_NPY_HEADER_LIMIT ? (size_t)m->plain_bytes : TNI_NPY_HEADER_LIMIT;
  TN_TRY(tni_npy_header_read(map->path, m->at, map->at + m->at, first, &npy));
  TN_TRY(check_sizes(map, m, &npy));
  TN_TRY(check_crc(map, m, crc32_z(0, map->at + m->at, (z_size_t)m->plain_bytes)));
  return tni_file_tensor(map, m->at + npy.header_bytes, npy.data_bytes, &npy.array, out_tensor);
}

/* ------------------------------------------------------------------ deflated */

/* What is left to unpack; z.next_in and z.avail_in are windows of at most 1 GiB on it. */
typedef struct unpacking {
  const tni_file_map *map;
  const tni_zip_member *member;
  z_stream z;
  uint64_t packed_left;
  uLong crc;
} unpacking;

/* Unpacks exactly n bytes. */
static tn_status unpack(unpacking *u, unsigned char *to, uint64_t n) {
  const uint64_t most = (uint64_t)1 << 30;
  unsigned char *begin = to;
  int code = Z_OK;
  for (uint64_t left = n; left > 0 && code == Z_OK;) {
    if (u->z.avail_in == 0) {
      u->z.avail_in = (uInt)(u->packed_left < most ? u->packed_left : most);
      u->packed_left -= u->z.avail_in;
    }
    uInt room = (uInt)(left < most ? left : most);
    u->z.next_out = to;
    u->z.avail_out = room;
    code = inflate(&u->z, Z_NO_FLUSH);
    to += room - u->z.avail_out;
    left -= room - u->z.avail_out;
  }
  if (to != begin + n)
    return tni_file_bad(u->map->path, u->member->at + u->z.total_in,
                        "member '%.*s': damaged compressed data: %s", (int)u->member->name_bytes,
                        u->member->name,
                        u->z.msg               ? u->z.msg
                        : code == Z_STREAM_END ? "it is shorter than the directory says"
                                               : "it is cut off");
  u->crc = crc32_z(u->crc, begin, (z_size_t)n);
  return TN_OK;
}

/* The stream must end here. */
static tn_status check_end(unpacking *u) {
  unsigned char more;
  u->z.next_out = &more;
  u->z.avail_out = 1;
  if (u->z.avail_in == 0) {
    u->z.avail_in = (uInt)u->packed_left; /* an end mark of a few bytes at most, or an error */
    u->packed_left -= u->z.avail_in;
  }
  int code = inflate(&u->z, Z_FINISH);
  if (code != Z_STREAM_END || u->z.avail_out == 0 || u->z.avail_in || u->packed_left)
    return tni_file_bad(u->map->path, u->member->at + u->z.total_in, "member '%.*s' is longer than its array",
                        (int)u->member->name_bytes, u->member->name);
  return check_crc(u->map, u->member, u->crc);
}

static tn_status read_deflated(unpacking *u, tn_tensor **out_tensor) {
  unsigned char header[TNI_NPY_HEADER_LIMIT];
  const tni_zip_member *m = u->member;
  const char *path = u->map->path;
  tni_npy npy;
  if (m->plain_bytes < TNI_NPY_PREFIX || m->plain_bytes / DEFLATE_MOST > m->packed_bytes)
    return tni_file_bad(path, m->at, "member '%.*s': %llu bytes cannot be packed into %llu",
                        (int)m->name_bytes, m->name, (unsigned long long)m->plain_bytes,
                        (unsigned long long)m->packed_bytes);
  TN_TRY(unpack(u, header, TNI_NPY_PREFIX));
  size_t size = header[6] == 1 ? 10 : TNI_NPY_PREFIX;
  size += header[6] == 1
              ? (size_t)(header[8] | header[9] << 8)
              : (size_t)(header[8] | header[9] << 8 | header[10] << 16) + ((size_t)header[11] << 24);
  if (size <= TNI_NPY_HEADER_LIMIT && size <= m->plain_bytes && size > TNI_NPY_PREFIX)
    TN_TRY(unpack(u, header + TNI_NPY_PREFIX, size - TNI_NPY_PREFIX));
  else
    size = TNI_NPY_PREFIX; /* the header's reader says what is wrong */
  TN_TRY(tni_npy_header_read(path, m->at, header, size, &npy));
  TN_TRY(check_sizes(u->map, m, &npy));
  unsigned char *data = malloc(npy.data_bytes ? (size_t)npy.data_bytes : 1);
  if (!data)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %llu bytes for '%.*s' of %s",
                   (unsigned long long)npy.data_bytes, (int)m->name_bytes, m->name, path);
  tn_status status = unpack(u, data, npy.data_bytes);
  if (status == TN_OK) status = check_end(u);
  if (status == TN_OK)
    return tni_file_tensor_owned(path, m->at, data, npy.data_bytes, &npy.array, out_tensor);
  free(data);
  return status;
}

static tn_status read_packed(tni_file_map *map, const tni_zip_member *m, tn_tensor **out_tensor) {
  unpacking u = {.map = map, .member = m, .packed_left = m->packed_bytes, .crc = crc32_z(0, NULL, 0)};
  u.z.next_in = map->at + m->at;
  if (inflateInit2(&u.z, -MAX_WBITS) != Z_OK)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: unpacking %s", map->path);
  tn_status status = read_deflated(&u, out_tensor);
  inflateEnd(&u.z);
  return status;
}

/* ------------------------------------------------------------------ all */

/* Cuts ".npy" off; the caller frees. */
static tn_status member_name(const tni_file_map *map, const tni_zip_member *m, char **out_name) {
  const char *end = m->name_bytes >= 4 ? m->name + m->name_bytes - 4 : "";
  if (m->name_bytes < 4 || memcmp(end, ".npy", 4))
    return tni_file_bad(map->path, m->at, "member '%.*s' is no .npy array", (int)m->name_bytes, m->name);
  size_t n = m->name_bytes - 4;
  if (memchr(m->name, 0, n) || tni_utf8_end((const unsigned char *)m->name, n) < n)
    return tni_file_bad(map->path, m->at, "the name of this member is not UTF-8, or holds a NUL");
  TN_TRY(tni_nn_alloc(n + 1, 1, "a name", out_name));
  memcpy(*out_name, m->name, n);
  return TN_OK;
}

static tn_status read_member(void *ctx, const tni_zip_member *m) {
  reading *r = ctx;
  char *name = NULL;
  tn_tensor *tensor = NULL;
  TN_TRY(member_name(r->map, m, &name));
  tn_status status = TN_OK;
  if (tn_state_dict_get(r->dict, name))
    status = tni_file_bad(r->map->path, m->at, "a second member '%s.npy'", name);
  if (status == TN_OK)
    status = m->method == TNI_ZIP_STORED ? read_stored(r->map, m, &tensor) : read_packed(r->map, m, &tensor);
  if (status == TN_OK) status = tn_state_dict_put(r->dict, name, tensor);
  tn_tensor_release(tensor);
  free(name);
  return status;
}

tn_status tn_npz_read(const char *path, tn_state_dict **out_dict) {
  *out_dict = NULL;
  reading r = {0};
  TN_TRY(tni_file_map_open(path, &r.map));
  tn_status status = tn_state_dict_new(&r.dict);
  if (status == TN_OK) status = tni_zip_walk(r.map, read_member, &r);
  tni_file_map_release(r.map);
  if (status == TN_OK)
    *out_dict = r.dict;
  else
    tn_state_dict_release(r.dict);
  return status;
}
