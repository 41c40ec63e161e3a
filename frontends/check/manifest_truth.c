/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.truth: what init registers is what the manifest lists, both ways, item by item (the host stops at the first
 * difference), and the host accepts the file.
 */
#include <stdlib.h>

#include "frontends/check/door.h"
#include "frontends/check/tools.h"

static char *kernel_item(const tni_claim_kernel *k) {
  return k->priority ? tni_check_text("kernel %s %s %d", k->key, k->op, (int)k->priority)
                     : tni_check_text("kernel %s %s", k->key, k->op);
}

static const tni_claim_kernel *find_kernel(const tni_claim_kernel *kernels, size_t n,
                                           const tni_claim_kernel *like) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(kernels[i].key, like->key) && !strcmp(kernels[i].op, like->op) &&
        kernels[i].priority == like->priority)
      return &kernels[i];
  return NULL;
}

static const char *first_dtype(tn_dtype_mask mask) {
  for (tn_dtype d = 1; d < TN_DTYPE_LIMIT; d++)
    if (mask & TN_DTYPE_BIT(d)) return tn_dtype_name(d);
  return "none";
}

static void check_kernels(tni_check_report *r, const tni_check_context *c, const tni_door *door) {
  for (size_t i = 0; i < c->n_kernels; i++) {
    const tni_claim_kernel *k = &c->kernels[i], *made = find_kernel(door->kernels, door->n_kernels, k);
    char *item = kernel_item(k);
    tn_dtype_mask mine = made ? made->dtypes & TN_DTYPES_ALL : 0, claimed = k->dtypes & TN_DTYPES_ALL;
    bool star = !strcmp(k->op, "*");
    tni_check_that(r, made && (star || mine == claimed), item,
                   made ? "%s is %s only" : "%s%s is listed and not registered",
                   made ? first_dtype(mine ^ claimed) : "it",
                   made ? ((claimed & ~mine) ? "listed" : "registered") : "");
    free(item);
  }
  for (size_t i = 0; i < door->n_kernels; i++) {
    if (find_kernel(c->kernels, c->n_kernels, &door->kernels[i])) continue;
    char *item = kernel_item(&door->kernels[i]);
    tni_check_fail(r, item, "it is registered and not listed");
    free(item);
  }
}

/* Names of one kind, listed and registered. */
static void check_names(tni_check_report *r, const char *kind, const char *const *listed, size_t n_listed,
                        const char *const *made, size_t n_made) {
  for (int way = 0; way < 2; way++) {
    const char *const *from = way ? made : listed, *const *in = way ? listed : made;
    size_t n_from = way ? n_made : n_listed, n_in = way ? n_listed : n_made;
    for (size_t i = 0; i < n_from; i++) {
      bool found = false;
      for (size_t k = 0; k < n_in; k++) found = found || !strcmp(from[i], in[k]);
      char *item = tni_check_text("%s %.*s", kind, (int)strcspn(from[i], "("), from[i]);
      tni_check_that(r, found, item,
                     way ? "it is registered and not listed" : "it is listed and not registered");
      free(item);
    }
  }
}

static void check_all_names(tni_check_report *r, const tni_check_context *c, const tni_door *door) {
  const char **listed = tni_check_alloc((c->n_layers + c->n_interfaces) * sizeof *listed);
  const char **made = tni_check_alloc((door->n_backends + door->n_interfaces) * sizeof *made);
  for (size_t i = 0; i < door->n_backends; i++) made[i] = door->backends[i].device_name;
  check_names(r, "device", c->devices, c->n_devices, made, door->n_backends);
  for (size_t i = 0; i < c->n_layers; i++) listed[i] = c->layers[i].name;
  check_names(r, "layer", listed, c->n_layers, (const char *const *)door->layers, door->n_layers);
  check_names(r, "operator", c->operators, c->n_operators, (const char *const *)door->operators,
              door->n_operators);
  for (size_t i = 0; i < c->n_interfaces; i++)
    listed[i] = tni_check_text("%s %u", c->interfaces[i].name, c->interfaces[i].version);
  for (size_t i = 0; i < door->n_interfaces; i++)
    made[i] = tni_check_text("%s %u", door->interfaces[i].name, door->interfaces[i].version);
  check_names(r, "interface", listed, c->n_interfaces, made, door->n_interfaces);
  for (size_t i = 0; i < c->n_interfaces; i++) free((void *)(uintptr_t)listed[i]);
  for (size_t i = 0; i < door->n_interfaces; i++) free((void *)(uintptr_t)made[i]);
  free(listed);
  free(made);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->manifest_error) return tni_check_fail(r, "manifest", "the file %s", c->manifest_error);
  tni_door door;
  if (!tni_door_enter(r, c, &door)) return;
  check_all_names(r, c, &door);
  check_kernels(r, c, &door);
  tni_door_close(&door);
  if (!c->kinds) tni_check_fail(r, "manifest", "it offers nothing: no device, kernel, layer or operator");
}

const tni_check tni_check_manifest_truth = {.name = "manifest.truth",
                                            .about =
                                                "init registers what the manifest lists, and nothing else",
                                            .run = run};
