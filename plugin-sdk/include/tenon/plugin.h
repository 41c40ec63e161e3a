/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract between a plugin and its host: one exported symbol, negotiation in both directions, the
 * host's table of services, and the registration of kernels.
 *
 * A plugin links nothing of the core. It exports `tenon_plugin_query` (TN_PLUGIN in tenon/kit/plugin.h writes
 * it), carries an ELF note that says what it offers (tenon/kit/manifest.h), and is called in this order:
 * query (pure, may be called often) -> init (once, with the host's table and a registration to fill) ->
 * kernels and interface rows (from any thread) -> shutdown (once, never after process exit began).
 *
 * Cold structs begin with struct_size; the side that reads one copies min(size, its own) bytes into a zeroed
 * local, so a zero in a field that the other side does not know means "the old behaviour". tn_call is hot:
 * frozen, no size, by pointer only. Words used below: borrowed, owned, consumed, shared (docs/style.md).
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_host tn_host;
typedef struct tn_call tn_call;
typedef struct tn_registration tn_registration; /* opaque: one init's open transaction */
struct tn_backend_def;                           /* tenon/plugin_backend.h */
struct tn_layer_def;                             /* tenon/plugin_layer.h */
struct tn_operator_def;                          /* tenon/operator.h */
struct tn_profiler_def;                          /* tenon/plugin_profiler.h */
struct tn_compile_def;                           /* tenon/plugin_compiler.h */
struct tn_compiled;

/* ------------------------------------------------------------------ a call */

/* tn_call.flags. Set by the core; what one says holds, what it does not say is not denied by its absence. Bits that a plugin
 * does not know mean nothing to it. */
enum {
  TN_CALL_DETERMINISTIC = 1u << 0, /* the thread asked for bit-repeatable results */
  TN_CALL_IN_PLACE = 1u << 1,      /* out[0] is an argument: same memory, exactly overlapping */
  /* Elementwise operators in a floating dtype, as functional or in-place form. Argument 0 is a tensor, no tensor argument is
   * absent; they and out[0] are contiguous, of the same sizes, on one device, and of one dtype that the kernel claims (out[0]'s
   * is that, or bool where the operator says so). In place the other arguments lie elsewhere, or exactly where the first does. A kernel
   * may go straight to its loop over out[0].u.v->numel elements, which may be 0. Only kernels of every rank, without
   * TN_KERNEL_CONTIGUOUS and TN_KERNEL_NONDETERMINISTIC, meet it, and a call of this kind may come without it. */
  TN_CALL_FLAT = 1u << 2
};

/* The one calling convention: for kernels, layers, bodies, fallbacks and frontends.
 * args: one value per schema argument, defaults filled; borrowed for the call.
 * out: one value per schema result.
 *   - backend kernels: out[i].u.v is a view of memory that the core already allocated (kind NONE: the result
 *     is marked absent by the meta rule; data-dependent results are NONE until new_output).
 *   - layers and bodies: on success the callee stores tensors whose one count the caller then owns.
 *   - a Tensor[] result: the caller gives out[0] as a list whose u.p is its own array of tn_tensor* and whose
 *     count is that array's capacity; the callee stores owned tensors there and sets count. More results than
 *     capacity: TN_ERR_INVALID_ARGUMENT that says how many there are.
 * On failure nothing in out is owned by the caller. What a failed backend kernel was to write counts as written, except
 * after TN_ERR_OUT_OF_MEMORY: a kernel takes the memory that it needs before its first write. */
typedef tn_status (*tn_kernel_fn)(tn_call *call, const tn_value *args, tn_value *out);

/* What surrounds one kernel call. 104 bytes, frozen. Valid until the kernel returns. */
struct tn_call {
  const tn_host *host;  /* the host's own table; plugins use their kit's copy for newer rows */
  const void *cell;     /* opaque: the table cell that is running */
  const tn_op *op;      /* the operator as called (`add_.Tensor` in an in-place call) */
  void *user;           /* the pointer given when this kernel was registered */
  void *stream;         /* the backend's current stream, or NULL */
  uint64_t rng_seed;    /* for operators with an rng: entry: Philox key */
  uint64_t rng_offset;  /* first counter of this call; element i draws from rng_offset + f(i) */
  tn_device device;     /* of the outputs */
  uint32_t flags;       /* TN_CALL_... */
  uint64_t keys;        /* opaque: the key set of this call */
  void *core;           /* opaque */
  uint64_t reserved[3]; /* zero */
};

/* ------------------------------------------------------------------ registration */

/* tn_kernel_def.flags. A flag asks the host for something: a kernel with one that this host does not know is left out,
 * as one for an operator that it does not have. */
enum {
  TN_KERNEL_NONDETERMINISTIC = 1u << 0, /* results may differ from run to run: passed over in deterministic mode */
  /* Wants contiguous inputs and outputs, those in lists included: the core makes temporaries of others, and copies home what
   * was written. If the kernel declines, the next one gets the originals. Backends' kernels only. */
  TN_KERNEL_CONTIGUOUS = 1u << 1,
  /* Layers, with op "*" and only then: serves every operator that has no kernel of this layer. */
  TN_KERNEL_LAYER_FALLBACK = 1u << 2,
#ifdef TN_ABI_FUTURE
  TN_KERNEL_FUTURE = 1u << 3,
#endif
};

/* One kernel of one operator under one key. Strings and the struct are borrowed for the call. */
typedef struct tn_kernel_def {
  uint32_t struct_size;
  int32_t priority;    /* higher runs first; the chain's order is in docs/providers.md */
  const char *op;      /* functional name: "add.Tensor" serves add, add_ and add.out; or "fill_.Scalar" */
  const char *key;     /* device name ("cpu") or layer name */
  const char *schema;  /* the schema text that the kernel was built with; NULL: whatever the host has */
  tn_kernel_fn fn;
  void *user;          /* handed back in tn_call.user; shared for the life of the process */
  tn_dtype_mask dtypes; /* of the compute dtype (meta rule); 0 = all. Never called outside */
  uint32_t max_rank;   /* 0 = TN_MAX_RANK */
  uint32_t flags;      /* TN_KERNEL_... */
  const char *file;    /* where it was registered, for `tenon why`; may be NULL */
  uint32_t line;
  uint32_t reserved;
  /* 1.2. Elements of the largest tensor of a call, operand or result, from which on it is worth asking: what the kernel would
   * decline for its size anyway. Not asked below. 0: any. */
  int64_t min_numel;
  /* 1.2. Elements of that tensor up to which it is asked: a kernel made for small calls stands first by its priority and leaves
   * larger ones to others, such as a second kernel of the same plugin. Not asked above. 0: any. An older host asks for all. */
  int64_t max_numel;
  TN_FUTURE_FIELD
} tn_kernel_def;

/* ------------------------------------------------------------------ the host's services */

/* A chunk [begin, end) of a parallel region. worker is 0..num_threads-1, unique among the running chunks.
 * It may not dispatch, allocate from the core or wait; nested regions run inline; the first error wins. */
typedef tn_status (*tn_parallel_fn)(int64_t begin, int64_t end, int32_t worker, void *ctx);

/* One block of device memory. address is NULL where the device has none that the host can name. */
typedef struct tn_memory {
  uint64_t mem;
  void *address;
  uint64_t size_bytes;
} tn_memory;

/* Memory that somebody else owns, as a tensor. Cold: fill struct_size. sizes and strides are borrowed for the call. */
typedef struct tn_foreign_def {
  uint32_t struct_size;
  tn_dtype dtype;
  uint8_t ndim;
  uint8_t read_only;   /* 1: in-place writes are refused */
  uint8_t reserved;
  tn_device device;    /* an open device; where the memory lives */
  uint32_t reserved2;
  uint64_t mem;        /* the backend's handle; of host memory the address */
  void *address;       /* of mem's first byte where the device has addresses, else NULL */
  int64_t offset_bytes; /* from the start of mem to element [0,...,0] */
  const tn_dim *sizes;
  const tn_dim *strides; /* in elements; NULL: row-major */
  /* Runs once, from any thread, when the last tensor over the memory is gone; not after process exit began. */
  void (*deleter)(void *ctx);
  void *ctx;
  TN_FUTURE_FIELD
} tn_foreign_def;

enum { TN_LOG_ERROR = 1, TN_LOG_WARN = 2, TN_LOG_INFO = 3, TN_LOG_DEBUG = 4 };

/* Rows are only ever appended, under the minor that added them. The kit's copy has no NULL row: a row that an
 * older host lacks answers TN_ERR_UNSUPPORTED and says which host is needed.
 * Threads: every row may be called from any thread unless it says otherwise. */
struct tn_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  const char *version; /* "0.1.0"; static */

  /* --- words (minor 0) --- */
  /* Sets the thread's error words (printf form) and returns code, for `return host->fail(...)`. */
  tn_status (*fail)(tn_status code, const char *format, ...) TN_PRINTF(2, 3);
  /* Puts words in front of the thread's error ("in add.Tensor: ...") and returns code. */
  tn_status (*wrap)(tn_status code, const char *format, ...) TN_PRINTF(2, 3);
  /* The thread's error words, "" if none; borrowed until the thread's next failure. */
  const char *(*error_message)(void);
  void (*log)(int32_t level, const char *format, ...) TN_PRINTF(2, 3);

  /* --- work (minor 0) --- */
  /* Runs fn over [0, n) in chunks of at least grain; borders depend on n, grain and num_threads only. */
  tn_status (*parallel_for)(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx);
  int32_t (*num_threads)(void);

  /* --- inside a kernel (minor 0) --- */
  /* Allocates result i of a data-dependent operator, once per output; the view is borrowed until the kernel
   * returns, the memory is the core's and is freed if the kernel fails or declines. */
  tn_status (*new_output)(tn_call *call, uint32_t i, uint32_t ndim, const tn_dim *sizes, tn_view **out_view);
  /* Memory on the call's device that ends, in stream order, when the kernel returns. 64-byte aligned. */
  tn_status (*scratch)(tn_call *call, size_t size_bytes, tn_memory *out_memory);
  const char *(*op_name)(const tn_op *op);
  const char *(*backend_name)(uint8_t backend); /* "cpu"; "?" if the id is not in use */
  const char *(*dtype_name)(tn_dtype dtype);     /* "float32" */

  /* --- layers, bodies, operators (minor 0) --- */
  tn_status (*find_op)(const char *name, const tn_op **out_op);
  /* Calls an operator from the top. args and out as in tn_kernel_fn; one value per argument of the schema that the
   * operator was first published with: what was appended later gets its default, so that this row means the same in
   * every host. */
  tn_status (*call)(const tn_op *op, const tn_value *args, tn_value *out);
  /* Continues below the running layer; also off for everything called from below, fresh calls included. args: the
   * array that the layer's kernel was given, or one as for `call`. */
  tn_status (*redispatch)(tn_call *call, const tn_value *args, tn_value *out);
  void (*tensor_retain)(tn_tensor *tensor);
  void (*tensor_release)(tn_tensor *tensor); /* NULL is allowed */

  /* --- inside init only (minor 0): one thread, the transaction `reg`; nothing shows until init succeeds */
  tn_status (*register_kernel)(tn_registration *reg, const tn_kernel_def *def);
  tn_status (*register_backend)(tn_registration *reg, const struct tn_backend_def *def);
  tn_status (*register_layer)(tn_registration *reg, const struct tn_layer_def *def);
  tn_status (*register_operator)(tn_registration *reg, const struct tn_operator_def *def);
  /* Offers a table of functions to other plugins (minor 2); listed in the manifest as `interface NAME VERSION`. The
   * table is shared for the life of the process; what stands in it is between its giver and its users. */
  tn_status (*register_interface)(tn_registration *reg, const char *name, uint32_t version, const void *table);

  /* --- layers, operators, tools (minor 2) --- */
  /* The schema text of an operator; lives as long as the process. */
  const char *(*op_schema)(const tn_op *op);
  /* This thread's slot of the layer whose kernel is running: NULL at first, the layer's own afterwards. It travels to
   * workers through the layer's state_dup and ends with the thread through its state_free. The address is valid until
   * the kernel returns. */
  tn_status (*layer_slot)(tn_call *call, void ***out_slot);
  /* A tensor over foreign memory, without a copy. desc->deleter also runs if this fails (the memory is consumed). The
   * plugin that calls counts as in use until the deleter ran. */
  tn_status (*tensor_from_memory)(const tn_foreign_def *desc, tn_tensor **out_tensor);
  /* The table of an interface, opening the plugin that offers it. Another version than the one asked for, or nobody:
   * TN_ERR_NOT_FOUND that says what there is. Not inside init. */
  tn_status (*find_interface)(const char *name, uint32_t version, const void **out_table);

  /* As call and redispatch, for callers that know how many values they give: from the first published schema's to all;
   * missing ones get their defaults. More than the host's operator takes: those must be absent (kind NONE). */
  tn_status (*call_n)(const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out);
  tn_status (*redispatch_n)(tn_call *call, const tn_value *args, uint32_t n_args, tn_value *out);
  uint32_t (*op_n_args)(const tn_op *op); /* values in the args array of its kernels and layers */

  /* --- services (minor 2) --- */
  /* Host memory that the device copies from and to without staging, from the core's cache. Where the backend has no
   * host_alloc: TN_ERR_UNSUPPORTED. */
  tn_status (*pinned_alloc)(tn_device device, uint64_t size_bytes, tn_memory *out_memory);
  void (*pinned_free)(tn_device device, const tn_memory *memory);
  /* Receives events of every thread until detached (tenon/plugin_profiler.h). def is copied. */
  tn_status (*profiler_attach)(const struct tn_profiler_def *def, uint64_t *out_handle);
  tn_status (*profiler_detach)(uint64_t handle);
  /* A named span of this thread's time, for whoever profiles; spans nest. Nothing when nobody does. */
  void (*range_begin)(const char *name);
  void (*range_end)(void);
  /* Compiles source text in a process of its own, through the compiler that a plugin offers, or takes the result from
   * the disk cache (tenon/plugin_compiler.h). The result is owned: compiled_free. */
  tn_status (*compile)(const struct tn_compile_def *def, struct tn_compiled *out_compiled);
  void (*compiled_free)(struct tn_compiled *compiled);
#ifdef TN_ABI_FUTURE
  tn_status (*future)(int32_t *out_answer); /* stores 42 */
#endif
};

/* ------------------------------------------------------------------ the door */

/* Code built with a sanitizer in one side only gives false reports: the host refuses the pair. */
enum { TN_SANITIZER_NONE = 0, TN_SANITIZER_ADDRESS = 1, TN_SANITIZER_THREAD = 2 };

/* First call into a plugin: pure, may be called often and from any thread. The host fills the first part;
 * the plugin lowers or refuses, and fills the second. */
typedef struct tn_query {
  uint32_t struct_size;   /* in: size of the struct as the host knows it */
  uint32_t host_major;    /* in */
  uint32_t host_minor;    /* in: the newest minor that the host serves */
  uint32_t host_minor_min; /* in: the oldest minor of a plugin that the host still serves */

  uint32_t plugin_major;  /* out: the ABI that the plugin was built with */
  uint32_t plugin_minor;  /* out */
  uint32_t needs_minor;   /* out: the oldest host minor that it can work with */
  uint32_t sanitizer;     /* out: TN_SANITIZER_... */
  const char *name;       /* out: static; as in the manifest */
  const char *version;    /* out: static */
  /* out: registers everything that the manifest lists. An error rolls all of it back; TN_ERR_UNAVAILABLE
   * with words means "no hardware here". May not dispatch. */
  tn_status (*init)(const tn_host *host, tn_registration *reg);
  void (*shutdown)(void); /* out: NULL = nothing to do */
  TN_FUTURE_FIELD
} tn_query;

/* TN_OK; or TN_ERR_VERSION if the plugin cannot work with this host (the host then says why in words). */
typedef tn_status (*tn_plugin_query_fn)(tn_query *query);
#define TN_PLUGIN_SYMBOL "tenon_plugin_query"

#ifdef __cplusplus
}
#endif
#endif
