/* SPDX-License-Identifier: Apache-2.0
 *
 * Three vendors' backends and the cpu in one process, opened in every order: the same names, the same results, copies
 * between each pair of their seven devices; tensors saved on one and loaded onto another. And what a trace holds of a
 * device that tells time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "tn_test.h"

static folder three(void) {
  folder f = folder_make();
  folder_add(&f, "amber");
  folder_add(&f, "birch");
  folder_add(&f, "cedar");
  return f;
}

/* The lines behind those that tell what was opened, which come in the order of opening. */
static char *results(const folder *f, const char *order) {
  char commands[256];
  snprintf(commands, sizeof commands, "%s pairs", order);
  char *answer = probe_devices(f->path, commands), *begin = strstr(answer, "pairs:");
  TN_CHECK_NOT_NULL(begin);
  TN_CHECK(strstr(answer, "error") == NULL);
  char *copy = strdup(begin);
  TN_CHECK_NOT_NULL(copy);
  free(answer);
  return copy;
}

TN_TEST(load_many, three_backends_beside_the_cpu_in_every_order) {
  static const char *const orders[] = {
      "open cpu open amber open birch open cedar", "open amber open cpu open cedar open birch",
      "open birch open amber open cpu open cedar", "open birch open cedar open amber open cpu",
      "open cedar open cpu open amber open birch", "open cedar open birch open amber open cpu"};
  folder f = three();
  char *first = results(&f, orders[0]);
  TN_CHECK_CONTAINS(first, "pairs: 49 copies, 7 sums\n");
  TN_CHECK_CONTAINS(first, "cpu amber:0 amber:1 birch:0 birch:1 cedar:0 cedar:1\n");
  for (size_t i = 1; i < sizeof orders / sizeof *orders; ++i) {
    char *other = results(&f, orders[i]);
    TN_CHECK_STR(other, first);
    free(other);
  }
  free(first);
  folder_remove(&f);
}

TN_TEST(load_many, a_trace_has_a_track_for_a_device_that_tells_time) {
  folder f = three();
  char commands[800], path[600], *text = NULL;
  snprintf(path, sizeof path, "%s/trace.json", f.path);
  snprintf(commands, sizeof commands, "trace '%s' add amber add birch", path);
  free(probe_devices(f.path, commands));
  FILE *file = fopen(path, "r");
  TN_CHECK_NOT_NULL(file);
  size_t capacity = 0;
  ssize_t n = getdelim(&text, &capacity, 0, file);
  fclose(file);
  TN_CHECK(n > 0);
  TN_CHECK_CONTAINS(text, "\"device amber");
  TN_CHECK_CONTAINS(text, "\"device birch");
  TN_CHECK_CONTAINS(text, "\"default stream\"");
  TN_CHECK_CONTAINS(text, "{\"ph\":\"X\",\"name\":\"add.Tensor\",\"cat\":\"device\"");
  free(text);
  folder_remove(&f);
}

TN_TEST(load_many, what_one_device_saves_another_loads) {
  folder f = three();
  folder_add(&f, "opaque");
  char commands[2400], path[600];
  snprintf(path, sizeof path, "%s/saved.safetensors", f.path);
  snprintf(commands, sizeof commands, "carry glass:1 '%s' amber carry birch:1 '%s' slate carry cpu '%s' glass", path, path,
           path);
  char *answer = probe_devices(f.path, commands);
  TN_CHECK_CONTAINS(answer, "carry glass:1 amber: 1 4 2 5 3 6\n");
  TN_CHECK_CONTAINS(answer, "carry birch:1 slate: 1 4 2 5 3 6\n");
  TN_CHECK_CONTAINS(answer, "carry cpu glass: 1 4 2 5 3 6\n");
  free(answer);
  folder_remove(&f);
}
