/* SPDX-License-Identifier: Apache-2.0
 *
 * How a call runs: operator records, rows and cells, the provider chain, the structured step. For neighbours;
 * docs/life-of-a-call.md follows one call through these.
 *
 * Note [Rows are immutable]
 * op->row points to a row behind one acquire load. A row is never changed after it is published: a new kernel,
 * layer or backend makes a new row. Old rows stay, because a call may still be reading one, even in tn_shutdown.
 * Every backend bit of a row has a cell: providers, body, or the refusal that answers "missing kernel". Cells of
 * backends are built at their first call (tni_cell_build), when the providers that a row lists are opened.
 *
 * Note [A row over all]
 * Calls from the top read op->row; what continues a call below a layer reads op->own_row. The two are the same row,
 * unless somebody profiles: then op->row of every operator is one shared row whose every cell is the profiler's, which
 * finds its way on by own_row. So a call costs nothing more while nobody does, and every thread is seen when somebody
 * does.
 */
#ifndef TENON_CORE_DISPATCH_H
#define TENON_CORE_DISPATCH_H

#include "core/tensor/tensor.h"
#include "registry/schema.h"

/* One registered kernel: who gave it, and what it claims. Immutable once registered; lives until exit. */
typedef struct tni_kernel {
  tn_kernel_fn fn;
  void *user;
  tn_dtype_mask dtypes;
  uint32_t max_rank;
  int64_t min_numel, max_numel; /* of the largest operand or result */
  uint32_t flags;
  int32_t priority;
  uint32_t root_order;  /* of the plugin's search root */
  uint32_t max_args;    /* arguments its schema has: calls with later ones at default only */
  const char *plugin;   /* name */
  const char *file;
  uint32_t line;
  uint8_t bit;          /* key */
  struct tni_kernel *next; /* in its operator's list, unordered */
  uint32_t override_rank;  /* higher stands first, before priority: docs/providers.md */
} tni_kernel;

/* What runs for one (operator, key). */
typedef struct tni_cell {
  tn_kernel_fn fn;            /* entry: structured step, body, autograd, layer kernel, refusal */
  void *user;
  const tni_kernel *const *chain; /* providers, best first; n_chain of them */
  uint32_t n_chain;
  uint8_t bit;
  bool body_last;             /* a body stands behind the chain */
  /* The first provider, where the fast path may call it without asking: floating dtypes that it claims, 0 if it
   * claims no full rank or not all arguments, wants contiguous copies made, or is not deterministic. */
  uint32_t fast_dtypes;
  uint32_t small_bytes;       /* most bytes of a result that may lie in the tensor's block on this backend */
  tn_kernel_fn fast_fn;       /* its user pointer is `user` */
  tn_kernel_fn guarded;       /* fn is guard.c's: what it goes on to */
  struct tni_pool *const *pools; /* of the backend's devices: where larger results lie; NULL if there are no kernels */
  int32_t n_devices;          /* of the backend */
  uint64_t own_bytes;         /* most bytes of a result that tni_tensor_new puts into the tensor's block */
} tni_cell;

typedef struct tni_row {
  uint64_t mask; /* layers that this operator meets | all backend bits */
  struct tni_row *older;
  const tni_cell *cells[64]; /* by bit; no NULL under mask */
} tni_row;

struct tn_op {
  _Atomic(const tni_row *) row; /* first: the hot load; Note [A row over all] */
  _Atomic(const tni_row *) own_row;
  const char *name;         /* "mul.Tensor" */
  const char *schema_text;
  uint32_t flags;           /* TN_OP_... */
  uint8_t form;             /* TN_FORM_... */
  uint8_t promote;          /* TN_PROMOTE_... */
  uint8_t n_args;
  uint8_t n_outs;           /* results in schema; 0 for in-place and out forms and `()` */
  uint64_t tensor_args;     /* bit i: argument i is Tensor or Tensor? */
  uint64_t list_args;       /* bit i: argument i is Tensor[] or Tensor?[] */
  uint64_t write_args;      /* bit i: (x!) */
  uint64_t plain_args;      /* bit i: all of argument i is in its tn_value: no tensor, list or string */
  uint8_t n_write_lists;    /* write arguments that are lists */
  uint8_t device_arg;       /* position of a Device argument, 255 = none */
  uint8_t pin_arg;          /* position of pin_memory, 255 = none */
  bool list_result;         /* the only result is Tensor[] */
  uint8_t n_appended;       /* arguments since its first published schema; before the targets of an out form */
  uint8_t saved_most;       /* of grad: entries that its node may have to save */
  bool choose;              /* a device argument may decide the backend: tni_call_backend */
  tn_meta_fn meta;
  tn_kernel_fn body;
  const tn_grad_def *grad;
  int64_t (*rng)(const tn_value *args, int64_t numel);
  const tni_schema *schema;
  const tn_op *functional;  /* whose kernels and meta rule serve this form; itself for functional entries */
  const tn_operator_def *def;
  tni_kernel *kernels;      /* functional and own-entry operators only; guarded by the registry lock */
  uint32_t index;           /* position in the table */
  tn_meta meta_preset;      /* a meta rule's surroundings, as far as they are the operator's */
  bool added;               /* by a plugin; then: */
  _Atomic uint32_t n_nodes; /* autograd nodes of it that live */
  _Atomic(struct tni_fallback_count *) fallbacks; /* functional entries: what ran on the CPU for other backends */
};

/* ------------------------------------------------------------------ calling */

/* Calls op from the top. args: n_args values with defaults filled. out: n_outs values. */
tn_status tni_call(const tn_op *op, const tn_value *args, tn_value *out);
/* The same where the caller has the key set at hand (typed calls). keys: OR of the tensor arguments' keys. */
tn_status tni_call_keys(const tn_op *op, uint64_t keys, const tn_value *args, tn_value *out);
/* The cold parts of a call: backend from device argument or default; naming a failure. */
uint64_t tni_call_backend(const tn_op *op, uint64_t keys, const tn_value *args);
tn_status tni_call_failed(const tn_call *call, tn_status status) TN_COLD;
/* Keys of a call by DESIGN 3: of the backend that its Device argument names, else of the operands, else of the thread's
 * default device. */
static inline uint64_t tni_keys_on(uint64_t keys, const tn_value *device) {
  if (device->kind == TN_VAL_DEVICE && device->u.d.backend < TN_BACKEND_LIMIT)
    return (keys & ~TNI_KEYS_BACKENDS) | TNI_KEY(device->u.d.backend);
  return keys & TNI_KEYS_BACKENDS ? keys : keys | TNI_KEY(tni_tls.modes.default_device.backend);
}
/* tni_call_keys for the generated typed calls. sure: the keys name the backend, by a required operand or by
 * tni_keys_on. */
static inline __attribute__((always_inline)) tn_status tni_call_inline(const tn_op *op, uint64_t keys, bool sure,
                                                                       const tn_value *args, tn_value *out) {
  typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));
  const tni_row *row = atomic_load_explicit(&op->row, memory_order_acquire);
  if (!sure && TNI_UNLIKELY(op->choose || !(keys & TNI_KEYS_BACKENDS))) keys = tni_call_backend(op, keys, args);
  const tni_thread_modes *modes = &tni_tls.modes;
  keys = (keys | modes->include) & ~modes->exclude & row->mask;
  const tni_cell *cell = row->cells[(size_t)(63 ^ __builtin_clzll(keys))];
  tn_call call;
  pair *zero = (pair *)(void *)&call;
  zero[2] = zero[3] = zero[4] = zero[5] = (pair){0, 0}; /* stream, rng, device, flags, core, reserved[0..1] */
  call.host = tn_kit_host_table;
  call.cell = cell;
  call.op = op;
  call.user = cell->user;
  call.flags = modes->call_flags;
  call.keys = keys;
  call.reserved[2] = 0;
  tn_status status = cell->fn(&call, args, out);
  return TNI_LIKELY(status == TN_OK) ? status : tni_call_failed(&call, status);
}
/* Continues below bit `call->cell->bit`, which is excluded for everything called from below. */
tn_status tni_redispatch(tn_call *call, const tn_value *args, tn_value *out);
/* The host table's rows of these names (call_older.c). */
tn_status tni_call_first(const tn_op *op, const tn_value *args, tn_value *out);
tn_status tni_call_n(const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out);
tn_status tni_redispatch_first(tn_call *call, const tn_value *args, tn_value *out);
tn_status tni_redispatch_n(tn_call *call, const tn_value *args, uint32_t n_args, tn_value *out);
tn_status tni_layer_step(tn_call *call, const tn_value *args, tn_value *out); /* a layer's kernel, its own bit off */
/* Runs the cell that stands at the highest bit of keys & below; no exclusion is changed. For the autograd
 * cell when nothing needs grad. */
tn_status tni_call_below(tn_call *call, unsigned bit, const tn_value *args, tn_value *out);
/* The device that a call with these keys will run on, as far as can be told before its cell has checked. */
tn_device tni_call_place(const tn_op *op, uint64_t keys, const tn_value *args);
/* OR of the keys of all tensor arguments. */
uint64_t tni_keys_of(const tn_op *op, const tn_value *args);

/* What a running kernel may ask for: the host table's `new_output` and `scratch` rows. */
tn_status tni_call_new_output(tn_call *call, uint32_t i, uint32_t ndim, const tn_dim *sizes, tn_view **out_view);
tn_status tni_call_scratch(tn_call *call, size_t size_bytes, tn_memory *out_memory);

/* Cell entries. */
tn_status tni_structured(tn_call *call, const tn_value *args, tn_value *out); /* meta, allocate, kernel */
/* The same with a fast path before it: elementwise functional and in-place forms. */
tn_status tni_structured_binary(tn_call *call, const tn_value *args, tn_value *out); /* two operands, one dtype */
tn_status tni_structured_elementwise(tn_call *call, const tn_value *args, tn_value *out);
tn_status tni_structured_inplace(tn_call *call, const tn_value *args, tn_value *out);
tn_status tni_structured_alone(tn_call *call, const tn_value *args, tn_value *out); /* in place, the target its only tensor */
tn_status tni_structured_single(tn_call *call, const tn_value *args, tn_value *out); /* one fresh result */
tn_status tni_fresh_step(tn_call *call, const tn_value *args, tn_value *out); /* one fresh result and no kernel */
tn_status tni_view_step(tn_call *call, const tn_value *args, tn_value *out);  /* TN_OP_VIEW */
tn_status tni_view_list_step(tn_call *call, const tn_value *args, tn_value *out); /* ... with a list result */
tn_status tni_body_step(tn_call *call, const tn_value *args, tn_value *out);  /* composite */
tn_status tni_body_checked(tn_call *call, const tn_value *args, tn_value *out); /* meta rule, then composite */
tn_status tni_missing(tn_call *call, const tn_value *args, tn_value *out) TN_COLD;
tn_status tni_start(tn_call *call, const tn_value *args, tn_value *out) TN_COLD; /* first call of the process */
tn_status tni_cell_build(tn_call *call, const tn_value *args, tn_value *out); /* first call of a cell */
tn_status tni_autograd_cell(tn_call *call, const tn_value *args, tn_value *out); /* core/autograd/record.c */

/* ------------------------------------------------------------------ the operator table */

/* Adds an operator (transaction or start). def and its strings must live until exit. Registry lock held. */
tn_status tni_op_add(const tn_operator_def *def, const char *plugin, tn_op **out_op);
void tni_op_remove(tn_op *op); /* roll back of tni_op_add; nothing may have called it */
tn_op *tni_op_find(const char *name); /* NULL if there is none */
/* TN_ERR_NOT_FOUND: there is none of this name; the words list its overloads. */
tn_status tni_op_unknown(const char *name);
size_t tni_op_count(void);
tn_op *tni_op_at(size_t i);
/* Adds or takes back a kernel, and resets the op's cell for its key to tni_cell_build. Registry lock held. */
tn_status tni_op_add_kernel(tn_op *op, tni_kernel *kernel);
void tni_op_remove_kernel(tn_op *op, tni_kernel *kernel);
/* Takes all kernels of a plugin out, or, out of memory, none. They stay allocated. Registry lock held. */
tn_status tni_kernels_retire(const char *plugin);
/* Kernels that other plugins gave an operator, fallbacks of layers aside; *out_other: one of them, if there are any. */
size_t tni_kernels_of_others(const tn_op *op, const char *plugin, const char **out_other);
/* An operator goes, and its handles answer in words. Room for n of them is made before, since this cannot fail. */
tn_status tni_op_retire_prepare(size_t n);
void tni_op_retire(tn_op *op);
void tni_op_unlist(tn_op *op); /* out of the names and the count; the record stays */
/* From now on every call is answered in words: exit or tn_shutdown has begun. Registry lock held. */
void tni_rows_end(void);
/* Order of providers (DESIGN 4). */
bool tni_kernel_before(const tni_kernel *a, const tni_kernel *b);
/* Why a kernel would be passed over for this compute dtype and rank: NULL if it would not. Static words or in
 * buffer. */
const char *tni_kernel_refuses(const tni_kernel *kernel, tn_dtype dtype, uint32_t ndim, bool deterministic);
void tni_registry_lock(void);
void tni_registry_unlock(void);
/* Builds the table from the generated defs. */
tn_status tni_ops_init(void);
extern const tn_operator_def *const tni_builtin_ops[]; /* generated; NULL-terminated; index = TNI_OP_... */
/* Records of the built-in operators, indexed by TNI_OP_...; typed calls pass &tni_op_table[TNI_OP_x]. */
extern __attribute__((visibility("hidden"))) tn_op tni_op_table[];

#endif
