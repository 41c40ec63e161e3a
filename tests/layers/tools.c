/* SPDX-License-Identifier: Apache-2.0
 *
 * See tools.h.
 */
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void layers_start(void) {
  setenv("TENON_PLUGIN_PATH", TN_LAYER_PLUGIN_DIR ":" TN_LOAD_PLUGIN_DIR, 1);
  TN_CHECK_OK(tn_init());
}

tn_tensor *row(const float *values, tn_dim n) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1, NULL, &t));
  return t;
}

char *shell(const char *line) {
  FILE *pipe = popen(line, "r");
  TN_CHECK_NOT_NULL(pipe);
  size_t length = 0, room = 4096;
  char *text = malloc(room);
  while (text) {
    size_t n = fread(text + length, 1, room - length - 1, pipe);
    if (!n) break;
    length += n;
    if (length + 1 < room) continue;
    room *= 2;
    text = realloc(text, room);
  }
  pclose(pipe);
  TN_CHECK_NOT_NULL(text);
  text[length] = 0;
  return text;
}
