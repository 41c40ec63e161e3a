/* SPDX-License-Identifier: Apache-2.0
 *
 * A shared object as bytes: read, never run. Every access is checked against the file's size.
 */
#ifndef TENON_CHECK_IMAGE_H
#define TENON_CHECK_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tni_image {
  const unsigned char *bytes;
  size_t size;
  const ElfW(Phdr) * segments;
  size_t n_segments;
  const ElfW(Dyn) * dynamic; /* NULL: none */
  size_t n_dynamic;
} tni_image;

/* NULL, or why not (owned). The image is owned: tni_image_close. */
char *tni_image_open(const char *path, tni_image *out_image);
void tni_image_close(tni_image *image);
/* The bytes [offset, offset + size) of the file, NULL if they are not all there. */
const void *tni_image_at(const tni_image *image, uint64_t offset, uint64_t size);
/* The same for addresses as the dynamic section has them; *out_left (may be NULL) gets the bytes up to the segment's end. */
const void *tni_image_address(const tni_image *image, uint64_t address, uint64_t size, uint64_t *out_left);
/* The value of the first dynamic entry with the tag; false: none. */
bool tni_image_dynamic(const tni_image *image, ElfW(Sxword) tag, uint64_t *out_value);
/* A name of the dynamic string table, NULL if it is not inside. */
const char *tni_image_string(const tni_image *image, uint64_t offset);
/* The texts of Tenon's notes: the first in *out_text (owned, NULL: none). Returns how many there are. */
size_t tni_image_notes(const tni_image *image, char **out_text);

/* Calls visit for every entry of the dynamic symbol table. */
void tni_image_symbols(const tni_image *image,
                       void (*visit)(void *ctx, const char *name, const ElfW(Sym) * symbol), void *ctx);

#endif
