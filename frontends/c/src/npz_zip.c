/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a zip archive, with zip64. Encrypted members, archives in several parts and methods other than
 * stored and deflate are refused, and so are members that together claim more packed bytes than the file has
 * (they would overlap).
 */
#include "frontends/c/src/npz_int.h"

enum { END = 22, END64 = 56, LOCATOR64 = 20, CENTRAL = 46, LOCAL = 30, COMMENT_LIMIT = 65535 };

/* Little-endian numbers; the caller has checked that they are there. */
static uint64_t number(const tni_file_map *map, uint64_t at, int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | map->at[at + (uint64_t)bytes];
  return value;
}

static bool is_mark(const tni_file_map *map, uint64_t at, const char mark[4]) {
  return !memcmp(map->at + at, mark, 4);
}

typedef struct directory {
  uint64_t at, size_bytes, count;
} directory;

/* ------------------------------------------------------------------ where the directory is */

/* The last end record whose comment fills the rest of the file. */
static tn_status find_end(const tni_file_map *map, uint64_t *out_at) {
  *out_at = 0;
  if (map->size_bytes < END)
    return tni_file_bad(map->path, 0, "not a zip archive: %llu bytes are too few",
                        (unsigned long long)map->size_bytes);
  uint64_t last = map->size_bytes - END, lowest = last > COMMENT_LIMIT ? last - COMMENT_LIMIT : 0;
  for (uint64_t at = last + 1; at-- > lowest;)
    if (is_mark(map, at, "PK\5\6") && number(map, at + 20, 2) == last - at) return *out_at = at, TN_OK;
  return tni_file_bad(map->path, lowest, "not a zip archive, or cut off: it has no end record");
}

static tn_status read_end64(const tni_file_map *map, uint64_t end, directory *d) {
  if (end < LOCATOR64 || !is_mark(map, end - LOCATOR64, "PK\6\7"))
    return tni_file_bad(map->path, end, "the zip64 locator is missing");
  uint64_t at = number(map, end - LOCATOR64 + 8, 8);
  if (end - LOCATOR64 < END64 || at > end - LOCATOR64 - END64 || !is_mark(map, at, "PK\6\6"))
    return tni_file_bad(map->path, end - LOCATOR64, "the zip64 end record is not where its locator says");
  d->count = number(map, at + 32, 8);
  d->size_bytes = number(map, at + 40, 8);
  d->at = number(map, at + 48, 8);
  if (number(map, at + 16, 4) || number(map, at + 20, 4) || number(map, at + 24, 8) != d->count)
    return tni_file_bad(map->path, at, "an archive in several parts");
  return TN_OK;
}

static tn_status find_directory(const tni_file_map *map, directory *d) {
  uint64_t end;
  TN_TRY(find_end(map, &end));
  d->count = number(map, end + 10, 2);
  d->size_bytes = number(map, end + 12, 4);
  d->at = number(map, end + 16, 4);
  if (d->count == 0xFFFF || d->size_bytes == 0xFFFFFFFF || d->at == 0xFFFFFFFF)
    TN_TRY(read_end64(map, end, d));
  else if (number(map, end + 4, 2) || number(map, end + 6, 2) || number(map, end + 8, 2) != d->count)
    return tni_file_bad(map->path, end, "an archive in several parts");
  if (d->at > end || d->size_bytes > end - d->at)
    return tni_file_bad(map->path, end, "the directory reaches beyond its end record");
  if (d->count > d->size_bytes / CENTRAL)
    return tni_file_bad(map->path, end, "%llu members do not fit a directory of %llu bytes",
                        (unsigned long long)d->count, (unsigned long long)d->size_bytes);
  return TN_OK;
}

/* ------------------------------------------------------------------ members */

/* The wide sizes stand in the extra field in this order, each only where the narrow one is full of ones. */
static tn_status read_wide(const tni_file_map *map, uint64_t at, uint64_t end, uint64_t *const fields[3]) {
  bool wide = false;
  for (int i = 0; i < 3; i++) wide |= *fields[i] == 0xFFFFFFFF;
  while (wide && end - at >= 4) {
    uint64_t id = number(map, at, 2), size = number(map, at + 2, 2);
    at += 4;
    if (size > end - at) break;
    if (id != 1) {
      at += size;
      continue;
    }
    for (int i = 0; i < 3; i++) {
      if (*fields[i] != 0xFFFFFFFF) continue;
      if (size < 8) return tni_file_bad(map->path, at, "a zip64 field is too short");
      *fields[i] = number(map, at, 8);
      at += 8;
      size -= 8;
    }
    return TN_OK;
  }
  return wide ? tni_file_bad(map->path, at, "the zip64 sizes are missing") : TN_OK;
}

/* Finds the packed data behind the local header, which must name the same member. */
static tn_status read_local(const tni_file_map *map, uint64_t at, tni_zip_member *m) {
  if (at > map->size_bytes || map->size_bytes - at < LOCAL || !is_mark(map, at, "PK\3\4"))
    return tni_file_bad(map->path, at, "the header of member '%.*s' is not there", (int)m->name_bytes,
                        m->name);
  uint64_t name = number(map, at + 26, 2), extra = number(map, at + 28, 2),
           left = map->size_bytes - at - LOCAL;
  if (left < name + extra || left - name - extra < m->packed_bytes)
    return tni_file_bad(map->path, at, "member '%.*s' of %llu bytes reaches beyond the file",
                        (int)m->name_bytes, m->name, (unsigned long long)m->packed_bytes);
  if (name != m->name_bytes || memcmp(map->at + at + LOCAL, m->name, m->name_bytes))
    return tni_file_bad(map->path, at, "the directory calls this member '%.*s', its own header does not",
                        (int)m->name_bytes, m->name);
  m->at = at + LOCAL + name + extra;
  return TN_OK;
}

static tn_status check_member(const tni_file_map *map, uint64_t at, const tni_zip_member *m) {
  int n = (int)m->name_bytes;
  if (number(map, at + 8, 2) & 1)
    return tni_file_bad(map->path, at, "member '%.*s' is encrypted", n, m->name);
  if (m->method != TNI_ZIP_STORED && m->method != TNI_ZIP_DEFLATED)
    return tni_file_bad(map->path, at, "member '%.*s' is packed by method %d; stored or deflate was expected",
                        n, m->name, m->method);
  if (m->method == TNI_ZIP_STORED && m->packed_bytes != m->plain_bytes)
    return tni_file_bad(map->path, at, "member '%.*s' is stored, but its two sizes differ", n, m->name);
  return TN_OK;
}

/* The directory's entry at *inout_at, which moves behind it. */
static tn_status read_member(const tni_file_map *map, uint64_t *inout_at, uint64_t end, tni_zip_member *m) {
  uint64_t at = *inout_at, local;
  if (end - at < CENTRAL || !is_mark(map, at, "PK\1\2"))
    return tni_file_bad(map->path, at, "an entry of the directory was expected");
  uint64_t name = number(map, at + 28, 2), extra = number(map, at + 30, 2), comment = number(map, at + 32, 2);
  if (end - at - CENTRAL < name + extra + comment)
    return tni_file_bad(map->path, at, "an entry reaches beyond the directory");
  *m = (tni_zip_member){.name = (const char *)map->at + at + CENTRAL,
                        .name_bytes = (size_t)name,
                        .method = (int)number(map, at + 10, 2),
                        .crc = (uint32_t)number(map, at + 16, 4),
                        .packed_bytes = number(map, at + 20, 4),
                        .plain_bytes = number(map, at + 24, 4)};
  local = number(map, at + 42, 4);
  uint64_t extra_at = at + CENTRAL + name;
  TN_TRY(read_wide(map, extra_at, extra_at + extra,
                   (uint64_t *const[]){&m->plain_bytes, &m->packed_bytes, &local}));
  TN_TRY(check_member(map, at, m));
  *inout_at = extra_at + extra + comment;
  return read_local(map, local, m);
}

tn_status tni_zip_walk(tni_file_map *map, tn_status (*fn)(void *ctx, const tni_zip_member *member),
                       void *ctx) {
  directory d;
  TN_TRY(find_directory(map, &d));
  uint64_t at = d.at, end = d.at + d.size_bytes, left = map->size_bytes;
  for (uint64_t i = 0; i < d.count; i++) {
    tni_zip_member member;
    uint64_t entry = at;
    TN_TRY(read_member(map, &at, end, &member));
    if (member.packed_bytes > left) return tni_file_bad(map->path, entry, "members overlap");
    left -= member.packed_bytes;
    TN_TRY(fn(ctx, &member));
  }
  if (at != end) return tni_file_bad(map->path, at, "the directory ends before its size says");
  return TN_OK;
}
