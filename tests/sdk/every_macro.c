/* SPDX-License-Identifier: Apache-2.0
 *
 * Every macro of the SDK that a plugin may write, used once; test_headers.py sees to it that none is missing and
 * compiles this against the headers that it is given. The functions are never called.
 */
#include "every_macro.h"

TN_MANIFEST(TN_MANIFEST_HEADER_NEEDS("every", "1", "Apache-2.0",
                                     0) "device every\nkernel every relu float32 0\n")
static const char header[] =
    TN_MANIFEST_HEADER("every", TN_MANIFEST_QUOTE(TN_ABI_MINOR), "Apache-2.0") TN_SANITIZER_LINE;

TN_LAYOUT_SIZE(tn_value, 16);
TN_LAYOUT_GROWS(tn_memory_info, 24);
TN_LAYOUT_AT(tn_view, data, 0);
TN_LAYOUT_ASSERT(TN_ABI_MAJOR == 1 && TN_MAX_RANK == 64, "the ABI of major 1");

TN_COLD static void words(const char *format, ...) TN_PRINTF(1, 2);
static void words(const char *format, ...) { (void)format; }

/* ------------------------------------------------------------------ loops */

TN_LOOP_NULLARY(loop0, int64, 1)
TN_LOOP_UNARY(loop1, float32, float64, a)
TN_LOOP_BINARY(loop2, boolean, int8, bfloat16, a < b)
TN_LOOP_TERNARY(loop3, float16, float16, float16, float16, a *b + c)

static void loop_by_hand(void *ctx, char **data, const int64_t *strides, int64_t n) {
  (void)ctx;
  TN_LOOP_PARALLEL for (int64_t i = 0; i < n; i++)
      TN_LOOP_PUT(float32, data[0], i, TN_LOOP_SIZE(float32), TN_LOOP_AT(float32, data[1], i, strides[1]));
}

static TN_ITER_INLINE inline int64_t unrolled(const int64_t *x) {
  int64_t sum = 0;
  TN_ITER_UNROLL
  for (int i = 0; i < TN_ITER_MAX_OPERANDS; i++) sum += x[i];
  return sum;
}

/* ------------------------------------------------------------------ dtypes */

#define COUNT(code, ctype, name) +(code != TN_DTYPE_NONE && sizeof(ctype) == sizeof(tn_ctype_##name))
static const int n_dtypes[] = {0 TN_FOR_ALL_DTYPES(COUNT),  0 TN_FOR_BOOL(COUNT),       0 TN_FOR_INT(COUNT),
                               0 TN_FOR_HALF(COUNT),        0 TN_FOR_WIDE_FLOAT(COUNT), 0 TN_FOR_FLOAT(COUNT),
                               0 TN_FOR_INT_AND_BOOL(COUNT)};
static const tn_dtype_mask masks[] = {TN_DTYPES_ALL, TN_DTYPES_INT, TN_DTYPES_FLOAT, TN_DTYPES_HALF,
                                      TN_DTYPE_BIT(TN_FLOAT32)};

/* ------------------------------------------------------------------ sizes, statuses */

static tn_status sizes(tn_dim a, tn_dim b) {
  char room[TN_SHAPE_TEXT_BYTES];
  tn_dim sum = TN_DIM_ADD(TN_DIM_SUB(a, b), TN_DIM_MUL(a, TN_DIM_DIV(a, TN_DIM_MOD(a, b))));
  bool all = TN_DIM_EQ(a, b) || TN_DIM_NE(a, b) || TN_DIM_LT(a, b) || TN_DIM_LE(a, b) || TN_DIM_GT(a, b) ||
             TN_DIM_GE(a, b);
  sum = TN_DIM_MIN(sum, TN_DIM_MAX(TN_DIM(1), b));
  words("%s %s", tn_shape_format(1, &sum, room, sizeof room), tn_shape_format(1, &sum, TN_SHAPE_TEXT));
  if (!all) return TN_WRAP(TN_FAIL(TN_ERR_INTERNAL, "%lld", (long long)TN_DIM_INT(sum)), "sizes: ");
  return TN_OK;
}

TN_LOOP_BEGIN
TN_KIT_OP(op_relu, "relu");
TN_LOOP_END
static tn_status by_name(tn_tensor *x, tn_tensor **out) { return TN_KIT_CALL(&op_relu, out, tn_value_tensor(x)); }

/* Two rounds of Philox. */
static uint32_t drawn(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  tn_philox_round(&c0, &c1, &c2, &c3, 1, 2);
  tn_philox_round(&c0, &c1, &c2, &c3, 1 + TN_PHILOX_KEY_0, 2 + TN_PHILOX_KEY_1);
  return c0;
}

static tn_status relu(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  TN_TRY(sizes(1, 2));
  loop0(NULL, NULL, NULL, 0), loop1(NULL, NULL, NULL, 0), loop2(NULL, NULL, NULL, 0),
      loop3(NULL, NULL, NULL, 0);
  loop_by_hand(NULL, NULL, NULL, 0);
  if (args[0].kind == TN_VAL_NONE) TN_TRY(by_name(NULL, NULL));
  return unrolled(NULL) + drawn(1, 2, 3, 4) + n_dtypes[0] + (int64_t)masks[0] + header[0] ? TN_DECLINED : TN_OK;
}

static const tn_kernel_def kernels[] = {TN_KERNEL("every", "relu", relu, TN_DTYPE_BIT(TN_FLOAT32))};

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host;
  const char *symbol = TN_PLUGIN_SYMBOL;
  uint64_t tag = TN_VALUE_TAG(TN_VAL_INT, 0, 0) + TN_SANITIZER_HERE;
#if defined(TN_HAS_ADDRESS_SANITIZER) || defined(TN_HAS_THREAD_SANITIZER)
  tag++;
#endif
  if (*symbol != 't' || !tag) return TN_FAIL(TN_ERR_INTERNAL, "the macros are not what they were");
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_KIT_C TN_EXPORT void every_other(void);
TN_KIT_C void every_other(void) {}
TN_PLUGIN(.name = "every", .version = "1", .init = init)
