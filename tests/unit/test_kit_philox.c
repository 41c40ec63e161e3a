/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/philox: the known answers published with the paper, the layout of counter and key, ranges and moments
 * of the distributions.
 */
#include <tenon/kit/philox.h>

#include "tn_test.h"

static void check_words(tn_philox r, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  TN_CHECK_INT(r.word[0], a);
  TN_CHECK_INT(r.word[1], b);
  TN_CHECK_INT(r.word[2], c);
  TN_CHECK_INT(r.word[3], d);
}

TN_TEST(kit_philox, published_answers) {
  check_words(tn_philox_rounds(0, 0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  check_words(tn_philox_rounds(~0u, ~0u, ~0u, ~0u, ~0u, ~0u), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  check_words(tn_philox_rounds(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0),
              0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TN_TEST(kit_philox, words_of_seed_counter_and_subsequence) {
  tn_philox r = tn_philox_draw(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu);
  check_words(r, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TN_TEST(kit_philox, ranges) {
  tn_philox low = {{0, 0, 0, 0}}, high = {{~0u, ~0u, ~0u, ~0u}};
  TN_CHECK(tn_philox_float(low) == 0.0f && tn_philox_float(high) == 1.0f - 0x1p-24f);
  TN_CHECK(tn_philox_double(low) == 0.0 && tn_philox_double(high) == 1.0 - 0x1p-53);
  TN_CHECK_INT(tn_philox_below(low, 10), 0);
  TN_CHECK_INT(tn_philox_below(high, 10), 9);
  TN_CHECK_INT(tn_philox_below(high, UINT64_MAX), INT64_C(-2));
  TN_CHECK(isfinite(tn_philox_normal_float(low)) && isfinite(tn_philox_normal_double(low)));
  TN_CHECK(isfinite(tn_philox_normal_float(high)) && isfinite(tn_philox_normal_double(high)));
}

TN_TEST(kit_philox, moments) {
  enum { N = 200000 };
  double sum = 0, normal = 0, square = 0, wide = 0, wide_square = 0;
  for (uint64_t i = 0; i < N; i++) {
    tn_philox r = tn_philox_draw(42, i, 0);
    double z = tn_philox_normal_float(r), w = tn_philox_normal_double(r);
    sum += tn_philox_float(r);
    normal += z;
    square += z * z;
    wide += w;
    wide_square += w * w;
  }
  TN_CHECK_DOUBLE(sum / N, 0.5, 0.003);
  TN_CHECK_DOUBLE(normal / N, 0, 0.01);
  TN_CHECK_DOUBLE(square / N, 1, 0.015);
  TN_CHECK_DOUBLE(wide / N, 0, 0.01);
  TN_CHECK_DOUBLE(wide_square / N, 1, 0.015);
}
