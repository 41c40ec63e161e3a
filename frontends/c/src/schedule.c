/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules as closed forms of (initial rate, step). Closed forms do not accumulate rounding
 * and need no position to be saved; PyTorch's recursive ones agree with them to rounding.
 */
#include <math.h>
#include <tenon/optim.h>

#include "frontends/c/src/support.h"

struct tn_schedule {
  tn_schedule_fn fn;
  void *ctx;
  void (*free_ctx)(void *ctx);
};

tn_status tn_schedule_new(tn_schedule_fn fn, void *ctx, void (*free_ctx)(void *),
                          tn_schedule **out_schedule) {
  *out_schedule = NULL;
  tn_schedule *s = NULL;
  tn_status status = tni_nn_not_null((const void *)(uintptr_t)fn, "tn_schedule_new: the function");
  if (status == TN_OK) status = tni_nn_alloc(1, sizeof *s, "a schedule", &s);
  if (status != TN_OK) {
    if (free_ctx) free_ctx(ctx);
    return status;
  }
  *s = (tn_schedule){fn, ctx, free_ctx};
  *out_schedule = s;
  return TN_OK;
}

void tn_schedule_release(tn_schedule *schedule) {
  if (!schedule) return;
  if (schedule->free_ctx) schedule->free_ctx(schedule->ctx);
  free(schedule);
}

double tn_schedule_lr(const tn_schedule *schedule, double initial_lr, int64_t step) {
  return schedule->fn(schedule->ctx, initial_lr, step < 0 ? 0 : step);
}

/* ------------------------------------------------------------------ the closed forms */

typedef struct shape {
  double a, b;
  int64_t steps;
} shape;

static double step_lr(void *ctx, double lr, int64_t step) {
  const shape *s = ctx;
  return lr * pow(s->a, (double)(step / s->steps));
}

static double exponential_lr(void *ctx, double lr, int64_t step) {
  const shape *s = ctx;
  return lr * pow(s->a, (double)step);
}

static double cosine_lr(void *ctx, double lr, int64_t step) {
  const shape *s = ctx;
  if (step >= s->steps) return s->a;
  return s->a + (lr - s->a) * 0.5 * (1.0 + cos(acos(-1.0) * (double)step / (double)s->steps));
}

static double linear_lr(void *ctx, double lr, int64_t step) {
  const shape *s = ctx;
  double at = step >= s->steps ? 1.0 : (double)step / (double)s->steps;
  return lr * (s->a + (s->b - s->a) * at);
}

static tn_status make(tn_schedule_fn fn, shape value, const char *name, tn_schedule **out_schedule) {
  *out_schedule = NULL;
  if (value.steps < 1)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s schedule: at least one step was expected, not %lld", name,
                   (long long)value.steps);
  if (!(value.a >= 0.0 && value.b >= 0.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s schedule: a factor or rate is negative or not a number",
                   name);
  shape *s = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *s, "a schedule", &s));
  *s = value;
  return tn_schedule_new(fn, s, free, out_schedule);
}

tn_status tn_schedule_step_new(int64_t every, double gamma, tn_schedule **out_schedule) {
  return make(step_lr, (shape){gamma, 0.0, every}, "step", out_schedule);
}

tn_status tn_schedule_exponential_new(double gamma, tn_schedule **out_schedule) {
  return make(exponential_lr, (shape){gamma, 0.0, 1}, "exponential", out_schedule);
}

tn_status tn_schedule_cosine_new(int64_t steps, double min_lr, tn_schedule **out_schedule) {
  return make(cosine_lr, (shape){min_lr, 0.0, steps}, "cosine", out_schedule);
}

tn_status tn_schedule_linear_new(double from, double to, int64_t steps, tn_schedule **out_schedule) {
  return make(linear_lr, (shape){from, to, steps}, "linear", out_schedule);
}

/* ------------------------------------------------------------------ composition */

typedef struct pair {
  tn_schedule *first, *second;
  int64_t at;
} pair;

static void pair_free(void *ctx) {
  pair *p = ctx;
  tn_schedule_release(p->first);
  tn_schedule_release(p->second);
  free(p);
}

static double chain_lr(void *ctx, double lr, int64_t step) {
  const pair *p = ctx;
  return tn_schedule_lr(p->second, tn_schedule_lr(p->first, lr, step), step);
}

static double then_lr(void *ctx, double lr, int64_t step) {
  const pair *p = ctx;
  return step < p->at ? tn_schedule_lr(p->first, lr, step) : tn_schedule_lr(p->second, lr, step - p->at);
}

static tn_status compose(tn_schedule_fn fn, pair value, tn_schedule **out_schedule) {
  *out_schedule = NULL;
  pair *p = NULL;
  tn_status status = tni_nn_alloc(1, sizeof *p, "a schedule", &p);
  if (status == TN_OK && (!value.first || !value.second || value.at < 0))
    status = tn_fail(TN_ERR_INVALID_ARGUMENT, "a composed schedule needs two schedules and a step >= 0");
  if (status != TN_OK) {
    tn_schedule_release(value.first);
    tn_schedule_release(value.second);
    free(p);
    return status;
  }
  *p = value;
  return tn_schedule_new(fn, p, pair_free, out_schedule);
}

tn_status tn_schedule_chain_new(tn_schedule *first, tn_schedule *second, tn_schedule **out_schedule) {
  return compose(chain_lr, (pair){first, second, 0}, out_schedule);
}

tn_status tn_schedule_then_new(tn_schedule *first, int64_t at, tn_schedule *second,
                               tn_schedule **out_schedule) {
  return compose(then_lr, (pair){first, second, at}, out_schedule);
}
