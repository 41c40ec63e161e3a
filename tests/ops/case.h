/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of the operator tests: an operator, one of its samples, a dtype under test. case.c makes the
 * arguments (the same values every time, from the case's name), reads tensors back as doubles, calls, and
 * compares; check_*.c hold the checks; test_operators.c runs each check over a family of operators.
 */
#ifndef TN_TESTS_OPS_CASE_H
#define TN_TESTS_OPS_CASE_H

#include "core/dispatch/dispatch.h"
#include "frontends/check/reference/make.h"
#include "frontends/check/reference/samples.h"
#include "tn_test.h"

enum { CASE_ARGS = 64, CASE_LIST = 16, CASE_TENSORS = 96 };

/* How the tensors of a case are made. */
typedef enum case_kind {
  CASE_CPU = 0,         /* as the sample says */
  CASE_META = 1,        /* same geometry on the meta device */
  CASE_CONTIGUOUS = 2   /* values as in CASE_CPU, row-major, owned memory (for writes and gradients) */
} case_kind;

typedef struct op_case {
  const tn_op *op;
  const tn_sample *sample;
  tn_dtype dtype;
  case_kind kind;
  uint32_t n_args;
  tn_value args[CASE_ARGS + 1]; /* + 1: the target of an out form */
  tn_tensor *tensors[CASE_TENSORS]; /* owned: all tensors among the arguments */
  size_t n_tensors;
  tn_tensor *lists[CASE_ARGS][CASE_LIST];
} op_case;

/* Results of a call, owned. */
typedef struct op_results {
  tn_value values[REF_OUTS];
  tn_tensor *list[CASE_LIST];
  tn_tensor *t[REF_OUTS]; /* flat: list entries or one per result; NULL: absent */
  uint32_t n;
} op_results;

/* Stops the test if the case cannot be made (not a finding about the operator). */
void case_build(op_case *c, const tn_op *op, const tn_sample *sample, tn_dtype dtype, case_kind kind);
void case_release(op_case *c);
/* Calls `op` (c->op or one of its forms) with the case's arguments; seeds all generators first. */
tn_status case_call(op_case *c, const tn_op *op, op_results *out);
tn_status case_run(op_case *c, const tn_op *op, op_results *out); /* without seeding */
void results_release(op_results *r);

/* The reference's view of the arguments as they are now. */
void case_reference(const op_case *c, ref_call *call, ref_arg *args);
/* A host tensor's values. */
rt *read_tensor(const tn_tensor *t);

/* Relative and absolute allowance of a case: by its coarsest floating dtype, wider for composites. */
double case_tolerance(const op_case *c, const op_results *results);

/* A finding: prints one line that names operator, sample and dtype, and counts it. */
void finding(const op_case *c, const char *format, ...) TN_PRINTF(2, 3);
/* Compares a real tensor with the reference; false after a finding. what: "result 1". */
bool compare(const op_case *c, const char *what, const tn_tensor *t, const rt *expected, double tolerance);

/* ------------------------------------------------------------------ walking */

/* Calls fn for every case of a family ("reduce" = registry/ops/reduce.yaml): operators x samples x dtypes. Fails
 * the test with the number of findings. */
typedef void (*case_fn)(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
void each_case(const char *family, case_fn fn);
/* The same with the first sample of each operator only, for a check that calls each case very often. */
void each_first_case(const char *family, case_fn fn);
/* The same with float64 only, for gradients. */
void each_float64_case(const char *family, case_fn fn);
bool in_family(const tn_op *op, const char *family);
/* First sample of an operator, NULL if it has none; sample + 1 is the next if its op is the same. */
const tn_sample *first_sample(const tn_op *op);
/* The form of a functional operator, or NULL. */
const tn_op *form_of(const tn_op *op, uint8_t form);
/* May a call with this dtype fail with "not this dtype" or "no kernel"? */
bool may_decline(const tn_op *op, tn_dtype dtype, tn_status status);

/* ------------------------------------------------------------------ the checks */

void check_forward(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
void check_meta(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
void check_forms(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
void check_gradient(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
void check_second_gradient(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
void check_failing_allocations(const tn_op *op, const tn_sample *sample, tn_dtype dtype);

#endif
