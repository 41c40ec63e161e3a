/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest's lines into the claims of a context (grammar: docs/manifest.md). A second reading, on purpose: it takes
 * what the host may refuse, so that checks can say more than the host's first objection. What it does not understand it
 * leaves to check manifest.truth, which asks the host.
 */
#include "frontends/check/claims.h"

#include <stdlib.h>

#include "frontends/check/image.h"
#include "frontends/check/tools.h"

static char *next_word(char **rest) {
  char *word = *rest + strspn(*rest, " \t");
  char *end = word + strcspn(word, " \t");
  *rest = *end ? end + 1 : end;
  *end = 0;
  return word;
}

static tn_dtype_mask dtype_word(const char *word) {
  static const struct {
    const char *word;
    tn_dtype_mask mask;
  } groups[] = {{"all", TN_DTYPES_ALL},
                {"int", TN_DTYPES_INT},
                {"float", TN_DTYPES_FLOAT},
                {"half", TN_DTYPES_HALF},
                {"bool", TN_DTYPE_BIT(TN_BOOL)}};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (!strcmp(word, groups[i].word)) return groups[i].mask;
  tn_dtype dtype = tn_dtype_find(word);
  return dtype == TN_DTYPE_NONE ? 0 : TN_DTYPE_BIT(dtype);
}

static tn_dtype_mask dtype_list(char *list) {
  tn_dtype_mask mask = 0;
  char *state = NULL;
  for (char *word = strtok_r(list, ",", &state); word; word = strtok_r(NULL, ",", &state))
    mask |= dtype_word(word);
  return mask;
}

/* The arrays grow here; the context shows them read-only. */
typedef struct claims {
  const char **devices, **operators;
  tni_claim_kernel *kernels;
  tni_claim_layer *layers;
  tni_claim_interface *interfaces;
} claims;

#define ADD(list, count, ...)                         \
  do {                                                \
    tni_check_grow(&(list), (count), sizeof *(list)); \
    (list)[(count)++] = (__VA_ARGS__);                \
  } while (0)

static void take_kernel(claims *k, tni_check_context *c, char *rest) {
  tni_claim_kernel kernel = {0};
  kernel.key = next_word(&rest);
  kernel.op = next_word(&rest);
  kernel.dtypes = dtype_list(next_word(&rest));
  kernel.priority = (int32_t)strtol(next_word(&rest), NULL, 10);
  for (size_t i = 0; i < c->n_kernels; i++) {
    tni_claim_kernel *same = &k->kernels[i];
    if (strcmp(same->key, kernel.key) || strcmp(same->op, kernel.op) || same->priority != kernel.priority)
      continue;
    same->dtypes |= kernel.dtypes;
    return;
  }
  ADD(k->kernels, c->n_kernels, kernel);
}

static void take_line(claims *k, tni_check_context *c, char *line) {
  char *key = next_word(&line), *rest = line + strspn(line, " \t");
  if (!strcmp(key, "name")) {
    c->plugin = next_word(&rest);
  } else if (!strcmp(key, "version")) {
    c->version = next_word(&rest);
  } else if (!strcmp(key, "abi")) {
    c->abi_major = (uint32_t)strtoul(next_word(&rest), NULL, 10);
    c->abi_minor = (uint32_t)strtoul(next_word(&rest), NULL, 10);
    c->needs_minor = (uint32_t)strtoul(next_word(&rest), NULL, 10);
  } else if (!strcmp(key, "device")) {
    ADD(k->devices, c->n_devices, next_word(&rest));
  } else if (!strcmp(key, "kernel")) {
    take_kernel(k, c, rest);
  } else if (!strcmp(key, "layer")) {
    char *name = next_word(&rest);
    ADD(k->layers, c->n_layers, (tni_claim_layer){name, rest});
  } else if (!strcmp(key, "operator")) {
    ADD(k->operators, c->n_operators, rest);
  } else if (!strcmp(key, "interface")) {
    tni_claim_interface claim = {.name = next_word(&rest)};
    claim.version = (uint32_t)strtoul(next_word(&rest), NULL, 10);
    ADD(k->interfaces, c->n_interfaces, claim);
  }
}

static bool is_layer(const tni_check_context *c, const char *key) {
  for (size_t i = 0; i < c->n_layers; i++)
    if (!strcmp(c->layers[i].name, key)) return true;
  return false;
}

static unsigned kinds_of(const tni_check_context *c) {
  unsigned kinds = (c->n_devices ? TNI_CHECK_BACKEND : 0u) | (c->n_layers ? TNI_CHECK_LAYER : 0u) |
                   (c->n_operators ? TNI_CHECK_OPERATORS : 0u);
  for (size_t i = 0; i < c->n_kernels; i++)
    if (!is_layer(c, c->kernels[i].key)) kinds |= TNI_CHECK_KERNELS;
  return kinds;
}

void tni_claims_read(tni_check_context *c) {
  const char *slash = strrchr(c->file, '/');
  c->plugin = slash ? slash + 1 : c->file;
  c->version = "";
  tni_image image;
  char *text = NULL, *words = tni_image_open(c->file, &image);
  if (!words && tni_image_notes(&image, &text) == 0)
    words = tni_check_text("has no Tenon manifest note: not a Tenon plugin");
  tni_image_close(&image);
  c->manifest_text = text ? text : words; /* one of the two */
  c->manifest_error = words;
  if (!text) return;
  claims k = {0};
  char *state = NULL;
  for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
    take_line(&k, c, line);
  c->devices = k.devices;
  c->operators = k.operators;
  c->kernels = k.kernels;
  c->layers = k.layers;
  c->interfaces = k.interfaces;
  c->kinds = kinds_of(c);
}

void tni_claims_free(tni_check_context *c) {
  free((void *)(uintptr_t)c->devices);
  free((void *)(uintptr_t)c->operators);
  free((void *)(uintptr_t)c->kernels);
  free((void *)(uintptr_t)c->layers);
  free((void *)(uintptr_t)c->interfaces);
  free(c->manifest_text);
}
