/* SPDX-License-Identifier: Apache-2.0
 *
 * What the npy and the npz reader share: one array's header.
 */
#ifndef TENON_NN_NPY_INT_H
#define TENON_NN_NPY_INT_H

#include <tenon/files.h>

#include "frontends/c/src/file_int.h"

/* The longest header that is read, with its first bytes: NumPy's own limit, which no array of 64 dims reaches. */
enum { TNI_NPY_HEADER_LIMIT = 10000, TNI_NPY_PREFIX = 12 };

typedef struct tni_npy {
  tni_file_array array;
  tn_dim sizes[TN_MAX_RANK]; /* array.sizes points here: not to be copied */
  uint64_t header_bytes;     /* from the magic number to the data */
  uint64_t data_bytes;       /* by the header's claim */
} tni_npy;
/* text: the first bytes of an array, all of its header if that is at most TNI_NPY_HEADER_LIMIT long. base: of text in
 * the file, for words. */
tn_status tni_npy_header_read(const char *path, uint64_t base, const unsigned char *text, size_t size,
                              tni_npy *out_npy);

#endif
