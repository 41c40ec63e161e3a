/* SPDX-License-Identifier: Apache-2.0
 *
 * The float32 functions of the CPU backend against the C library in double, over a sweep of all bit
 * patterns, and the promise that an element's bits do not depend on where it lies.
 */
#include "test_cpu.h"

typedef tn_status (*unary_fn)(tn_tensor *self, tn_tensor **out_result);
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static const struct {
  const char *name;
  unary_fn fn;
  double (*reference)(double x);
} functions[] = {{"exp", tn_exp, exp},
                 {"expm1", tn_expm1, expm1},
                 {"log", tn_log_op, log},
                 {"log1p", tn_log1p, log1p},
                 {"log2", tn_log2, log2},
                 {"tanh", tn_tanh, tanh},
                 {"sigmoid", tn_sigmoid, sigmoid},
                 {"erf", tn_erf, erf},
                 {"sin", tn_sin, sin},
                 {"cos", tn_cos, cos},
                 {"sqrt", tn_sqrt, sqrt}};
enum { FUNCTIONS = sizeof functions / sizeof *functions, SWEEP = 1 << 18 };

/* Every 2^14-th bit pattern and its surroundings: zeros, subnormals, infinities, NaN among them. */
static tn_tensor *sweep(void) {
  float *x = malloc(SWEEP * sizeof *x);
  tn_tensor *t = NULL;
  for (uint32_t i = 0; i < SWEEP; ++i) {
    uint32_t bits = (i << 14) + i * 2654435761u % 16384;
    if (i % 4096 == 0) bits = i << 14;
    memcpy(&x[i], &bits, sizeof bits);
  }
  TN_CHECK_OK(tn_tensor_from_host(x, (const tn_dim[]){SWEEP}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  free(x);
  return t;
}

/* Distance in units in the last place of the exact value. */
static double ulps(float got, double exact) {
  float rounded = (float)exact;
  if (isnan(rounded) || isinf(rounded)) {
    bool same = isnan(rounded) ? isnan(got) : got == rounded;
    return same ? 0 : INFINITY;
  }
  int exponent;
  frexpf(fabsf(rounded) < 0x1p-126f ? 0x1p-126f : rounded, &exponent);
  return fabs((double)got - exact) / ldexp(1, exponent - 24);
}

TN_TEST(cpu_math, float32_functions_are_within_their_stated_error) {
  tn_tensor *t = sweep();
  double *x = cpu_values(t);
  for (int f = 0; f < FUNCTIONS; ++f) {
    tn_tensor *result = NULL;
    float *y = malloc(SWEEP * sizeof *y);
    TN_CHECK_OK(functions[f].fn(t, &result));
    TN_CHECK_OK(tn_tensor_to_host(result, y, SWEEP * sizeof *y));
    for (int i = 0; i < SWEEP; ++i) {
      double error = ulps(y[i], functions[f].reference(x[i]));
      if (!(error <= 0.53))
        tn_test_fail(__FILE__, __LINE__, "%s(%a) is %a, %g units off", functions[f].name, x[i], (double)y[i],
                     error);
    }
    free(y);
    tn_tensor_release(result);
  }
  free(x);
  tn_tensor_release(t);
}

/* The same elements as a whole, shifted by a few, every third one, and alone. */
static void check_places(unary_fn fn, tn_tensor *x) {
  tn_tensor *whole = NULL;
  TN_CHECK_OK(fn(x, &whole));
  for (int64_t begin = 0; begin < 40; begin += 7)
    for (int64_t step = 1; step <= 3; step += 2) {
      int64_t end = begin + (begin == 35 ? 1 : 101);
      tn_tensor *part, *expected, *got;
      TN_CHECK_OK(tn_slice(x, 0, &begin, &end, step, &part));
      TN_CHECK_OK(tn_slice(whole, 0, &begin, &end, step, &expected));
      TN_CHECK_OK(fn(part, &got));
      cpu_check_same_bits(expected, got);
      tn_tensor_release(part);
      tn_tensor_release(expected);
      tn_tensor_release(got);
    }
  tn_tensor_release(whole);
}

TN_TEST(cpu_math, bits_do_not_depend_on_place_or_stride) {
  const tn_dtype dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
  for (int d = 0; d < 4; ++d) {
    tn_tensor *x = cpu_tensor(CPU_SIZES(1000), dtypes[d], 0.01, 3, 5);
    for (int f = 0; f < FUNCTIONS; ++f) check_places(functions[f].fn, x);
    tn_tensor_release(x);
  }
}

TN_TEST(cpu_math, broadcasts_and_strides_of_a_binary_operator) {
  tn_tensor *a = cpu_tensor(CPU_SIZES(40, 1, 30), TN_FLOAT32, -1, 1, 1),
            *b = cpu_tensor(CPU_SIZES(50, 40), TN_FLOAT32, -1, 1, 2);
  tn_tensor *turned, *wide, *c;
  TN_CHECK_OK(tn_t(b, &turned));               /* 40 x 50 */
  TN_CHECK_OK(tn_unsqueeze(turned, 2, &wide)); /* 40 x 50 x 1 */
  TN_CHECK_OK(tn_mul(a, wide, &c));            /* 40 x 50 x 30 */
  double *x = cpu_values(a), *y = cpu_values(b), *z = cpu_values(c);
  for (int i = 0; i < 40; ++i)
    for (int j = 0; j < 50; ++j)
      for (int k = 0; k < 30; ++k)
        TN_CHECK_DOUBLE(z[(i * 50 + j) * 30 + k], (float)(x[i * 30 + k] * y[j * 40 + i]), 0);
  free(x);
  free(y);
  free(z);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(turned);
  tn_tensor_release(wide);
  tn_tensor_release(c);
}
