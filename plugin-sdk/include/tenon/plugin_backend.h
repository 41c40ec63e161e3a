/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend fills: memory on a kind of device and copies to and from the host. With this table alone a
 * device can hold tensors; kernels (tn_kernel_def) make it compute.
 *
 * Every row says required or optional and what absence means. All rows may be called from any thread, also
 * several at once; none may call back into dispatch. `ctx` is tn_backend_def.ctx.
 *
 * The core caches what alloc gives: large blocks that many tensors share. alloc, free, synchronize and the event
 * rows may run with a lock of that cache held, so they may not ask the host for memory.
 */
#ifndef TENON_PLUGIN_BACKEND_H
#define TENON_PLUGIN_BACKEND_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tn_backend_def.flags: what the backend says of itself. One with a flag that this host does not know is refused:
 * TN_ERR_VERSION. */
enum {
  TN_BACKEND_HOST_MEMORY = 1u << 0,   /* addresses can be read and written by host code */
  TN_BACKEND_INLINE_MEMORY = 1u << 1, /* small data may live in the tensor's own block; with TN_BACKEND_HOST_MEMORY only */
  /* mem handles cannot be split: every tensor starts its own block. Without this flag tensors share blocks: where
   * mem is the address, at mem + offset; else (an opaque handle) with mem as alloc gave it and an offset in bytes. */
  TN_BACKEND_NO_OFFSETS = 1u << 2,
  /* Operators without a kernel here may run on the CPU, with copies both ways that are counted (minor 2). Without it a
   * missing kernel is an error unless the user allows more; the user's word always holds. */
  TN_BACKEND_CPU_FALLBACK = 1u << 3
};

/* tn_backend_def.fork: what a forked child may do with devices that the parent opened. Safe: everything. Reinit: the
 * child's first use calls `reinit`. Poisoned: allocations, copies and kernels fail with a sentence, frees are dropped. */
enum { TN_FORK_SAFE = 0, TN_FORK_REINIT = 1, TN_FORK_POISONED = 2 };

typedef struct tn_memory_info {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t free_bytes;
  TN_FUTURE_FIELD
} tn_memory_info;

typedef struct tn_backend_def {
  uint32_t struct_size;
  uint32_t flags;           /* TN_BACKEND_... */
  const char *device_name;  /* "cpu", "acme": the name that users write; as in the manifest */
  uint32_t alignment_bytes; /* power of two; of every block that alloc returns */
  uint32_t fork;            /* TN_FORK_... */
  void *ctx;

  /* Required. How many devices of this kind are usable now (0 with TN_OK: none; or TN_ERR_UNAVAILABLE with
   * words that say why). */
  tn_status (*device_count)(void *ctx, int32_t *out_count);
  /* Required. size_bytes > 0. TN_ERR_OUT_OF_MEMORY makes the core purge its cache and try once more. */
  tn_status (*alloc)(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory);
  /* Required. Ends in stream order. */
  void (*free)(void *ctx, int32_t index, const tn_memory *memory, void *stream);
  /* Required. Copies size_bytes between host memory and mem + offset, in the order of the stream; complete when it
   * returns. */
  tn_status (*from_host)(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                         uint64_t size_bytes, void *stream);
  tn_status (*to_host)(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                       uint64_t size_bytes, void *stream);
  /* Optional; absent: unknown, shown as null. */
  tn_status (*memory_info)(void *ctx, int32_t index, tn_memory_info *out_info);
  /* Optional; absent: every row and kernel is complete when it returns. Waits for all work of a device. */
  tn_status (*synchronize)(void *ctx, int32_t index);
  /* Optional; absent: "". A static text about one device, for `tenon devices` ("2 cores, avx512"). */
  const char *(*describe)(void *ctx, int32_t index);
  /* Optional; absent: unknown, shown as null. A static text that places a device ("numa 0"). */
  const char *(*locality)(void *ctx, int32_t index);
  /* Optional, all five or none; absent: memory passes from one stream to another only when the whole device is done.
   * An event is done when all work given to the stream before its last record is. */
  tn_status (*event_new)(void *ctx, int32_t index, void **out_event);
  void (*event_free)(void *ctx, int32_t index, void *event);
  tn_status (*event_record)(void *ctx, int32_t index, void *event, void *stream); /* may be recorded again */
  tn_status (*event_query)(void *ctx, int32_t index, void *event, bool *out_done);
  /* Later work of the stream waits for the event; the host does not. */
  tn_status (*event_wait)(void *ctx, int32_t index, void *event, void *stream);

  /* --- minor 2 --- */
  /* Optional, all three or none, and then with `synchronize`; absent: the device has one stream, NULL. NULL is the default stream of every device.
   * stream_synchronize waits for all work given to a stream. */
  tn_status (*stream_new)(void *ctx, int32_t index, void **out_stream);
  void (*stream_free)(void *ctx, int32_t index, void *stream);
  tn_status (*stream_synchronize)(void *ctx, int32_t index, void *stream);
  /* Optional; absent: device time is unknown to profilers. Nanoseconds between two recorded events that are done. */
  tn_status (*event_elapsed)(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns);
  /* Optional, both or none; absent: the device has no pinned memory. Host memory that copies need no staging for;
   * cached by the core like device memory, so a lock of that cache may be held. */
  tn_status (*host_alloc)(void *ctx, int32_t index, uint64_t size_bytes, tn_memory *out_memory);
  void (*host_free)(void *ctx, int32_t index, const tn_memory *memory);
  /* Optional; absent: through the host. Copies bytes between two devices of this backend, or within one; ordered on
   * `stream` of the device `to_index`. The ranges do not overlap. */
  tn_status (*copy)(void *ctx, int32_t to_index, uint64_t to_mem, int64_t to_offset_bytes, int32_t from_index,
                    uint64_t from_mem, int64_t from_offset_bytes, uint64_t size_bytes, void *stream);
  /* Required for TN_FORK_REINIT: makes the backend usable in a forked child, where the memory of before is gone. Called
   * once a child, before its first use of the backend. */
  tn_status (*reinit)(void *ctx);
  TN_FUTURE_FIELD
} tn_backend_def;

#ifdef __cplusplus
}
#endif
#endif
