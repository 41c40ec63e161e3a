/* SPDX-License-Identifier: Apache-2.0
 *
 * See tools.h.
 */
#include "frontends/check/tools.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/sanitizer.h>
#include <time.h>
#include <unistd.h>

static void *must(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "tenon check: out of memory\n");
  exit(TNI_EXIT_USAGE);
}

void *tni_check_alloc(size_t size_bytes) { return must(calloc(1, size_bytes ? size_bytes : 1)); }

char *tni_check_vtext(const char *format, va_list args) {
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) text = NULL;
  return must(text);
}

char *tni_check_text(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = tni_check_vtext(format, args);
  va_end(args);
  return text;
}

void tni_check_grow(void *array_pointer, size_t count, size_t item_bytes) {
  if (count & (count - 1)) return;
  void *array;
  memcpy(&array, array_pointer, sizeof array);
  array = must(realloc(array, (count ? 2 * count : 1) * item_bytes));
  memcpy(array_pointer, &array, sizeof array);
}

const char *tni_check_self(void) {
  static char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  return path;
}

double tni_check_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int tni_check_patience(int seconds) { return TN_SANITIZER_HERE == TN_SANITIZER_NONE ? seconds : 6 * seconds; }
