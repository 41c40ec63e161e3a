/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reader and the writer of safetensors share: the dtypes, and a header as entries.
 */
#ifndef TENON_NN_SAFETENSORS_INT_H
#define TENON_NN_SAFETENSORS_INT_H

#include <tenon/files.h>

#include "frontends/c/src/file_int.h"

#define TNI_SAFETENSORS_NOTES "__metadata__"
enum { TNI_SAFETENSORS_HEADER_LIMIT = 100000000 }; /* bytes, as the reference has it */

typedef struct tni_st_dtype {
  const char *name; /* "F32" */
  uint32_t bits;
  tn_dtype dtype; /* TN_DTYPE_NONE: the format's, not ours */
} tni_st_dtype;
/* The table ends with name NULL. */
extern const tni_st_dtype tni_st_dtypes[];

typedef struct tni_st_entry {
  char *name;
  const tni_st_dtype *dtype;
  int32_t ndim;
  size_t first_size;   /* of the sizes, in tn_safetensors.sizes */
  uint64_t begin, end; /* in the buffer behind the header */
  uint64_t at;         /* of the name in the file, for words */
} tni_st_entry;

typedef struct tni_st_note {
  char *key, *value;
  uint64_t at; /* of the key in the file, for words */
} tni_st_note;

struct tn_safetensors {
  tni_file_map *map;
  uint64_t buffer_at;
  tni_st_entry *entries; /* by (begin, end) */
  size_t count, capacity;
  size_t *by_name; /* positions in entries */
  tn_dim *sizes;
  size_t n_sizes, sizes_capacity;
  tni_st_note *notes; /* by key */
  size_t n_notes, notes_capacity;
};

/* Parses and checks the header of file->map. */
tn_status tni_st_header_read(tn_safetensors *file);

#endif
