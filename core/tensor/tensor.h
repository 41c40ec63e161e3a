/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor object, its storage and its version cell.
 *
 * Note [One block, two counts]
 * A tensor is one block: the view that kernels get, the bookkeeping, an embedded storage record, an embedded
 * version cell, and behind them small data (on backends that declare TN_BACKEND_INLINE_MEMORY).
 *   refs  counts handles: users' handles, views (a view holds its parent), saved variables, grad fields.
 *   keep  counts reasons to keep the block's storage and version cell: 1 as long as refs > 0, and one for
 *         each tensor that uses this block's storage without being a view (detach(), saved results).
 * When refs falls to 0 the history goes (autograd slot, parent); when keep falls to 0 the memory goes.
 * So x.detach() keeps x's memory but not x's graph, and a node can save its own result without a cycle.
 * Whoever finds a count of 1 by an acquire load is the sole owner: see Note [Counts] in core/base/base.h.
 *
 * Note [Who owns a view's memory]
 * A view borrows storage and version from its parent, which it holds strongly; it has no counts of its own on
 * them. A tensor whose storage is replaced (set_, resize_, .data =) while views of it may exist keeps the old
 * owner on `retired` until it dies itself.
 */
#ifndef TENON_CORE_TENSOR_H
#define TENON_CORE_TENSOR_H

#include <tenon/operator.h>
#include <tenon/plugin_backend.h>
#include <tenon/tensor.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"

/* ------------------------------------------------------------------ keys */

/* Note [Key order]
 * Bits 0-23 are backends, 24-63 layers; the highest bit of a call runs first. Back and Front serve the
 * transform stack and are included only while it is not empty. Anchors stand with gaps, so that layer plugins
 * find a free bit above or below them; bits never move once a tensor exists. */
enum {
  TNI_BIT_BACK = 24,
  TNI_BIT_AUTOGRAD = 36,
  TNI_BIT_TRACE = 44,    /* anchor, no core cell */
  TNI_BIT_AUTOCAST = 52, /* anchor, no core cell */
  TNI_BIT_FRONT = 63
};
#define TNI_KEY(bit) ((uint64_t)1 << (bit))
#define TNI_KEY_AUTOGRAD TNI_KEY(TNI_BIT_AUTOGRAD)
#define TNI_KEYS_BACKENDS (TNI_KEY(TN_BACKEND_LIMIT) - 1)

/* ------------------------------------------------------------------ storage, version */

enum {
  TNI_STORAGE_NONE = 0,      /* meta tensors, zero bytes */
  TNI_STORAGE_INLINE = 1,    /* behind the tensor in its own block */
  TNI_STORAGE_ALLOCATED = 2, /* from the device's pool */
  TNI_STORAGE_FOREIGN = 3    /* from_memory: deleter */
};

/* Base and size never change once set (DESIGN 6). INLINE storages fill in the first word only: the rest follows
 * from the block. */
typedef struct tni_storage {
  uint8_t kind;
  uint8_t backend;
  int16_t device_index;
  uint32_t flags; /* TN_VIEW_READ_ONLY */
  uint64_t mem;
  void *address;
  uint64_t size_bytes;        /* tni_storage_bytes reads it */
  void (*deleter)(void *ctx); /* FOREIGN, may be NULL */
  void *ctx;                  /* FOREIGN: deleter's; ALLOCATED: the tni_memory_block */
  int64_t base_bytes;         /* ALLOCATED: where the storage begins behind mem (Note [Blocks, slabs, segments]) */
} tni_storage;

/* Shared by a base, its views, detach() and unpacked saved tensors. */
typedef struct tni_version {
  _Atomic uint32_t value;
  uint32_t reserved;
} tni_version;

/* ------------------------------------------------------------------ tensor */

/* tn_tensor.creation: how a view came to be; in-place writes on some are refused (E13-E15). */
enum {
  TNI_CREATION_DEFAULT = 0,
  TNI_CREATION_NO_GRAD = 1,
  TNI_CREATION_INFERENCE = 2,
  TNI_CREATION_MULTI_OUTPUT = 3,
  TNI_CREATION_CUSTOM = 4
};

enum { TNI_INLINE_RANK = 6 };

typedef struct tni_plugin tni_plugin;     /* core/load/plugin.h */
typedef struct tni_autograd tni_autograd; /* core/autograd/autograd.h */

/* The record of the view operator that made a tensor: enough to call it again on another base. The values are
 * a private copy; args[0] is the place of the parent. Lives in the view's own block or in a tni_alloc. */
typedef struct tni_replay {
  const tn_op *op;
  uint32_t n_args;
  uint32_t out_index; /* which output of a multi-output view operator */
  uint32_t version;   /* of the memory when the view was made: a newer one means its history may be stale */
  tn_value args[];
} tni_replay;

struct tni_pool; /* core/memory/memory.h */

#define TNI_SOLE ((uint64_t)1 << 32 | 1) /* refs 1, keep 1 */

/* tn_tensor.extras: what a dying tensor has to give up besides the usual; 0 for most. */
enum {
  TNI_EXTRA_DIMS = 1,   /* sizes and strides are in a tni_alloc (rank > TNI_INLINE_RANK) */
  TNI_EXTRA_OWNERS = 2, /* owner, version_owner or retired is set */
  TNI_EXTRA_REPLAY = 4, /* replay is in a tni_alloc */
  TNI_EXTRA_MEMORY = 8, /* own_storage holds memory outside the block */
  TNI_EXTRA_MOVED = 16  /* begins elsewhere in its storage than it did when it was made */
};

/* The order of the fields is the order of the stores that make one: see block_new in tensor.c. */
struct tn_tensor {
  tn_view view; /* first: a handle is readable as a view */
  uint64_t keys;
  union {
    struct {
      _Atomic uint32_t refs;
      _Atomic uint32_t keep;
    };
    _Atomic uint64_t counts; /* both, for the one load that finds a sole owner: TNI_SOLE */
  };
  tni_version *version;   /* NULL: inference tensor */
  /* zero in a fresh tensor, from here ... */
  tni_autograd *autograd; /* NULL: no gradient, no history */
  tn_tensor *parent;      /* view: what it was made from (strong); else NULL */
  tn_tensor *base;        /* view: the root of the parent chain (borrowed through it); else NULL */
  tn_tensor *owner;       /* not NULL: storage lies in that block (counts in its keep) */
  tn_tensor *version_owner; /* not NULL: version lies in that block (counts in its keep) */
  tni_replay *replay;     /* view: how it was made */
  struct tni_retired *retired; /* old owners, see Note [Who owns a view's memory] */
  tni_autograd *forward;  /* reserved: forward-mode tangent */
  void *wrapper;          /* reserved: transform value {inner, level, batch dim} */
  void *frontend;         /* reserved: the frontend's object for this tensor */
  int32_t level;          /* reserved: wrapper level, 0 = plain */
  uint8_t creation;       /* TNI_CREATION_... */
  uint8_t extras;         /* TNI_EXTRA_... */
  uint8_t kept;           /* autograd: 1 once a node has saved this tensor by its handle */
  /* ... to here */
  uint8_t block_class;    /* TNI_BLOCK_CLASSES: from tni_alloc, not a freelist */
  tni_storage own_storage;
  tni_version own_version;
  tn_dim dims[2 * TNI_INLINE_RANK]; /* sizes, then strides at dims + TNI_INLINE_RANK */
};

/* Where inline data begins, and the most bytes that go there. */
enum { TNI_DATA_OFFSET = (sizeof(struct tn_tensor) + 63) / 64 * 64, TNI_INLINE_BYTES = 640 };

/* level, creation, extras, kept and block_class of a fresh tensor. */
static inline void tni_tensor_mark(tn_tensor *t, unsigned block_class, unsigned creation, unsigned extras) {
  const uint64_t last = (uint64_t)block_class << 56 | (uint64_t)extras << 40 | (uint64_t)creation << 32;
  memcpy(&t->level, &last, sizeof last);
}
/* Zeroes the fields of a fresh tensor between version and own_storage and sets its class. Written out in 16-byte
 * stores: for 88 bytes gcc 12 emits `rep stos`, which costs more than the rest of the tensor. */
static inline void tni_tensor_clear(tn_tensor *t, unsigned block_class, unsigned creation, unsigned extras) {
  typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));
  pair *p = (pair *)(void *)&t->autograd;
  p[0] = p[1] = p[2] = p[3] = p[4] = (pair){0, 0};
  tni_tensor_mark(t, block_class, creation, extras);
}
_Static_assert(offsetof(struct tn_tensor, level) == offsetof(struct tn_tensor, autograd) + 80 &&
                   offsetof(struct tn_tensor, block_class) == offsetof(struct tn_tensor, level) + 7 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tni_tensor_clear and tni_tensor_mark know the layout");
/* creation, extras, reserved and block_class in one load out of that last store: a load that spans two stores in
 * flight waits for both, and tensors often die right after they are made. */
static inline uint32_t tni_tensor_word(const tn_tensor *t) {
  uint32_t word;
  memcpy(&word, &t->creation, sizeof word);
  return word;
}
enum { TNI_WORD_EXTRAS = 0xff00, TNI_WORD_KEPT = 0xff0000, TNI_WORD_EXTRAS_SHIFT = 8, TNI_WORD_CLASS_SHIFT = 24 };

static inline tni_storage *tni_storage_of(const tn_tensor *t) { return (tni_storage *)t->view.storage; }
static inline void tni_retain(tn_tensor *t) { tni_count_add(&t->refs); }
static inline uint32_t tni_version_get(const tn_tensor *t) {
  return t->version ? atomic_load_explicit(&t->version->value, memory_order_relaxed) : 0;
}
/* Bumps the version of a tensor that is about to be or was written. Two threads may not write one tensor at once
 * (tenon/tensor.h), so this is no read-modify-write. */
static inline void tni_version_bump(tn_tensor *t) {
  if (t->version) atomic_store_explicit(&t->version->value, tni_version_get(t) + 1, memory_order_relaxed);
}

/* A fresh tensor of backend memory. strides NULL: row-major. Uninitialised data; not inference unless the
 * thread is. */
tn_status tni_tensor_new(tn_dtype dtype, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                         tn_device device, tn_tensor **out_tensor);
/* The same on a host-memory backend, its data from this pool (NULL: as tni_tensor_new chooses). */
tn_status tni_tensor_new_in(tn_dtype dtype, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                            tn_device device, struct tni_pool *pool, tn_tensor **out_tensor);
/* The same for a result with the sizes and strides of `like`, which is contiguous; word: its tni_view_word (small.h), which
 * is like's but for dtype and an itemsize that is not larger. */
tn_status tni_tensor_new_like(const tn_view *like, uint64_t word, size_t itemsize, tn_tensor **out_tensor);
/* Same memory, other geometry; offset in elements from src's first element. Not a tracked view: shares memory
 * (keep) and, if share_version, the version cell; no history, no parent. */
tn_status tni_tensor_alias(tn_tensor *src, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                           tn_dim offset, bool share_version, tn_tensor **out_tensor);
/* A tracked view: holds src, records replay (copied) and the thread's creation mark. Sets the autograd bit if
 * the view may have history. args are the view operator's. */
tn_status tni_tensor_view(tn_tensor *src, const tn_desc *desc, const tn_op *op, const tn_value *args,
                          uint32_t out_index, tn_tensor **out_tensor);
/* Sets what a dying view leaves for the next one: Note [Ready blocks] in small.h. */
void tni_view_fix(tn_tensor *t);
/* Checked foreign memory: f's device is open and its dtype known. On failure the deleter has not run. */
tn_status tni_tensor_foreign(const tn_foreign *f, tn_tensor **out_tensor);
/* The same on any device: elements begin offset_bytes behind mem; f->data is their address, NULL where there is none. */
tn_status tni_tensor_foreign_at(const tn_foreign *f, uint64_t mem, int64_t offset_bytes, tn_tensor **out_tensor);
/* Other sizes and strides (NULL: row-major) over the same storage, in place; offset in elements. */
tn_status tni_tensor_set_geometry(tn_tensor *t, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                                  tn_dim offset);
/* Takes other's storage and geometry in place (resize_, set_, .data =); t keeps identity and version. */
tn_status tni_tensor_set(tn_tensor *t, tn_tensor *other);

/* Reads one element of raw memory as a number of its category. */
tn_status tni_scalar_load(tn_dtype dtype, const void *raw, tn_scalar *out);

/* From the beginning of its storage to a view's first element. */
static inline int64_t tni_view_offset(const tn_view *v) {
  const tni_storage *s = (const tni_storage *)v->storage;
  return s && s->kind == TNI_STORAGE_ALLOCATED ? v->offset_bytes - s->base_bytes : v->offset_bytes;
}
/* Bytes that a storage can hold. */
uint64_t tni_storage_bytes(const tni_storage *storage);
/* Row-major strides of sizes. */
void tni_contiguous_strides(uint32_t ndim, const tn_dim *sizes, tn_dim *out_strides);
/* Recomputes numel and the contiguous and dense flags from sizes and strides. false: the number of elements does
 * not fit an int64. */
bool tni_view_finish(tn_view *view);

/* ------------------------------------------------------------------ backends */

/* One opened backend. Filled by the loader (or the core, for meta); read-only once published. */
typedef struct tni_backend {
  uint8_t id;
  int32_t n_devices;
  struct tn_generator **generators; /* one per device */
  struct tni_pool **pools;          /* one per device (core/memory); NULL: meta */
  _Atomic(struct tni_pool *) *pinned; /* one per device, NULL until asked for (pinned.c); no array: no such memory */
  struct tni_fork_state *fork;      /* NULL: meta */
  const struct tn_backend_def *def; /* full-size private copy */
  const char *name;
  bool closed;           /* its plugin was unloaded: pools and rows answer in words, the plugin is not called */
  tni_plugin *plugin;    /* who registered it; NULL: the core */
  struct tni_backend *older; /* what stood here before, kept for whoever still reads it */
} tni_backend;

/* Bit i: backend i is open and its small data may live in the tensor's own block. */
extern _Atomic uint32_t tni_inline_backends;
/* The opened backend with this id, or NULL. */
extern _Atomic(const tni_backend *) tni_backends[TN_BACKEND_LIMIT];
/* The backend of a device that somebody named, opened if it is not (only cpu can be named unopened: it is every
 * thread's first default). TN_ERR_DEVICE if there is no such device of it. */
tn_status tni_backend_need(tn_device device, const tni_backend **out_backend);
static inline const tni_backend *tni_backend_get(uint8_t id) {
  return id < TN_BACKEND_LIMIT ? atomic_load_explicit(&tni_backends[id], memory_order_acquire) : NULL;
}

#endif
