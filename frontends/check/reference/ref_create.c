/* SPDX-License-Identifier: Apache-2.0
 *
 * Factories, fills, copies and random numbers. Random results are judged by their range here; that they are
 * uniform, repeatable and a permutation is test_random.c's business.
 */
#include <math.h>

#include "ref.h"

static rt *of_size(const ref_call *c, int arg) { return rt_new(c->args[arg].n, c->args[arg].ints); }
static rt *unknown(rt *t) {
  t->check = REF_SHAPE;
  return t;
}
static rt *ranged(rt *t, double low, double high) {
  t->check = REF_RANGE;
  t->low = low;
  t->high = high;
  return t;
}

/* ------------------------------------------------------------------ constant values */

static void op_empty(ref_call *c) { ref_out(c, unknown(of_size(c, 0))); }
static void op_empty_like(ref_call *c) { ref_out(c, unknown(rt_like(ref_t(c, 0)))); }
static void op_new_empty(ref_call *c) { ref_out(c, unknown(of_size(c, 1))); }
static void op_zeros(ref_call *c) { ref_out(c, of_size(c, 0)); }
static void op_zeros_like(ref_call *c) { ref_out(c, rt_like(ref_t(c, 0))); }
static void op_new_zeros(ref_call *c) { ref_out(c, of_size(c, 1)); }
static void op_ones(ref_call *c) { ref_out(c, rt_fill(of_size(c, 0), 1)); }
static void op_ones_like(ref_call *c) { ref_out(c, rt_fill(rt_like(ref_t(c, 0)), 1)); }
static void op_full(ref_call *c) { ref_out(c, rt_fill(of_size(c, 0), ref_f(c, 1))); }
static void op_full_like(ref_call *c) { ref_out(c, rt_fill(rt_like(ref_t(c, 0)), ref_f(c, 1))); }
static void op_new_full(ref_call *c) { ref_out(c, rt_fill(of_size(c, 1), ref_f(c, 2))); }
static void op_scalar_tensor(ref_call *c) { ref_out(c, rt_scalar(ref_f(c, 0))); }

static void sequence(ref_call *c, double start, double end, double step) {
  double count = ceil((end - start) / step);
  rt *out = rt_new(1, (int64_t[]){count > 0 ? (int64_t)count : 0});
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = start + (double)i * step;
  ref_out(c, out);
}
static void op_arange(ref_call *c) { sequence(c, 0, ref_f(c, 0), 1); }
static void op_arange_start(ref_call *c) { sequence(c, ref_f(c, 0), ref_f(c, 1), 1); }
static void op_arange_step(ref_call *c) { sequence(c, ref_f(c, 0), ref_f(c, 1), ref_f(c, 2)); }
static void op_linspace(ref_call *c) {
  int64_t steps = ref_i(c, 2);
  rt *out = rt_new(1, &steps);
  double step = steps > 1 ? (ref_f(c, 1) - ref_f(c, 0)) / (double)(steps - 1) : 0;
  for (int64_t i = 0; i < steps; i++) out->p[i] = ref_f(c, 0) + (double)i * step;
  ref_out(c, out);
}
static void identity(ref_call *c, int64_t n, int64_t m) {
  rt *out = rt_new(2, (int64_t[]){n, m});
  for (int64_t i = 0; i < n && i < m; i++) out->p[i * m + i] = 1;
  ref_out(c, out);
}
static void op_eye(ref_call *c) { identity(c, ref_i(c, 0), ref_i(c, 0)); }
static void op_eye_m(ref_call *c) { identity(c, ref_i(c, 0), ref_i(c, 1)); }

/* ------------------------------------------------------------------ written in place: the argument changes */

static void op_fill(ref_call *c) { rt_fill(c->args[0].t, ref_f(c, 1)); }
static void op_fill_tensor(ref_call *c) { rt_fill(c->args[0].t, ref_t(c, 1)->p[0]); }
static void op_zero(ref_call *c) { rt_fill(c->args[0].t, 0); }
static void op_copy(ref_call *c) {
  rt *self = c->args[0].t;
  const rt *src = rt_expand(ref_t(c, 1), self->nd, self->n);
  for (int64_t i = 0; i < self->numel; i++) *rt_at(self, i) = *rt_at(src, i);
}
/* Kernels that may round their result up to the dtype's next number reach `high` itself. */
static void op_uniform(ref_call *c) {
  double low = ref_f(c, 1), high = ref_f(c, 2);
  ranged(c->args[0].t, low, high + 0.01 * (high - low));
}
static void op_normal(ref_call *c) { ranged(c->args[0].t, ref_f(c, 1) - 12 * ref_f(c, 2), ref_f(c, 1) + 12 * ref_f(c, 2)); }
static void op_bernoulli(ref_call *c) { ranged(c->args[0].t, 0, 1.5); }
static void op_random(ref_call *c) { ranged(c->args[0].t, ref_f(c, 1), ref_has(c, 2) ? ref_f(c, 2) : INFINITY); }

/* ------------------------------------------------------------------ copies */

/* (self, ..., dtype): casting to an integer drops the fraction. */
static void copy_as(ref_call *c, int dtype_arg) {
  bool cut = dtype_arg >= 0 && ref_has(c, dtype_arg) && ref_is_int(ref_f(c, dtype_arg));
  ref_out(c, cut ? rt_map(ref_t(c, 0), trunc) : rt_copy(ref_t(c, 0)));
}
static void op_clone(ref_call *c) { copy_as(c, -1); }
static void op_to_copy(ref_call *c) { copy_as(c, 1); }
static void op_to_device(ref_call *c) { copy_as(c, 2); }

/* ------------------------------------------------------------------ random results */

static void op_rand(ref_call *c) { ref_out(c, ranged(of_size(c, 0), 0, 1.01)); }
static void op_rand_like(ref_call *c) { ref_out(c, ranged(rt_like(ref_t(c, 0)), 0, 1.01)); }
static void op_randn(ref_call *c) { ref_out(c, ranged(of_size(c, 0), -12, 12)); }
static void op_randn_like(ref_call *c) { ref_out(c, ranged(rt_like(ref_t(c, 0)), -12, 12)); }
static void op_randint(ref_call *c) { ref_out(c, ranged(of_size(c, 1), 0, ref_f(c, 0))); }
static void op_randint_low(ref_call *c) { ref_out(c, ranged(of_size(c, 2), ref_f(c, 0), ref_f(c, 1))); }
static void op_randperm(ref_call *c) {
  int64_t n = ref_i(c, 0);
  ref_out(c, ranged(rt_new(1, &n), 0, (double)n));
}
/* In training each element is 0 or scaled up; outside it is itself. */
static void op_dropout(ref_call *c) {
  bool train = !ref_has(c, 2) || ref_i(c, 2);
  ref_out(c, train ? unknown(rt_copy(ref_t(c, 0))) : rt_copy(ref_t(c, 0)));
}
static void op_native_dropout(ref_call *c) {
  op_dropout(c);
  ref_out(c, ranged(rt_like(ref_t(c, 0)), 0, 1.5));
}

const ref_entry ref_create[] = {
    {"empty.memory_format", op_empty},
    {"empty_strided", op_empty},
    {"empty_like", op_empty_like},
    {"new_empty", op_new_empty},
    {"zeros", op_zeros},
    {"zeros_like", op_zeros_like},
    {"new_zeros", op_new_zeros},
    {"ones", op_ones},
    {"ones_like", op_ones_like},
    {"full", op_full},
    {"full_like", op_full_like},
    {"new_full", op_new_full},
    {"scalar_tensor", op_scalar_tensor},
    {"arange", op_arange},
    {"arange.start", op_arange_start},
    {"arange.start_step", op_arange_step},
    {"linspace", op_linspace},
    {"eye", op_eye},
    {"eye.m", op_eye_m},
    {"fill_.Scalar", op_fill},
    {"fill_.Tensor", op_fill_tensor},
    {"zero_", op_zero},
    {"copy_", op_copy},
    {"uniform_", op_uniform},
    {"normal_", op_normal},
    {"bernoulli_.float", op_bernoulli},
    {"random_.from", op_random},
    {"clone", op_clone},
    {"contiguous", op_clone},
    {"_to_copy", op_to_copy},
    {"to.dtype", op_to_copy},
    {"to.dtype_layout", op_to_copy},
    {"to.device", op_to_device},
    {"rand", op_rand},
    {"rand_like", op_rand_like},
    {"randn", op_randn},
    {"randn_like", op_randn_like},
    {"randint", op_randint},
    {"randint.low", op_randint_low},
    {"randperm", op_randperm},
    {"dropout", op_dropout},
    {"native_dropout", op_native_dropout},
    {NULL, NULL},
};
