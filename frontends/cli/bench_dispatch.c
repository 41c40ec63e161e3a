/* SPDX-License-Identifier: Apache-2.0
 *
 * Suite dispatch: what one small call costs through the C API, result made and freed. Tensors have one
 * element unless the name says otherwise, so that the kernel costs next to nothing. Ceilings: bench_floor.c,
 * Note [The least of a call].
 */
#include "frontends/cli/bench.h"

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

/* A layer that only passes on: tests/layers/plugins/transparent.c. The case is left out where no plugin offers it. */
static const char layer[] = "transparent";

static void layer_off(void *unused) {
  (void)unused;
  (void)tn_layer_set(layer, false, NULL);
}

static tn_status two_below_layer(tni_bench *b) {
  TN_TRY(two(b));
  TN_TRY(tn_layer_set(layer, true, NULL));
  b->free_state = layer_off;
  return TN_OK;
}

static tn_status two_grad(tni_bench *b) {
  TN_TRY(two(b));
  TN_TRY(tn_set_requires_grad(b->t[0], true));
  return tn_set_requires_grad(b->t[1], true);
}

static tn_status matrices(tni_bench *b) {
  const tn_dim sizes[] = {b->which->size, b->which->size};
  TN_TRY(tni_bench_full(b, 0, sizes, 2, 1.5));
  return tni_bench_full(b, 1, sizes, 2, 0.5);
}

/* ------------------------------------------------------------------ single calls */

static inline tn_status one_add(tn_tensor *a, tn_tensor *b) {
  tn_tensor *r;
  tn_status status = tn_add(a, b, tn_int(1), &r);
  return tni_bench_made(status, &r);
}

static inline tn_status one_view(tn_tensor *a) {
  static const int64_t size = 1;
  tn_tensor *r;
  tn_status status = tn_view_op(a, &size, 1, &r);
  return tni_bench_made(status, &r);
}

static inline tn_status one_empty(const tn_options *options) {
  static const int64_t size = 1;
  tn_tensor *r;
  tn_status status = tn_empty(&size, 1, options, TN_MEMORY_FORMAT_NONE, &r);
  return tni_bench_made(status, &r);
}

static inline tn_status one_sum(tn_tensor *a) {
  tn_tensor *r;
  tn_status status = tn_sum(a, TN_DTYPE_NONE, &r);
  return tni_bench_made(status, &r);
}

static inline tn_status one_mm(tn_tensor *a, tn_tensor *b) {
  tn_tensor *r;
  tn_status status = tn_mm(a, b, &r);
  return tni_bench_made(status, &r);
}

static tn_status run_add(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_add(b->t[0], b->t[1])); }
static tn_status run_view(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_view(b->t[0])); }
static tn_status run_empty(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_empty(NULL)); }
static tn_status run_sum(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_sum(b->t[0])); }
static tn_status run_mm(tni_bench *b, int64_t n, double *out_ns) { LOOP(one_mm(b->t[0], b->t[1])); }
static tn_status run_add_inplace(tni_bench *b, int64_t n, double *out_ns) {
  LOOP(tn_add_(b->t[0], b->t[1], tn_int(1)));
}

static const tni_bench_case cases[] = {
    {"add_1_nograd", "ns", 1, false, 1, two, run_add, NULL, TNI_CEILING_CALL_ADD, 1},
    {"add_1_grad", "ns", 1, false, 1, two_grad, run_add, NULL, TNI_CEILING_CALL_RECORD, 1},
    {"add_1_layer", "ns", 1, false, 1, two_below_layer, run_add, NULL, TNI_CEILING_CALL_LAYER, 1},
    {"view_1", "ns", 1, false, 1, two, run_view, NULL, TNI_CEILING_CALL_VIEW, 1},
    {"empty_1", "ns", 1, false, 1, two, run_empty, NULL, TNI_CEILING_CALL_EMPTY, 1},
    {"add_inplace_1", "ns", 1, false, 1, two, run_add_inplace, NULL, TNI_CEILING_CALL_IN_PLACE, 1},
    {"sum_1", "ns", 1, false, 1, two, run_sum, NULL, TNI_CEILING_CALL_SUM, 1},
    {"mm_2x2", "ns", 1, false, 2, matrices, run_mm, NULL, TNI_CEILING_CALL_MM, 2 * 2 * 2 * 2},
    {"mm_16x16", "ns", 1, false, 16, matrices, run_mm, NULL, TNI_CEILING_CALL_MM, 2 * 16 * 16 * 16},
    {0}};
const tni_bench_suite tni_bench_dispatch = {"dispatch", cases};
