/* SPDX-License-Identifier: Apache-2.0
 *
 * State that a layer keeps per thread: one for each thread that meets it, a copy for a worker of the backward pass, and
 * all of them freed.
 */
#include <pthread.h>

#include "tools.h"

enum { MADE, COPIED, FREED, ALIVE, CALLS, COUNTS };

/* The call of the report itself is met, too, if the layer is on. */
static void report(int64_t counts[COUNTS]) {
  const tn_op *op;
  tn_tensor *like = row((const float[]){0}, 1);
  tn_value arg = tn_value_tensor(like), out = tn_value_none();
  TN_CHECK_OK(tn_op_find("keeper::report", &op));
  TN_CHECK_OK(tn_op_call(op, &arg, 1, &out, 1));
  TN_CHECK_OK(tn_tensor_to_host(out.u.t, counts, COUNTS * sizeof *counts));
  tn_tensor_release(out.u.t);
  tn_tensor_release(like);
}

static void neg_some(int n) {
  tn_tensor *x = row((const float[]){1}, 1), *y;
  for (int i = 0; i < n; ++i) {
    TN_CHECK_OK(tn_neg(x, &y));
    tn_tensor_release(y);
  }
  tn_tensor_release(x);
}

static void *in_thread(void *out) {
  TN_CHECK(!tn_layer_is_on("keeper")); /* a thread of the program begins with no layer */
  TN_CHECK_OK(tn_layer_set("keeper", true, NULL));
  neg_some(3);
  report(out);
  return NULL;
}

TN_TEST(layer_state, is_one_for_each_thread_and_ends_with_it) {
  layers_start();
  int64_t before[COUNTS], inside[COUNTS], after[COUNTS];
  TN_CHECK_OK(tn_layer_set("keeper", true, NULL));
  neg_some(1);
  report(before);
  pthread_t thread;
  TN_CHECK_INT(pthread_create(&thread, NULL, in_thread, inside), 0);
  pthread_join(thread, NULL);
  report(after);
  TN_CHECK_INT(inside[MADE], before[MADE] + 1);
  TN_CHECK_INT(inside[ALIVE], before[ALIVE] + 1);
  TN_CHECK(inside[CALLS] >= 4 && inside[CALLS] < 8);
  TN_CHECK_INT(after[FREED], before[FREED] + 1);
  TN_CHECK_INT(after[ALIVE], before[ALIVE]);
  TN_CHECK(after[CALLS] > before[CALLS]);
  TN_CHECK_OK(tn_layer_set("keeper", false, NULL));
}

/* The gradient of a product on glass, whose nodes run on a thread of its own. */
static void backward_on_glass(void) {
  tn_device glass;
  TN_CHECK_OK(tn_device_open("glass", &glass));
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = glass};
  const tn_dim size = 1;
  tn_tensor *x, *y, *seed;
  TN_CHECK_OK(tn_tensor_from_host((const float[]){3}, &size, 1, &options, &x));
  TN_CHECK_OK(tn_tensor_from_host((const float[]){1}, &size, 1, &options, &seed));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_mul(x, x, &y));
  TN_CHECK_OK(tn_backward_run(y, seed));
  float grad;
  TN_CHECK_OK(tn_tensor_to_host(tn_grad(x), &grad, sizeof grad));
  TN_CHECK_DOUBLE(grad, 6, 0);
  tn_tensor_release(y);
  tn_tensor_release(seed);
  tn_tensor_release(x);
}

TN_TEST(layer_state, travels_to_workers_as_copies) {
  layers_start();
  int64_t before[COUNTS], after[COUNTS];
  TN_CHECK_OK(tn_layer_set("keeper", true, NULL));
  neg_some(2);
  report(before);
  backward_on_glass();
  report(after);
  TN_CHECK(after[COPIED] >= before[COPIED] + 2); /* the run's, and at least one node's */
  TN_CHECK_INT(after[MADE], before[MADE]);       /* no worker began with nothing */
  TN_CHECK_INT(after[ALIVE], before[ALIVE]);
  TN_CHECK_OK(tn_layer_set("keeper", false, NULL));
  report(before);
  backward_on_glass(); /* off: nobody counts, but the state that this thread has travels */
  report(after);
  TN_CHECK_INT(after[CALLS], before[CALLS]);
  TN_CHECK_INT(after[ALIVE], before[ALIVE]);
}

static void *meets_and_waits(void *ctx) {
  pthread_barrier_t *both = ctx;
  TN_CHECK_OK(tn_layer_set("keeper", true, NULL));
  neg_some(1);
  pthread_barrier_wait(both);
  pthread_barrier_wait(both);
  return NULL; /* its state went with the plugin */
}

/* Every thread's state is freed by the layer that made it, before its shutdown; opened again, it begins anew. */
TN_TEST(layer_state, ends_with_an_unloaded_plugin) {
  layers_start();
  int64_t counts[COUNTS], first;
  pthread_barrier_t both;
  pthread_t thread;
  TN_CHECK_INT(pthread_barrier_init(&both, NULL, 2), 0);
  TN_CHECK_INT(pthread_create(&thread, NULL, meets_and_waits, &both), 0);
  TN_CHECK_OK(tn_layer_set("keeper", true, NULL));
  neg_some(1);
  pthread_barrier_wait(&both);
  TN_CHECK_OK(tn_plugin_unload("keeper"));
  TN_CHECK(!tn_layer_is_on("keeper"));
  neg_some(1); /* meets nobody */
  backward_on_glass();
  pthread_barrier_wait(&both);
  pthread_join(thread, NULL);
  TN_CHECK_OK(tn_layer_set("keeper", false, NULL));
  report(counts); /* opens it again */
  TN_CHECK_INT(counts[ALIVE], 0);
  first = counts[MADE];
  TN_CHECK(first >= 2);
  TN_CHECK_OK(tn_layer_set("keeper", true, NULL));
  neg_some(1);
  report(counts);
  TN_CHECK_INT(counts[MADE], first + 1);
  TN_CHECK_OK(tn_layer_set("keeper", false, NULL));
  pthread_barrier_destroy(&both);
}
