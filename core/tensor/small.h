/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot factories, inline for the structured step's fast path: a row-major tensor with another's sizes and device,
 * its data in its own block or in memory that lies ready with one. Every store of a fresh tensor stands here once; what
 * is not stored is not read (see tni_storage).
 */
#ifndef TENON_CORE_SMALL_H
#define TENON_CORE_SMALL_H

#include <tenon/kit/dtype.h>

#include "core/memory/memory.h"
#include "core/tensor/tensor.h"

enum { TNI_SMALL_CLASS = TNI_BLOCK_SMALL, TNI_SMALL_BYTES = 128 }; /* 512-byte blocks: 384 of tensor, 128 of data */

/* Note [Ready blocks]
 * What a small call costs is the stores of its result, and more than half of them write what stood there before: a block
 * is mostly the same kind of tensor again. So a dying tensor leaves these fields as tni_tensor_fix sets them, and whoever
 * takes a block of TNI_BLOCK_SMALL's list, or a pair (core/memory/memory.h), writes the rest. Views do the same with a list
 * of their own (tni_view_fix). What lives may change them,
 * but not unnoticed: a slot for gradients, a parent, an extra or the mark `kept` send a tensor to its death by the long
 * way, which sets them again. */
static inline void tni_tensor_fix(tn_tensor *t, uint64_t mem, int64_t offset_bytes, unsigned block_class,
                                  unsigned extras) {
  tn_view *v = &t->view;
  v->mem = mem; /* of a pair it is lost: the list's links lie there */
  v->offset_bytes = offset_bytes;
  v->storage = &t->own_storage;
  v->sizes = t->dims;
  v->strides = t->dims + TNI_INLINE_RANK;
  v->reserved2 = 0;
  atomic_store_explicit(&t->counts, TNI_SOLE, memory_order_relaxed);
  tni_tensor_clear(t, block_class, TNI_CREATION_DEFAULT, extras);
}

/* dtype, ndim, itemsize, backend, device index, reserved0: equal in one comparison, copied in one store. */
static inline uint64_t tni_view_word(const tn_view *v) {
  uint64_t word;
  memcpy(&word, &v->dtype, sizeof word);
  return word;
}

/* Makes a fixed block a fresh tensor over memory at data, row-major, with the sizes of like, which is contiguous and of at
 * most TNI_INLINE_RANK dims. Its storage is the caller's to describe. word: its tni_view_word. */
static inline __attribute__((always_inline)) void tni_tensor_fill(tn_tensor *t, const tn_view *like, uint64_t word,
                                                                  uint64_t key, void *data) {
  const unsigned ndim = like->ndim;
  tn_view *v = &t->view;
  v->data = data;
  v->numel = like->numel;
  memcpy(&v->dtype, &word, sizeof word);
  const uint64_t flags = TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE; /* and reserved1 */
  memcpy(&v->flags, &flags, sizeof flags);
  if (TNI_LIKELY(ndim == 1)) {
    t->dims[0] = like->sizes[0];
    t->dims[TNI_INLINE_RANK] = like->strides[0];
  } else {
    for (unsigned i = 0; i < ndim; ++i) {
      t->dims[i] = like->sizes[i];
      t->dims[TNI_INLINE_RANK + i] = like->strides[i];
    }
  }
  t->keys = key;
  t->version = tni_tls.modes.inference ? NULL : &t->own_version;
  const uint64_t zero = 0;
  memcpy((void *)&t->own_version, &zero, sizeof zero);
}

/* word: the result's tni_view_word, which is like's but for dtype and itemsize; key: the backend's bit; most: the
 * bytes that may be inline on that backend, TNI_SMALL_BYTES or 0. NULL: not small, or no block is listed;
 * then tni_tensor_new knows. like is contiguous. */
static inline __attribute__((always_inline)) tn_tensor *tni_tensor_small(const tn_view *like, uint64_t word,
                                                                         size_t itemsize, uint64_t key,
                                                                         uint64_t most) {
  const uint64_t bytes = (uint64_t)like->numel * itemsize;
  if (bytes - 1 >= most || like->ndim > TNI_INLINE_RANK) return NULL;
  tn_tensor *t = tni_block_pop_listed(TNI_SMALL_CLASS);
  if (TNI_UNLIKELY(!t)) return NULL;
  void *data = (char *)t + TNI_DATA_OFFSET;
  tni_tensor_fill(t, like, word, key, data);
  const uint64_t place = (word >> 16 & 0xffffff00) | TNI_STORAGE_INLINE; /* kind, backend, device index, no flags */
  memcpy(&t->own_storage, &place, sizeof place);
  return t;
}

/* The same over memory that lies ready in the front of the device's pool, with the block of the tensor that had it
 * before: Note [Pairs] in core/memory/memory.h. NULL: there is none, or the data may lie in the tensor's block (own:
 * the most bytes that do, on this backend). */
static inline __attribute__((always_inline)) tn_tensor *tni_tensor_paired(const tn_view *like, uint64_t word,
                                                                          size_t itemsize, uint64_t key,
                                                                          const tni_pool *pool, uint64_t own) {
  const uint64_t bytes = (uint64_t)like->numel * itemsize;
  if (TNI_UNLIKELY(bytes <= own || like->ndim > TNI_INLINE_RANK)) return NULL;
  tn_tensor *t = (tn_tensor *)(void *)tni_memory_pair_take(pool, bytes);
  if (TNI_UNLIKELY(!t)) return NULL;
  tni_storage *s = &t->own_storage;
  s->size_bytes = bytes;
  tni_tensor_fill(t, like, word, key, s->address);
  t->view.mem = s->mem;
  return t;
}

/* What the two factories above are given of a row-major tensor of sizes that a meta rule gave, on a device that is there.
 * strides has room for TNI_INLINE_RANK. Returns the bytes of an element, 0: more than `most` elements, or none, or
 * something that tni_tensor_new has words for. */
static inline __attribute__((always_inline)) size_t tni_tensor_like(tn_view *like, uint64_t *out_word, tn_dim *strides,
                                                                    tn_dtype dtype, unsigned ndim, const tn_dim *sizes,
                                                                    tn_device device, uint64_t most) {
  if (ndim > TNI_INLINE_RANK || dtype >= TN_DTYPE_LIMIT || !(TN_DTYPE_BIT(dtype) & TN_DTYPES_ALL)) return 0;
  const size_t itemsize = tn_kit_dtypes[dtype].size;
  tn_dim numel = 1;
  if (TNI_LIKELY(ndim == 1)) {
    strides[0] = 1;
    numel = sizes[0];
    if ((uint64_t)numel - 1 >= most) return 0;
  } else {
    for (unsigned i = ndim; i-- > 0;) {
      if ((uint64_t)sizes[i] - 1 >= most) return 0; /* also 0 and below */
      strides[i] = numel;
      numel *= sizes[i];
      if ((uint64_t)numel > most) return 0;
    }
  }
  *out_word = (uint64_t)dtype | (uint64_t)ndim << 8 | (uint64_t)itemsize << 16 |
              (uint64_t)device.backend << 24 | (uint64_t)(uint16_t)device.index << 32;
  like->numel = numel;
  like->ndim = (uint8_t)ndim;
  like->backend = device.backend;
  like->device_index = device.index;
  like->sizes = sizes;
  like->strides = strides;
  return itemsize;
}

/* A small row-major tensor of sizes that a meta rule gave. NULL: as above. */
static inline __attribute__((always_inline)) tn_tensor *tni_tensor_small_new(tn_dtype dtype, unsigned ndim,
                                                                             const tn_dim *sizes, tn_device device,
                                                                             uint64_t most) {
  tn_dim strides[TNI_INLINE_RANK];
  tn_view like;
  uint64_t word;
  const size_t itemsize = tni_tensor_like(&like, &word, strides, dtype, ndim, sizes, device, most);
  return itemsize ? tni_tensor_small(&like, word, itemsize, TNI_KEY(device.backend), most) : NULL;
}

#endif
