/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimisers, step by step, against PyTorch's formulas worked out in double; state dicts; clipping.
 */
#include <math.h>
#include <tenon/optim.h>

#include "tools.h"

static void give_grad(tn_tensor *p, double g) {
  tn_tensor *grad = NULL;
  TN_CHECK_OK(tn_full(tn_tensor_sizes(p), (size_t)tn_tensor_ndim(p), tn_float(g), NULL, &grad));
  TN_CHECK_OK(tn_set_grad(p, grad));
  tn_tensor_release(grad);
}

static tn_tensor *make_parameter(double value) {
  tn_tensor *p = TT_VECTOR(value, value);
  TN_CHECK_OK(tn_set_requires_grad(p, true));
  return p;
}

static const double gradients[] = {0.5, -0.25, 1.0, 0.125};

/* ------------------------------------------------------------------ SGD */

static double sgd_reference(const tn_sgd_options *o, double p, int steps) {
  double buffer = 0;
  for (int i = 0; i < steps; i++) {
    double g = (o->maximize ? -gradients[i] : gradients[i]) + o->weight_decay * p;
    if (o->momentum != 0) {
      buffer = i == 0 ? g : o->momentum * buffer + (1 - o->dampening) * g;
      g = o->nesterov ? g + o->momentum * buffer : buffer;
    }
    p -= o->lr * g;
  }
  return p;
}

static void check_sgd(tn_sgd_options o) {
  tn_tensor *p = make_parameter(2);
  tn_optimizer *sgd = NULL;
  TN_CHECK_OK(tn_sgd_new(&p, 1, &o, &sgd));
  for (int i = 0; i < 4; i++) {
    give_grad(p, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(sgd));
    TN_CHECK_DOUBLE(tt_at(p, 1), sgd_reference(&o, 2, i + 1), 1e-6);
  }
  TN_CHECK(tn_is_leaf(p) && tn_requires_grad(p));
  tn_optimizer_release(sgd);
  tn_tensor_release(p);
}

TN_TEST(frontends_optim, sgd_follows_the_formula) {
  check_sgd((tn_sgd_options){.lr = 0.1});
  check_sgd((tn_sgd_options){.lr = 0.1, .weight_decay = 0.2});
  check_sgd((tn_sgd_options){.lr = 0.1, .momentum = 0.9});
  check_sgd((tn_sgd_options){.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01});
  check_sgd((tn_sgd_options){.lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true});
}

/* ------------------------------------------------------------------ Adam */

static double adam_reference(const tn_adam_options *o, bool decoupled, double p, int steps) {
  double m = 0, v = 0, v_max = 0;
  for (int i = 0; i < steps; i++) {
    double g = o->maximize ? -gradients[i] : gradients[i];
    if (decoupled)
      p *= 1 - o->lr * o->weight_decay;
    else
      g += o->weight_decay * p;
    m = o->beta1 * m + (1 - o->beta1) * g;
    v = o->beta2 * v + (1 - o->beta2) * g * g;
    v_max = v > v_max ? v : v_max;
    double used = o->amsgrad ? v_max : v;
    double denominator = sqrt(used) / sqrt(1 - pow(o->beta2, i + 1)) + o->eps;
    p -= o->lr / (1 - pow(o->beta1, i + 1)) * m / denominator;
  }
  return p;
}

static void check_adam(tn_adam_options o, bool decoupled) {
  tn_tensor *p = make_parameter(2);
  tn_optimizer *adam = NULL;
  TN_CHECK_OK((decoupled ? tn_adamw_new : tn_adam_new)(&p, 1, &o, &adam));
  for (int i = 0; i < 4; i++) {
    give_grad(p, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(adam));
    TN_CHECK_DOUBLE(tt_at(p, 0), adam_reference(&o, decoupled, 2, i + 1), 2e-6);
  }
  tn_optimizer_release(adam);
  tn_tensor_release(p);
}

TN_TEST(frontends_optim, adam_follows_the_formula) {
  tn_adam_options o = tn_adam_defaults();
  check_adam(o, false);
  o.lr = 0.05;
  o.weight_decay = 0.1;
  check_adam(o, false);
  o.amsgrad = true;
  check_adam(o, false);
  o.maximize = true;
  o.beta1 = 0.5;
  check_adam(o, false);
}

TN_TEST(frontends_optim, adamw_follows_the_formula) {
  check_adam(tn_adamw_defaults(), true);
  check_adam((tn_adam_options){.lr = 0.1, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.3},
             true);
}

/* ------------------------------------------------------------------ groups and state */

static double rmsprop_reference(const tn_rmsprop_options *o, double p, int steps) {
  double square = 0, mean = 0, buffer = 0;
  for (int i = 0; i < steps; i++) {
    double g = (o->maximize ? -gradients[i] : gradients[i]) + o->weight_decay * p;
    square = o->alpha * square + (1 - o->alpha) * g * g;
    if (o->centered) mean = o->alpha * mean + (1 - o->alpha) * g;
    g /= sqrt(square - mean * mean) + o->eps;
    if (o->momentum > 0) g = buffer = o->momentum * buffer + g;
    p -= o->lr * g;
  }
  return p;
}

static void check_rmsprop(tn_rmsprop_options o) {
  tn_tensor *p = make_parameter(2);
  tn_optimizer *rmsprop = NULL;
  TN_CHECK_OK(tn_rmsprop_new(&p, 1, &o, &rmsprop));
  for (int i = 0; i < 4; i++) {
    give_grad(p, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(rmsprop));
    TN_CHECK_DOUBLE(tt_at(p, 0), rmsprop_reference(&o, 2, i + 1), 2e-6);
  }
  tn_optimizer_release(rmsprop);
  tn_tensor_release(p);
}

TN_TEST(frontends_optim, rmsprop_follows_the_formula) {
  tn_rmsprop_options o = tn_rmsprop_defaults();
  check_rmsprop(o);
  o.weight_decay = 0.1;
  o.momentum = 0.9;
  check_rmsprop(o);
  o.centered = true;
  o.alpha = 0.9;
  check_rmsprop(o);
  o.maximize = true;
  o.momentum = 0;
  check_rmsprop(o);
}

/* The same gradient again and again leaves a variance of 0, and rounding may leave less. */
TN_TEST(frontends_optim, rmsprop_stays_a_number_where_the_variance_vanishes) {
  tn_rmsprop_options o = {.lr = 1e-6, .alpha = 0.5, .eps = 1e-3, .centered = true};
  tn_tensor *p = make_parameter(1);
  tn_optimizer *rmsprop = NULL;
  TN_CHECK_OK(tn_rmsprop_new(&p, 1, &o, &rmsprop));
  for (int i = 0; i < 1200; i++) {
    give_grad(p, 0.1 * (i / 60 + 1));
    TN_CHECK_OK(tn_optimizer_step(rmsprop));
    TN_CHECK(isfinite(tt_at(p, 0)));
  }
  tn_optimizer_release(rmsprop);
  tn_tensor_release(p);
}

TN_TEST(frontends_optim, rmsprop_state_dict_continues_a_run) {
  tn_rmsprop_options o = {.lr = 0.1, .alpha = 0.9, .eps = 1e-8, .momentum = 0.5, .centered = true};
  tn_tensor *p = make_parameter(2), *q = NULL;
  tn_optimizer *first = NULL, *second = NULL, *sgd = NULL;
  tn_state_dict *dict = NULL;
  TN_CHECK_OK(tn_rmsprop_new(&p, 1, &o, &first));
  for (int i = 0; i < 2; i++) {
    give_grad(p, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(first));
  }
  q = make_parameter(tt_at(p, 0));
  TN_CHECK_OK(tn_rmsprop_new(&q, 1, NULL, &second));
  TN_CHECK_OK(tn_optimizer_state_dict(first, &dict));
  TN_CHECK_NOT_NULL(tn_state_dict_get(dict, "state.0.square_avg"));
  TN_CHECK_NOT_NULL(tn_state_dict_get(dict, "state.0.grad_avg"));
  TN_CHECK_NOT_NULL(tn_state_dict_get(dict, "state.0.momentum_buffer"));
  TN_CHECK_OK(tn_optimizer_load_state_dict(second, dict));
  for (int i = 2; i < 4; i++) {
    give_grad(q, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(second));
  }
  TN_CHECK_DOUBLE(tt_at(q, 0), rmsprop_reference(&o, 2, 4), 2e-6);
  TN_CHECK_OK(tn_sgd_new(&q, 1, NULL, &sgd));
  TN_CHECK_FAILS(tn_rmsprop_add_group(sgd, &p, 1, NULL), TN_ERR_INVALID_ARGUMENT, "SGD came");
  TN_CHECK_FAILS(tn_adam_add_group(second, &p, 1, NULL), TN_ERR_INVALID_ARGUMENT, "RMSprop came");
  TN_CHECK_OK(tn_rmsprop_add_group(second, &p, 1, &o));
  TN_CHECK_INT(tn_optimizer_group_count(second), 2);
  tn_state_dict_release(dict);
  tn_optimizer_release(sgd);
  tn_optimizer_release(second);
  tn_optimizer_release(first);
  tn_tensor_release(q);
  tn_tensor_release(p);
}

TN_TEST(frontends_optim, groups_have_their_own_rate) {
  tn_tensor *a = make_parameter(1), *b = make_parameter(1);
  tn_optimizer *sgd = NULL;
  double lr = 0;
  TN_CHECK_OK(tn_sgd_new(&a, 1, &(tn_sgd_options){.lr = 0.5}, &sgd));
  TN_CHECK_OK(tn_sgd_add_group(sgd, &b, 1, &(tn_sgd_options){.lr = 0.25}));
  TN_CHECK_INT(tn_optimizer_group_count(sgd), 2);
  give_grad(a, 1);
  give_grad(b, 1);
  TN_CHECK_OK(tn_optimizer_step(sgd));
  TN_CHECK_DOUBLE(tt_at(a, 0), 0.5, 1e-7);
  TN_CHECK_DOUBLE(tt_at(b, 0), 0.75, 1e-7);
  TN_CHECK_OK(tn_optimizer_set_lr(sgd, 1, 0.125));
  TN_CHECK_OK(tn_optimizer_lr(sgd, 1, &lr));
  TN_CHECK_DOUBLE(lr, 0.125, 0);
  TN_CHECK_FAILS(tn_optimizer_set_lr(sgd, 2, 0.1), TN_ERR_INVALID_ARGUMENT, "there are 2");
  TN_CHECK_FAILS(tn_optimizer_set_lr(sgd, 0, -1), TN_ERR_INVALID_ARGUMENT, "lr must be in");
  TN_CHECK_OK(tn_optimizer_zero_grad(sgd));
  TN_CHECK_PTR_NULL(tn_grad(a));
  TN_CHECK_OK(tn_optimizer_step(sgd)); /* nothing has a gradient: nothing moves */
  TN_CHECK_DOUBLE(tt_at(a, 0), 0.5, 1e-7);
  tn_optimizer_release(sgd);
  tn_tensor_release(b);
  tn_tensor_release(a);
}

TN_TEST(frontends_optim, bad_options_and_parameters_are_refused) {
  tn_tensor *p = make_parameter(1), *ints = NULL, *twice[2] = {p, p};
  tn_optimizer *o = NULL;
  const tn_dim one = 1;
  TN_CHECK_OK(tn_zeros(&one, 1, TN_OPTIONS(.dtype = TN_INT64), &ints));
  TN_CHECK_FAILS(tn_adam_new(&p, 0, NULL, &o), TN_ERR_INVALID_ARGUMENT, "at least one parameter");
  TN_CHECK_FAILS(tn_adam_new(&ints, 1, NULL, &o), TN_ERR_DTYPE, "int64");
  TN_CHECK_FAILS(tn_adam_new(twice, 2, NULL, &o), TN_ERR_INVALID_ARGUMENT, "are the same");
  TN_CHECK_FAILS(tn_adam_new(&p, 1, &(tn_adam_options){.lr = 1, .beta1 = 1}, &o), TN_ERR_INVALID_ARGUMENT,
                 "beta1");
  TN_CHECK_FAILS(tn_sgd_new(&p, 1, &(tn_sgd_options){.lr = 1, .nesterov = true}, &o), TN_ERR_INVALID_ARGUMENT,
                 "nesterov needs");
  TN_CHECK_FAILS(tn_sgd_new(&p, 1, &(tn_sgd_options){.lr = NAN}, &o), TN_ERR_INVALID_ARGUMENT, "lr");
  TN_CHECK_PTR_NULL(o);
  TN_CHECK_OK(tn_adam_new(&p, 1, NULL, &o));
  TN_CHECK_FAILS(tn_adam_add_group(o, &p, 1, NULL), TN_ERR_INVALID_ARGUMENT, "in another group");
  TN_CHECK_FAILS(tn_sgd_add_group(o, &p, 1, NULL), TN_ERR_INVALID_ARGUMENT, "Adam came");
  tn_optimizer_release(o);
  tn_tensor_release(ints);
  tn_tensor_release(p);
}

/* The second run continues from the first one's state: same values as one long run. */
TN_TEST(frontends_optim, state_dict_continues_a_run) {
  tn_adam_options o = tn_adam_defaults();
  o.amsgrad = true;
  tn_tensor *p = make_parameter(2), *q = NULL;
  tn_optimizer *first = NULL, *second = NULL;
  tn_state_dict *dict = NULL;
  TN_CHECK_OK(tn_adam_new(&p, 1, &o, &first));
  for (int i = 0; i < 2; i++) {
    give_grad(p, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(first));
  }
  q = make_parameter(tt_at(p, 0));
  TN_CHECK_OK(tn_adam_new(&q, 1, NULL, &second));
  TN_CHECK_OK(tn_optimizer_state_dict(first, &dict));
  TN_CHECK_NOT_NULL(tn_state_dict_get(dict, "state.0.max_exp_avg_sq"));
  TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(dict, "state.0.step"), 0), 2, 0);
  TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(dict, "group.0.lr"), 0), 1e-3, 0);
  TN_CHECK_OK(tn_optimizer_load_state_dict(second, dict));
  for (int i = 2; i < 4; i++) {
    give_grad(q, gradients[i]);
    TN_CHECK_OK(tn_optimizer_step(second));
  }
  TN_CHECK_DOUBLE(tt_at(q, 0), adam_reference(&o, false, 2, 4), 2e-6);
  tn_state_dict_release(dict);
  tn_optimizer_release(second);
  tn_optimizer_release(first);
  tn_tensor_release(q);
  tn_tensor_release(p);
}

TN_TEST(frontends_optim, state_dict_that_does_not_fit_changes_nothing) {
  tn_tensor *p = make_parameter(1);
  tn_optimizer *adam = NULL;
  tn_state_dict *dict = NULL;
  tn_tensor *wrong = TT_VECTOR(1, 2, 3);
  double lr = 0;
  TN_CHECK_OK(tn_adam_new(&p, 1, NULL, &adam));
  give_grad(p, 1);
  TN_CHECK_OK(tn_optimizer_step(adam));
  TN_CHECK_OK(tn_optimizer_state_dict(adam, &dict));
  TN_CHECK_OK(tn_state_dict_put_number(dict, "group.0.lr", 7));
  TN_CHECK_OK(tn_state_dict_put(dict, "state.0.exp_avg_sq", wrong));
  TN_CHECK_FAILS(tn_optimizer_load_state_dict(adam, dict), TN_ERR_INVALID_ARGUMENT,
                 "must have shape [2], not [3]");
  TN_CHECK_OK(tn_optimizer_lr(adam, 0, &lr));
  TN_CHECK_DOUBLE(lr, 1e-3, 0);
  TN_CHECK_OK(tn_state_dict_put_number(dict, "group.0.parameters", 2));
  TN_CHECK_FAILS(tn_optimizer_load_state_dict(adam, dict), TN_ERR_INVALID_ARGUMENT,
                 "1 parameters here and 2");
  tn_tensor_release(wrong);
  tn_state_dict_release(dict);
  tn_optimizer_release(adam);
  tn_tensor_release(p);
}

/* ------------------------------------------------------------------ clipping */

static tn_tensor *with_grad(double a, double b) {
  tn_tensor *p = make_parameter(0), *g = TT_VECTOR(a, b);
  TN_CHECK_OK(tn_set_grad(p, g));
  tn_tensor_release(g);
  return p;
}

TN_TEST(frontends_optim, clip_by_norm) {
  tn_tensor *p[3] = {with_grad(3, 0), with_grad(0, -4), make_parameter(1)};
  double norm = 0;
  TN_CHECK_OK(tn_clip_grad_norm(p, 3, 10, 2, true, &norm));
  TN_CHECK_DOUBLE(norm, 5, 1e-6);
  TN_CHECK_DOUBLE(tt_at(tn_grad(p[0]), 0), 3, 0);
  TN_CHECK_OK(tn_clip_grad_norm(p, 3, 1, 1, true, &norm));
  TN_CHECK_DOUBLE(norm, 7, 1e-6);
  TN_CHECK_DOUBLE(tt_at(tn_grad(p[0]), 0), 3.0 / 7, 1e-6);
  TN_CHECK_OK(tn_clip_grad_norm(p, 3, 0.1, INFINITY, true, &norm));
  TN_CHECK_DOUBLE(norm, 4.0 / 7, 1e-6);
  TN_CHECK_DOUBLE(tt_at(tn_grad(p[1]), 1), -0.1, 1e-6);
  TN_CHECK_FAILS(tn_clip_grad_norm(p, 3, -1, 2, false, NULL), TN_ERR_INVALID_ARGUMENT, "max_norm >= 0");
  for (int i = 0; i < 3; i++) tn_tensor_release(p[i]);
}

TN_TEST(frontends_optim, clip_reports_what_is_not_finite) {
  tn_tensor *p[2] = {with_grad(1, NAN), with_grad(2, 2)};
  double norm = 0;
  TN_CHECK_FAILS(tn_clip_grad_norm(p, 2, 1, 2, true, &norm), TN_ERR_DATA, "norm is");
  TN_CHECK(isnan(norm));
  TN_CHECK_DOUBLE(tt_at(tn_grad(p[1]), 0), 2, 0);
  tn_tensor_release(p[1]);
  tn_tensor_release(p[0]);
}

TN_TEST(frontends_optim, clip_by_value) {
  tn_tensor *p = with_grad(3, -0.5);
  TN_CHECK_OK(tn_clip_grad_value(&p, 1, 1));
  TN_CHECK_DOUBLE(tt_at(tn_grad(p), 0), 1, 0);
  TN_CHECK_DOUBLE(tt_at(tn_grad(p), 1), -0.5, 0);
  TN_CHECK_FAILS(tn_clip_grad_value(&p, 1, NAN), TN_ERR_INVALID_ARGUMENT, "limit >= 0");
  tn_tensor_release(p);
}
