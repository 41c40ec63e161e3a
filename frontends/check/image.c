/* SPDX-License-Identifier: Apache-2.0
 *
 * See image.h. The number of dynamic symbols is nowhere written: it is read from the hash tables, as the system's
 * loader would find a name.
 */
#include "frontends/check/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/check/tools.h"

const void *tni_image_at(const tni_image *image, uint64_t offset, uint64_t size) {
  return offset <= image->size && size <= image->size - offset ? image->bytes + offset : NULL;
}

const void *tni_image_address(const tni_image *image, uint64_t address, uint64_t size, uint64_t *out_left) {
  for (size_t i = 0; i < image->n_segments; i++) {
    const ElfW(Phdr) *s = &image->segments[i];
    if (s->p_type != PT_LOAD || address < s->p_vaddr || address - s->p_vaddr >= s->p_filesz) continue;
    uint64_t into = address - s->p_vaddr;
    if (size > s->p_filesz - into) return NULL;
    if (out_left) *out_left = s->p_filesz - into;
    return tni_image_at(image, s->p_offset + into, size);
  }
  return NULL;
}

static char *map(const char *path, tni_image *image) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return tni_check_text("cannot be opened: %s", strerror(errno));
  struct stat st;
  bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
  void *bytes = regular ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (!regular) return tni_check_text("is not a regular file with something in it");
  if (bytes == MAP_FAILED) return tni_check_text("cannot be read: %s", strerror(errno));
  image->bytes = bytes;
  image->size = (size_t)st.st_size;
  return NULL;
}

static char *find_segments(tni_image *image) {
  const ElfW(Ehdr) *h = tni_image_at(image, 0, sizeof *h);
  if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return tni_check_text("is not an ELF file");
  if (h->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || h->e_type != ET_DYN)
    return tni_check_text("is not a shared object for this machine's word size");
  if (h->e_phentsize != sizeof *image->segments)
    return tni_check_text("has program headers of an unknown size");
  image->n_segments = h->e_phnum;
  image->segments = tni_image_at(image, h->e_phoff, (uint64_t)h->e_phnum * sizeof *image->segments);
  if (!image->segments || h->e_phoff % _Alignof(ElfW(Phdr)))
    return tni_check_text("is cut: its program headers lie outside the file");
  for (size_t i = 0; i < image->n_segments; i++) {
    const ElfW(Phdr) *s = &image->segments[i];
    if (s->p_filesz && !tni_image_at(image, s->p_offset, s->p_filesz))
      return tni_check_text("is cut: segment %zu lies outside the file", i);
    if (s->p_type != PT_DYNAMIC || s->p_offset % _Alignof(ElfW(Dyn))) continue;
    image->dynamic = tni_image_at(image, s->p_offset, s->p_filesz);
    image->n_dynamic = s->p_filesz / sizeof *image->dynamic;
  }
  return NULL;
}

char *tni_image_open(const char *path, tni_image *out_image) {
  *out_image = (tni_image){0};
  char *words = map(path, out_image);
  if (!words) words = find_segments(out_image);
  if (words) tni_image_close(out_image);
  return words;
}

void tni_image_close(tni_image *image) {
  if (image->bytes) munmap((void *)(uintptr_t)image->bytes, image->size);
  *image = (tni_image){0};
}

bool tni_image_dynamic(const tni_image *image, ElfW(Sxword) tag, uint64_t *out_value) {
  for (size_t i = 0; i < image->n_dynamic && image->dynamic[i].d_tag != DT_NULL; i++) {
    if (image->dynamic[i].d_tag != tag) continue;
    *out_value = image->dynamic[i].d_un.d_val;
    return true;
  }
  return false;
}

const char *tni_image_string(const tni_image *image, uint64_t offset) {
  uint64_t table, size;
  if (!tni_image_dynamic(image, DT_STRTAB, &table) || !tni_image_dynamic(image, DT_STRSZ, &size)) return NULL;
  const char *strings = tni_image_address(image, table, size, NULL);
  return strings && offset < size && memchr(strings + offset, 0, size - offset) ? strings + offset : NULL;
}

/* ------------------------------------------------------------------ notes */

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static void take_text(const char *text, size_t size, char **out_text) {
  if (*out_text) return;
  *out_text = tni_check_alloc(size + 1);
  memcpy(*out_text, text, size);
}

size_t tni_image_notes(const tni_image *image, char **out_text) {
  size_t found = 0;
  *out_text = NULL;
  for (size_t i = 0; i < image->n_segments; i++) {
    const ElfW(Phdr) *s = &image->segments[i];
    if (s->p_type != PT_NOTE) continue;
    uint64_t align = s->p_align == 8 ? 8 : 4;
    for (uint64_t at = 0; at < s->p_filesz && s->p_filesz - at >= sizeof(ElfW(Nhdr));) {
      ElfW(Nhdr) note;
      memcpy(&note, image->bytes + s->p_offset + at, sizeof note);
      uint64_t name_at = at + sizeof note, text_at = round_up(name_at + note.n_namesz, align);
      if (text_at > s->p_filesz || note.n_descsz > s->p_filesz - text_at) break;
      if (note.n_type == 1 && note.n_namesz == 6 &&
          !memcmp(image->bytes + s->p_offset + name_at, "Tenon", 6)) {
        found++;
        take_text((const char *)image->bytes + s->p_offset + text_at, note.n_descsz, out_text);
      }
      at = round_up(text_at + note.n_descsz, align);
    }
  }
  return found;
}

/* ------------------------------------------------------------------ symbols */

/* DT_HASH's chain count, or the last index that a chain of DT_GNU_HASH reaches. 0: none are hashed. */
static size_t count_hashed(const tni_image *image) {
  uint64_t address, left;
  const uint32_t *h;
  if (tni_image_dynamic(image, DT_HASH, &address) && (h = tni_image_address(image, address, 8, NULL)))
    return h[1];
  if (!tni_image_dynamic(image, DT_GNU_HASH, &address)) return 0;
  if (!(h = tni_image_address(image, address, 16, &left))) return 0;
  uint64_t n_buckets = h[0], first = h[1], bloom_words = h[2] * (uint64_t)(sizeof(void *) / 4),
           words = left / 4;
  uint64_t buckets = 4 + bloom_words, chains = buckets + n_buckets;
  if (chains > words) return 0;
  uint64_t last = 0;
  for (uint64_t i = 0; i < n_buckets; i++)
    if (h[buckets + i] > last) last = h[buckets + i];
  if (last < first) return first;
  while (chains + last - first < words && !(h[chains + last - first] & 1)) last++;
  return last + 1;
}

void tni_image_symbols(const tni_image *image,
                       void (*visit)(void *ctx, const char *name, const ElfW(Sym) * symbol), void *ctx) {
  uint64_t address;
  size_t n = count_hashed(image);
  if (!tni_image_dynamic(image, DT_SYMTAB, &address)) return;
  const ElfW(Sym) *symbols = tni_image_address(image, address, n * sizeof *symbols, NULL);
  for (size_t i = 1; symbols && i < n; i++) {
    const char *name = tni_image_string(image, symbols[i].st_name);
    if (name && *name) visit(ctx, name, &symbols[i]);
  }
}
