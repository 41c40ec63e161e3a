/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon layers`: every arrangement of the same files gives the same order, and each place is told with its reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools.h"

enum { LAYERS = 4 };

/* Links the four plugins in another order of names, the later half in a second root. */
static char *list_of(const int order[LAYERS], const char *options) {
  char root[] = TN_LAYER_WORK_DIR "/order-XXXXXX", from[512], to[512], line[2048];
  TN_CHECK_NOT_NULL(mkdtemp(root));
  snprintf(line, sizeof line, "mkdir '%s/a' '%s/b'", root, root);
  free(shell(line));
  for (int i = 0; i < LAYERS; ++i) {
    snprintf(from, sizeof from, "%s/ordered/ordered%d.so", TN_LAYER_PLUGIN_DIR, order[i] + 1);
    snprintf(to, sizeof to, "%s/%s/%d.so", root, i < LAYERS / 2 ? "b" : "a", i);
    TN_CHECK_INT(symlink(from, to), 0);
  }
  snprintf(line, sizeof line, "TENON_PLUGIN_PATH='%s/a:%s/b' " TN_TEST_CLI " layers %s 2>&1; rm -r '%s'", root, root,
           options, root);
  return shell(line);
}

TN_TEST(layer_order, is_the_same_for_every_arrangement_of_files) {
  char *first = NULL;
  for (int code = 0; code < 256; ++code) {
    int order[LAYERS] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
    unsigned seen = 1u << order[0] | 1u << order[1] | 1u << order[2] | 1u << order[3];
    if (seen != 15) continue;
    char *text = list_of(order, "--json");
    if (first) TN_CHECK_STR(text, first);
    if (first) free(text);
    if (!first) first = text;
  }
  TN_CHECK_CONTAINS(first, "\"alpha\"");
  free(first);
}

/* The line on which a layer stands; -1: on none. */
static int place_of(const char *text, const char *layer) {
  char name[64];
  for (int line = 0; *text; ++line) {
    if (sscanf(text, "%*d %63s", name) == 1 && strcmp(name, layer) == 0) return line;
    text += strcspn(text, "\n");
    text += *text != 0;
  }
  return -1;
}

TN_TEST(layer_order, is_told_with_what_decided_it) {
  char *text = list_of((const int[]){0, 1, 2, 3}, "");
  static const char *const down[] = {"front", "gamma", "alpha", "delta", "autocast", "beta", "trace", "autograd", "back"};
  for (size_t i = 0; i + 1 < sizeof down / sizeof *down; ++i)
    TN_CHECK(place_of(text, down[i]) < place_of(text, down[i + 1]));
  TN_CHECK_CONTAINS(text, "above autocast by its class; above delta, which it asks for");
  TN_CHECK_CONTAINS(text, "above trace, because its constraints leave no place where its class stands, above autocast");
  TN_CHECK_CONTAINS(text, "above autocast by its class; above alpha, by name");
  TN_CHECK_CONTAINS(text, "below autocast,gamma");
  free(text);
}

TN_TEST(layer_order, names_a_circle_and_goes_on_without_it) {
  char *text = shell("TENON_PLUGIN_PATH=" TN_LAYER_PLUGIN_DIR ":" TN_LAYER_PLUGIN_DIR
                     "/ordered " TN_TEST_CLI " layers 2>/dev/null");
  TN_CHECK_CONTAINS(text, "layer ring_b of plugin ordered-ring_b and layer ring_a of plugin ordered-ring_a stand in a "
                          "circle of above and below");
  TN_CHECK_CONTAINS(text, "by name");
  TN_CHECK(place_of(text, "keeper") > place_of(text, "transparent") && place_of(text, "ring_a") < 0);
  free(text);
}

TN_TEST(layer_order, is_listed_for_programs) {
  layers_start();
  size_t n = tn_layer_count();
  int32_t last = 64;
  bool found = false;
  for (size_t i = 0; i < n; ++i) {
    tn_layer_report r;
    TN_CHECK_OK(tn_layer_get(i, &r));
    TN_CHECK(r.bit < last || r.bit == -1);
    last = r.bit;
    if (strcmp(r.name, "keeper") != 0) continue;
    found = true;
    TN_CHECK_STR(r.plugin, "keeper");
    TN_CHECK_STR(r.class_name, "mode");
    TN_CHECK(!r.on);
  }
  tn_layer_report r;
  TN_CHECK(found);
  TN_CHECK_FAILS(tn_layer_get(n, &r), TN_ERR_INVALID_ARGUMENT, "there are");
  TN_CHECK_FAILS(tn_layer_get(0, NULL), TN_ERR_INVALID_ARGUMENT, "out_report is NULL");
}
