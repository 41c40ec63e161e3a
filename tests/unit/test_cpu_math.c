/* SPDX-License-Identifier: Apache-2.0
 *
 * The float32 functions of the CPU backend against the C library in double, over a sweep of bit patterns or,
 * with TN_TEST_EXHAUSTIVE=1 in the environment, over all 2^32 (twenty minutes an instruction set; 3/16 is the third
 * of sixteen parts; the greatest errors are then printed); and the promise that an element's bits do not depend on
 * where it lies.
 */
#include "test_cpu.h"

typedef tn_status (*unary_fn)(tn_tensor *self, tn_tensor **out_result);
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static const struct {
  const char *name;
  unary_fn fn;
  double (*reference)(double x);
  double most; /* units in the last place */
} functions[] = {{"exp", tn_exp, exp, 1.02},       {"log", tn_log_op, log, 1.0},
                 {"tanh", tn_tanh, tanh, 1.5},     {"sigmoid", tn_sigmoid, sigmoid, 2.0},
                 {"erf", tn_erf, erf, 1.5},        {"expm1", tn_expm1, expm1, 0.53},
                 {"log1p", tn_log1p, log1p, 0.53}, {"log2", tn_log2, log2, 0.53},
                 {"sin", tn_sin, sin, 0.53},       {"cos", tn_cos, cos, 0.53},
                 {"sqrt", tn_sqrt, sqrt, 0.53}};
enum { FUNCTIONS = sizeof functions / sizeof *functions, SWEEP = 1 << 18 };

/* SWEEP bit patterns. The first sweep alone has every 2^14-th pattern or one near it: zeros, subnormals,
 * infinities, NaN among them; 2^14 sweeps have all. */
static tn_tensor *sweep(uint32_t number) {
  float *x = malloc(SWEEP * sizeof *x);
  tn_tensor *t = NULL;
  for (uint32_t i = 0; i < SWEEP; ++i) {
    uint32_t bits = (i << 14) + (i % 4096 == 0 ? number : (number + i * 2654435761u) % 16384);
    memcpy(&x[i], &bits, sizeof bits);
  }
  TN_CHECK_OK(tn_tensor_from_host(x, (const tn_dim[]){SWEEP}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  free(x);
  return t;
}

/* The greatest error of a function so far, and where. */
typedef struct worst_case {
  double error;
  float x;
} worst_case;

static void keep_worst(worst_case *worst, double error, float x) {
  if (error > worst->error) *worst = (worst_case){error, x};
}

/* The sweeps that the environment asks for: *out_begin <= s < *out_end. */
static bool exhaustive(uint32_t *out_begin, uint32_t *out_end) {
  const char *all = getenv("TN_TEST_EXHAUSTIVE");
  unsigned part = 1, parts = 1;
  *out_begin = 0, *out_end = 1;
  if (!all || sscanf(all, "%u/%u", &part, &parts) < 1 || part < 1 || part > parts) return false;
  *out_begin = (uint32_t)((UINT64_C(1) << 14) * (part - 1) / parts);
  *out_end = (uint32_t)((UINT64_C(1) << 14) * part / parts);
  return true;
}

/* Calls check(sweep, function, the worst so far) for each function over those sweeps. */
static void over_sweeps(void (*check)(tn_tensor *x, int f, worst_case *worst), worst_case *worst,
                        int n_functions) {
  uint32_t begin, end;
  exhaustive(&begin, &end);
  for (uint32_t s = begin; s < end; ++s) {
    tn_tensor *t = sweep(s);
    for (int f = 0; f < n_functions; ++f) check(t, f, &worst[f]);
    tn_tensor_release(t);
  }
}

static void print_worst(const char *name, const worst_case *worst) {
  uint32_t begin, end;
  if (exhaustive(&begin, &end))
    fprintf(stderr, "%s: %.4f units in the last place at %a\n", name, worst->error, (double)worst->x);
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

/* Both as they lie; the caller frees them. */
static void compute(unary_fn fn, tn_tensor *t, float **out_x, float **out_y) {
  tn_tensor *result = NULL;
  *out_x = malloc(SWEEP * sizeof **out_x);
  *out_y = malloc(SWEEP * sizeof **out_y);
  TN_CHECK_OK(fn(t, &result));
  TN_CHECK_OK(tn_tensor_to_host(t, *out_x, SWEEP * sizeof **out_x));
  TN_CHECK_OK(tn_tensor_to_host(result, *out_y, SWEEP * sizeof **out_y));
  tn_tensor_release(result);
}

static void check_function(tn_tensor *t, int f, worst_case *worst) {
  float *x, *y;
  compute(functions[f].fn, t, &x, &y);
  for (int i = 0; i < SWEEP; ++i) {
    double error = ulps(y[i], functions[f].reference(x[i]));
    keep_worst(worst, error, x[i]);
    if (!(error <= functions[f].most))
      tn_test_fail(__FILE__, __LINE__, "%s(%a) is %a, %g units off", functions[f].name, (double)x[i],
                   (double)y[i], error);
  }
  free(x);
  free(y);
}

TN_TEST(cpu_math, float32_functions_are_within_their_stated_error) {
  worst_case worst[FUNCTIONS] = {{0}};
  over_sweeps(check_function, worst, FUNCTIONS);
  for (int f = 0; f < FUNCTIONS; ++f) print_worst(functions[f].name, &worst[f]);
}

static tn_status gelu(tn_tensor *x, tn_tensor **out_result) { return tn_gelu(x, "none", out_result); }
static double exact_gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }

/* An error of less than 1e-7 |x| counts as none: where gelu is much smaller than x, units say nothing. */
static void check_gelu(tn_tensor *t, int f, worst_case *worst) {
  float *x, *y;
  compute(gelu, t, &x, &y);
  for (int i = 0; i < SWEEP; ++i) {
    double exact = exact_gelu(x[i]), error = ulps(y[i], exact);
    if (isfinite(exact) && fabs(y[i] - exact) <= 1e-7 * fabs((double)x[i])) continue;
    keep_worst(worst, error, x[i]);
    if (!(error <= (isfinite(exact) ? 4 : 0)))
      tn_test_fail(__FILE__, __LINE__, "gelu(%a) is %a, exact %a", (double)x[i], (double)y[i], exact);
  }
  free(x);
  free(y);
}

TN_TEST(cpu_math, gelu_is_within_its_stated_error) {
  worst_case worst = {0};
  over_sweeps(check_gelu, &worst, 1);
  print_worst("gelu", &worst);
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
