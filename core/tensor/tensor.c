/* SPDX-License-Identifier: Apache-2.0
 *
 * Making tensors and letting them go. See the notes in tensor.h for who owns what.
 *
 * A tensor block is of one of four sizes: without data, or with 128, 384 or 640 bytes behind it. Small data on
 * backends that allow it lives there, so that a small operator costs one freelist pop.
 */
#include "core/tensor/tensor.h"

#include <stddef.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>

#include "core/autograd/autograd.h"
#include "core/load/load.h"
#include "core/memory/memory.h"
#include "core/tensor/small.h"
#include "core/tensor/stream.h"

_Static_assert(sizeof(struct tn_tensor) <= TNI_DATA_OFFSET, "data begins behind the struct");
_Static_assert(TNI_DATA_OFFSET == 384, "block classes below count on it");
enum { CLASS_PLAIN = 4, CLASS_LARGEST = 7 }; /* 384 .. 1024 bytes */
_Static_assert((int)CLASS_PLAIN == TNI_MEMORY_PAIR_CLASS, "a tensor with memory elsewhere is a holder");
_Static_assert(sizeof(tni_memory_pair) <= offsetof(struct tn_tensor, own_storage), "a pair leaves the storage alone");

_Atomic(const tni_backend *) tni_backends[TN_BACKEND_LIMIT];
_Atomic uint32_t tni_inline_backends;

tn_status tni_backend_need(tn_device device, const tni_backend **out_backend) {
  const tni_backend *backend = tni_backend_get(device.backend);
  if (TNI_UNLIKELY(!backend)) TN_TRY(tni_backend_open(tni_backend_name(device.backend), &backend));
  *out_backend = backend;
  if (device.index >= 0 && device.index < backend->n_devices) return TN_OK;
  return tn_fail(TN_ERR_DEVICE, "there is no device %s:%d; %s has %d", backend->name, device.index, backend->name,
                 backend->n_devices);
}

/* The tensor in whose block a storage or version cell is embedded. */
static tn_tensor *storage_block(const tni_storage *s) {
  return (tn_tensor *)(void *)((char *)(uintptr_t)s - offsetof(struct tn_tensor, own_storage));
}
static tn_tensor *version_block(const tni_version *v) {
  return (tn_tensor *)(void *)((char *)(uintptr_t)v - offsetof(struct tn_tensor, own_version));
}

/* ------------------------------------------------------------------ geometry */

void tni_contiguous_strides(uint32_t ndim, const tn_dim *sizes, tn_dim *out_strides) {
  tn_dim stride = 1;
  for (uint32_t i = ndim; i-- > 0;) {
    out_strides[i] = stride;
    stride *= sizes[i] > 0 ? sizes[i] : 1;
  }
}

bool tni_view_finish(tn_view *view) {
  tn_dim numel = 1, expect = 1;
  bool contiguous = true, overflow = false, empty = false;
  for (uint32_t i = view->ndim; i-- > 0;) {
    tn_dim size = view->sizes[i];
    if (size != 1 && view->strides[i] != expect) contiguous = false;
    overflow |= __builtin_mul_overflow(numel, size, &numel);
    empty |= size == 0;
    expect = numel;
  }
  if (TNI_UNLIKELY(empty)) {
    numel = 0;
    contiguous = true;
  }
  view->numel = numel;
  view->flags &= ~(uint32_t)(TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE);
  if (contiguous)
    view->flags |= TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE;
  else if (tn_shape_is_dense(view->ndim, view->sizes, view->strides))
    view->flags |= TN_VIEW_DENSE;
  return !overflow || empty;
}

/* ------------------------------------------------------------------ making */

/* Counts set, every pointer NULL. view, version, dims and own_storage are the caller's. */
static inline void block_clear(tn_tensor *t, unsigned block_class, unsigned extras) {
  atomic_store_explicit(&t->counts, TNI_SOLE, memory_order_relaxed);
  tni_tensor_clear(t, block_class, TNI_CREATION_DEFAULT, extras);
}

static inline tn_tensor *block_new(unsigned block_class) {
  tn_tensor *t = tni_block_pop(block_class);
  if (TNI_UNLIKELY(!t)) return NULL;
  block_clear(t, block_class, 0);
  t->own_storage.kind = TNI_STORAGE_NONE;
  return t;
}

/* Points view.sizes and .strides at room for ndim dims. */
static inline tn_status dims_place(tn_tensor *t, uint32_t ndim) {
  t->view.ndim = (uint8_t)ndim;
  if (TNI_LIKELY(ndim <= TNI_INLINE_RANK)) {
    t->view.sizes = t->dims;
    t->view.strides = t->dims + TNI_INLINE_RANK;
    return TN_OK;
  }
  tn_dim *dims = tni_alloc(2 * ndim * sizeof *dims);
  if (!dims) return tni_oom(2 * ndim * sizeof *dims, "sizes and strides");
  t->view.sizes = dims;
  t->view.strides = dims + ndim;
  t->extras |= TNI_EXTRA_DIMS;
  return TN_OK;
}

static inline tn_dim *sizes_mut(tn_tensor *t) { return (tn_dim *)(uintptr_t)t->view.sizes; }
static inline tn_dim *strides_mut(tn_tensor *t) { return (tn_dim *)(uintptr_t)t->view.strides; }

/* sizes and strides may be NULL for a 0-d tensor. */
static inline void dims_copy(tn_tensor *t, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides) {
  tn_dim *to_sizes = sizes_mut(t), *to_strides = strides_mut(t);
  for (uint32_t i = 0; i < ndim; ++i) {
    to_sizes[i] = sizes[i];
    to_strides[i] = strides[i];
  }
}

/* Sets the version cell of a tensor that starts a life of its own. */
static inline void version_start(tn_tensor *t) {
  if (tni_tls.modes.inference) {
    t->version = NULL;
    return;
  }
  atomic_init(&t->own_version.value, 0);
  t->version = &t->own_version;
}

static void block_discard(tn_tensor *t) {
  if (t->extras & TNI_EXTRA_DIMS) tni_free((void *)(uintptr_t)t->view.sizes);
  tni_block_push(t, t->block_class);
}

/* Bytes that the strided elements span, or a failure if the product overflows. */
static tn_status span_bytes(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, size_t itemsize,
                            uint64_t *out_bytes) {
  uint64_t last = 0;
  *out_bytes = 0;
  for (uint32_t i = 0; i < ndim; ++i) {
    uint64_t reach;
    if (sizes[i] == 0) return TN_OK;
    if (strides[i] < 0)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "stride %u is %lld; new memory takes strides >= 0", i,
                     (long long)strides[i]);
    if (__builtin_mul_overflow((uint64_t)(sizes[i] - 1), (uint64_t)strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "sizes and strides reach beyond 2^64 elements");
  }
  if (last == UINT64_MAX || __builtin_mul_overflow(last + 1, itemsize, out_bytes) || *out_bytes > INT64_MAX)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "a tensor of %llu elements of %zu bytes is too large",
                   (unsigned long long)(last + (last != UINT64_MAX)), itemsize);
  return TN_OK;
}

static tn_status storage_alloc(tn_tensor *t, const tni_backend *backend, int16_t index, tni_pool *pool, uint64_t bytes) {
  tni_memory_block *block;
  if (tni_should_fail()) return tni_oom(bytes, "tensor data");
  tn_status status =
      tni_memory_alloc(pool, bytes, tni_stream_raw((tn_device){.backend = backend->id, .index = index}), &block);
  if (status != TN_OK) return tn_wrap(status, "allocating %llu bytes on %s", (unsigned long long)bytes, backend->name);
  t->own_storage = (tni_storage){.mem = block->mem,
                                 .address = block->address,
                                 .size_bytes = bytes,
                                 .ctx = block,
                                 .base_bytes = block->base_bytes,
                                 .kind = TNI_STORAGE_ALLOCATED,
                                 .backend = backend->id,
                                 .device_index = index};
  return TN_OK;
}

static inline void view_common(tn_view *v, tn_dtype dtype, size_t itemsize, uint8_t backend, int16_t index) {
  v->dtype = dtype;
  v->itemsize = (uint8_t)itemsize;
  v->backend = backend;
  v->device_index = index;
  v->reserved0 = 0;
  v->reserved1 = 0;
  v->reserved2 = 0;
  v->offset_bytes = 0;
}

uint64_t tni_storage_bytes(const tni_storage *storage) {
  if (storage->kind != TNI_STORAGE_INLINE) return storage->kind == TNI_STORAGE_NONE ? 0 : storage->size_bytes;
  return tni_block_bytes[storage_block(storage)->block_class] - (uint64_t)TNI_DATA_OFFSET;
}

/* Only the first word: see tni_storage. */
static inline void storage_inline(tn_tensor *t, uint64_t bytes, uint8_t backend, int16_t index) {
  uint64_t word = (bytes ? TNI_STORAGE_INLINE : TNI_STORAGE_NONE) | (uint64_t)backend << 8 |
                  (uint64_t)(uint16_t)index << 16;
  memcpy(&t->own_storage, &word, sizeof word);
}

/* Block class for `bytes` of data behind the struct. */
static inline unsigned class_for(uint64_t bytes) {
  if (bytes == 0) return CLASS_PLAIN;
  return bytes <= TNI_SMALL_BYTES ? TNI_SMALL_CLASS : bytes <= 384 ? 6 : 7;
}

/* Where a tensor's data will lie, and its block for that. */
typedef struct place {
  const tni_backend *backend;
  int16_t index;
  bool in_block;  /* behind the struct */
  tni_pool *pool; /* else from there */
  uint64_t bytes; /* 0: no memory */
} place;
static inline bool place_is_elsewhere(const place *p) { return p->bytes && !p->in_block; }
static inline unsigned place_class(const place *p) { return class_for(p->in_block ? p->bytes : 0); }
static inline unsigned place_extras(const place *p) { return place_is_elsewhere(p) ? TNI_EXTRA_MEMORY : 0; }

/* The block and the memory; own_storage describes it, all else is the caller's to set. */
static tn_status place_take(const place *p, tn_tensor **out_tensor) {
  tn_tensor *t = NULL;
  if (place_is_elsewhere(p)) {
    t = (tn_tensor *)(void *)tni_memory_pair_take(p->pool, p->bytes);
    if (!t) t = (tn_tensor *)(void *)tni_memory_pair_take_slow(p->pool, p->bytes);
  }
  *out_tensor = t;
  if (t) {
    t->own_storage.size_bytes = p->bytes;
    return TN_OK;
  }
  t = tni_block_pop(place_class(p));
  if (!t) return tni_oom(TNI_BLOCK_MAX, "a tensor");
  tn_status status = TN_OK;
  if (place_is_elsewhere(p))
    status = storage_alloc(t, p->backend, p->index, p->pool, p->bytes);
  else
    storage_inline(t, p->bytes, p->backend->id, p->index);
  if (TNI_LIKELY(status == TN_OK))
    *out_tensor = t;
  else
    tni_block_push(t, place_class(p));
  return status;
}

static inline void *storage_address(tn_tensor *t) {
  if (t->own_storage.kind == TNI_STORAGE_INLINE) return (char *)t + TNI_DATA_OFFSET;
  return t->own_storage.kind == TNI_STORAGE_NONE ? NULL : t->own_storage.address;
}

tn_status tni_tensor_new_in(tn_dtype dtype, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                            tn_device device, tni_pool *pool, tn_tensor **out_tensor) {
  size_t itemsize = tn_kit_dtype_size(dtype);
  *out_tensor = NULL;
  if (ndim > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "rank: expected at most %d, got %u", TN_MAX_RANK, ndim);
  if (!itemsize || !(TN_DTYPE_BIT(dtype) & TN_DTYPES_ALL))
    return tn_fail(TN_ERR_DTYPE, "dtype %s (code %d) has no tensors in this version", tn_dtype_name(dtype), dtype);
  const tni_backend *backend;
  TN_TRY(tni_backend_need(device, &backend));
  for (uint32_t i = 0; i < ndim; ++i)
    if (sizes[i] < 0)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "size %u is %lld; expected >= 0", i, (long long)sizes[i]);
  tn_dim contiguous[TN_MAX_RANK];
  if (!strides) {
    int64_t numel;
    TN_TRY(tn_shape_numel(ndim, sizes, &numel)); /* overflow */
    tni_contiguous_strides(ndim, sizes, contiguous);
    strides = contiguous;
  }
  uint64_t bytes;
  TN_TRY(span_bytes(ndim, sizes, strides, itemsize, &bytes));

  const bool is_meta = device.backend == TN_BACKEND_META;
  const bool may = !pool && (backend->def->flags & TN_BACKEND_INLINE_MEMORY);
  const place p = {.backend = backend,
                   .index = device.index,
                   .in_block = may && bytes <= TNI_INLINE_BYTES,
                   .pool = pool || is_meta ? pool : backend->pools[device.index],
                   .bytes = is_meta ? 0 : bytes};
  tn_tensor *t;
  TN_TRY(place_take(&p, &t));
  block_clear(t, place_class(&p), place_extras(&p));
  tn_status status = dims_place(t, ndim);
  if (status != TN_OK) {
    tn_tensor_release(t);
    return status;
  }
  dims_copy(t, ndim, sizes, strides);
  view_common(&t->view, dtype, itemsize, device.backend, device.index);
  t->view.data = storage_address(t);
  t->view.mem = (uint64_t)(uintptr_t)t->view.data;
  if (t->own_storage.kind == TNI_STORAGE_ALLOCATED) {
    t->view.mem = t->own_storage.mem;
    t->view.offset_bytes = t->own_storage.base_bytes;
  }
  t->view.storage = &t->own_storage;
  t->view.flags = 0;
  t->keys = TNI_KEY(device.backend);
  version_start(t);
  if (TNI_UNLIKELY(!tni_view_finish(&t->view))) { /* strides of 0 let many elements fit into few bytes */
    tn_tensor_release(t);
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "a tensor of more than 2^63 - 1 elements");
  }
  *out_tensor = t;
  return TN_OK;
}

/* What tni_tensor_new_in checks was checked when `like` was made; what it computes stands there. */
tn_status tni_tensor_new_like(const tn_view *like, uint64_t word, size_t itemsize, tn_tensor **out_tensor) {
  const tni_backend *backend = tni_backend_get(like->backend);
  const uint64_t bytes = (uint64_t)like->numel * itemsize;
  if (TNI_UNLIKELY(!bytes || like->ndim > TNI_INLINE_RANK || like->backend == TN_BACKEND_META))
    return tni_tensor_new_in(word & 0xff, like->ndim, like->sizes, NULL, tn_view_device(like), NULL, out_tensor);
  *out_tensor = NULL;
  const place p = {.backend = backend,
                   .index = like->device_index,
                   .in_block = bytes <= TNI_INLINE_BYTES && (backend->def->flags & TN_BACKEND_INLINE_MEMORY),
                   .pool = backend->pools[like->device_index],
                   .bytes = bytes};
  tn_tensor *t;
  TN_TRY(place_take(&p, &t));
  const tni_storage *s = &t->own_storage;
  void *data = storage_address(t);
  const uint64_t mem = p.in_block ? (uint64_t)(uintptr_t)data : s->mem;
  tni_tensor_fix(t, mem, p.in_block ? 0 : s->base_bytes, place_class(&p), place_extras(&p));
  tni_tensor_fill(t, like, word, TNI_KEY(like->backend), data);
  *out_tensor = t;
  return TN_OK;
}

tn_status tni_tensor_new(tn_dtype dtype, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                         tn_device device, tn_tensor **out_tensor) {
  tn_dim row_major[TNI_INLINE_RANK];
  tn_view like;
  uint64_t word;
  const tni_backend *backend = tni_backend_get(device.backend);
  if (!strides && backend && device.index >= 0 && device.index < backend->n_devices) {
    const size_t itemsize = tni_tensor_like(&like, &word, row_major, dtype, ndim, sizes, device, INT32_MAX);
    if (TNI_LIKELY(itemsize)) return tni_tensor_new_like(&like, word, itemsize, out_tensor);
  }
  return tni_tensor_new_in(dtype, ndim, sizes, strides, device, NULL, out_tensor);
}

/* ------------------------------------------------------------------ sharing memory */

/* t gets src's memory seen through other geometry. */
static void view_from(tn_tensor *t, const tn_view *src, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                      tn_dim offset) {
  tn_view *v = &t->view;
  dims_copy(t, ndim, sizes, strides);
  view_common(v, src->dtype, src->itemsize, src->backend, src->device_index);
  v->data = src->data ? (char *)src->data + offset * src->itemsize : NULL;
  v->mem = src->mem;
  v->offset_bytes = src->offset_bytes + offset * src->itemsize;
  v->storage = src->storage;
  v->flags = src->flags & (uint32_t)~TN_VIEW_WRAPPED_NUMBER;
  tni_view_finish(v);
}

static void keep_add(tn_tensor *block) { tni_count_add(&block->keep); }

tn_status tni_tensor_alias(tn_tensor *src, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                           tn_dim offset, bool share_version, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  tn_tensor *t = block_new(CLASS_PLAIN);
  if (!t) return tni_oom(TNI_BLOCK_MAX, "a tensor");
  tn_status status = dims_place(t, ndim);
  if (status != TN_OK) {
    block_discard(t);
    return status;
  }
  view_from(t, &src->view, ndim, sizes, strides, offset);
  t->owner = storage_block(tni_storage_of(src));
  t->extras |= TNI_EXTRA_OWNERS;
  keep_add(t->owner);
  t->keys = TNI_KEY(src->view.backend);
  if (!share_version) {
    version_start(t);
  } else {
    t->version = src->version;
    tn_tensor *block = src->version ? version_block(src->version) : t->owner;
    if (block != t->owner) {
      t->version_owner = block;
      keep_add(block);
    }
  }
  *out_tensor = t;
  return TN_OK;
}

/* ------------------------------------------------------------------ letting go */

struct tni_retired {
  struct tni_retired *next;
  tn_tensor *block;
};

/* The end of a block with memory outside it. */
static __attribute__((noinline)) void memory_release_slow(tn_tensor *t) {
  const tni_storage *s = &t->own_storage;
  if (s->kind == TNI_STORAGE_ALLOCATED) {
    if (tni_memory_pair_give_slow((tni_memory_pair *)(void *)t, s->ctx)) return;
    tni_memory_free(s->ctx, TNI_MEMORY_OWN_STREAM);
  } else if (s->deleter) {
    s->deleter(s->ctx);
  }
  tni_block_push(t, CLASS_PLAIN);
}

/* The two stay together if they can. */
static inline void memory_release(tn_tensor *t) {
  const tni_storage *s = &t->own_storage;
  if (TNI_UNLIKELY(s->kind != TNI_STORAGE_ALLOCATED || !tni_memory_pair_give((tni_memory_pair *)(void *)t, s->ctx)))
    memory_release_slow(t);
}

/* See Note [Ready blocks] in small.h. */
static inline void keep_release(tn_tensor *block) {
  if (!tni_count_drop(&block->keep)) return;
  if (TNI_UNLIKELY(block->own_storage.kind > TNI_STORAGE_INLINE)) {
    tni_tensor_fix(block, 0, block->own_storage.base_bytes, CLASS_PLAIN, TNI_EXTRA_MEMORY);
    memory_release(block);
    return;
  }
  const unsigned block_class = block->block_class;
  if (block_class == TNI_BLOCK_SMALL)
    tni_tensor_fix(block, (uint64_t)(uintptr_t)block + TNI_DATA_OFFSET, 0, TNI_BLOCK_SMALL, 0);
  else if (block_class == TNI_BLOCK_VIEW)
    tni_view_fix(block);
  tni_block_push(block, block_class);
}

static void retired_release(struct tni_retired *r) {
  while (r) {
    struct tni_retired *next = r->next;
    keep_release(r->block);
    tni_free(r);
    r = next;
  }
}

/* The rare belongings of a dying tensor. */
static void extras_release(tn_tensor *t) {
  if (t->version_owner) keep_release(t->version_owner);
  if (t->owner) keep_release(t->owner);
  if (t->retired) retired_release(t->retired);
  if (t->extras & TNI_EXTRA_REPLAY) tni_free(t->replay);
  if (t->extras & TNI_EXTRA_DIMS) tni_free((void *)(uintptr_t)t->view.sizes);
}

/* The last handle is gone: history, extras, the handles' share of keep. */
static __attribute__((noinline)) void die_slowly(tn_tensor *t) {
  if (t->autograd) tni_autograd_release(t->autograd);
  if (t->extras) extras_release(t);
  keep_release(t);
}

/* t's last handle was dropped. A loop, not a recursion: a chain of views may be long. */
static __attribute__((noinline)) void release_last(tn_tensor *t) {
  do {
    tn_tensor *parent = t->parent;
    die_slowly(t);
    t = parent;
  } while (t && tni_count_drop(&t->refs));
}

static __attribute__((noinline)) void drop(tn_tensor *t) {
  if (tni_count_drop(&t->refs)) release_last(t);
}

/* A view that dies young: its memory is its parent's. */
static __attribute__((noinline)) void release_view(tn_tensor *t, unsigned block_class) {
  tn_tensor *parent = t->parent;
  tni_block_push(t, block_class);
  if (tni_count_drop(&parent->refs)) release_last(parent);
}

/* A sole owner with something to give up. Where it is memory elsewhere and nothing else, as with every tensor of most
 * devices, there is nothing to count down. */
static __attribute__((noinline)) void release_extras(tn_tensor *t) {
  const uint32_t extras = tni_tensor_word(t) & (TNI_WORD_EXTRAS | TNI_WORD_KEPT);
  if (TNI_LIKELY(extras == TNI_EXTRA_MEMORY << TNI_WORD_EXTRAS_SHIFT && !t->parent))
    memory_release(t);
  else
    release_last(t);
}

/* Most tensors die young: one handle, no history, memory in their own block. */
void tn_tensor_release(tn_tensor *t) {
  if (!t) return;
  if (TNI_UNLIKELY(atomic_load_explicit(&t->counts, memory_order_acquire) != TNI_SOLE || t->autograd)) {
    drop(t);
    return;
  }
  const uint32_t word = tni_tensor_word(t); /* by a sole owner only: a thread with another handle may be writing it */
  if (TNI_UNLIKELY(word & (TNI_WORD_EXTRAS | TNI_WORD_KEPT))) {
    release_extras(t);
    return;
  }
  const unsigned block_class = word >> TNI_WORD_CLASS_SHIFT;
  if (TNI_LIKELY(!t->parent))
    tni_block_push(t, block_class);
  else
    release_view(t, block_class);
}

tn_tensor *tn_tensor_retain(tn_tensor *t) {
  if (t) tni_retain(t);
  return t;
}

/* ------------------------------------------------------------------ exchanging memory in place */

/* sizes and strides may be t's own. */
tn_status tni_tensor_set_geometry(tn_tensor *t, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                                  tn_dim offset) {
  tn_dim own[TN_MAX_RANK];
  void *old = NULL;
  if (!strides) {
    tni_contiguous_strides(ndim, sizes, own);
    strides = own;
  }
  if (ndim > TNI_INLINE_RANK || (t->extras & TNI_EXTRA_DIMS)) {
    tn_dim *dims = tni_alloc((2 * ndim + 1) * sizeof *dims);
    if (!dims) return tni_oom(2 * ndim * sizeof *dims, "sizes and strides");
    if (t->extras & TNI_EXTRA_DIMS) old = sizes_mut(t);
    t->extras |= TNI_EXTRA_DIMS;
    t->view.sizes = dims;
    t->view.strides = dims + ndim;
  }
  if (ndim) memmove(sizes_mut(t), sizes, ndim * sizeof *sizes);
  if (ndim) memmove(strides_mut(t), strides, ndim * sizeof *strides);
  tni_free(old);
  t->view.ndim = (uint8_t)ndim;
  if (offset) t->extras |= TNI_EXTRA_MOVED;
  t->view.offset_bytes += offset * t->view.itemsize;
  if (t->view.data) t->view.data = (char *)t->view.data + offset * t->view.itemsize;
  tni_view_finish(&t->view);
  return TN_OK;
}

/* t lets go of the memory of another block: at once, or, while views may see it, when t dies. spare: the record
 * for the second case (consumed), NULL for the first. */
static void owner_leave(tn_tensor *t, struct tni_retired *spare) {
  if (!t->owner) return;
  if (!spare) {
    keep_release(t->owner);
    return;
  }
  *spare = (struct tni_retired){t->retired, t->owner};
  t->retired = spare;
}

tn_status tni_tensor_set(tn_tensor *t, tn_tensor *other) {
  tn_tensor *block = storage_block(tni_storage_of(other));
  struct tni_retired *spare = NULL;
  if (t->owner && atomic_load_explicit(&t->refs, memory_order_acquire) > 1) {
    spare = tni_alloc(sizeof *spare);
    if (!spare) return tni_oom(sizeof *spare, "a retired storage");
  }
  tn_status status = tni_tensor_set_geometry(t, other->view.ndim, other->view.sizes, other->view.strides, 0);
  if (status != TN_OK) {
    tni_free(spare);
    return status;
  }
  if (block != t) keep_add(block); /* before the old owner goes: it may be the same */
  owner_leave(t, spare);
  t->owner = block == t ? NULL : block;
  t->extras |= TNI_EXTRA_OWNERS;
  const tn_view *from = &other->view;
  tn_view *v = &t->view;
  v->data = from->data;
  v->mem = from->mem;
  v->offset_bytes = from->offset_bytes;
  v->storage = from->storage;
  v->dtype = from->dtype;
  v->itemsize = from->itemsize;
  v->backend = from->backend;
  v->device_index = from->device_index;
  v->flags = from->flags & (uint32_t)~TN_VIEW_WRAPPED_NUMBER;
  t->keys = (t->keys & ~TNI_KEYS_BACKENDS) | TNI_KEY(from->backend);
  return TN_OK;
}

/* ------------------------------------------------------------------ foreign memory */

/* Bytes from the first element to the end of the farthest one that strides >= 0 reach. (Whether it is all there only
 * the giver of the memory knows.) */
static uint64_t foreign_bytes(const tn_view *v) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < v->ndim; ++i)
    if (v->strides[i] > 0) last += (uint64_t)(v->sizes[i] - 1) * (uint64_t)v->strides[i];
  return v->numel ? (last + 1) * v->itemsize : 0;
}

tn_status tni_tensor_foreign(const tn_foreign *f, tn_tensor **out_tensor) {
  return tni_tensor_foreign_at(f, (uint64_t)(uintptr_t)f->data, 0, out_tensor);
}

tn_status tni_tensor_foreign_at(const tn_foreign *f, uint64_t mem, int64_t offset_bytes, tn_tensor **out_tensor) {
  tn_dim own[TN_MAX_RANK];
  const tn_dim *strides = f->strides;
  if (!strides) {
    tni_contiguous_strides((uint32_t)f->ndim, f->sizes, own);
    strides = own;
  }
  tn_tensor *t = block_new(CLASS_PLAIN);
  if (!t) return tni_oom(TNI_BLOCK_MAX, "a tensor");
  tn_status status = dims_place(t, (uint32_t)f->ndim);
  if (status != TN_OK) {
    block_discard(t);
    return status;
  }
  dims_copy(t, (uint32_t)f->ndim, f->sizes, strides);
  view_common(&t->view, f->dtype, tn_kit_dtype_size(f->dtype), f->device.backend, f->device.index);
  t->own_storage = (tni_storage){.mem = mem,
                                 .address = f->data ? (char *)f->data - offset_bytes : NULL,
                                 .deleter = f->deleter,
                                 .ctx = f->ctx,
                                 .kind = TNI_STORAGE_FOREIGN,
                                 .backend = f->device.backend,
                                 .device_index = f->device.index,
                                 .flags = f->read_only ? TN_VIEW_READ_ONLY : 0};
  t->extras |= TNI_EXTRA_MEMORY;
  t->view.data = f->data;
  t->view.mem = mem;
  t->view.offset_bytes = offset_bytes;
  t->view.storage = &t->own_storage;
  t->view.flags = t->own_storage.flags;
  tni_view_finish(&t->view);
  t->own_storage.size_bytes = (uint64_t)offset_bytes + foreign_bytes(&t->view);
  t->keys = TNI_KEY(f->device.backend);
  version_start(t);
  *out_tensor = t;
  return TN_OK;
}
