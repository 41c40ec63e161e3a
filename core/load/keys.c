/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of key bits. A backend gets its id when it is named for the first time and a layer its bit when the
 * order is solved; neither is ever taken back, because tensors and threads hold bits, except by the rollback of the
 * transaction that gave it, which nobody has seen. Readers need no lock: names live as long as the process.
 */
#include "core/load/load_int.h"

enum { KEY_BITS = 64 };

static _Atomic(const char *) names[KEY_BITS] = {
    [TN_BACKEND_CPU] = "cpu",        [TN_BACKEND_META] = "meta", [TNI_BIT_BACK] = "back",
    [TNI_BIT_AUTOGRAD] = "autograd", [TNI_BIT_TRACE] = "trace",  [TNI_BIT_AUTOCAST] = "autocast",
    [TNI_BIT_FRONT] = "front",
};

static const char *name_at(unsigned bit) { return atomic_load_explicit(&names[bit], memory_order_acquire); }

int tni_key_find(const char *name) {
  for (unsigned bit = 0; bit < KEY_BITS; ++bit) {
    const char *at = name_at(bit);
    if (at && strcmp(at, name) == 0) return (int)bit;
  }
  return -1;
}

const char *tni_key_name(unsigned bit) { return bit < KEY_BITS ? name_at(bit) : NULL; }

const char *tni_backend_name(uint8_t id) {
  const char *name = id < TN_BACKEND_LIMIT ? name_at(id) : NULL;
  return name ? name : "?";
}

bool tni_key_reserved(const char *name) {
  static const char *const own[] = {"meta", "back", "autograd", "front", "privateuse1"};
  for (size_t i = 0; i < sizeof own / sizeof *own; ++i)
    if (strcmp(own[i], name) == 0) return true;
  return false;
}

static void put_name(const char *name, unsigned bit) {
  atomic_store_explicit(&names[bit], name, memory_order_release);
}

tn_status tni_key_backend(const char *name, uint8_t *out_id) {
  int known = tni_key_find(name);
  if (known >= TN_BACKEND_LIMIT) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s is a layer, not a device", name);
  unsigned bit = 0;
  if (known < 0) {
    while (bit < TN_BACKEND_LIMIT && name_at(bit)) ++bit;
    if (bit == TN_BACKEND_LIMIT)
      return TN_FAIL(TN_ERR_UNAVAILABLE,
                     "no id is left for device %s: all %d are in use and none is ever reused", name,
                     TN_BACKEND_LIMIT);
    put_name(name, bit);
  }
  *out_id = (uint8_t)(known < 0 ? bit : (unsigned)known);
  return TN_OK;
}

tn_status tni_key_layer(const char *name, unsigned bit) {
  const char *at = name_at(bit);
  if (at && strcmp(at, name) == 0) return TN_OK;
  char *copy = tni_strdup(name);
  if (!copy) return tni_oom(strlen(name) + 1, "a key's name");
  put_name(copy, bit);
  return TN_OK;
}

uint32_t tni_keys_named(void) {
  uint32_t mask = 0;
  for (unsigned bit = 0; bit < TN_BACKEND_LIMIT; ++bit)
    if (name_at(bit)) mask |= 1u << bit;
  return mask;
}

void tni_keys_restore(uint32_t mask) {
  for (unsigned bit = 0; bit < TN_BACKEND_LIMIT; ++bit)
    if (!(mask >> bit & 1)) atomic_store_explicit(&names[bit], NULL, memory_order_release);
}
