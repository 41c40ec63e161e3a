/* SPDX-License-Identifier: Apache-2.0
 *
 * A zip archive as the npz reader sees it: its directory, checked against the file.
 */
#ifndef TENON_NN_NPZ_INT_H
#define TENON_NN_NPZ_INT_H

#include "frontends/c/src/file_int.h"

enum { TNI_ZIP_STORED = 0, TNI_ZIP_DEFLATED = 8 };

typedef struct tni_zip_member {
  const char *name; /* in the map; name_bytes long, no NUL at the end */
  size_t name_bytes;
  int method;
  uint32_t crc;
  uint64_t at; /* of the packed data, which lies in the file */
  uint64_t packed_bytes, plain_bytes;
} tni_zip_member;

/* Reads an archive's directory and calls fn for each member in its order; a failure ends it. */
tn_status tni_zip_walk(tni_file_map *map, tn_status (*fn)(void *ctx, const tni_zip_member *member),
                       void *ctx);

#endif
