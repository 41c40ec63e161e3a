/* SPDX-License-Identifier: Apache-2.0
 *
 * The halves of a step that makes one fresh result, inline for the two that do: fresh.c and single.c.
 */
#ifndef TENON_CORE_FRESH_H
#define TENON_CORE_FRESH_H

#include "core/dispatch/dispatch_int.h"
#include "core/tensor/small.h"

/* Note [Bytes that a meta rule stored]
 * A meta rule may store the header of a descriptor byte by byte. Compilers join loads of neighbours, and a joined load
 * waits until all those stores have reached the cache: 5 ns of a call of 50. Reads through this stay apart. */
static inline uint8_t tni_meta_byte(const uint8_t *stored) { return *(const volatile uint8_t *)stored; }

/* A meta rule's surroundings for one result. */
static inline void tni_meta_begin(tn_meta *meta, const tn_op *op, tn_desc *desc) {
  memset(desc, 0, offsetof(tn_desc, sizes)); /* dtype NONE, row-major, offset 0 */
  *meta = op->meta_preset;
  meta->default_dtype = tni_tls.modes.default_dtype;
  meta->out = desc;
  meta->grow = tni_meta_grow_refused;
}

/* What of a descriptor is not a row-major result with sizes that the rule knows: 0 of most. */
static inline uint8_t tni_desc_odd(const tn_desc *desc) {
  return tni_meta_byte(&desc->layout) | tni_meta_byte(&desc->absent) | tni_meta_byte(&desc->unknown);
}

/* The small result of a descriptor that is not odd; NULL: tni_result_new knows. */
static inline __attribute__((always_inline)) tn_tensor *tni_result_small(const tni_cell *cell, const tn_desc *desc,
                                                                         tn_device device) {
  if (TNI_UNLIKELY(device.backend != cell->bit || (uint32_t)device.index >= (uint32_t)cell->n_devices)) return NULL;
  return tni_tensor_small_new(tni_meta_byte(&desc->dtype), tni_meta_byte(&desc->ndim), desc->sizes, device,
                              cell->small_bytes);
}

/* The result that the rule described, neither absent nor unknown. */
tn_status tni_result_new(const tn_op *op, const tn_value *args, tn_desc *desc, tn_device device, tn_tensor **out_tensor);

#endif
