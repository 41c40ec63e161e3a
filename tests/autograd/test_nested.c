/* SPDX-License-Identifier: Apache-2.0
 *
 * Section H: backward inside backward, several threads on one graph, and device workers.
 */
#include "core/autograd/autograd_int.h"
#include "tools.h"

/* A hook that runs another backward, `left` levels deep. */
typedef struct nest {
  int left;
  double sum;
} nest;

static tn_status nested(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  nest *n = ctx;
  if (n->left == 0) return TN_OK;
  n->left--;
  const double three = 3;
  tn_tensor *x, *y = NULL;
  TN_TRY(tn_tensor_from_host(&three, &(tn_dim){0}, 0, TN_OPTIONS(.dtype = TN_FLOAT64), &x));
  tn_status status = tn_set_requires_grad(x, true);
  bool mode = tn_grad_mode_set(true);
  if (status == TN_OK) status = tn_mul(x, x, &y);
  tn_grad_mode_set(mode);
  if (status == TN_OK) status = tn_register_hook(y, nested, n, NULL, NULL);
  if (status == TN_OK) status = tn_backward_run(y, NULL);
  double value = 0;
  if (status == TN_OK) status = tn_tensor_item_double(tn_grad(x), &value);
  n->sum += value;
  tn_tensor_release(y);
  tn_tensor_release(x);
  return status;
}

static void run_nested(int depth) {
  tn_scope *scope = open_scope();
  nest n = {.left = depth};
  tn_tensor *x = LEAF(1.0), *y = tns_mul(x, x);
  TN_CHECK_OK(tn_register_hook(y, nested, &n, NULL, NULL));
  TN_CHECK_OK(tn_backward_run(y, NULL));
  TN_CHECK_DOUBLE(n.sum, 6.0 * depth, 0);
  VALUES(tn_grad(x), 2);
  close_scope(scope);
}

TN_TEST(autograd, H1_backward_inside_backward) { run_nested(1); }
TN_TEST(autograd, H2_five_hundred_levels) { run_nested(500); }

static tn_status inner_fails(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  return tn_backward_run(ctx, NULL);
}

TN_TEST(autograd, H3_inner_failure_stops_the_outer_run) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1.0), *y = tns_mul(x, x), *plain = VEC(1.0);
  TN_CHECK_OK(tn_register_hook(y, inner_fails, plain, NULL, NULL));
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_STATE, "require grad");
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

/* ------------------------------------------------------------------ several threads */

typedef struct shared_graph {
  tn_tensor *root;
  int runs;
  tn_status status;
} shared_graph;

static void run_shared_graph(void *ctx) {
  shared_graph *g = ctx;
  const tn_backward_options retain = {.retain_graph = true};
  g->status = TN_OK;
  for (int i = 0; i < g->runs && g->status == TN_OK; ++i)
    g->status = tn_backward_from(&g->root, NULL, 1, NULL, 0, &retain);
}

TN_TEST(autograd, H5_several_threads_on_one_graph) {
  enum { THREADS = 4, RUNS = 50 };
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = total(tns_mul(tns_mul(x, x), tns_exp(tns_mul_scalar(x, tn_int(0)))));
  shared_graph graphs[THREADS];
  tni_worker *workers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    graphs[i] = (shared_graph){.root = y, .runs = RUNS};
    TN_CHECK_OK(tni_worker_start(run_shared_graph, &graphs[i], "backward", &workers[i]));
  }
  for (int i = 0; i < THREADS; ++i) tni_worker_join(workers[i]);
  for (int i = 0; i < THREADS; ++i) TN_CHECK_INT(graphs[i].status, TN_OK);
  VALUES(tn_grad(x), 2 * THREADS * RUNS, 4 * THREADS * RUNS);
  close_scope(scope);
}

/* ------------------------------------------------------------------ device workers */

/* A device without host memory, for nodes only: no tensor ever lives there. */
static const tn_backend_def far_def = {.struct_size = sizeof(tn_backend_def), .device_name = "far"};
static const tni_backend far_backend = {.id = 22, .n_devices = 2, .def = &far_def, .name = "far"};

static tni_thread *ran_on[2];

/* Passes its gradient on, and notes where it ran. */
static tn_status pass_on(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  ran_on[node->device.index] = &tni_tls;
  if (tni_grad_on()) return tn_fail(TN_ERR_INTERNAL, "grad mode is on in a worker");
  if (node->name[0] == '!') return tn_fail(TN_ERR_UNAVAILABLE, "the far device is gone");
  out[0] = tn_tensor_retain(grads[0]);
  return TN_OK;
}

static const tni_node_class far_class = {pass_on, NULL};

/* t.mul(1) whose node is replaced by one of the far device. */
static tn_tensor *through_far(tn_tensor *t, int16_t index, const char *name) {
  tn_tensor *y = tns_mul_scalar(t, ONE);
  tni_node *node;
  tn_dim *dims;
  TN_CHECK_OK(tni_node_new(&far_class, name, sizeof *node, 1, 1, y->view.ndim, 0, &dims, NULL, &node));
  tni_shape_set(&node->shapes[0], &y->view, &dims);
  TN_CHECK_OK(tni_gradient_edge(t, &node->edges[0]));
  node->device = (tn_device){22, 0, index};
  tni_history_set(y, node, 0);
  return y;
}

TN_TEST(autograd, H6_one_worker_per_device) {
  tn_scope *scope = open_scope();
  atomic_store(&tni_backends[22], &far_backend);
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x);
  tn_tensor *a = through_far(h, 0, "Far"), *b = through_far(tns_exp(tns_mul_scalar(h, tn_int(0))), 1, "Far");
  for (int i = 0; i < 20; ++i) {
    tn_tensor *y = total(tns_mul(a, b)), *g;
    TN_CHECK_OK(tn_grad_of(&y, NULL, 1, &x, 1, &(tn_backward_options){.retain_graph = true}, &g));
    VALUES(g, 2, 4);
    tn_tensor_release(g);
  }
  TN_CHECK(ran_on[0] && ran_on[1] && ran_on[0] != ran_on[1] && ran_on[0] != &tni_tls);
  tn_tensor *broken = total(tns_mul(tns_exp(a), through_far(h, 0, "!Far")));
  TN_CHECK_FAILS(tn_backward_run(broken, NULL), TN_ERR_UNAVAILABLE, "far device is gone");
  TN_CHECK_PTR_NULL(tn_grad(x));
  tni_autograd_stop();
  atomic_store(&tni_backends[22], NULL);
  close_scope(scope);
}
