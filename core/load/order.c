/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of layers, solved once over all manifests, before the first tensor exists.
 *
 * The core's anchors (back, autograd, trace, autocast, front) cut the layer bits into four regions. A layer's
 * class names its region; `above` and `below` narrow it and order it against other layers. Solved in steps:
 * bounds spread along the constraints, then layers are taken lowest first, ties broken by name, so that the
 * result is the same in every run and for every load order. Within a region the layers are spread.
 * Who cannot be placed is rejected with the constraint that failed, and the rest is solved again.
 * What decided each place is kept in words beside it, for `tenon layers`.
 */
#include <stdio.h>

#include "core/load/load_int.h"

enum { REGIONS = 4 };
static const unsigned anchors[REGIONS + 1] = {TNI_BIT_BACK, TNI_BIT_AUTOGRAD, TNI_BIT_TRACE, TNI_BIT_AUTOCAST,
                                              TNI_BIT_FRONT};
static const char *const anchor_names[REGIONS + 1] = {"back", "autograd", "trace", "autocast", "front"};

typedef struct node {
  tni_plugin *plugin;
  tni_manifest_layer *layer;
  int least, most; /* regions */
  int region;
  unsigned bit; /* 0: none yet */
  size_t waits; /* layers below it that are not placed yet */
  bool placed;
} node;

typedef struct graph {
  node *nodes;
  size_t count, capacity;
  node **order;  /* lowest first */
  bool *reaches; /* [k * count + i]: order[k] must stand below order[i], by whatever steps */
} graph;

static bool has_item(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *item = list; *item;) {
    size_t length = strcspn(item, ",");
    if (length == n && strncmp(item, name, n) == 0) return true;
    item += length;
    if (*item) ++item;
  }
  return false;
}

/* Must a stand below b? */
static bool stands_below(const node *a, const node *b) {
  return a != b && (has_item(b->layer->above, a->layer->name) || has_item(a->layer->below, b->layer->name));
}

static tn_status reject(node *n, const char *words, const char *other) {
  tn_fail(TN_ERR_DATA, "layer %s: %s%s", n->layer->name, words, other);
  tni_plugin_set(n->plugin, TN_PLUGIN_REJECTED);
  tn_log(TN_LOG_WARN, "plugin %s: %s", n->plugin->path, tni_plugin_reason(n->plugin));
  return TN_ERR_DATA;
}

/* ------------------------------------------------------------------ collecting */

static bool is_anchor(const char *name) {
  return strcmp(name, "trace") == 0 || strcmp(name, "autocast") == 0;
}

/* An anchor's bit is the lower end of its region. */
static int region_of(unsigned bit) {
  int region = 0;
  while (region + 1 < REGIONS && bit >= anchors[region + 1]) ++region;
  return region;
}

static tn_status add_node(graph *g, tni_plugin *p, tni_manifest_layer *layer) {
  node n = {.plugin = p, .layer = layer, .least = 0, .most = REGIONS - 1};
  if (tni_key_reserved(layer->name) ||
      (tni_key_find(layer->name) >= 0 && tni_key_find(layer->name) < TN_BACKEND_LIMIT))
    return reject(&n, "the name is a key of the core", "");
  for (size_t i = 0; i < g->count; ++i)
    if (strcmp(g->nodes[i].layer->name, layer->name) == 0)
      return reject(&n, "the name is taken by ", g->nodes[i].plugin->path);
  for (int i = 0; i <= REGIONS; ++i) {
    if (has_item(layer->above, anchor_names[i]) && i > n.least) n.least = i;
    if (has_item(layer->below, anchor_names[i]) && i - 1 < n.most) n.most = i - 1;
  }
  int bit = tni_key_find(layer->name);
  if (bit >= 0) {
    n.bit = (unsigned)bit;
    n.least = n.most = region_of(n.bit);
  }
  TN_TRY(tni_grow(&g->nodes, &g->capacity, g->count, sizeof n));
  g->nodes[g->count++] = n;
  return TN_OK;
}

/* TN_ERR_DATA: a plugin was rejected; collect again. */
static tn_status collect(graph *g, const tni_plugin_list *list) {
  g->count = 0;
  for (size_t i = 0; i < list->count; ++i) {
    tni_plugin *p = list->items[i];
    if (tni_plugin_state(p) != TN_PLUGIN_LOADABLE) continue;
    for (size_t k = 0; k < p->manifest->layers.count; ++k)
      TN_TRY(add_node(g, p, &p->manifest->layers.items[k]));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ solving */

/* Lowest first; among the ready ones the smallest name. What is left over stands in a circle. */
static tn_status sort_nodes(graph *g) {
  for (size_t i = 0; i < g->count; ++i)
    for (size_t k = 0; k < g->count; ++k) g->nodes[i].waits += stands_below(&g->nodes[k], &g->nodes[i]);
  for (size_t done = 0; done < g->count; ++done) {
    node *best = NULL;
    for (size_t i = 0; i < g->count; ++i) {
      node *n = &g->nodes[i];
      if (n->placed || n->waits) continue;
      if (!best || strcmp(n->layer->name, best->layer->name) < 0) best = n;
    }
    if (!best) return TN_ERR_DATA;
    best->placed = true;
    g->order[done] = best;
    for (size_t i = 0; i < g->count; ++i) g->nodes[i].waits -= stands_below(best, &g->nodes[i]);
  }
  return TN_OK;
}

/* A layer that nothing unplaced stands below any more cannot be in the circle's way: walk down from any rest
 * until a node repeats, and reject every plugin of that circle. */
static tn_status reject_circle(graph *g) {
  node *at = NULL;
  for (size_t i = 0; i < g->count && !at; ++i)
    if (!g->nodes[i].placed) at = &g->nodes[i];
  for (size_t step = 0; step < 2 * g->count; ++step) {
    node *next = NULL;
    for (size_t i = 0; i < g->count && !next; ++i)
      if (!g->nodes[i].placed && stands_below(&g->nodes[i], at)) next = &g->nodes[i];
    /* The second half of the walk runs along the circle. */
    if (step >= g->count && tni_plugin_state(next->plugin) != TN_PLUGIN_REJECTED) {
      tn_fail(TN_ERR_DATA,
              "layer %s of plugin %s and layer %s of plugin %s stand in a circle of above and below",
              next->layer->name, next->plugin->name, at->layer->name, at->plugin->name);
      tni_plugin_set(next->plugin, TN_PLUGIN_REJECTED);
      tn_log(TN_LOG_WARN, "plugin %s: %s", next->plugin->path, tni_plugin_reason(next->plugin));
    }
    at = next;
  }
  return TN_ERR_DATA;
}

/* What stands below an anchor stands in a lower region. */
static int most_below(const node *n) { return is_anchor(n->layer->name) ? n->most - 1 : n->most; }

/* Bounds spread upwards and downwards, then each layer takes its class's region or the nearest allowed one. */
static tn_status find_regions(graph *g) {
  for (size_t i = 0; i < g->count; ++i)
    for (size_t k = 0; k < i; ++k)
      if (stands_below(g->order[k], g->order[i]) && g->order[k]->least > g->order[i]->least)
        g->order[i]->least = g->order[k]->least;
  for (size_t i = g->count; i-- > 0;)
    for (size_t k = i + 1; k < g->count; ++k)
      if (stands_below(g->order[i], g->order[k]) && most_below(g->order[k]) < g->order[i]->most)
        g->order[i]->most = most_below(g->order[k]);
  for (size_t i = 0; i < g->count; ++i) {
    node *n = g->order[i];
    if (n->least > n->most)
      return reject(n, "its above and below leave no place between the core's layers", "");
    n->region = n->layer->class_ < n->least  ? n->least
                : n->layer->class_ > n->most ? n->most
                                             : n->layer->class_;
    for (size_t k = 0; k < i; ++k)
      if (stands_below(g->order[k], n) && g->order[k]->region > n->region) n->region = g->order[k]->region;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ bits */

/* The places between which n must stand: its region, cut by the placed layers that it must be above or below. */
static void find_gap(const graph *g, size_t at, unsigned *out_low, unsigned *out_high) {
  *out_low = anchors[g->order[at]->region];
  *out_high = anchors[g->order[at]->region + 1];
  for (size_t k = 0; k < g->count; ++k) {
    unsigned bit = g->order[k]->bit;
    if (!bit) continue;
    if (g->reaches[k * g->count + at] && bit > *out_low) *out_low = bit;
    if (g->reaches[at * g->count + k] && bit < *out_high) *out_high = bit;
  }
}

/* A free bit between low and high that leaves room for `more` layers; 0 if there is none. */
static unsigned pick_bit(unsigned low, unsigned high, unsigned more) {
  if (low + 1 >= high) return 0;
  unsigned target = low + (high - low) / (more + 2);
  if (target == low) target = low + 1;
  for (unsigned bit = target; bit < high; ++bit)
    if (!tni_key_name(bit)) return bit;
  for (unsigned bit = target - 1; bit > low; --bit)
    if (!tni_key_name(bit)) return bit;
  return 0;
}

static unsigned count_unplaced(const graph *g, size_t from, int region) {
  unsigned n = 0;
  for (size_t i = from; i < g->count; ++i) n += !g->order[i]->bit && g->order[i]->region == region;
  return n;
}

/* Lowest first, each above the one before it in its region if there is room, so that an order that nothing demands is the same
 * in every run. A layer that has its bit from an earlier solve keeps it. */
static tn_status give_bits(graph *g) {
  unsigned lasts[REGIONS] = {0};
  for (size_t i = 0; i < g->count; ++i) {
    node *n = g->order[i];
    if (n->bit) continue;
    unsigned last = lasts[n->region], low, high, more = count_unplaced(g, i + 1, n->region);
    find_gap(g, i, &low, &high);
    unsigned bit = last > low && last < high ? pick_bit(last, high, more) : 0;
    if (!bit) bit = pick_bit(low, high, more);
    if (!bit) return reject(n, "no free bit is left in its region of the layer order", "");
    TN_TRY(tni_key_layer(n->layer->name, bit));
    n->bit = lasts[n->region] = bit;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ words */

/* Index in the order of the highest layer below order[at] in its region, or count. */
static size_t neighbour_of(const graph *g, size_t at) {
  const node *n = g->order[at];
  size_t best = g->count;
  for (size_t k = 0; k < g->count; ++k) {
    unsigned bit = g->order[k]->bit;
    if (bit >= n->bit || bit <= anchors[n->region]) continue;
    if (best == g->count || bit > g->order[best]->bit) best = k;
  }
  return best;
}

static const char *why_above(const graph *g, size_t at, size_t below) {
  const node *n = g->order[at], *other = g->order[below];
  if (has_item(n->layer->above, other->layer->name)) return "which it asks for";
  if (has_item(other->layer->below, n->layer->name)) return "which that one asks for";
  if (g->reaches[below * g->count + at]) return "by the layers between which both stand";
  return strcmp(other->layer->name, n->layer->name) < 0 ? "by name" : "after those that it must stand above";
}

/* Fills text, or only measures with size 0. */
static size_t write_why(const graph *g, size_t at, char *text, size_t size) {
  const node *n = g->order[at];
  bool by_class = n->region == n->layer->class_;
  size_t below = neighbour_of(g, at);
  bool alone = below == g->count;
  int length = snprintf(
      text, size, "above %s%s%s%s%s%s%s", anchor_names[n->region],
      by_class ? " by its class" : ", because its constraints leave no place where its class stands, above ",
      by_class ? "" : anchor_names[n->layer->class_], alone ? "" : "; above ",
      alone ? "" : g->order[below]->layer->name, alone ? "" : ", ", alone ? "" : why_above(g, at, below));
  return (size_t)length + 1;
}

static tn_status explain(const graph *g, size_t at) {
  const node *n = g->order[at];
  size_t size = write_why(g, at, NULL, 0);
  char *text = tni_alloc(size);
  if (!text) return tni_oom(size, "the place of a layer");
  write_why(g, at, text, size);
  tni_free(n->layer->why);
  n->layer->why = text;
  n->layer->bit = (uint8_t)n->bit;
  return TN_OK;
}

static tn_status make_arrays(graph *g) {
  tni_free(g->order);
  tni_free(g->reaches);
  g->order = tni_alloc(g->count * sizeof *g->order);
  g->reaches = tni_alloc_zero(g->count * g->count * sizeof *g->reaches);
  return g->order && g->reaches ? TN_OK : tni_oom(g->count * g->count, "the order of layers");
}

static void find_reaches(graph *g) {
  for (size_t i = 0; i < g->count; ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!stands_below(g->order[k], g->order[i])) continue;
      g->reaches[k * g->count + i] = true;
      for (size_t m = 0; m < k; ++m) g->reaches[m * g->count + i] |= g->reaches[m * g->count + k];
    }
  }
}

/* TN_ERR_DATA: a plugin was rejected, the rest is to be solved again. */
static tn_status solve(graph *g, const tni_plugin_list *list) {
  TN_TRY(collect(g, list));
  if (g->count == 0) return TN_OK;
  TN_TRY(make_arrays(g));
  if (sort_nodes(g) != TN_OK) return reject_circle(g);
  TN_TRY(find_regions(g));
  find_reaches(g);
  TN_TRY(give_bits(g));
  for (size_t i = 0; i < g->count; ++i) TN_TRY(explain(g, i));
  return TN_OK;
}

tn_status tni_order_layers(tni_plugin_list *list) {
  graph g = {0};
  tn_status status;
  do status = solve(&g, list);
  while (status == TN_ERR_DATA);
  tni_free(g.nodes);
  tni_free(g.order);
  tni_free(g.reaches);
  return status;
}
