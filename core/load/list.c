/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of plugins: built aside by the scan, published once, never changed after that. Records and reasons
 * stay until the process ends, because reports hand out their strings without a lock.
 */
#include <stdlib.h>

#include "core/load/load_int.h"

static tni_plugin_list published;

size_t tni_plugin_count(void) { return published.count; }
tni_plugin *tni_plugin_at(size_t i) { return published.items[i]; }

tni_plugin *tni_plugin_named(const char *name) {
  for (size_t i = 0; i < published.count; ++i) {
    tni_plugin *p = published.items[i];
    if (tni_plugin_state(p) != TN_PLUGIN_REJECTED && strcmp(p->name, name) == 0) return p;
  }
  return NULL;
}

void tni_list_publish(tni_plugin_list *list) {
  published = *list;
  *list = (tni_plugin_list){0};
}

void tni_list_take_back(tni_plugin_list *list) {
  *list = published;
  published = (tni_plugin_list){0};
}

tn_status tni_list_add(tni_plugin_list *list, const char *path, uint32_t root_order,
                       tni_plugin **out_plugin) {
  TN_TRY(tni_grow(&list->items, &list->capacity, list->count, sizeof *list->items));
  tni_plugin *p = tni_alloc_zero(sizeof *p);
  char *copy = tni_strdup(path);
  if (!p || !copy) {
    tni_free(p);
    tni_free(copy);
    return tni_oom(sizeof *p + strlen(path) + 1, "a plugin's record");
  }
  p->path = copy;
  const char *slash = strrchr(copy, '/');
  p->file = slash && slash[1] ? slash + 1 : copy;
  p->name = p->file;
  p->version = "";
  p->root_order = root_order;
  list->items[list->count++] = p;
  *out_plugin = p;
  return TN_OK;
}

void tni_list_deinit(tni_plugin_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    tni_plugin *p = list->items[i];
    free(atomic_load_explicit(&p->reason, memory_order_relaxed));
    tni_manifest_free(p->manifest);
    tni_free(p->path);
    tni_free(p->pin);
    tni_free(p);
  }
  tni_free(list->items);
  *list = (tni_plugin_list){0};
}

typedef struct tni_old_words {
  struct tni_old_words *next;
  char *words;
} tni_old_words;

/* Without memory for the record the old words are lost to everybody but a report that holds them. */
void tni_plugin_set(tni_plugin *p, tn_plugin_state state) {
  char *words = tni_error_take(), *was = atomic_exchange(&p->reason, words);
  tni_old_words *old = was ? malloc(sizeof *old) : NULL;
  if (old) {
    *old = (tni_old_words){p->old_reasons, was};
    p->old_reasons = old;
  }
  atomic_store_explicit(&p->state, state, memory_order_release);
}
