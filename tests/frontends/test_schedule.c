/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules: values at chosen steps, composition, and how an optimiser takes them.
 */
#include <math.h>
#include <tenon/optim.h>

#include "tools.h"

TN_TEST(frontends_schedule, closed_forms) {
  tn_schedule *s = NULL;
  TN_CHECK_OK(tn_schedule_step_new(10, 0.5, &s));
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 9), 1, 0);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 25), 0.25, 1e-15);
  tn_schedule_release(s);
  TN_CHECK_OK(tn_schedule_exponential_new(0.9, &s));
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 2, 3), 2 * 0.729, 1e-12);
  tn_schedule_release(s);
  TN_CHECK_OK(tn_schedule_cosine_new(100, 0.1, &s));
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 0), 1, 1e-15);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 50), 0.55, 1e-12);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 100), 0.1, 0);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 1000), 0.1, 0);
  tn_schedule_release(s);
  TN_CHECK_OK(tn_schedule_linear_new(0.1, 1, 9, &s));
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 2, 0), 0.2, 1e-15);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 2, 5), 1.2, 1e-12);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 2, 99), 2, 0);
  tn_schedule_release(s);
}

TN_TEST(frontends_schedule, warm_up_then_cosine) {
  tn_schedule *warm = NULL, *cosine = NULL, *s = NULL;
  TN_CHECK_OK(tn_schedule_linear_new(0, 1, 10, &warm));
  TN_CHECK_OK(tn_schedule_cosine_new(90, 0, &cosine));
  TN_CHECK_OK(tn_schedule_then_new(warm, 10, cosine, &s));
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 5), 0.5, 1e-15);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 10), 1, 1e-15);
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 1, 55), 0.5, 1e-12);
  tn_schedule_release(s);
}

TN_TEST(frontends_schedule, chained_factors_multiply) {
  tn_schedule *a = NULL, *b = NULL, *s = NULL;
  TN_CHECK_OK(tn_schedule_exponential_new(0.5, &a));
  TN_CHECK_OK(tn_schedule_step_new(2, 0.1, &b));
  TN_CHECK_OK(tn_schedule_chain_new(a, b, &s));
  TN_CHECK_DOUBLE(tn_schedule_lr(s, 8, 2), 8 * 0.25 * 0.1, 1e-12);
  tn_schedule_release(s);
}

TN_TEST(frontends_schedule, bad_ones_are_refused_and_parts_freed) {
  tn_schedule *a = NULL, *s = NULL;
  TN_CHECK_FAILS(tn_schedule_step_new(0, 0.5, &s), TN_ERR_INVALID_ARGUMENT, "at least one step");
  TN_CHECK_FAILS(tn_schedule_exponential_new(NAN, &s), TN_ERR_INVALID_ARGUMENT, "not a number");
  TN_CHECK_OK(tn_schedule_exponential_new(0.5, &a));
  TN_CHECK_FAILS(tn_schedule_chain_new(a, NULL, &s), TN_ERR_INVALID_ARGUMENT, "two schedules");
  TN_CHECK_PTR_NULL(s);
}

TN_TEST(frontends_schedule, sets_each_group_from_its_own_rate) {
  tn_tensor *a = TT_VECTOR(1), *b = TT_VECTOR(1);
  tn_optimizer *sgd = NULL;
  tn_schedule *s = NULL;
  double lr = 0;
  TN_CHECK_OK(tn_sgd_new(&a, 1, &(tn_sgd_options){.lr = 1}, &sgd));
  TN_CHECK_OK(tn_sgd_add_group(sgd, &b, 1, &(tn_sgd_options){.lr = 10}));
  TN_CHECK_OK(tn_schedule_exponential_new(0.5, &s));
  for (int64_t step = 0; step < 3; step++) TN_CHECK_OK(tn_schedule_apply(s, sgd, step));
  TN_CHECK_OK(tn_optimizer_lr(sgd, 0, &lr));
  TN_CHECK_DOUBLE(lr, 0.25, 1e-15);
  TN_CHECK_OK(tn_optimizer_lr(sgd, 1, &lr));
  TN_CHECK_DOUBLE(lr, 2.5, 1e-15);
  tn_schedule_release(s);
  tn_optimizer_release(sgd);
  tn_tensor_release(b);
  tn_tensor_release(a);
}
