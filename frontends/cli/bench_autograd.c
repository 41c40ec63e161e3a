/* SPDX-License-Identifier: Apache-2.0
 *
 * Suite autograd: what recording and running a graph cost, on tensors of one element, an operator.
 */
#include "frontends/cli/bench.h"
#include "frontends/cli/bench_floor.h"

enum { CHAIN = TNI_FLOOR_CHAIN };

static tn_status two(tni_bench *b) {
  const tn_dim one = 1;
  TN_TRY(tni_bench_full(b, 0, &one, 1, 1.5));
  TN_TRY(tni_bench_full(b, 1, &one, 1, 1.0));
  return tn_set_requires_grad(b->t[0], true);
}

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

/* y = y + x, CHAIN times: every node adds to the gradient of the one leaf. */
static tn_status fan(tn_tensor *x, tn_tensor *unused, tn_tensor **out_y) {
  tn_tensor *y = tn_tensor_retain(x);
  for (int i = 0; i < CHAIN; i++) {
    tn_tensor *next = NULL;
    tn_status status = tn_add(y, x, tn_int(1), &next);
    tn_tensor_release(y);
    if (status != TN_OK) return status;
    y = next;
  }
  *out_y = y;
  return TN_OK;
}

typedef tn_status (*graph_fn)(tn_tensor *x, tn_tensor *c, tn_tensor **out_y);

/* Times the forward or the backward part of n graphs; the scale of a case makes it one operator. */
static tn_status run_graph(tni_bench *b, int64_t n, graph_fn graph, bool backward, double *out_ns) {
  double total = 0.0;
  for (int64_t i = 0; i < n; i++) {
    tn_tensor *y = NULL;
    double begin = tni_bench_now();
    TN_TRY(graph(b->t[0], b->t[1], &y));
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

static tn_status chain_forward(tni_bench *b, int64_t n, double *out_ns) {
  return run_graph(b, n, chain, false, out_ns);
}
static tn_status chain_backward(tni_bench *b, int64_t n, double *out_ns) {
  return run_graph(b, n, chain, true, out_ns);
}
static tn_status fan_forward(tni_bench *b, int64_t n, double *out_ns) {
  return run_graph(b, n, fan, false, out_ns);
}
static tn_status fan_backward(tni_bench *b, int64_t n, double *out_ns) {
  return run_graph(b, n, fan, true, out_ns);
}

/* Forward and backward together, gradient accumulated: (g * b).backward(). */
static tn_status mul_backward(tni_bench *b) {
  tn_tensor *y = NULL;
  TN_TRY(tn_mul(b->t[0], b->t[1], &y));
  tn_status status = tn_backward_run(y, NULL);
  tn_tensor_release(y);
  return status;
}

static const tni_bench_case cases[] = {
    {"chain_forward", "ns", 1.0 / CHAIN, false, CHAIN, two, chain_forward, NULL, TNI_CEILING_CHAIN_FORWARD, 1},
    {"chain_backward", "ns", 1.0 / CHAIN, false, CHAIN, two, chain_backward, NULL, TNI_CEILING_CHAIN_BACKWARD, 1},
    {"fan_forward", "ns", 1.0 / CHAIN, false, CHAIN, two, fan_forward, NULL, TNI_CEILING_FAN_FORWARD, 1},
    {"fan_backward", "ns", 1.0 / CHAIN, false, CHAIN, two, fan_backward, NULL, TNI_CEILING_FAN_BACKWARD, 1},
    {"mul_backward", "ns", 1, false, 1, two, NULL, mul_backward, TNI_CEILING_NODE, 1},
    {0}};
const tni_bench_suite tni_bench_autograd = {"autograd", cases};
