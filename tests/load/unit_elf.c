/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin's file, cut at every length and changed at every byte of its headers and note: each reading is a
 * manifest or a sentence, never a crash or a read outside the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/load/load_int.h"
#include "tn_test.h"

typedef struct file {
  char *bytes;
  size_t size;
  FILE *copy;
} file;

static file read_toy(void) {
  file f = {0};
  FILE *from = fopen(TN_LOAD_PLUGIN_DIR "/toy.so", "rb");
  TN_CHECK_NOT_NULL(from);
  TN_CHECK_INT(fseek(from, 0, SEEK_END), 0);
  f.size = (size_t)ftell(from);
  rewind(from);
  f.bytes = malloc(f.size);
  TN_CHECK_INT(fread(f.bytes, 1, f.size, from), f.size);
  fclose(from);
  f.copy = tmpfile();
  TN_CHECK_NOT_NULL(f.copy);
  TN_CHECK_INT(pwrite(fileno(f.copy), f.bytes, f.size, 0), f.size);
  return f;
}

static void done(file *f) {
  free(f->bytes);
  fclose(f->copy);
}

static void write_byte(const file *f, size_t at, char value) {
  TN_CHECK_INT(pwrite(fileno(f->copy), &value, 1, (off_t)at), 1);
}

/* Reads the copy; true if a manifest came out. */
static bool reads(const file *f) {
  char *text;
  tni_manifest *m = NULL;
  tn_status status = tni_elf_read(fileno(f->copy), &text);
  if (status == TN_OK) status = tni_manifest_parse(text, &m);
  TN_CHECK((m != NULL) == (status == TN_OK));
  if (status != TN_OK) TN_CHECK(*tn_error_message());
  tni_manifest_free(m);
  return status == TN_OK;
}

/* The note's place: where the text "tenon 1" stands. */
static size_t find_note(const file *f) {
  static const char start[] = "tenon 1\nname toy";
  for (size_t i = 0; i + sizeof start < f->size; ++i)
    if (memcmp(f->bytes + i, start, sizeof start - 1) == 0) return i;
  tn_test_fail(__FILE__, __LINE__, "the toy has no note");
}

TN_TEST(elf, a_changed_header_is_a_sentence) {
  file f = read_toy();
  TN_CHECK(reads(&f));
  static const char values[] = {0, 1, 0x7f, (char)0x80, (char)0xff};
  size_t headers = 64 + 56 * (size_t)(unsigned char)f.bytes[56];
  for (size_t at = 0; at < headers; ++at) {
    for (size_t i = 0; i < sizeof values; ++i) {
      write_byte(&f, at, values[i]);
      (void)reads(&f);
    }
    write_byte(&f, at, f.bytes[at]);
  }
  TN_CHECK(reads(&f));
  done(&f);
}

TN_TEST(elf, a_changed_note_is_a_sentence) {
  file f = read_toy();
  size_t note = find_note(&f);
  for (size_t at = note - 20; at < note + 300; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      write_byte(&f, at, (char)(f.bytes[at] ^ (1 << bit)));
      (void)reads(&f);
    }
    write_byte(&f, at, f.bytes[at]);
  }
  TN_CHECK(reads(&f));
  done(&f);
}

TN_TEST(elf, every_cut_before_the_last_segment_is_found) {
  file f = read_toy();
  size_t end = 0;
  for (size_t i = 0; i < (unsigned char)f.bytes[56]; ++i) {
    uint64_t offset, size;
    memcpy(&offset, f.bytes + 64 + 56 * i + 8, 8);
    memcpy(&size, f.bytes + 64 + 56 * i + 32, 8);
    if (size && offset + size > end) end = offset + size;
  }
  TN_CHECK(end > 0 && end <= f.size);
  for (size_t keep = end; keep-- > 0;) {
    TN_CHECK_INT(ftruncate(fileno(f.copy), (off_t)keep), 0);
    TN_CHECK(!reads(&f));
  }
  done(&f);
}
