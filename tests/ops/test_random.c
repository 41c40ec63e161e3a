/* SPDX-License-Identifier: Apache-2.0
 *
 * Random operators: repeatable from a seed, independent of layout, drawing what they say, and distributed as
 * their names promise (moments over many draws, wide limits).
 */
#include <math.h>
#include <string.h>

#include "make.h"

enum { DRAWS = 20000 };

static void values_of(tn_tensor *t, float *values, size_t n) {
  TN_CHECK_INT(tn_tensor_numel(t), n);
  TN_CHECK_OK(tn_tensor_to_host(t, values, n * sizeof *values));
}

static void moments(const float *v, int n, double *mean, double *deviation) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++) sum += v[i], squares += (double)v[i] * v[i];
  *mean = sum / n;
  *deviation = sqrt(squares / n - *mean * *mean);
}

TN_TEST(ops_random, distributions_have_their_moments) {
  static float v[DRAWS];
  tn_tensor *x = NULL;
  double mean, deviation;
  TN_CHECK_OK(tn_manual_seed(11));
  TN_CHECK_OK(tn_zeros(SIZES(DRAWS), NULL, &x));
  TN_CHECK_OK(tn_uniform_(x, -1, 3, NULL));
  values_of(x, v, DRAWS);
  moments(v, DRAWS, &mean, &deviation);
  TN_CHECK_DOUBLE(mean, 1, 0.05);
  TN_CHECK_DOUBLE(deviation, 4 / sqrt(12), 0.03);
  for (int i = 0; i < DRAWS; i++) TN_CHECK(v[i] >= -1 && v[i] < 3);
  TN_CHECK_OK(tn_normal_(x, 2, 0.5, NULL));
  values_of(x, v, DRAWS);
  moments(v, DRAWS, &mean, &deviation);
  TN_CHECK_DOUBLE(mean, 2, 0.02);
  TN_CHECK_DOUBLE(deviation, 0.5, 0.02);
  TN_CHECK_OK(tn_bernoulli_(x, 0.25, NULL));
  values_of(x, v, DRAWS);
  moments(v, DRAWS, &mean, &deviation);
  TN_CHECK_DOUBLE(mean, 0.25, 0.02);
  for (int i = 0; i < DRAWS; i++) TN_CHECK(v[i] == 0 || v[i] == 1);
  tn_tensor_release(x);
}

TN_TEST(ops_random, same_seed_same_numbers) {
  float first[6], second[6], third[6];
  tn_tensor *x = NULL;
  TN_CHECK_OK(tn_manual_seed(5));
  TN_CHECK_OK(tn_rand(SIZES(2, 3), NULL, &x));
  values_of(x, first, 6);
  tn_tensor_release(x);
  TN_CHECK_OK(tn_rand(SIZES(2, 3), NULL, &x));
  values_of(x, second, 6);
  tn_tensor_release(x);
  TN_CHECK_OK(tn_manual_seed(5));
  TN_CHECK_OK(tn_rand(SIZES(2, 3), NULL, &x));
  values_of(x, third, 6);
  tn_tensor_release(x);
  TN_CHECK(memcmp(first, third, sizeof first) == 0);
  TN_CHECK(memcmp(first, second, sizeof first) != 0);
}

TN_TEST(ops_random, own_generator_leaves_the_default_alone) {
  tn_generator *mine = NULL, *shared = NULL;
  tn_generator_state before, after, state;
  tn_tensor *x = make_float(SIZES(8));
  TN_CHECK_OK(tn_generator_new(3, &mine));
  TN_CHECK_OK(tn_generator_default(tn_tensor_device(x), &shared));
  TN_CHECK_OK(tn_generator_get_state(shared, &before));
  TN_CHECK_OK(tn_uniform_(x, 0, 1, mine));
  TN_CHECK_OK(tn_generator_get_state(shared, &after));
  TN_CHECK_INT(before.offset, after.offset);
  TN_CHECK_OK(tn_generator_get_state(mine, &state));
  TN_CHECK_INT(state.seed, 3);
  TN_CHECK(state.offset > 0);
  tn_generator_release(mine);
  tn_tensor_release(x);
}

TN_TEST(ops_random, strides_do_not_change_the_numbers) {
  float plain[6], turned[6];
  tn_tensor *x = make_float(SIZES(2, 3)), *y = make_float(SIZES(3, 2)), *t = NULL;
  TN_CHECK_OK(tn_transpose(y, 0, 1, &t));
  TN_CHECK_OK(tn_manual_seed(9));
  TN_CHECK_OK(tn_uniform_(x, 0, 1, NULL));
  TN_CHECK_OK(tn_manual_seed(9));
  TN_CHECK_OK(tn_uniform_(t, 0, 1, NULL));
  values_of(x, plain, 6);
  values_of(t, turned, 6);
  TN_CHECK(memcmp(plain, turned, sizeof plain) == 0);
  tn_tensor_release(t);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(ops_random, randperm_is_a_permutation) {
  enum { N = 100 };
  int64_t order[N], seen[N] = {0}, moved = 0;
  tn_tensor *x = NULL;
  TN_CHECK_OK(tn_manual_seed(2));
  TN_CHECK_OK(tn_randperm(N, TN_OPTIONS(.dtype = TN_INT64), &x));
  TN_CHECK_OK(tn_tensor_to_host(x, order, sizeof order));
  for (int i = 0; i < N; i++) {
    TN_CHECK(order[i] >= 0 && order[i] < N);
    seen[order[i]]++;
    moved += order[i] != i;
  }
  for (int i = 0; i < N; i++) TN_CHECK_INT(seen[i], 1);
  TN_CHECK(moved > N / 2);
  tn_tensor_release(x);
}

TN_TEST(ops_random, dropout_scales_what_it_keeps) {
  static float v[DRAWS];
  int kept = 0;
  tn_tensor *x = NULL, *y = NULL;
  TN_CHECK_OK(tn_manual_seed(4));
  TN_CHECK_OK(tn_ones(SIZES(DRAWS), NULL, &x));
  TN_CHECK_OK(tn_dropout(x, 0.2, true, &y));
  values_of(y, v, DRAWS);
  for (int i = 0; i < DRAWS; i++) {
    TN_CHECK(v[i] == 0 || fabsf(v[i] - 1.25f) < 1e-5f);
    kept += v[i] != 0;
  }
  TN_CHECK_DOUBLE(kept / (double)DRAWS, 0.8, 0.02);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(ops_random, bad_parameters) {
  tn_tensor *x = make_float(SIZES(4)), *ints = make_int(SIZES(4)), *out = NULL;
  TN_CHECK_FAILS(tn_uniform_(x, 3, 1, NULL), TN_ERR_INVALID_ARGUMENT, "uniform_");
  TN_CHECK_FAILS(tn_normal_(x, 0, -1, NULL), TN_ERR_INVALID_ARGUMENT, "normal_");
  TN_CHECK_FAILS(tn_bernoulli_(x, 1.5, NULL), TN_ERR_INVALID_ARGUMENT, "bernoulli_");
  TN_CHECK_FAILS(tn_normal_(ints, 0, 1, NULL), TN_ERR_DTYPE, "normal_");
  TN_CHECK_FAILS(tn_random_from_(x, 5, &(int64_t){5}, NULL), TN_ERR_INVALID_ARGUMENT, "random_");
  TN_CHECK_FAILS(tn_dropout(x, -0.5, true, &out), TN_ERR_INVALID_ARGUMENT, "dropout");
  TN_CHECK_FAILS(tn_randperm(-1, NULL, &out), TN_ERR_INVALID_ARGUMENT, "randperm");
  check_untouched(x);
  check_untouched(ints);
  tn_tensor_release(x);
  tn_tensor_release(ints);
}
