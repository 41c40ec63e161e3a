/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels without the core around them: the plugin's init runs against a host of this program (door.h), which keeps
 * every registered kernel, and calls them on views over memory with a known pattern around and between the elements. So
 * a check sees what the core cannot: what was written beside an output, what a kernel wrote before it declined, and
 * whether the second run gives the same bits.
 *
 * Shapes and dtypes of results come from the operator's meta rule; values from its samples. Cases in which the core
 * would cast arguments first are left out: a kernel is only ever called inside its claim. A process uses either this or
 * the core's own loader for the plugin.
 */
#ifndef TENON_CHECK_OPS_DIRECT_H
#define TENON_CHECK_OPS_DIRECT_H

#include "frontends/check/door.h"
#include "frontends/check/ops.h"

/* ------------------------------------------------------------------ memory */

/* Memory of the device under test, or of the host for providers of the CPU. */
typedef struct tni_direct_block {
  tn_memory memory;
  unsigned char *image; /* owned: what was put there */
  uint64_t size_bytes;
} tni_direct_block;

typedef struct tni_direct_tensor {
  tn_view view;
  tn_dim sizes[RT_RANK], strides[RT_RANK];
  tni_direct_block block;
} tni_direct_tensor;

/* ------------------------------------------------------------------ kernels */

typedef struct tni_direct {
  tni_check_report *r;
  const tni_check_context *c;
  tni_door door;
  tn_kernel_def *kernels; /* full-size copies with strings of their own */
  size_t n_kernels;
  tni_raw raw;            /* of the kernel that runs; def NULL: the host's memory */
  bool enough;            /* a visitor sets it: no more samples of this kernel and dtype */
} tni_direct;

/* How the tensors of a call lie. */
typedef enum tni_direct_way {
  TNI_DIRECT_PLAIN = 0,  /* inputs as the sample says, outputs as the meta rule says */
  TNI_DIRECT_AWKWARD = 1 /* inputs transposed or with gaps, outputs with gaps, all begin one element off their alignment */
} tni_direct_way;

/* One call and all that it touched. */
typedef struct tni_direct_call {
  tni_direct *d;
  const tn_kernel_def *kernel;
  const tni_ops_op *op;
  tn_dtype tested;
  bool has_out_form;
  const char *item;
  uint32_t n_args, n_out;
  tn_value args[TNI_OPS_ARGS];
  tn_value outs[REF_OUTS];
  tni_direct_tensor inputs[TNI_OPS_TENSORS];
  const tn_view *lists[TNI_OPS_ARGS][TNI_OPS_LIST];
  size_t n_inputs;
  tni_direct_tensor outputs[REF_OUTS];
  size_t n_outputs;
  tni_direct_tensor *targets[REF_OUTS]; /* of result i: an output, or the input that is written; NULL: absent */
  tn_status status;                     /* of the kernel */
  bool host_refused;                    /* it asked for a row that this host does not serve */
} tni_direct_call;

/* Calls visit for kernels x samples x claimed dtypes, each called once (status says what it answered). What does not
 * come to a call is not visited. false: the plugin could not be entered, which is reported. */
bool tni_direct_each(tni_check_report *r, const tni_check_context *c, tni_direct_way way,
                     void (*visit)(tni_direct_call *call));

/* Runs the kernel again on fresh outputs and unchanged inputs. */
tn_status tni_direct_again(tni_direct_call *call);
/* The block's bytes as they are now, owned: free(). NULL: a failure was reported. */
unsigned char *tni_direct_bytes(const tni_direct_call *call, const tni_direct_block *block);
/* Compares a result with the reference's values; true, or a finding was reported. */
bool tni_direct_judge(const tni_direct_call *call, uint32_t result, const rt *expected, double tolerance);
/* The reference of the call: false if there is none. */
bool tni_direct_reference(const tni_direct_call *call, ref_call *out_call, ref_arg *args);

/* The host that kernels see; direct is whom its rows serve from now on. */
const tn_host *tni_direct_host(tni_direct *direct);
tn_status tni_direct_block_new(const tni_direct *d, uint64_t size_bytes, unsigned char *image, tni_direct_block *out_block);
void tni_direct_block_free(const tni_direct *d, tni_direct_block *block);
/* Scratch memory of the last call goes back; false: the kernel wrote beyond it. */
bool tni_direct_scratch_end(tni_direct *d);

#endif
