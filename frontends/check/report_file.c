/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two machine forms share: a file that appears whole or not at all, and text that is valid UTF-8.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontends/check/report.h"
#include "frontends/check/tools.h"

FILE *tni_report_open(const char *path, char **out_temporary, char **out_words) {
  *out_temporary = tni_check_text("%s.%ld.tmp", path, (long)getpid());
  FILE *file = fopen(*out_temporary, "w");
  if (file) return file;
  *out_words = tni_check_text("%s: %s", *out_temporary, strerror(errno));
  free(*out_temporary);
  return NULL;
}

char *tni_report_close(FILE *file, char *temporary, const char *path) {
  bool bad = fflush(file) != 0 || ferror(file);
  bad = fclose(file) != 0 || bad;
  char *words = NULL;
  if (bad || rename(temporary, path) != 0) {
    words = tni_check_text("%s could not be written: %s", path, strerror(errno));
    unlink(temporary);
  }
  free(temporary);
  return words;
}

/* Length of the UTF-8 sequence at s, 0 if it is none. */
static size_t sequence(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
  bool surrogate = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
  return overlong || surrogate ? 0 : n;
}

void tni_report_utf8(const char *text, void (*out)(void *ctx, const char *bytes, size_t n), void *ctx) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    size_t n = sequence(s);
    if (n)
      out(ctx, (const char *)s, n);
    else
      out(ctx, "\xEF\xBF\xBD", 3);
    s += n ? n : 1;
  }
}
