/* SPDX-License-Identifier: Apache-2.0
 *
 * The last line of a command in which operators ran on the CPU in place of a device, on stderr: silence would let a
 * user take the CPU's speed for the device's.
 */
#include <stdint.h>

#include "frontends/cli/cli.h"

enum { NAMED = 3 }; /* operators that the line names, most bytes first */

static uint64_t bytes_of(const tn_fallback_report *r) { return r->bytes_to_host + r->bytes_from_host; }

/* By device, then bytes, then calls, downwards. */
static int order(const void *a, const void *b) {
  const tn_fallback_report *x = a, *y = b;
  int device = strcmp(x->device, y->device);
  if (device) return device;
  if (bytes_of(x) != bytes_of(y)) return bytes_of(x) > bytes_of(y) ? -1 : 1;
  return x->calls == y->calls ? 0 : x->calls > y->calls ? -1 : 1;
}

/* reports[0 .. n) are of one device. */
static void print_device(const tn_fallback_report *reports, size_t n) {
  uint64_t calls = 0, bytes = 0;
  for (size_t i = 0; i < n; i++) {
    calls += reports[i].calls;
    bytes += bytes_of(&reports[i]);
  }
  fprintf(stderr, "tenon: %s: %zu operator%s ran on the CPU %llu times, %.1f MB moved:", reports->device, n,
          n == 1 ? "" : "s", (unsigned long long)calls, (double)bytes / 1e6);
  for (size_t i = 0; i < n && i < NAMED; i++)
    fprintf(stderr, "%s %s %llu times, %.1f MB", i ? ";" : "", reports[i].op,
            (unsigned long long)reports[i].calls, (double)bytes_of(&reports[i]) / 1e6);
  fprintf(stderr, n > NAMED ? "; ...\n" : "\n");
}

void tni_cli_fallback_line(void) {
  size_t n = tn_fallback_count(), used = 0;
  tn_fallback_report *reports = n ? malloc(n * sizeof *reports) : NULL;
  if (!reports) return;
  for (size_t i = 0; i < n; i++)
    if (tn_fallback_report_get(i, &reports[used]) == TN_OK && reports[used].calls) used++;
  qsort(reports, used, sizeof *reports, order);
  for (size_t begin = 0, end; begin < used; begin = end) {
    for (end = begin + 1; end < used && strcmp(reports[end].device, reports[begin].device) == 0;) end++;
    print_device(&reports[begin], end - begin);
  }
  free(reports);
}
