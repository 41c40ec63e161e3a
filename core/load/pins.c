/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 pins: lists of which content a plugin file must have, as sha256sum writes them ("HEX  NAME" a line; `#`
 * begins a remark). A root that has a file plugins.sha256 uses nothing that is not listed there; the file that
 * TENON_PLUGIN_PINS names says the same for all roots of TENON_PLUGIN_PATH, by file name or absolute path.
 *
 * The content is hashed when the plugin is opened and not at start, through the descriptor that was examined; after
 * dlopen the mapped file is compared with it by device, inode, size and times (dl_posix.c).
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/load/load_int.h"

enum { PINS_MOST = 16 << 20, HEX = 64 };

/* ------------------------------------------------------------------ reading */

static tn_status read_file(int fd, const char *path, char **out_text) {
  struct stat st;
  if (fstat(fd, &st) != 0) return TN_FAIL(TN_ERR_IO, "%s: %s", path, strerror(errno));
  TN_TRY(tni_owner_check(path, &st));
  if (!S_ISREG(st.st_mode) || st.st_size > PINS_MOST)
    return TN_FAIL(TN_ERR_IO, "%s is not a file of at most %d bytes", path, PINS_MOST);
  char *text = tni_alloc((size_t)st.st_size + 1);
  if (!text) return tni_oom((size_t)st.st_size + 1, "pins");
  *out_text = text;
  text[st.st_size] = 0;
  if (tni_pread_all(fd, text, (size_t)st.st_size, 0)) return TN_OK;
  return TN_FAIL(TN_ERR_IO, "%s cannot be read: %s", path, strerror(errno));
}

static tn_status check_lines(const char *path, const char *text) {
  size_t number = 1;
  for (const char *line = text; *line; ++number) {
    size_t n = strcspn(line, "\n"), hex = strspn(line, "0123456789abcdef");
    bool blank = strspn(line, " \t\r") >= n || *line == '#';
    if (!blank && (hex != HEX || n < HEX + 3 || line[HEX] != ' '))
      return TN_FAIL(TN_ERR_DATA, "%s, line %zu: expected 64 hex digits, two blanks and a name", path, number);
    line += n + (line[n] == '\n');
  }
  return TN_OK;
}

tn_status tni_pins_read(const char *path, char **out_text) {
  *out_text = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return TN_OK;
  if (fd < 0) return TN_FAIL(TN_ERR_IO, "%s: %s", path, strerror(errno));
  tn_status status = read_file(fd, path, out_text);
  close(fd);
  if (status == TN_OK) status = check_lines(path, *out_text);
  if (status != TN_OK) {
    tni_free(*out_text);
    *out_text = NULL;
  }
  return status;
}

/* ------------------------------------------------------------------ looking up */

/* The hex digits of the line for a file; NULL: not listed. */
static const char *find_pin(const char *text, const tni_plugin *p) {
  for (const char *line = text; *line;) {
    size_t n = strcspn(line, "\n");
    if (n > HEX + 2 && *line != '#') {
      const char *name = line + HEX + 2; /* behind "  " or " *" */
      size_t length = n - HEX - 2;
      while (length && isspace((unsigned char)name[length - 1])) --length;
      if (length > 2 && strncmp(name, "./", 2) == 0) name += 2, length -= 2;
      const char *whole = name[0] == '/' ? p->path : p->file;
      if (strlen(whole) == length && strncmp(whole, name, length) == 0) return line;
    }
    line += n + (line[n] == '\n');
  }
  return NULL;
}

tn_status tni_pins_take(const char *text, const char *path, tni_plugin *p) {
  const char *line = find_pin(text, p);
  if (!line) return TN_FAIL(TN_ERR_IO, "%s does not list it; files of a root with pins must be listed", path);
  p->pin = tni_alloc(HEX + 1);
  if (!p->pin) return tni_oom(HEX + 1, "a pin");
  memcpy(p->pin, line, HEX);
  p->pin[HEX] = 0;
  return TN_OK;
}

tn_status tni_pins_check(const tni_plugin *p, int fd) {
  char hex[65];
  if (!p->pin) return TN_OK;
  TN_TRY(tni_file_hash(fd, hex));
  if (strcmp(hex, p->pin) == 0) return TN_OK;
  return TN_FAIL(TN_ERR_IO, "its SHA-256 is %s, pinned is %s: the file was changed", hex, p->pin);
}
