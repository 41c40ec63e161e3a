/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/loops: every template for every dtype, over contiguous, held and strided operands, and in place.
 */
#include <string.h>
#include <tenon/kit/loops.h>

#include "tn_test.h"

/* Small whole numbers: exact in every dtype. bool takes part with 0 and 1. */
#define DEFINE_LOOPS(code, ctype, name)                     \
  TN_LOOP_NULLARY(fill_##name, name, *(const double *)ctx)  \
  TN_LOOP_UNARY(twice_##name, name, name, a + a)            \
  TN_LOOP_BINARY(muladd_##name, name, name, name, a *b + b) \
  TN_LOOP_BINARY(less_##name, boolean, name, name, a < b)   \
  TN_LOOP_TERNARY(choose_##name, name, boolean, name, name, a ? b : c)
TN_FOR_ALL_DTYPES(DEFINE_LOOPS)
#undef DEFINE_LOOPS

enum { N = 37, GAP = 2 };

/* For every dtype: fill memory, run over each combination of strides, compare element by element. */
#define DEFINE_CHECKS(code, ctype, name)                                                                  \
  static ctype a_##name[N * GAP], b_##name[N * GAP], c_##name[N * GAP], r_##name[N * GAP];                \
  static void fill_inputs_##name(void) {                                                                  \
    for (int i = 0; i < N * GAP; i++) {                                                                   \
      a_##name[i] = tn_from_acc_##name((tn_acc_##name)(i % 3));                                           \
      b_##name[i] = tn_from_acc_##name((tn_acc_##name)(i % 5));                                           \
      c_##name[i] = tn_from_acc_##name((tn_acc_##name)(i % 4));                                           \
    }                                                                                                     \
  }                                                                                                       \
  static void check_binary_##name(int sr, int sa, int sb) {                                               \
    const int64_t z = sizeof(ctype), strides[] = {sr * z, sa * z, sb * z};                                \
    fill_inputs_##name();                                                                                 \
    memset(r_##name, 0, sizeof r_##name);                                                                 \
    muladd_##name(NULL, (char *[]){(char *)r_##name, (char *)a_##name, (char *)b_##name}, strides, N);    \
    for (int i = 0; i < N; i++) {                                                                         \
      tn_acc_##name x = tn_to_acc_##name(a_##name[i * sa]), y = tn_to_acc_##name(b_##name[i * sb]);       \
      TN_CHECK_DOUBLE(tn_to_acc_##name(r_##name[i * sr]), (tn_acc_##name)(x * y + y), 0);                 \
    }                                                                                                     \
  }                                                                                                       \
  static void check_ternary_##name(int sr, int sa, int sb, int sc) {                                      \
    const int64_t z = sizeof(ctype), strides[] = {sr * z, sa, sb * z, sc * z};                            \
    bool choice[N * GAP];                                                                                 \
    fill_inputs_##name();                                                                                 \
    for (int i = 0; i < N * GAP; i++) choice[i] = i % 7 < 3;                                              \
    choose_##name(NULL, (char *[]){(char *)r_##name, (char *)choice, (char *)b_##name, (char *)c_##name}, \
                  strides, N);                                                                            \
    for (int i = 0; i < N; i++) {                                                                         \
      ctype expected = choice[i * sa] ? b_##name[i * sb] : c_##name[i * sc];                              \
      TN_CHECK_DOUBLE(tn_to_acc_##name(r_##name[i * sr]), tn_to_acc_##name(expected), 0);                 \
    }                                                                                                     \
  }                                                                                                       \
  static void check_others_##name(int s) {                                                                \
    const int64_t z = sizeof(ctype), strides[] = {s * z, s * z};                                          \
    const double one = 1;                                                                                 \
    bool less[N];                                                                                         \
    fill_inputs_##name();                                                                                 \
    twice_##name(NULL, (char *[]){(char *)a_##name, (char *)a_##name}, strides, N); /* in place */        \
    for (int i = 0; i < N; i++) {                                                                         \
      tn_acc_##name x = (tn_acc_##name)(i * s % 3);                                                       \
      TN_CHECK_DOUBLE(tn_to_acc_##name(a_##name[i * s]), (tn_acc_##name)(x + x), 0);                      \
    }                                                                                                     \
    fill_inputs_##name();                                                                                 \
    less_##name(NULL, (char *[]){(char *)less, (char *)a_##name, (char *)b_##name},                       \
                (const int64_t[]){1, s * z, s * z}, N);                                                   \
    for (int i = 0; i < N; i++) {                                                                         \
      TN_CHECK_INT(less[i], tn_to_acc_##name(a_##name[i * s]) < tn_to_acc_##name(b_##name[i * s]));       \
    }                                                                                                     \
    fill_##name((void *)(uintptr_t)&one, (char *[]){(char *)a_##name}, strides, N);                       \
    for (int i = 0; i < N; i++) TN_CHECK_DOUBLE(tn_to_acc_##name(a_##name[i * s]), 1, 0);                 \
  }
TN_FOR_ALL_DTYPES(DEFINE_CHECKS)
#undef DEFINE_CHECKS

TN_TEST(kit_loops, binary) {
#define CHECK(code, ctype, name) \
  for (int k = 0; k < 18; k++) check_binary_##name(1 + k / 9, k / 3 % 3, k % 3);
  TN_FOR_ALL_DTYPES(CHECK)
#undef CHECK
}

TN_TEST(kit_loops, ternary) {
#define CHECK(code, ctype, name) \
  for (int k = 0; k < 54; k++) check_ternary_##name(1 + k / 27, k / 9 % 3, k / 3 % 3, k % 3);
  TN_FOR_ALL_DTYPES(CHECK)
#undef CHECK
}

TN_TEST(kit_loops, nullary_unary_and_comparison) {
#define CHECK(code, ctype, name) \
  check_others_##name(1);        \
  check_others_##name(GAP);
  TN_FOR_ALL_DTYPES(CHECK)
#undef CHECK
}
