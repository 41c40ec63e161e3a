/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/promote: the lattice, the three kinds of operand, casts, and what has no common dtype. The expectations
 * are ATen's (torch.promote_types, torch.result_type, torch.can_cast).
 */
#include <string.h>
#include <tenon/kit/promote.h>

#include "tn_test.h"

/* Row and column in the order of the codes: b bool, U uint8, 1 2 4 8 signed bytes, h float16, B bfloat16,
 * f, d. */
static const char letters[] = "bU1248hBfd";
static const char *const lattice[] = {
    "bU1248hBfd", "UU2248hBfd", "121248hBfd", "222248hBfd", "444448hBfd",
    "888888hBfd", "hhhhhhhffd", "BBBBBBfBfd", "fffffffffd", "dddddddddd",
};

static tn_dtype code_of(char letter) { return (tn_dtype)(TN_BOOL + (strchr(letters, letter) - letters)); }

TN_TEST(kit_promote, lattice) {
  for (int a = 0; a < 10; a++) {
    for (int b = 0; b < 10; b++) {
      tn_dtype expected = code_of(lattice[a][b]);
      TN_CHECK_STR(tn_kit_dtype_name(tn_promote_types((tn_dtype)(a + 1), (tn_dtype)(b + 1))),
                   tn_kit_dtype_name(expected));
    }
    TN_CHECK_INT(tn_promote_types((tn_dtype)(a + 1), TN_DTYPE_NONE), a + 1);
    TN_CHECK_INT(tn_promote_types(TN_DTYPE_NONE, (tn_dtype)(a + 1)), a + 1);
  }
}

TN_TEST(kit_promote, reserved_dtypes) {
  TN_CHECK_INT(tn_promote_types(TN_UINT16, TN_FLOAT16), TN_FLOAT16);
  TN_CHECK_INT(tn_promote_types(TN_FLOAT32, TN_UINT64), TN_FLOAT32);
  TN_CHECK_INT(tn_promote_types(TN_UINT16, TN_UINT16), TN_UINT16);
  TN_CHECK_INT(tn_promote_types(TN_UINT16, TN_INT32), TN_DTYPE_NONE);
  TN_CHECK_INT(tn_promote_types(TN_COMPLEX64, TN_FLOAT64), TN_COMPLEX128);
  TN_CHECK_INT(tn_promote_types(TN_FLOAT16, TN_COMPLEX64), TN_COMPLEX64);
  TN_CHECK_INT(tn_promote_types(TN_UINT16, TN_COMPLEX64), TN_COMPLEX64);
  TN_CHECK_INT(tn_promote_types(TN_FLOAT8_E5M2, TN_FLOAT8_E5M2), TN_FLOAT8_E5M2);
  TN_CHECK_INT(tn_promote_types(TN_FLOAT8_E5M2, TN_FLOAT32), TN_DTYPE_NONE);
  TN_CHECK_INT(tn_promote_types(TN_FLOAT32, 50), TN_DTYPE_NONE);
}

static tn_view view_of(tn_dtype dtype, uint8_t ndim, uint32_t flags) {
  tn_view v = {.dtype = dtype, .ndim = ndim, .flags = flags, .numel = 1};
  return v;
}
static tn_value tensor(const tn_view *v) {
  tn_value value = {.u = {.v = v}, .kind = TN_VAL_TENSOR};
  return value;
}

/* The common dtype of a tensor with dims, a 0-d tensor and a number; NONE and kind NONE: left out. */
static tn_dtype common_of(tn_dtype dims, tn_dtype zero, tn_scalar number) {
  tn_view d = view_of(dims, 2, 0), z = view_of(zero, 0, 0);
  tn_value args[3];
  size_t n = 0;
  tn_dtype out = TN_DTYPE_NONE;
  if (dims) args[n++] = tensor(&d);
  if (zero) args[n++] = tensor(&z);
  args[n++] = number;
  TN_CHECK_OK(tn_promote_values(args, n, TN_FLOAT32, &out));
  return out;
}

TN_TEST(kit_promote, zero_dim_tensors_raise_only_the_category) {
  tn_value none = tn_value_none();
  TN_CHECK_INT(common_of(TN_INT8, TN_INT64, none), TN_INT8);
  TN_CHECK_INT(common_of(TN_FLOAT16, TN_FLOAT64, none), TN_FLOAT16);
  TN_CHECK_INT(common_of(TN_FLOAT16, TN_INT64, none), TN_FLOAT16);
  TN_CHECK_INT(common_of(TN_INT32, TN_FLOAT64, none), TN_FLOAT64);
  TN_CHECK_INT(common_of(TN_INT32, TN_BFLOAT16, none), TN_BFLOAT16);
  TN_CHECK_INT(common_of(TN_BOOL, TN_UINT8, none), TN_UINT8);
  TN_CHECK_INT(common_of(TN_BOOL, TN_BOOL, none), TN_BOOL);
  TN_CHECK_INT(common_of(TN_UINT8, TN_BOOL, none), TN_UINT8);
  TN_CHECK_INT(common_of(TN_FLOAT16, TN_COMPLEX128, none), TN_COMPLEX64);
  TN_CHECK_INT(common_of(TN_FLOAT64, TN_COMPLEX64, none), TN_COMPLEX128);
  TN_CHECK_INT(common_of(TN_INT8, TN_COMPLEX64, none), TN_COMPLEX64);
}

TN_TEST(kit_promote, numbers_stand_below_every_tensor) {
  TN_CHECK_INT(common_of(TN_UINT8, 0, tn_int(300)), TN_UINT8);
  TN_CHECK_INT(common_of(TN_BOOL, 0, tn_int(1)), TN_INT64);
  TN_CHECK_INT(common_of(TN_BOOL, 0, tn_bool(true)), TN_BOOL);
  TN_CHECK_INT(common_of(TN_INT64, 0, tn_float(0.5)), TN_FLOAT32);
  TN_CHECK_INT(common_of(TN_FLOAT16, 0, tn_float(0.5)), TN_FLOAT16);
  TN_CHECK_INT(common_of(0, TN_FLOAT16, tn_float(0.5)), TN_FLOAT16);
  TN_CHECK_INT(common_of(0, TN_INT8, tn_int(5)), TN_INT8);
  TN_CHECK_INT(common_of(TN_BOOL, TN_INT8, tn_int(5)), TN_INT8);
  TN_CHECK_INT(common_of(TN_INT8, TN_BOOL, tn_float(1)), TN_FLOAT32);
  TN_CHECK_INT(common_of(0, 0, tn_float(1)), TN_FLOAT32);
  TN_CHECK_INT(common_of(0, 0, tn_int(1)), TN_INT64);
}

TN_TEST(kit_promote, numbers_in_tensors_and_lists) {
  tn_view eight = view_of(TN_INT8, 1, 0), number = view_of(TN_FLOAT64, 0, TN_VIEW_WRAPPED_NUMBER),
          wide = view_of(TN_FLOAT64, 1, 0);
  tn_value args[2] = {tensor(&eight), tensor(&number)};
  tn_dtype out = TN_DTYPE_NONE;
  TN_CHECK_OK(tn_promote_values(args, 2, TN_BFLOAT16, &out));
  TN_CHECK_INT(out, TN_BFLOAT16);
  const tn_view *list[3] = {&eight, NULL, &wide};
  tn_value tensors = {.u = {.vs = list}, .kind = TN_VAL_LIST, .elem = TN_VAL_OPTIONAL_TENSOR, .count = 3};
  TN_CHECK_OK(tn_promote_values(&tensors, 1, TN_FLOAT32, &out));
  TN_CHECK_INT(out, TN_FLOAT64);
  tn_value complex_number = {.u = {.p = (const double[]){0, 1}}, .kind = TN_VAL_COMPLEX};
  TN_CHECK_OK(tn_promote_values(&complex_number, 1, TN_FLOAT64, &out));
  TN_CHECK_INT(out, TN_COMPLEX128);
}

TN_TEST(kit_promote, refusals) {
  tn_view a = view_of(TN_UINT16, 1, 0), b = view_of(TN_INT32, 1, 0);
  tn_value args[2] = {tensor(&a), tensor(&b)};
  tn_dtype out = TN_DTYPE_NONE;
  TN_CHECK_FAILS(tn_promote_values(args, 2, TN_FLOAT32, &out), TN_ERR_DTYPE,
                 "no common dtype for uint16 and int32");
  TN_CHECK_FAILS(tn_promote_values(NULL, 0, TN_FLOAT32, &out), TN_ERR_INVALID_ARGUMENT, "found none");
}

TN_TEST(kit_promote, casts) {
  TN_CHECK(tn_can_cast(TN_INT64, TN_INT8));
  TN_CHECK(tn_can_cast(TN_FLOAT64, TN_FLOAT16));
  TN_CHECK(tn_can_cast(TN_BOOL, TN_BOOL));
  TN_CHECK(tn_can_cast(TN_INT8, TN_COMPLEX64));
  TN_CHECK(!tn_can_cast(TN_INT8, TN_BOOL));
  TN_CHECK(!tn_can_cast(TN_FLOAT16, TN_INT64));
  TN_CHECK(!tn_can_cast(TN_COMPLEX64, TN_FLOAT64));
  TN_CHECK(!tn_can_cast(TN_FLOAT32, TN_DTYPE_NONE));
}
