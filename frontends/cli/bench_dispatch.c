/* SPDX-License-Identifier: Apache-2.0
 *
 * Suite dispatch: what one small call costs through the C API, result made and freed. Tensors have one
 * element unless the name says otherwise, so that the kernel costs next to nothing.
 */
#include "frontends/cli/bench.h"

enum { CHAIN = 1000 };

/* Times n runs of a call expression. */
#define LOOP(call)                                   \
  do {                                               \
    double begin_ = tni_bench_now();                 \
    for (int64_t i_ = 0; i_ < n; i_++) TN_TRY(call); \
    *out_ns = tni_bench_now() - begin_;              \
    return TN_OK;                                    \
  } while (0)

/* ------------------------------------------------------------------ set-ups */

static tn_status two(tni_bench *b) {
  const tn_dim one = 1;
  TN_TRY(tni_bench_full(b, 0, &one, 1, 1.5));
  return tni_bench_full(b, 1, &one, 1, 1.0);
}

static tn_status two_grad(tni_bench *b) {
  TN_TRY(two(b));
  TN_TRY(tn_set_requires_grad(b->t[0], true));
  return tn_set_requires_grad(b->t[1], true);
}

static tn_status first_grad(tni_bench *b) {
  TN_TRY(two(b));
  return tn_set_requires_grad(b->t[0], true);
}

static tn_status matrices(tni_bench *b) {
  const tn_dim sizes[] = {2, 2};
  TN_TRY(tni_bench_full(b, 0, sizes, 2, 1.5));
  return tni_bench_full(b, 1, sizes, 2, 0.5);
}

/* ------------------------------------------------------------------ single calls */

static tn_status made(tn_status status, tn_tensor *result) {
  if (status == TN_OK) tn_tensor_release(result);
  return status;
}

static inline tn_status one_add(tn_tensor *a, tn_tensor *b) {
  tn_tensor *r;
  tn_status status = tn_add(a, b, tn_int(1), &r);
  return made(status, r);
}

static inline tn_status one_view(tn_tensor *a) {
  static const int64_t size = 1;
  tn_tensor *r;
  tn_status status = tn_view_op(a, &size, 1, &r);
  return made(status, r);
}

static inline tn_status one_empty(const tn_options *options) {
  static const int64_t size = 1;
  tn_tensor *r;
  tn_status status = tn_empty(&size, 1, options, TN_MEMORY_FORMAT_NONE, &r);
  return made(status, r);
}

static inline tn_status one_sum(tn_tensor *a) {
  tn_tensor *r;
  tn_status status = tn_sum(a, TN_DTYPE_NONE, &r);
  return made(status, r);
}

static inline tn_status one_mm(tn_tensor *a, tn_tensor *b) {
  tn_tensor *r;
  tn_status status = tn_mm(a, b, &r);
  return made(status, r);
}

static tn_status run_add(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_add(b->t[0], b->t[1])); }
static tn_status run_view(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_view(b->t[0])); }
static tn_status run_empty(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_empty(NULL)); }
static tn_status run_sum(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_sum(b->t[0])); }
static tn_status run_mm(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_mm(b->t[0], b->t[1])); }
static tn_status run_add_inplace(tni_bench *b, int64_t n, double *out_ns) {
  LOOP(tn_add_(b->t[0], b->t[1], tn_int(1)));
}

/* ------------------------------------------------------------------ chains and backward */

/* y = y * c, CHAIN times; the result is owned. */
static tn_status chain(tn_tensor *x, tn_tensor *c, tn_tensor **out_y) {
  tn_tensor *y = tn_tensor_retain(x);
  for (int i = 0; i < CHAIN; i++) {
    tn_tensor *next = NULL;
    tn_status status = tn_mul(y, c, &next);
    tn_tensor_release(y);
    if (status != TN_OK) return status;
    y = next;
  }
  *out_y = y;
  return TN_OK;
}

/* Times the forward or the backward part of n chains; one run is a whole chain, scale makes it one operator.
 * */
static tn_status run_chain(tni_bench *b, int64_t n, bool backward, double *out_ns) {
  double total = 0.0;
  for (int64_t i = 0; i < n; i++) {
    tn_tensor *y = NULL;
    double begin = tni_bench_now();
    TN_TRY(chain(b->t[0], b->t[1], &y));
    double middle = tni_bench_now();
    tn_status status = tn_backward_run(y, NULL);
    double end = tni_bench_now();
    tn_tensor_release(y);
    TN_TRY(status);
    TN_TRY(tn_set_grad(b->t[0], NULL));
    total += backward ? end - middle : middle - begin;
  }
  *out_ns = total;
  return TN_OK;
}

static tn_status run_chain_forward(tni_bench *b, int64_t n, double *out_ns) {
  return run_chain(b, n, false, out_ns);
}
static tn_status run_chain_backward(tni_bench *b, int64_t n, double *out_ns) {
  return run_chain(b, n, true, out_ns);
}

static tn_status one_backward(tn_tensor *g, tn_tensor *c) {
  tn_tensor *y = NULL;
  TN_TRY(tn_mul(g, c, &y));
  tn_status status = tn_backward_run(y, NULL);
  tn_tensor_release(y);
  return status;
}

/* Forward and backward together, gradient accumulated: (g * b).backward(). */
static tn_status run_mul_backward(tni_bench *b, int64_t n, double *out_ns) {
  LOOP(one_backward(b->t[0], b->t[1]));
}

static const tni_bench_case cases[] = {
    {"add_1_nograd", "ns", 1, false, 1, two, run_add},
    {"add_1_grad", "ns", 1, false, 1, two_grad, run_add},
    {"view_1", "ns", 1, false, 1, two, run_view},
    {"empty_1", "ns", 1, false, 1, two, run_empty},
    {"add_inplace_1", "ns", 1, false, 1, two, run_add_inplace},
    {"sum_1", "ns", 1, false, 1, two, run_sum},
    {"mm_2x2", "ns", 1, false, 2, matrices, run_mm},
    {"chain_forward", "ns", 1.0 / CHAIN, false, CHAIN, first_grad, run_chain_forward},
    {"chain_backward", "ns", 1.0 / CHAIN, false, CHAIN, first_grad, run_chain_backward},
    {"mul_backward", "ns", 1, false, 1, first_grad, run_mul_backward},
    {0}};
const tni_bench_suite tni_bench_dispatch = {"dispatch", cases};
