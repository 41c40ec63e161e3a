/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of core/dispatch share among themselves.
 */
#ifndef TENON_CORE_DISPATCH_INT_H
#define TENON_CORE_DISPATCH_INT_H

#include "core/dispatch/dispatch.h"

enum { TNI_MAX_ARGS = 64 }; /* masks are 64 bits; schema.c refuses more */
enum { TNI_MAX_OUTS = 8 };  /* tensor results of one operator; table.c refuses more */

/* One structured call in progress: tn_call.core points to it while kernels run. */
typedef struct tni_step {
  tn_call *call;
  const tn_op *op;          /* as called */
  const tn_value *args;     /* as called */
  tn_value cast[TNI_MAX_ARGS]; /* what the kernel gets where a cast or copy was needed */
  tn_tensor *temps[2 * TNI_MAX_ARGS]; /* owned: an argument may be brought to the device, then cast */
  uint32_t n_temps;
  bool replaced;            /* cast holds the kernel's arguments, else args do */
  uint32_t n_out;
  tn_tensor *result[TNI_MAX_OUTS]; /* owned: what the kernel writes; retained if it is the target itself */
  tn_tensor *target[TNI_MAX_OUTS]; /* borrowed: in-place and out targets */
  uint32_t counted;         /* bit i: target i was resized, which counted its write already */
  tn_desc *descs;
  struct tni_cast_list *lists; /* owned: casts of tensor lists */
  struct tni_scratch *scratch;
} tni_step;

/* tn_call.core: the step, or (lowest bit set) the scratch list of a call on the fast path, or NULL. */
enum { TNI_CORE_KERNEL = 1 }; /* the tag alone: a kernel runs without a step, its list is empty so far */
static inline tni_step *tni_call_step(const tn_call *call) {
  return (uintptr_t)call->core & 1 ? NULL : call->core;
}

/* Puts the guard before the cell's entry, where its backend needs one. guard.c */
void tni_cell_guard(tni_cell *cell);
/* A step before its meta rule has run, and its end. */
void tni_step_begin(tni_step *step, tn_call *call, const tn_value *args, tn_desc *descs);
void tni_step_release(tni_step *step);
/* Asks call's cell's providers in order, each within its claim; TN_DECLINED: none took it. args, out: what kernels get. */
tn_status tni_step_providers(tn_call *call, tni_step *step, const tn_meta *meta, const tn_value *args,
                             tn_value *out);
/* The dtype by which providers are chosen. */
tn_dtype tni_step_dtype(const tni_step *step, const tn_meta *meta);
/* The CPU's providers in place of the backend's, none of which took the call (fallback.c). TN_DECLINED: the policy or a
 * body stands before them. */
tn_status tni_fallback_run(tn_call *call, tni_step *step, const tn_meta *meta, const tn_value *args, tn_value *out);

/* Has the operator's record been filled? */
bool tni_op_ready(const tn_op *op);
/* Strides of a fresh result as its descriptor asks, NULL for row-major. */
const tn_dim *tni_desc_strides(const tn_op *op, const tn_value *args, tn_desc *desc);
/* tn_meta.grow of operators whose results are no list. */
tn_status tni_meta_grow_refused(tn_meta *meta, uint32_t n);
/* May calls of op with these providers begin in tni_structured_single? */
bool tni_single_fits(const tn_op *op, const tni_kernel *const *chain, uint32_t n_chain);
/* May calls of op with kernels begin in tni_structured_alone? */
bool tni_alone_fits(const tn_op *op);
/* May calls of op, which has no kernels, begin in tni_fresh_step? What the two have in common. */
bool tni_fresh_fits(const tn_op *op);
/* The device of a call that is said somewhere: the Device argument, or, where the schema has no tensors, the thread's
 * default. backend: of the running cell. NULL: tni_call_device finds it. */
static inline const tn_device *tni_device_said(const tn_op *op, const tn_value *args, uint8_t backend) {
  if (op->device_arg != 255 && args[op->device_arg].kind == TN_VAL_DEVICE) return &args[op->device_arg].u.d;
  const tn_device *usual = &tni_tls.modes.default_device;
  return TNI_LIKELY(!(op->tensor_args | op->list_args) && usual->backend == backend) ? usual : NULL;
}
/* Device of a call: the Device argument, else the first operand that is not a 0-d cpu tensor beside another
 * device, else the default; and the check that the operands go together. */
tn_status tni_call_device(tn_call *call, const tn_value *args, tn_device *out_device);
/* Strides of an elementwise result by TensorIterator's rule (docs/strides.md). */
void tni_elementwise_strides(const tn_op *op, const tn_value *args, tn_desc *desc);
/* Memory of host->scratch: of a step, and of a fast-path call. */
void tni_scratch_release(struct tni_scratch **list);
void tni_scratch_release_fast(tn_call *call);
void tni_cast_lists_release(tni_step *step);
/* Casts and copies of a step. */
tn_status tni_step_cast(tni_step *step, tn_dtype compute, uint64_t keep_args);
tn_status tni_step_localise(tni_step *step, tn_device device);
/* A list of n empty places that the step releases with its entries. */
tn_status tni_step_list(tni_step *step, uint32_t n, tn_tensor ***out_items);
/* Overlap rules of in-place and out targets: TN_OK, or the refusal; *out_temporary: write to a temporary first.
 * written: what of the target will be written, which differs from it where an out= call resizes it. */
tn_status tni_check_overlap(const tn_op *op, const tn_value *args, tn_tensor *target, const tn_view *written,
                            bool *out_temporary);
/* Calls a TN_KERNEL_CONTIGUOUS provider: with contiguous copies where need be (contiguous.c). */
tn_status tni_call_contiguous(tn_call *call, tni_step *step, const tni_kernel *kernel, const tn_value *args,
                              tn_value *out);
/* Resizes in place, keeping identity; new memory if the storage is too small. The caller counts the version. */
tn_status tni_resize(tn_tensor *t, uint32_t ndim, const tn_dim *sizes);
/* Whether tni_resize would refuse; *out_fits: the elements stay in the memory that t has. */
tn_status tni_resize_fits(const tn_tensor *t, uint32_t ndim, const tn_dim *sizes, bool *out_fits);
/* The record of copy_. */
const tn_op *tni_op_copy(void);
/* dst.copy_(src) below every layer; counts as one write to dst. */
tn_status tni_copy(tn_tensor *dst, tn_tensor *src);
/* The same as part of a write that is counted elsewhere. */
tn_status tni_copy_uncounted(tn_tensor *dst, tn_tensor *src);
/* A fresh row-major tensor with src's values in another dtype or on another device, below every layer. */
tn_status tni_cast_copy(tn_tensor *src, tn_dtype dtype, tn_device device, tn_tensor **out_tensor);

/* See Note [Faces]. */
typedef struct tni_face {
  tn_tensor *tensor; /* owned: on the cpu, with the sizes and strides of what it stands for */
  tn_tensor *stage;  /* owned: the host copy, or NULL */
  int64_t first;     /* offset of the host copy in the backend's memory */
  uint64_t size;
  uint64_t bytes_read, bytes_written; /* that went to the host, and back */
} tni_face;
/* read: the bytes that are there are wanted; else a host copy is undefined until it is written. */
tn_status tni_face_make(tni_face *face, tn_tensor *t, bool read);
/* The host copy goes back to the device; where there is none, nothing is to be done. */
tn_status tni_face_write(tni_face *face, const tn_view *v);
void tni_face_release(tni_face *face);

#endif
