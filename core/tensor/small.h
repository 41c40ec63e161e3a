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

enum { TNI_SMALL_CLASS = 5, TNI_SMALL_BYTES = 128 }; /* 512-byte blocks: 384 of tensor, 128 of data */

/* dtype, ndim, itemsize, backend, device index, reserved0: equal in one comparison, copied in one store. */
static inline uint64_t tni_view_word(const tn_view *v) {
  uint64_t word;
  memcpy(&word, &v->dtype, sizeof word);
  return word;
}

/* A fresh tensor over memory at data and mem + offset_bytes, row-major, with the sizes of like, which is contiguous and
 * of at most TNI_INLINE_RANK dims. Its storage is the caller's to describe. word: its tni_view_word; extras:
 * TNI_EXTRA_... */
static inline __attribute__((always_inline)) void tni_tensor_fill(tn_tensor *t, const tn_view *like, uint64_t word,
                                                                  uint64_t key, void *data, uint64_t mem,
                                                                  int64_t offset_bytes, unsigned block_class,
                                                                  unsigned extras) {
  const unsigned ndim = like->ndim;
  tn_view *v = &t->view;
  v->data = data;
  v->mem = mem;
  v->offset_bytes = offset_bytes;
  v->storage = &t->own_storage;
  v->sizes = t->dims;
  v->strides = t->dims + TNI_INLINE_RANK;
  v->numel = like->numel;
  memcpy(&v->dtype, &word, sizeof word);
  const uint64_t flags = TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE; /* and reserved1 */
  memcpy(&v->flags, &flags, sizeof flags);
  v->reserved2 = 0;
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
  atomic_store_explicit(&t->counts, TNI_SOLE, memory_order_relaxed);
  tni_tensor_clear(t, block_class, TNI_CREATION_DEFAULT, extras);
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
  tni_tensor_fill(t, like, word, key, data, (uint64_t)(uintptr_t)data, 0, TNI_SMALL_CLASS, 0);
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
  tni_tensor_fill(t, like, word, key, s->address, s->mem, s->base_bytes, TNI_MEMORY_PAIR_CLASS, TNI_EXTRA_MEMORY);
  return t;
}

/* What the two factories above are given of a row-major tensor of sizes that a meta rule gave. strides has room for
 * TNI_INLINE_RANK. Returns the bytes of an element, 0: more than `most` elements, or none, or something that
 * tni_tensor_new has words for. */
static inline __attribute__((always_inline)) size_t tni_tensor_like(tn_view *like, uint64_t *out_word, tn_dim *strides,
                                                                    tn_dtype dtype, unsigned ndim, const tn_dim *sizes,
                                                                    tn_device device, uint64_t most) {
  if (!most || ndim > TNI_INLINE_RANK || !(TN_DTYPE_BIT(dtype) & TN_DTYPES_ALL)) return 0;
  const tni_backend *backend = tni_backend_get(device.backend);
  if (TNI_UNLIKELY(device.index < 0 || device.index >= backend->n_devices)) return 0;
  const size_t itemsize = tn_kit_dtype_size(dtype);
  tn_dim numel = 1;
  for (unsigned i = ndim; i-- > 0;) {
    if ((uint64_t)sizes[i] - 1 >= most) return 0; /* also 0 and below */
    strides[i] = numel;
    numel *= sizes[i];
    if ((uint64_t)numel > most) return 0;
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
static inline tn_tensor *tni_tensor_small_new(tn_dtype dtype, unsigned ndim, const tn_dim *sizes, tn_device device,
                                              uint64_t most) {
  tn_dim strides[TNI_INLINE_RANK];
  tn_view like;
  uint64_t word;
  const size_t itemsize = tni_tensor_like(&like, &word, strides, dtype, ndim, sizes, device, most);
  return itemsize ? tni_tensor_small(&like, word, itemsize, TNI_KEY(device.backend), most) : NULL;
}

#endif
