/* SPDX-License-Identifier: Apache-2.0
 *
 * The fused optimiser steps of the CPU backend where they take their quotient without the divider: its error over
 * every fraction of a denominator, numbers at the ends of the range, agreement of the usual Adam step with the one that
 * keeps a maximum (the plain loop), and bits that do not depend on an element's place.
 */
#include "test_cpu.h"

enum { BLOCK = 1 << 20 };

/* n 0: of no dimensions. */
static tn_tensor *floats(const float *x, int64_t n) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_tensor_from_host(x, &n, n > 0, TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  return t;
}

static void read(tn_tensor *t, float *out, int64_t n) {
  TN_CHECK_OK(tn_tensor_to_host(t, out, (size_t)n * sizeof *out));
}

/* out = -lr / (sqrt(squares) + eps): a parameter of 0 after a step that leaves the squares as they are. */
static void quotients(const float *squares, int64_t n, double lr, double eps, float *out) {
  tn_tensor *p, *g, *sq = floats(squares, n);
  TN_CHECK_OK(tn_zeros_like(sq, NULL, TN_PRESERVE_FORMAT, &p));
  TN_CHECK_OK(tn_ones_like(sq, NULL, TN_PRESERVE_FORMAT, &g));
  TN_CHECK_OK(
      tn_fused_rmsprop_(&p, 1, &g, 1, &sq, 1, NULL, 0, NULL, 0, 0, lr, 1, eps, 0, false, false, NULL, NULL));
  read(p, out, n);
  tn_tensor_release(p);
  tn_tensor_release(g);
  tn_tensor_release(sq);
}

/* Is -got the quotient of lr and bottom to 0.57 units in the last place, or what two roundings make of it? */
static bool quotient_is_right(float got, float lr, float bottom) {
  if (got == -(lr * (1 / bottom))) return true;
  const double right = (double)lr / (double)bottom;
  const float near = (float)right;
  return fabs((double)-got - right) <= 0.57 * ((double)nextafterf(near, INFINITY) - (double)near);
}

/* Roots of [1, 4) are all of [1, 2); eps is too small to be seen beside them. */
static int wrong_quotients(uint32_t begin, float lr, float *squares, float *got) {
  int wrong = 0;
  for (uint32_t i = 0; i < BLOCK; ++i) {
    const uint32_t bits = 0x3f800000u + begin + i;
    memcpy(&squares[i], &bits, sizeof bits);
  }
  quotients(squares, BLOCK, lr, 0x1p-50, got);
  for (uint32_t i = 0; i < BLOCK; ++i) wrong += !quotient_is_right(got[i], lr, sqrtf(squares[i]));
  return wrong;
}

TN_TEST(cpu_optim, the_quotient_is_right_for_every_fraction_of_its_denominator) {
  const float rates[] = {1.0f, 0.001f, 1.9999999f};
  float *squares = malloc(BLOCK * sizeof *squares), *got = malloc(BLOCK * sizeof *got);
  for (int k = 0; k < 3; ++k)
    for (uint32_t begin = 0; begin < UINT32_C(1) << 24; begin += BLOCK)
      TN_CHECK_INT(wrong_quotients(begin, rates[k], squares, got), 0);
  free(squares);
  free(got);
}

/* Every exponent of a square, with 0, subnormal, infinite and NaN ones. */
TN_TEST(cpu_optim, squares_of_any_size_give_the_step_that_the_division_gives) {
  enum { N = 1 << 16 };
  static float squares[N], got[N];
  const double eps[] = {1e-8, 1e-15, 0}, lr[] = {1, 1e-3, 1e-30};
  for (uint32_t i = 0; i < N; ++i) {
    const uint32_t bits = i << 15 | (i * 2654435761u) >> 17;
    memcpy(&squares[i], i % 32 ? &bits : &(uint32_t){i << 15}, sizeof bits);
  }
  for (int k = 0; k < 3; ++k) {
    quotients(squares, N, lr[k], eps[k], got);
    for (int i = 0; i < N; ++i) {
      const float bottom = sqrtf(squares[i]) + (float)eps[k], right = (float)lr[k] / bottom;
      if (isnan(right))
        TN_CHECK(isnan(got[i]));
      else if (isinf(right) || right == 0)
        TN_CHECK_DOUBLE(-got[i], right, 0);
      else
        TN_CHECK_DOUBLE(-got[i], right, 1.3e-7 * right + 0x1p-148);
    }
  }
}

/* The arrays of one Adam step. */
typedef struct adam_arrays {
  tn_tensor *p, *g, *m, *v, *most, *step;
} adam_arrays;

/* Gradients and states of very different sizes, some of them 0, infinite or NaN. */
static adam_arrays adam_new(int64_t n) {
  float *x[4], t = 3;
  uint64_t state = 11;
  for (int k = 0; k < 4; ++k) {
    x[k] = malloc((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; ++i)
      x[k][i] = (float)(cpu_next(&state, -1, 1) * exp2(cpu_next(&state, k ? -60 : -3, k ? 20 : 3)));
  }
  for (int64_t i = 0; i < n; ++i) {
    x[3][i] *= x[3][i];
    if (i % 17 == 3) x[1][i] = x[2][i] = x[3][i] = 0;
    if (i % 41 == 5) x[3][i] = INFINITY;
    if (i % 53 == 7) x[3][i] = NAN;
  }
  adam_arrays a = {floats(x[0], n), floats(x[1], n), floats(x[2], n),
                   floats(x[3], n), floats(x[3], n), floats(&t, 0)};
  for (int k = 0; k < 4; ++k) free(x[k]);
  return a;
}

static void adam_release(adam_arrays *a) {
  tn_tensor *all[] = {a->p, a->g, a->m, a->v, a->most, a->step};
  for (int i = 0; i < 6; ++i) tn_tensor_release(all[i]);
}

static tn_status adam_step(adam_arrays *a, double decay, bool maximum) {
  return tn_fused_adamw_(&a->p, 1, &a->g, 1, &a->m, 1, &a->v, 1, &a->most, maximum, &a->step, 1, 1e-2, 0.9,
                         0.999, decay, 1e-8, maximum, false, NULL, NULL);
}

/* The greater of an old and a new mean square is not the new one, so the old ones are made small. */
TN_TEST(cpu_optim, the_usual_step_is_the_step_with_a_maximum_of_nothing) {
  enum { N = 5000 };
  for (int k = 0; k < 2; ++k) {
    adam_arrays a = adam_new(N), b = adam_new(N);
    TN_CHECK_OK(tn_zero_(b.most));
    float old[N], x[N], y[N];
    read(a.p, old, N);
    TN_CHECK_OK(adam_step(&a, k ? 0.1 : 0, false));
    TN_CHECK_OK(adam_step(&b, k ? 0.1 : 0, true));
    read(a.p, x, N);
    read(b.p, y, N);
    for (int i = 0; i < N; ++i) {
      if (isnan(y[i]))
        TN_CHECK(isnan(x[i]));
      else
        TN_CHECK_DOUBLE(x[i], y[i], 4e-7 * fabs((double)y[i] - old[i]) + 1.2e-7 * fabs((double)y[i]));
    }
    adam_release(&a);
    adam_release(&b);
  }
}

/* A step of elements begin .. end - 1 alone gives them the bits that the step of all gives them. */
static void check_part(const adam_arrays *before, const adam_arrays *after, int64_t begin, int64_t end) {
  tn_tensor *const old[] = {before->p, before->g, before->m, before->v}, *const new[] = {after->p, after->g,
                                                                                         after->m, after->v};
  tn_tensor *part[4];
  for (int k = 0; k < 4; ++k) {
    tn_tensor *view;
    TN_CHECK_OK(tn_slice(old[k], 0, &begin, &end, 1, &view));
    TN_CHECK_OK(tn_clone(view, TN_PRESERVE_FORMAT, &part[k]));
    tn_tensor_release(view);
  }
  adam_arrays a = {part[0], part[1], part[2], part[3], NULL, before->step};
  TN_CHECK_OK(adam_step(&a, 0.1, false));
  for (int k = 0; k < 4; ++k) {
    tn_tensor *expected;
    TN_CHECK_OK(tn_slice(new[k], 0, &begin, &end, 1, &expected));
    cpu_check_same_bits(expected, part[k]);
    tn_tensor_release(expected);
    tn_tensor_release(part[k]);
  }
}

TN_TEST(cpu_optim, bits_do_not_depend_on_place) {
  adam_arrays before = adam_new(300), after = adam_new(300);
  TN_CHECK_OK(adam_step(&after, 0.1, false));
  for (int64_t begin = 0; begin < 20; ++begin)
    for (int64_t size = 1; size < 40; size += 6) check_part(&before, &after, begin, begin + size);
  adam_release(&before);
  adam_release(&after);
}
