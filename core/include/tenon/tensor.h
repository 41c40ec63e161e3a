/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as an application sees them: handles with a count, their geometry, memory in and out, devices,
 * random generators, scopes. Operators are in tenon/ops.h (generated).
 *
 * Ownership: a function that makes a tensor stores an owned handle; tn_tensor_release gives it up. Arguments
 * are borrowed for the call. Threads: one handle may be used by several threads as long as none writes the
 * tensor; counts are atomic. Errors: out parameters are set to NULL on failure unless said otherwise.
 */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include <stdio.h>
#include <tenon/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where and of what type a factory makes its result. NULL or zeroed fields: the thread's defaults.
 * Initialise with TN_OPTIONS(...): unnamed fields then mean "default". */
typedef struct tn_options {
  tn_dtype dtype;     /* TN_DTYPE_NONE: default */
  bool has_device;    /* false: default device */
  bool pin_memory;    /* cpu only: memory pinned for a device, see tenon/stream.h */
  tn_device device;
  tn_layout layout;   /* 0: strided */
} tn_options;
#define TN_OPTIONS(...) (&(const tn_options){__VA_ARGS__})

/* ------------------------------------------------------------------ handles */

TN_EXPORT tn_tensor *tn_tensor_retain(tn_tensor *tensor); /* returns its argument; NULL is allowed */
TN_EXPORT void tn_tensor_release(tn_tensor *tensor);      /* NULL is allowed */

/* ------------------------------------------------------------------ geometry: inline reads of the view */

static inline int32_t tn_tensor_ndim(const tn_tensor *t) { return tn_tensor_view(t)->ndim; }
static inline const tn_dim *tn_tensor_sizes(const tn_tensor *t) { return tn_tensor_view(t)->sizes; }
static inline const tn_dim *tn_tensor_strides(const tn_tensor *t) { return tn_tensor_view(t)->strides; }
static inline int64_t tn_tensor_numel(const tn_tensor *t) { return tn_tensor_view(t)->numel; }
static inline tn_dtype tn_tensor_dtype(const tn_tensor *t) { return tn_tensor_view(t)->dtype; }
static inline tn_device tn_tensor_device(const tn_tensor *t) { return tn_view_device(tn_tensor_view(t)); }
/* Address of the first element if the memory is the host's, else NULL. Borrowed while the handle lives. */
TN_EXPORT void *tn_tensor_data(tn_tensor *tensor);
/* Elements from the start of the tensor's memory to its first element. */
TN_EXPORT int64_t tn_tensor_storage_offset(const tn_tensor *tensor);
TN_EXPORT bool tn_tensor_is_contiguous(const tn_tensor *tensor);
/* Number of in-place writes that the memory's sharers have made; TN_ERR_STATE for inference tensors. */
TN_EXPORT tn_status tn_tensor_version(const tn_tensor *tensor, uint32_t *out_version);
/* The base that this tensor is a tracked view of, or NULL. Borrowed. */
TN_EXPORT tn_tensor *tn_tensor_base(const tn_tensor *tensor);

/* ------------------------------------------------------------------ memory in and out */

/* A tensor over a copy of host memory, row-major, on options' device (NULL: defaults; dtype then float32). */
TN_EXPORT tn_status tn_tensor_from_host(const void *data, const tn_dim *sizes, int32_t ndim,
                                        const tn_options *options, tn_tensor **out_tensor);
/* Copies numel elements, row-major, to host memory of size_bytes (exactly numel * itemsize). */
TN_EXPORT tn_status tn_tensor_to_host(tn_tensor *tensor, void *data, size_t size_bytes);

/* Foreign memory without a copy. strides in elements, NULL: row-major. deleter(ctx) runs once, from any
 * thread, when the last tensor over it is gone (also if this call fails: data is consumed). NULL: none. */
typedef struct tn_foreign {
  void *data;
  const tn_dim *sizes;
  const tn_dim *strides;
  int32_t ndim;
  tn_dtype dtype;
  bool read_only; /* in-place writes are refused */
  tn_device device; /* must be a host-memory device; zeroed: cpu */
  void (*deleter)(void *ctx);
  void *ctx;
} tn_foreign;
TN_EXPORT tn_status tn_tensor_from_memory(const tn_foreign *foreign, tn_tensor **out_tensor);

/* The only element as a number of the tensor's category. More than one element: TN_ERR_INVALID_ARGUMENT. */
TN_EXPORT tn_status tn_tensor_item(tn_tensor *tensor, tn_scalar *out_scalar);
TN_EXPORT tn_status tn_tensor_item_double(tn_tensor *tensor, double *out_value);
TN_EXPORT tn_status tn_tensor_item_int(tn_tensor *tensor, int64_t *out_value);
/* Values as nested brackets with dtype and device, long dims shortened in the middle. */
TN_EXPORT tn_status tn_tensor_print(tn_tensor *tensor, FILE *file);

/* ------------------------------------------------------------------ dtypes and devices */

TN_EXPORT const char *tn_dtype_name(tn_dtype dtype);         /* "float32"; "?" if unknown; static */
TN_EXPORT tn_dtype tn_dtype_find(const char *name);          /* also "f32"; TN_DTYPE_NONE if unknown */
TN_EXPORT size_t tn_dtype_size(tn_dtype dtype);              /* bytes of one element; 0 if unknown */
/* "cpu", "cuda:1". Opens the backend (and its plugin) if it is not open yet. TN_ERR_NOT_FOUND: no plugin
 * offers the name; TN_ERR_UNAVAILABLE: one does, and the words are its stored reason. */
TN_EXPORT tn_status tn_device_open(const char *name, tn_device *out_device);
/* Writes "cuda:1" (or "cpu") into buffer and returns it. */
TN_EXPORT const char *tn_device_name(tn_device device, char *buffer, size_t size_bytes);
/* The thread's defaults; new threads start with cpu and float32. */
TN_EXPORT tn_status tn_default_device_set(tn_device device);
TN_EXPORT tn_device tn_default_device(void);
TN_EXPORT tn_status tn_default_dtype_set(tn_dtype dtype); /* a floating dtype */
TN_EXPORT tn_dtype tn_default_dtype(void);
/* Waits for all work of a device. */
TN_EXPORT tn_status tn_device_synchronize(tn_device device);

/* Threads of parallel_for, 1..1024; else TN_ERR_INVALID_ARGUMENT, and the number stays. Default: TENON_NUM_THREADS;
 * else OMP_NUM_THREADS; else the physical cores that this process's affinity mask has, or fewer if its cgroup allows
 * the time of fewer. More threads than processors are honoured. */
TN_EXPORT tn_status tn_set_num_threads(int32_t n);
TN_EXPORT int32_t tn_num_threads(void);

/* ------------------------------------------------------------------ random numbers */

/* One Philox4x32-10 stream. Each device has a default one (borrowed); its lock makes draws atomic. */
typedef struct tn_generator_state {
  uint64_t seed;
  uint64_t offset;
} tn_generator_state;
TN_EXPORT tn_status tn_generator_new(uint64_t seed, tn_generator **out_generator); /* owned */
TN_EXPORT void tn_generator_release(tn_generator *generator);
TN_EXPORT tn_status tn_generator_default(tn_device device, tn_generator **out_generator); /* borrowed */
TN_EXPORT tn_status tn_generator_get_state(tn_generator *generator, tn_generator_state *out_state);
TN_EXPORT tn_status tn_generator_set_state(tn_generator *generator, const tn_generator_state *state);
/* Takes n counters as one step: *out_first is the stream's seed and the first of them. What draws one counter an
 * element, as all operators do, gives the same numbers from a generator that is set to it. Any thread. */
TN_EXPORT tn_status tn_generator_draw(tn_generator *generator, uint64_t n, tn_generator_state *out_first);
/* Seeds the default generator of every device. */
TN_EXPORT tn_status tn_manual_seed(uint64_t seed);

/* ------------------------------------------------------------------ scopes */

/* A scope owns the tensors that the tns_ functions (tenon/scoped.h) return while it is the thread's innermost
 * one: intermediates need no release. It also keeps the first failure: a tns_ call with a NULL argument
 * returns NULL silently, so a chain is checked once, at the end. Scopes nest and belong to their thread. */
typedef struct tn_scope tn_scope;
TN_EXPORT tn_status tn_scope_begin(tn_scope **out_scope);
/* Hands the tensor to the thread's scope (consumed) and returns it; without a scope: TN_ERR_STATE, NULL. */
TN_EXPORT tn_tensor *tn_scope_add(tn_tensor *tensor);
/* Keeps a tensor beyond the scope: returns a second, owned handle. NULL stays NULL. */
TN_EXPORT tn_tensor *tn_scope_keep(tn_tensor *tensor);
/* Records a failure (its words are the thread's) if it is the scope's first. Returns its argument. */
TN_EXPORT tn_status tn_scope_note(tn_status status);
/* The first failure so far; the thread's words are then set to its words. */
TN_EXPORT tn_status tn_scope_status(void);
/* Releases everything; returns the first failure with its words. The scope must be the innermost. */
TN_EXPORT tn_status tn_scope_end(tn_scope *scope);

#ifdef __cplusplus
}
#endif
#endif
