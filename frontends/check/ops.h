/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operator checks (ops_*.c) share: an operator as its schema and report describe it, one case of it (a sample,
 * a dtype, a device), its results, and the walk over everything that a plugin claims. Tensors are made and read through
 * the application's API alone, so that what is tried is what an application would get.
 *
 * Everything here is for one thread: the reference's arena and the walk's texts are the process's.
 */
#ifndef TENON_CHECK_OPS_H
#define TENON_CHECK_OPS_H

#include <tenon/operator.h>

#include "frontends/check/check.h"
#include "frontends/check/reference/make.h"
#include "frontends/check/reference/samples.h"
#include "registry/schema.h"

enum { TNI_OPS_ARGS = 64, TNI_OPS_LIST = 16, TNI_OPS_TENSORS = 96, TNI_OPS_WORDS = 400 };

/* ------------------------------------------------------------------ operators */

typedef struct tni_ops_op {
  const tn_op *op;
  tn_op_report report;
  tni_schema *schema;       /* owned */
  uint64_t writes;          /* bit i: argument i is (x!) */
  bool list_result;         /* the only result is Tensor[] */
  const tn_sample *samples; /* those of its functional operator; NULL: nobody gave any */
} tni_ops_op;

/* Opens the plugin that adds the operator, if one does. On success owned: tni_ops_op_close. */
tn_status tni_ops_op_open(const char *name, tni_ops_op *out_op);
void tni_ops_op_close(tni_ops_op *op);
/* The in-place (TN_FORM_INPLACE) or out form (TN_FORM_OUT) of a functional operator; false: it has none. */
bool tni_ops_form_open(const tni_ops_op *functional, uint8_t form, tni_ops_op *out_op);
/* Is this one of the sample's operator's? For `for (s = op->samples; tni_ops_is_sample(op, s); s++)`. */
bool tni_ops_is_sample(const tni_ops_op *op, const tn_sample *sample);

/* Samples of several blocks and threads, for operators of every kind of kernel; NULL for all others. The last one's
 * follower has another op. `automatic`: very long, through the core only. */
const tn_sample *tni_ops_large_samples(const char *functional);

/* ------------------------------------------------------------------ cases */

typedef enum tni_ops_kind {
  TNI_OPS_AS_SAMPLE = 0,
  TNI_OPS_CONTIGUOUS = 1, /* the same values in row-major memory, for writes and gradients */
  TNI_OPS_META = 2        /* the same geometry on the meta device */
} tni_ops_kind;

typedef struct tni_ops_case {
  const tni_ops_op *op;
  const tn_sample *sample;
  tn_dtype dtype;
  tn_device device;
  tni_ops_kind kind;
  uint32_t n_args;
  tn_value args[TNI_OPS_ARGS + 1];    /* + 1: the target of an out form */
  tn_tensor *tensors[TNI_OPS_TENSORS]; /* owned: all tensors among the arguments */
  size_t n_tensors;
  tn_tensor *lists[TNI_OPS_ARGS][TNI_OPS_LIST];
} tni_ops_case;

/* Results of a call, owned. */
typedef struct tni_ops_results {
  tn_value values[REF_OUTS];
  tn_tensor *list[TNI_OPS_LIST];
  tn_tensor *t[REF_OUTS]; /* flat: entries of the list or one per result; NULL: absent */
  uint32_t n;
} tni_ops_results;

/* Makes the arguments. On failure (the words are the thread's) there is nothing to release. */
tn_status tni_ops_case_make(tni_ops_case *c, const tni_ops_op *op, const tn_sample *sample, tn_dtype dtype,
                            tn_device device, tni_ops_kind kind);
void tni_ops_case_release(tni_ops_case *c);
/* Calls `op` (the case's or one of its forms) with the case's arguments. All generators are seeded first, so that a
 * second call draws the same numbers. */
tn_status tni_ops_call(tni_ops_case *c, const tni_ops_op *op, tni_ops_results *out);
void tni_ops_results_release(tni_ops_results *r);

/* A tensor of the sample's geometry and values on a device. */
tn_status tni_ops_tensor(const tn_sample_tensor *s, tn_dtype dtype, tn_device device, bool contiguous, uint64_t *state,
                         tn_tensor **out_tensor);
/* Values of a tensor, in the reference's arena; NULL if it could not be read (the words are the thread's). */
rt *tni_ops_read(tn_tensor *t);
/* The bytes of a tensor in row-major order, owned: free(); NULL if they could not be read. */
void *tni_ops_bytes(tn_tensor *t, size_t *out_size_bytes);
/* The reference's view of the arguments as they are now. false: one could not be read. */
bool tni_ops_reference(const tni_ops_case *c, ref_call *call, ref_arg *args);
/* Allowance of a case: by its coarsest dtype, wider for composites. */
double tni_ops_tolerance(const tni_ops_case *c, const tni_ops_results *results);
uint32_t tni_ops_version(const tn_tensor *t); /* 0 for tensors without one */

/* Compares the gradients of an operator on one sample, computed on a device: in float64 with differences (second: and the
 * gradients of gradients); in float32 with the CPU's in float64. *out_tried false: nothing in this case is differentiable. TN_ERR_DATA: they
 * disagree, and the words say where. */
tn_status tni_ops_gradcheck(const tni_ops_op *op, const tn_sample *sample, tn_dtype dtype, tn_device device, bool second,
                            bool *out_tried);

/* ------------------------------------------------------------------ the walk */

/* What is tried now. */
typedef struct tni_ops_try {
  tni_check_report *r;
  const tni_check_context *c;
  const tni_ops_op *op;
  const tn_sample *sample;
  tn_dtype dtype;
  tn_device device;
  const char *device_name;
  const char *item; /* "add.Tensor float32 broadcast" */
} tni_ops_try;

/* Calls fn for operators x samples x dtypes of `dtypes` that the plugin's kernel lines claim, on the device of each
 * line. Lines for layers, for devices that are not there, and for operators that this host lacks are passed over. */
void tni_ops_each(tni_check_report *r, const tni_check_context *c, tn_dtype_mask dtypes, void (*fn)(tni_ops_try *t));
/* The same, one call an operator and dtype: sample is NULL, item is "add.Tensor float32". */
void tni_ops_each_claim(tni_check_report *r, const tni_check_context *c, tn_dtype_mask dtypes, void (*fn)(tni_ops_try *t));

/* Dtypes that all lines of the (key, operator) of kernel line k claim together; 0 if k is not the first of them. */
tn_dtype_mask tni_ops_claimed(const tni_check_context *c, size_t k);
/* Is the key of a kernel line a layer, or a device, of the plugin? */
bool tni_ops_is_layer(const tni_check_context *c, const char *key);
bool tni_ops_is_own(const tni_check_context *c, const char *key);

/* For kernels of a device that others own: runs the check in a process where no other provider of it stands in front.
 * true: it has run, and there is nothing left to do. */
bool tni_ops_run_alone(tni_check_report *r, const tni_check_context *c);

/* Judges a result: true, or a finding that begins with `what` was reported. */
bool tni_ops_judge(tni_ops_try *t, const char *what, tn_tensor *result, const rt *expected, double tolerance);
/* A call failed. Skipped: a kernel may decline, and a missing kernel is no wrong one; a sample that the CPU (for kernels
 * on the CPU: the meta rule) refuses as well does not suit the dtype. Everything else is a finding. */
void tni_ops_judge_failure(tni_ops_try *t, tn_status status);

#endif
