/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of damage.h. A byte takes each value at a distance of one bit and those that flip decisions: digits,
 * quotes, blanks, ends. The file is in memory (thousands of them are read).
 */
#include "damage.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t read_it(const char *path, size_t size, tt_read_fn fn) {
  tn_error_clear();
  tn_status status = fn(path, size);
  if (status == TN_OK) return 0;
  TN_CHECK(status == TN_ERR_DATA || status == TN_ERR_UNSUPPORTED || status == TN_ERR_OUT_OF_MEMORY);
  TN_CHECK_CONTAINS(tn_error_message(), path);
  return 1;
}

static size_t change_byte(int fd, const char *path, const unsigned char *data, size_t size, size_t at,
                          tt_read_fn fn) {
  static const unsigned char values[] = {0, 0xFF, '0', '9', '"', ' ', ',', '}'};
  size_t refused = 0;
  for (size_t v = 0; v < sizeof values + 8; v++) {
    unsigned char c = v < sizeof values ? values[v] : (unsigned char)(data[at] ^ 1u << (v - sizeof values));
    if (c == data[at]) continue;
    TN_CHECK_INT(pwrite(fd, &c, 1, (off_t)at), 1);
    refused += read_it(path, size, fn);
  }
  TN_CHECK_INT(pwrite(fd, data + at, 1, (off_t)at), 1);
  return refused;
}

size_t tt_damage(const void *data, size_t size_bytes, tt_read_fn fn) {
  char path[64];
  size_t refused = 0;
  int fd = memfd_create("damaged", MFD_CLOEXEC);
  TN_CHECK(fd >= 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  TN_CHECK_INT(pwrite(fd, data, size_bytes, 0), size_bytes);
  for (size_t i = 0; i < size_bytes; i++) refused += change_byte(fd, path, data, size_bytes, i, fn);
  for (size_t n = size_bytes; n-- > 0;) {
    TN_CHECK_INT(ftruncate(fd, (off_t)n), 0);
    refused += read_it(path, n, fn);
  }
  close(fd);
  return refused;
}
