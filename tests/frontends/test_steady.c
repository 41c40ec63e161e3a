/* SPDX-License-Identifier: Apache-2.0
 *
 * A steady training loop asks the system for nothing: once warm, a step takes no page fault. Builds with sanitizers
 * or injected failures run the steps and do not count, since their memory is the checker's.
 */
#include <sys/resource.h>
#include <tenon/optim.h>

#include "tools.h"

#if defined(TN_STRESS) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTED = 0 };
#else
enum { COUNTED = 1 };
#endif

enum { WARM = COUNTED ? 100 : 3, STEPS = COUNTED ? 100 : 3, WINDOWS = 3 };

typedef struct net {
  tn_module *model;
  tn_optimizer *adam;
  tn_tensor *input, *target;
} net;

static void net_make(net *n, tn_dim batch) {
  tn_module *parts[3];
  tn_tensor *const *parameters;
  size_t count;
  TN_CHECK_OK(tn_linear_new(784, 128, true, NULL, &parts[0]));
  TN_CHECK_OK(tn_relu_new(&parts[1]));
  TN_CHECK_OK(tn_linear_new(128, 10, true, NULL, &parts[2]));
  TN_CHECK_OK(tn_sequential_new(parts, 3, &n->model));
  TN_CHECK_OK(tn_module_parameters(n->model, &parameters, &count));
  TN_CHECK_OK(tn_adam_new(parameters, count, NULL, &n->adam));
  TN_CHECK_OK(tn_randn((const tn_dim[]){batch, 784}, 2, NULL, &n->input));
  TN_CHECK_OK(tn_zeros(&batch, 1, TN_OPTIONS(.dtype = TN_INT64), &n->target));
}

static void net_drop(net *n) {
  tn_optimizer_release(n->adam);
  tn_module_release(n->model);
  tn_tensor_release(n->input);
  tn_tensor_release(n->target);
}

static void step(net *n) {
  tn_scope *scope = NULL;
  TN_CHECK_OK(tn_scope_begin(&scope));
  tn_scope_note(tn_optimizer_zero_grad(n->adam));
  tn_tensor *loss =
      tns_cross_entropy_loss(tns_module_forward(n->model, n->input), n->target, NULL, 1, -100, 0.0);
  if (loss) tn_scope_note(tn_backward_run(loss, NULL));
  tn_scope_note(tn_optimizer_step(n->adam));
  TN_CHECK_OK(tn_scope_end(scope));
}

static long minor_faults(void) {
  struct rusage usage;
  TN_CHECK_INT(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

/* The fewest faults of some windows of STEPS steps: the kernel may move a page under us once, a loop that asks for
 * memory does so in each. */
static long least_faults(net *n) {
  long least = -1;
  for (int i = 0; i < WARM; ++i) step(n);
  for (int w = 0; w < WINDOWS && least != 0; ++w) {
    long before = minor_faults();
    for (int i = 0; i < STEPS; ++i) step(n);
    long faults = minor_faults() - before;
    if (least < 0 || faults < least) least = faults;
  }
  return least;
}

TN_TEST(steady, a_training_step_takes_no_page_fault) {
  static const tn_dim batches[] = {64, 256};
  for (int i = 0; i < 2; ++i) {
    net n;
    net_make(&n, batches[i]);
    long faults = least_faults(&n);
    if (COUNTED) TN_CHECK_INT(faults, 0);
    net_drop(&n);
  }
}

TN_TEST(steady, a_training_step_asks_the_backend_for_nothing) {
  net n;
  tn_memory_stats before, after;
  tn_device cpu;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  net_make(&n, 64);
  for (int i = 0; i < 3; ++i) step(&n);
  TN_CHECK_OK(tn_memory_get_stats(cpu, &before));
  for (int i = 0; i < 20; ++i) step(&n);
  TN_CHECK_OK(tn_memory_get_stats(cpu, &after));
  TN_CHECK_INT(after.current_bytes, before.current_bytes);
  if (COUNTED) TN_CHECK_INT(after.n_raw_allocs, before.n_raw_allocs);
  net_drop(&n);
}
