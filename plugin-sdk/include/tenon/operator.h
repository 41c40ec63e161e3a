/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator is, to the core and to a plugin that adds one: schema text plus function pointers. The
 * registry's generator fills these structs for the built-in operators; a plugin registers its own through
 * host->register_operator. Schema text alone gives dispatch and tracing, and an error at backward.
 *
 * Meta rules see descriptors, never tensors and never data. Bodies and backward functions see tensors, call
 * operators only, and write in place only into tensors that they made themselves.
 */
#ifndef TENON_OPERATOR_H
#define TENON_OPERATOR_H

#include <tenon/plugin.h>
#include <tenon/samples.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ meta rules */

/* tn_desc.layout: how the core finds the strides of an output. */
enum {
  TN_DESC_CONTIGUOUS = 0,  /* row-major */
  TN_DESC_STRIDES = 1,     /* the rule wrote strides */
  TN_DESC_ELEMENTWISE = 2, /* from the tensor arguments, as TensorIterator does (see docs/strides.md) */
  TN_DESC_LIKE_SELF = 3,   /* as the first tensor argument if it is dense, else contiguous */
  TN_DESC_FREE_STRIDES = 4 /* view rules: strides and offset are the caller's own; the core checks their reach */
};

/* One output as a meta rule describes it. Only the first ndim entries are written or read. */
typedef struct tn_desc {
  tn_dtype dtype;      /* the result's */
  uint8_t ndim;
  uint8_t layout;      /* TN_DESC_... */
  uint8_t absent;      /* 1: this output does not exist in this call */
  uint8_t unknown;     /* 1: the kernel decides the sizes (new_output) */
  uint8_t reserved[3];
  tn_dim offset;       /* view rules: elements from self's first element to the result's first */
  tn_dim sizes[TN_MAX_RANK];
  tn_dim strides[TN_MAX_RANK];
} tn_desc;

/* A meta rule's surroundings. The core presets: out[*] zeroed headers (not sizes), compute_dtype NONE,
 * keep_args 0. In-place-only entries: n_out is 1 and out[0] describes self (0 where self is a list). */
typedef struct tn_meta {
  const tn_host *host;
  const tn_op *op;
  const char *op_name;
  tn_dtype default_dtype; /* of the thread: for factories and int -> float promotion */
  /* The rule sets it if the entry promotes: tensor arguments of another dtype are cast to it before the
   * kernel runs. NONE: arguments go to the kernel as they are, and the first tensor argument's dtype (for
   * factories out[0]'s) counts for the kernel's dtype claim. */
  tn_dtype compute_dtype;
  uint8_t promote;        /* of the entry: TN_PROMOTE_... */
  uint8_t n_args;         /* arguments of the functional schema (the target of an out= call does not count) */
  uint32_t n_out; /* results in out; for list results the rule sets it, at most out_capacity */
  uint32_t out_capacity;
  tn_desc *out;
  /* Bit i: argument i is not cast to compute_dtype (a mask, an index). Preset to 0. */
  uint64_t keep_args;
  /* List results only: grows out to n entries (view rules of split, unbind). */
  tn_status (*grow)(struct tn_meta *meta, uint32_t n);
  TN_FUTURE_FIELD
} tn_meta;

/* args as in a kernel call: tensor arguments are read as views (u.v, u.vs). A failure's words name expected
 * and found; the core adds the operator's name. */
typedef tn_status (*tn_meta_fn)(tn_meta *meta, const tn_value *args);

/* ------------------------------------------------------------------ gradients */

/* What the gradient of one differentiable argument needs of the forward call. Bit i of a mask = argument
 * (or result) i of the schema. */
typedef struct tn_saves {
  uint64_t args;    /* tensor arguments kept whole */
  uint64_t outs;    /* results kept whole (weakly, so that no cycle arises) */
  uint64_t values;  /* scalars, lists, strings copied; of a tensor argument: its descriptor (x.sizes, x.dtype) */
} tn_saves;

/* The running backward of one node. Everything in it is borrowed until the function returns. */
typedef struct tn_backward {
  const tn_host *host;
  /* The forward call's arguments: saved tensors are unpacked; a tensor that was not saved is a value of kind
   * TENSOR whose handle is a descriptor only (sizes, dtype, device, no data): tn_backward_sizes etc. read it,
   * operators refuse it. */
  const tn_value *args;
  tn_tensor *const *outs;  /* saved results, NULL where not saved */
  uint64_t wanted;         /* bit k: the gradient of differentiable input k (tn_grad_def order) is wanted */
  uint32_t n_grad_outs;
  uint32_t n_grad_ins;     /* edges, Tensor[] arguments flattened */
  TN_FUTURE_FIELD
} tn_backward;

/* grad_outs: one per result, NULL where none arrived (at least one is given). grad_ins: one slot per edge, NULL on entry;
 * the function stores owned tensors for wanted ones and may leave NULL for "zero". Any shape that broadcasts
 * from the input's is right: the engine sums to the input's shape, casts, and checks devices. */
typedef tn_status (*tn_backward_fn)(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins);

typedef struct tn_grad_def {
  uint32_t struct_size;
  uint32_t n_inputs;          /* differentiable arguments */
  const uint8_t *input_args;  /* n_inputs schema positions, ascending */
  const tn_saves *saves;      /* n_inputs entries */
  tn_backward_fn fn;
  uint64_t nondiff_outs;      /* bit i: result i never requires grad (indices, masks) */
  const char *node_name;      /* "MulBackward0" */
  TN_FUTURE_FIELD
} tn_grad_def;

/* ------------------------------------------------------------------ operators */

/* tn_operator_def.flags: what the operator is. One with a flag that this host does not know is refused: TN_ERR_VERSION. */
enum {
  TN_OP_VIEW = 1u << 0,         /* result aliases self: the meta rule gives sizes, strides, offset; no kernel */
  TN_OP_FACTORY = 1u << 1,      /* no tensor argument need exist; backend from device argument or default */
  TN_OP_CROSS_DEVICE = 1u << 2, /* operands may live on different devices */
  TN_OP_ELEMENTWISE = 1u << 3,  /* shape = broadcast of all tensor arguments; promotes by `promote` */
  TN_OP_NO_KERNEL = 1u << 4,    /* allocation is all (empty); or core does it (detach, resize_) */
  TN_OP_ALWAYS_BODY = 1u << 5,  /* may return its input: body only, accepts no kernel */
  TN_OP_NONDIFF = 1u << 6,      /* results never require grad (comparisons, argmax) */
  TN_OP_POINTWISE_ALIAS = 1u << 7, /* the target may be exactly an input: element i of the result needs element i only */
  TN_OP_NONDETERMINISTIC = 1u << 8, /* its definition leaves bits open; for reports, the core does nothing about it */
  TN_OP_MULTI_VIEW = 1u << 9    /* a view operator with several outputs: they may not be written in place */
};

/* tn_operator_def.form */
enum { TN_FORM_FUNCTIONAL = 0, TN_FORM_INPLACE = 1, TN_FORM_OUT = 2 };

/* tn_operator_def.promote: what the compute dtype and result dtype of an elementwise entry are. */
enum {
  TN_PROMOTE_NONE = 0,      /* arguments as they are */
  TN_PROMOTE_DEFAULT = 1,   /* common dtype of the operands */
  TN_PROMOTE_INT_TO_FLOAT = 2, /* ... integers and bool become the default float dtype */
  TN_PROMOTE_COMPARE = 3,   /* compute in the common dtype, result bool */
  TN_PROMOTE_BOOL = 4       /* as they are, result bool (logical_and, isnan) */
};

typedef struct tn_operator_def {
  uint32_t struct_size;
  uint32_t flags;           /* TN_OP_... */
  const char *schema;       /* "mul.Tensor(Tensor self, Tensor other) -> Tensor" */
  const char *functional;   /* in-place and out forms: name of the entry whose kernel and meta they share */
  uint8_t form;             /* TN_FORM_... */
  uint8_t promote;          /* TN_PROMOTE_... */
  uint8_t reserved[6];
  tn_meta_fn meta;          /* NULL: body only */
  tn_kernel_fn body;        /* NULL: no composite */
  const tn_grad_def *grad;  /* NULL: no formula */
  /* Philox counters that a call draws, from its output sizes only; NULL: draws nothing. */
  int64_t (*rng)(const tn_value *args, int64_t numel);
  const char *doc;          /* one line */
  const char *file;         /* where the entry stands */
  uint32_t line;
  uint32_t reserved2;
  /* Arguments with defaults that were appended since the operator was first published (before the targets of an out
   * form); host->call gives those their defaults (minor 2). */
  uint32_t n_appended;
  uint32_t reserved3;
  /* On what the operator can be tried (tenon/samples.h), ended by an entry without op; NULL: nothing given. Of functional
   * operators; shared for the life of the process. */
  const tn_sample *samples;
  TN_FUTURE_FIELD
} tn_operator_def;

#ifdef __cplusplus
}
#endif
#endif
