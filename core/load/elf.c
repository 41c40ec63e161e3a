/* SPDX-License-Identifier: Apache-2.0
 *
 * Is this file a shared object for this process, whole, and what does its Tenon note say? Answered with pread
 * alone: nothing is mapped and no code of the file runs.
 *
 * Every segment must lie inside the file before anyone may dlopen it: the C library maps a truncated file
 * without complaint and the process dies with SIGBUS at the first touch of a missing page.
 * Only the headers and the note segments are read, so a start-up with many large plugins stays cheap.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/load/load_int.h"

typedef ElfW(Ehdr) elf_header;
typedef ElfW(Phdr) elf_segment;
typedef ElfW(Nhdr) elf_note;

#if __SIZEOF_POINTER__ == 8
enum { HOST_CLASS = ELFCLASS64, HOST_BITS = 64 };
#else
enum { HOST_CLASS = ELFCLASS32, HOST_BITS = 32 };
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { HOST_DATA = ELFDATA2LSB };
#else
enum { HOST_DATA = ELFDATA2MSB };
#endif
#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
#elif defined(__riscv)
enum { HOST_MACHINE = EM_RISCV };
#elif defined(__powerpc64__)
enum { HOST_MACHINE = EM_PPC64 };
#elif defined(__s390x__)
enum { HOST_MACHINE = EM_S390 };
#elif defined(__i386__)
enum { HOST_MACHINE = EM_386 };
#elif defined(__arm__)
enum { HOST_MACHINE = EM_ARM };
#else
#error "core/load/elf.c does not know this machine's ELF number"
#endif

/* A manifest of an operator library with thousands of lines is far below; a larger note is a broken file. */
enum { NOTES_MAX_BYTES = 4 << 20 };

static const char *machine_name(unsigned machine) {
  switch (machine) {
    case EM_386: return "x86";
    case EM_ARM: return "ARM";
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "AArch64";
    case EM_RISCV: return "RISC-V";
    case EM_PPC64: return "PowerPC64";
    case EM_S390: return "S/390";
    default: return "unknown";
  }
}

/* Reads exactly n bytes. */
static tn_status read_at(int fd, void *buffer, size_t n, uint64_t offset) {
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(fd, (char *)buffer + done, n - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return TN_FAIL(TN_ERR_IO, "cannot be read: %s", strerror(errno));
    if (got == 0)
      return TN_FAIL(TN_ERR_DATA, "file ended at byte %zu while it was read", (size_t)offset + done);
    done += (size_t)got;
  }
  return TN_OK;
}

static tn_status fail_not_elf(const unsigned char *start, size_t n) {
  char shown[4 * 4 + 1] = "";
  for (size_t i = 0; i < n && i < 4; ++i) {
    bool plain = start[i] >= 32 && start[i] < 127 && start[i] != '"' && start[i] != '\\';
    snprintf(shown + strlen(shown), sizeof shown - strlen(shown), plain ? "%c" : "\\x%02x", start[i]);
  }
  return TN_FAIL(TN_ERR_DATA, "not an ELF file (begins with \"%s\")", shown);
}

static tn_status check_header(const elf_header *h, uint64_t file_size) {
  const unsigned char *id = h->e_ident;
  if (id[EI_CLASS] != HOST_CLASS)
    return TN_FAIL(TN_ERR_DATA, "ELF class %d, this process needs class %d (%d-bit)", id[EI_CLASS],
                   HOST_CLASS, HOST_BITS);
  if (id[EI_DATA] != HOST_DATA)
    return TN_FAIL(TN_ERR_DATA, "ELF byte order %d, this process needs %d", id[EI_DATA], HOST_DATA);
  if (h->e_machine != HOST_MACHINE)
    return TN_FAIL(TN_ERR_DATA, "built for machine %d (%s), this is %s", h->e_machine,
                   machine_name(h->e_machine), machine_name(HOST_MACHINE));
  if (h->e_type != ET_DYN)
    return TN_FAIL(TN_ERR_DATA, "ELF type %d, a shared object has type %d", h->e_type, ET_DYN);
  if (h->e_phnum == 0) return TN_FAIL(TN_ERR_DATA, "no program headers: nothing that could be loaded");
  if (h->e_phentsize != sizeof(elf_segment))
    return TN_FAIL(TN_ERR_DATA, "program headers of %d bytes each, expected %zu", h->e_phentsize,
                   sizeof(elf_segment));
  uint64_t bytes = (uint64_t)h->e_phnum * sizeof(elf_segment);
  if (h->e_phoff > file_size || bytes > file_size - h->e_phoff)
    return TN_FAIL(TN_ERR_DATA, "truncated: program headers of %llu bytes at byte %llu, the file has %llu",
                   (unsigned long long)bytes, (unsigned long long)h->e_phoff, (unsigned long long)file_size);
  return TN_OK;
}

static tn_status check_segments(const elf_segment *segments, size_t n, uint64_t file_size) {
  for (size_t i = 0; i < n; ++i) {
    const elf_segment *s = &segments[i];
    if (s->p_type == PT_NULL || s->p_filesz == 0) continue;
    uint64_t end = (uint64_t)s->p_offset + s->p_filesz;
    if (end < s->p_offset) return TN_FAIL(TN_ERR_DATA, "segment %zu ends beyond 2^64", i);
    if (end > file_size)
      return TN_FAIL(TN_ERR_DATA, "truncated: segment %zu ends at byte %llu, the file has %llu", i,
                     (unsigned long long)end, (unsigned long long)file_size);
    if (s->p_type == PT_LOAD && s->p_filesz > s->p_memsz)
      return TN_FAIL(TN_ERR_DATA, "segment %zu has %llu bytes in the file for %llu in memory", i,
                     (unsigned long long)s->p_filesz, (unsigned long long)s->p_memsz);
  }
  return TN_OK;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Looks for the note in one segment's bytes; *out_text stays NULL if it is not there. */
static tn_status find_note(const char *bytes, size_t size, size_t align, char **out_text) {
  static const char owner[] = "Tenon";
  size_t at = 0;
  while (at + sizeof(elf_note) <= size) {
    elf_note note;
    memcpy(&note, bytes + at, sizeof note);
    size_t name_at = at + sizeof note;
    if (note.n_namesz > size - name_at)
      return TN_FAIL(TN_ERR_DATA, "note at byte %zu overruns its segment", at);
    size_t desc_at = round_up(name_at + note.n_namesz, align);
    if (desc_at > size || note.n_descsz > size - desc_at)
      return TN_FAIL(TN_ERR_DATA, "note at byte %zu overruns its segment", at);
    if (note.n_type == 1 && note.n_namesz == sizeof owner &&
        memcmp(bytes + name_at, owner, sizeof owner) == 0) {
      char *text = tni_alloc((size_t)note.n_descsz + 1);
      if (!text) return tni_oom((size_t)note.n_descsz + 1, "a manifest");
      memcpy(text, bytes + desc_at, note.n_descsz);
      text[note.n_descsz] = 0;
      *out_text = text;
      return TN_OK;
    }
    at = round_up(desc_at + note.n_descsz, align);
  }
  return TN_OK;
}

static tn_status read_notes(int fd, const elf_segment *s, char **out_text) {
  if (s->p_filesz > NOTES_MAX_BYTES)
    return TN_FAIL(TN_ERR_DATA, "note segment of %llu bytes; more than %d is not a manifest",
                   (unsigned long long)s->p_filesz, NOTES_MAX_BYTES);
  size_t size = (size_t)s->p_filesz;
  char *bytes = tni_alloc(size);
  if (!bytes) return tni_oom(size, "ELF notes");
  tn_status status = read_at(fd, bytes, size, s->p_offset);
  if (status == TN_OK) status = find_note(bytes, size, s->p_align == 8 ? 8 : 4, out_text);
  tni_free(bytes);
  return status;
}

static tn_status read_text(int fd, const elf_segment *segments, size_t n, uint64_t file_size,
                           char **out_text) {
  TN_TRY(check_segments(segments, n, file_size));
  for (size_t i = 0; i < n && !*out_text; ++i)
    if (segments[i].p_type == PT_NOTE && segments[i].p_filesz) TN_TRY(read_notes(fd, &segments[i], out_text));
  if (!*out_text) return TN_FAIL(TN_ERR_DATA, "no Tenon manifest note: not a Tenon plugin");
  return TN_OK;
}

tn_status tni_elf_read(int fd, char **out_text) {
  *out_text = NULL;
  struct stat st;
  if (fstat(fd, &st) != 0) return TN_FAIL(TN_ERR_IO, "cannot be examined: %s", strerror(errno));
  uint64_t file_size = (uint64_t)st.st_size;
  if (file_size == 0) return TN_FAIL(TN_ERR_DATA, "file is empty");
  elf_header header = {0};
  size_t have = file_size < sizeof header ? (size_t)file_size : sizeof header;
  TN_TRY(read_at(fd, &header, have, 0));
  if (have < SELFMAG || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return fail_not_elf(header.e_ident, have);
  if (have < sizeof header)
    return TN_FAIL(TN_ERR_DATA, "truncated: an ELF header has %zu bytes, the file has %zu", sizeof header,
                   have);
  TN_TRY(check_header(&header, file_size));
  size_t bytes = header.e_phnum * sizeof(elf_segment);
  elf_segment *segments = tni_alloc(bytes);
  if (!segments) return tni_oom(bytes, "ELF program headers");
  tn_status status = read_at(fd, segments, bytes, header.e_phoff);
  if (status == TN_OK) status = read_text(fd, segments, header.e_phnum, file_size, out_text);
  tni_free(segments);
  return status;
}
