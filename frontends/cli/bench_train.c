/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites train (milliseconds of one training step on made-up data) and startup (a fresh process that lists
 * its devices).
 */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <tenon/optim.h>
#include <unistd.h>

#include "frontends/cli/bench.h"

/* ------------------------------------------------------------------ train */

typedef struct mlp {
  tn_module *model;
  tn_optimizer *adam;
} mlp;

static void mlp_free(void *state) {
  mlp *s = state;
  tn_optimizer_release(s->adam);
  tn_module_release(s->model);
  free(s);
}

static tn_status make_model(mlp *s) {
  tn_tensor *const *parameters;
  size_t n;
  tn_module *part = NULL;
  TN_TRY(tn_sequential_new(NULL, 0, &s->model));
  TN_TRY(tn_linear_new(784, 128, true, NULL, &part));
  TN_TRY(tn_sequential_append(s->model, part));
  TN_TRY(tn_relu_new(&part));
  TN_TRY(tn_sequential_append(s->model, part));
  TN_TRY(tn_linear_new(128, 10, true, NULL, &part));
  TN_TRY(tn_sequential_append(s->model, part));
  TN_TRY(tn_module_parameters(s->model, &parameters, &n));
  return tn_adam_new(parameters, n, NULL, &s->adam);
}

static tn_status mlp_setup(tni_bench *b) {
  mlp *s = calloc(1, sizeof *s);
  if (!s) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a benchmark's state");
  b->state = s;
  b->free_state = mlp_free;
  TN_TRY(make_model(s));
  tn_dim batch = b->which->size;
  TN_TRY(tn_randn((const tn_dim[]){batch, 784}, 2, NULL, &b->t[0]));
  return tn_zeros(&batch, 1, TN_OPTIONS(.dtype = TN_INT64), &b->t[1]);
}

static tn_status mlp_step(tni_bench *b) {
  mlp *s = b->state;
  tn_scope *scope = NULL;
  TN_TRY(tn_scope_begin(&scope));
  tn_scope_note(tn_optimizer_zero_grad(s->adam));
  tn_tensor *loss =
      tns_cross_entropy_loss(tns_module_forward(s->model, b->t[0]), b->t[1], NULL, 1, -100, 0.0);
  if (loss && tn_scope_note(tn_backward_run(loss, NULL)) == TN_OK) tn_scope_note(tn_optimizer_step(s->adam));
  return tn_scope_end(scope);
}

static tn_status mlp_run(tni_bench *b, int64_t n, double *out_ns) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) TN_TRY(mlp_step(b));
  *out_ns = tni_bench_now() - begin;
  return TN_OK;
}

static const tni_bench_case train[] = {{"mlp_adam_batch64", "ms", 1e-6, false, 64, mlp_setup, mlp_run},
                                       {"mlp_adam_batch256", "ms", 1e-6, false, 256, mlp_setup, mlp_run},
                                       {0}};
const tni_bench_suite tni_bench_train = {"train", train};

/* ------------------------------------------------------------------ startup */

extern char **environ;

static tn_status no_setup(tni_bench *b) { return TN_OK; }

static tn_status run_self(void) {
  char *argv[] = {"tenon", "devices", "--json", NULL};
  posix_spawn_file_actions_t actions;
  pid_t child = 0;
  int result = 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  int code = posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code) return tn_fail(TN_ERR_IO, "a process could not be started: %s", strerror(code));
  if (waitpid(child, &result, 0) != child || result != 0)
    return tn_fail(TN_ERR_STATE, "tenon devices ended with status %d", result);
  return TN_OK;
}

static tn_status run_startup(tni_bench *b, int64_t n, double *out_ns) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) TN_TRY(run_self());
  *out_ns = tni_bench_now() - begin;
  return TN_OK;
}

static const tni_bench_case startup[] = {{"devices", "ms", 1e-6, false, 0, no_setup, run_startup}, {0}};
const tni_bench_suite tni_bench_startup = {"startup", startup};
