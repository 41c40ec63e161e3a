/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples are too small for in attention: several tiles of rows and keys, widths that are no whole panels, masks
 * that hide a tile, memory orders, halves, values that overflow, threads, dropout. The definition is the composite,
 * which operands with one more dim in front take.
 */
#include <math.h>
#include <stdlib.h>
#include <tenon/memory.h>

#include "make.h"

enum { NO_MASK, CAUSAL, HIDES, ADDS };

typedef struct setting {
  int64_t batch, heads, groups, rows, keys, e, v;
  int mask;
  tn_dtype dtype;
  double tolerance, dropout;
} setting;

/* The result and the gradients of query, key and value. */
enum { RESULTS = 4 };

static tn_tensor *random_of(const setting *s, int64_t heads, int64_t rows, int64_t width) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_randn((const tn_dim[]){s->batch, heads, rows, width}, 4, TN_OPTIONS(.dtype = s->dtype), &t));
  return t;
}

/* What hides hides all keys of the first tile from every third row, and all keys from row 5. */
static tn_tensor *mask_of(const setting *s) {
  tn_tensor *t = NULL, *cast = NULL;
  float *values = calloc((size_t)(s->rows * s->keys), sizeof *values);
  TN_CHECK_NOT_NULL(values);
  for (int64_t i = 0; i < s->rows; i++)
    for (int64_t j = 0; j < s->keys; j++) {
      bool hidden = i == 5 || (i % 3 == 0 && j < 64) || (i * 7 + j * 5) % 11 == 0;
      values[i * s->keys + j] = s->mask == HIDES ? !hidden : hidden ? -INFINITY : (float)((i + 2 * j) % 5) - 2;
    }
  TN_CHECK_OK(tn_tensor_from_host(values, (const tn_dim[]){s->rows, s->keys}, 2, NULL, &t));
  free(values);
  TN_CHECK_OK(tn_to_dtype(t, s->mask == HIDES ? TN_BOOL : s->dtype, false, false, 0, &cast));
  tn_tensor_release(t);
  return cast;
}

/* in: query, key, value; they stay as they lie in memory. The same is dropped every time. */
static void attend(const setting *s, tn_tensor *const *in, tn_tensor *mask, bool composite, tn_tensor **out) {
  tn_tensor *leaves[3], *used[3], *sum = NULL;
  if (s->dropout > 0) TN_CHECK_OK(tn_manual_seed(11));
  for (int i = 0; i < 3; i++) {
    TN_CHECK_OK(tn_detach(in[i], &leaves[i]));
    TN_CHECK_OK(tn_set_requires_grad(leaves[i], true));
    if (composite) TN_CHECK_OK(tn_unsqueeze(leaves[i], 0, &used[i]));
    else used[i] = tn_tensor_retain(leaves[i]);
  }
  TN_CHECK_OK(tn_scaled_dot_product_attention(used[0], used[1], used[2], mask, s->dropout, s->mask == CAUSAL, NULL, true,
                                              &out[0]));
  TN_CHECK_OK(tn_linalg_vector_norm(out[0], tn_int(2), NULL, 0, false, TN_DTYPE_NONE, &sum));
  TN_CHECK_OK(tn_backward_run(sum, NULL));
  for (int i = 0; i < 3; i++) {
    out[i + 1] = tn_tensor_retain(tn_grad(leaves[i]));
    tn_tensor_release(leaves[i]);
    tn_tensor_release(used[i]);
  }
  tn_tensor_release(sum);
}

/* The elements in row-major order, as double; the caller frees them. */
static double *values_of(tn_tensor *t) {
  tn_tensor *wide = NULL, *rows = NULL;
  size_t n = (size_t)tn_tensor_numel(t);
  double *values = malloc((n + 1) * sizeof *values);
  TN_CHECK_NOT_NULL(values);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, true, 0, &wide));
  TN_CHECK_OK(tn_contiguous(wide, TN_CONTIGUOUS_FORMAT, &rows));
  TN_CHECK_OK(tn_tensor_to_host(rows, values, n * sizeof *values));
  tn_tensor_release(wide);
  tn_tensor_release(rows);
  return values;
}

/* Largest difference; infinite if one is NaN. */
static double difference(tn_tensor *a, tn_tensor *b) {
  double *x = values_of(a), *y = values_of(b), worst = 0;
  TN_CHECK_INT(tn_tensor_numel(a), tn_tensor_numel(b));
  for (int64_t i = 0; i < tn_tensor_numel(a); i++) {
    double d = fabs(x[i] - y[i]);
    if (!(d <= worst)) worst = d == d ? d : INFINITY;
  }
  free(x);
  free(y);
  return worst;
}

static void release(tn_tensor **t, int n) {
  for (int i = 0; i < n; i++) tn_tensor_release(t[i]);
}

static void agree(const setting *s) {
  tn_tensor *in[3] = {random_of(s, s->heads, s->rows, s->e), random_of(s, s->groups, s->keys, s->e),
                      random_of(s, s->groups, s->keys, s->v)};
  tn_tensor *mask = s->mask >= HIDES ? mask_of(s) : NULL, *fused[RESULTS], *composite[RESULTS];
  attend(s, in, mask, false, fused);
  attend(s, in, mask, true, composite);
  for (int i = 0; i < RESULTS; i++) TN_CHECK(difference(fused[i], composite[i]) < s->tolerance);
  release(in, 3);
  release(&mask, 1);
  release(fused, RESULTS);
  release(composite, RESULTS);
}

TN_TEST(ops_attention_tiles, odd_sizes_agree_with_the_composite_under_every_mask) {
  for (int mask = NO_MASK; mask <= ADDS; mask++) {
    agree(&(setting){2, 2, 2, 131, 77, 19, 35, mask, TN_FLOAT32, 2e-5, 0});
    agree(&(setting){1, 2, 2, 70, 193, 32, 64, mask, TN_FLOAT32, 2e-5, 0});
    agree(&(setting){1, 4, 2, 64, 64, 64, 16, mask, TN_FLOAT64, 1e-12, 0});
    agree(&(setting){1, 3, 1, 97, 130, 5, 1, mask, TN_FLOAT64, 1e-12, 0});
  }
}

TN_TEST(ops_attention_tiles, fewer_keys_than_rows_and_one_key_agree_with_the_composite) {
  agree(&(setting){1, 1, 1, 150, 3, 8, 8, CAUSAL, TN_FLOAT32, 2e-5, 0});
  agree(&(setting){3, 2, 1, 1, 200, 40, 24, NO_MASK, TN_FLOAT32, 2e-5, 0});
  agree(&(setting){1, 1, 1, 65, 1, 300, 1, NO_MASK, TN_FLOAT32, 2e-5, 0});
}

TN_TEST(ops_attention_tiles, halves_are_computed_in_float32) {
  agree(&(setting){1, 4, 2, 75, 90, 24, 20, HIDES, TN_BFLOAT16, 0.04, 0});
  agree(&(setting){1, 4, 2, 75, 75, 32, 32, CAUSAL, TN_FLOAT16, 0.005, 0});
  agree(&(setting){1, 2, 2, 20, 70, 16, 16, ADDS, TN_BFLOAT16, 0.04, 0});
}

/* Projections give [B, L, H, E]; its transpose is attention's operand. */
static void check_rows_of_heads(const setting *s) {
  tn_tensor *rows[3] = {NULL}, *plain[3] = {NULL}, *a[RESULTS], *b[RESULTS];
  for (int i = 0; i < 3; i++) {
    tn_tensor *made = NULL;
    const tn_dim sizes[] = {s->batch, s->rows, s->heads, s->e};
    TN_CHECK_OK(tn_randn(sizes, 4, TN_OPTIONS(.dtype = s->dtype), &made));
    TN_CHECK_OK(tn_transpose(made, 1, 2, &rows[i]));
    TN_CHECK_OK(tn_contiguous(rows[i], TN_CONTIGUOUS_FORMAT, &plain[i]));
    tn_tensor_release(made);
  }
  attend(s, rows, NULL, false, a);
  attend(s, plain, NULL, false, b);
  for (int i = 0; i < RESULTS; i++) {
    const tn_dim *strides = tn_tensor_strides(a[i]);
    TN_CHECK_INT(strides[1], s->e);
    TN_CHECK_INT(strides[2], s->e * s->heads);
    TN_CHECK_INT(strides[0], s->e * s->heads * s->rows);
    TN_CHECK(tn_tensor_is_contiguous(b[i]));
    TN_CHECK_DOUBLE(difference(a[i], b[i]), 0, 0);
  }
  release(rows, 3);
  release(plain, 3);
  release(a, RESULTS);
  release(b, RESULTS);
}
TN_TEST(ops_attention_tiles, results_have_their_operands_order_of_heads_and_rows) {
  check_rows_of_heads(&(setting){2, 3, 3, 70, 70, 32, 32, CAUSAL, TN_FLOAT32, 0, 0});
  check_rows_of_heads(&(setting){2, 3, 3, 70, 70, 7, 7, CAUSAL, TN_BFLOAT16, 0, 0});
}

/* Columns that are not side by side: operands of [B, H, E, L], transposed. */
TN_TEST(ops_attention_tiles, columns_may_have_any_stride) {
  const setting s = {2, 2, 2, 67, 67, 33, 33, CAUSAL, TN_FLOAT32, 0, 0};
  tn_tensor *columns[3] = {NULL}, *plain[3] = {NULL}, *a[RESULTS], *b[RESULTS];
  for (int i = 0; i < 3; i++) {
    tn_tensor *made = random_of(&s, s.heads, s.e, s.rows);
    TN_CHECK_OK(tn_transpose(made, -2, -1, &columns[i]));
    TN_CHECK_OK(tn_contiguous(columns[i], TN_CONTIGUOUS_FORMAT, &plain[i]));
    tn_tensor_release(made);
  }
  attend(&s, columns, NULL, false, a);
  attend(&s, plain, NULL, false, b);
  for (int i = 0; i < RESULTS; i++) TN_CHECK_DOUBLE(difference(a[i], b[i]), 0, 0);
  release(columns, 3);
  release(plain, 3);
  release(a, RESULTS);
  release(b, RESULTS);
}

/* More heads of key than threads, and fewer: then the backward goes in passes. */
static void check_threads(const setting *s) {
  tn_tensor *in[3] = {random_of(s, s->heads, s->rows, s->e), random_of(s, s->groups, s->keys, s->e),
                      random_of(s, s->groups, s->keys, s->v)};
  tn_tensor *mask = s->mask >= HIDES ? mask_of(s) : NULL, *alone[RESULTS], *shared[RESULTS];
  int32_t before = tn_num_threads();
  TN_CHECK_OK(tn_set_num_threads(1));
  attend(s, in, mask, false, alone);
  for (int32_t n = 2; n <= 3; n++) {
    TN_CHECK_OK(tn_set_num_threads(n));
    attend(s, in, mask, false, shared);
    for (int i = 0; i < RESULTS; i++) TN_CHECK_DOUBLE(difference(alone[i], shared[i]), 0, 0);
    release(shared, RESULTS);
  }
  TN_CHECK_OK(tn_set_num_threads(before));
  release(in, 3);
  release(&mask, 1);
  release(alone, RESULTS);
}
TN_TEST(ops_attention_tiles, bits_do_not_depend_on_threads) {
  check_threads(&(setting){2, 4, 2, 150, 150, 24, 24, CAUSAL, TN_FLOAT32, 0, 0});
  check_threads(&(setting){1, 2, 1, 200, 170, 32, 24, CAUSAL, TN_FLOAT32, 0, 0});
  check_threads(&(setting){1, 1, 1, 131, 300, 8, 40, HIDES, TN_FLOAT64, 0, 0});
  check_threads(&(setting){1, 4, 1, 70, 100, 20, 16, NO_MASK, TN_BFLOAT16, 0, 0});
  check_threads(&(setting){2, 4, 2, 150, 150, 24, 24, CAUSAL, TN_FLOAT32, 0, 0.3});
  check_threads(&(setting){1, 2, 1, 200, 170, 32, 24, NO_MASK, TN_FLOAT32, 0, 0.3});
}

/* ------------------------------------------------------------------ dropout */

/* What the composite drops with the same seed, the kernel drops: a key more or less would be an error of 1 / keys. */
TN_TEST(ops_attention_tiles, dropout_drops_what_the_composite_drops) {
  for (int mask = NO_MASK; mask <= ADDS; mask++) {
    agree(&(setting){2, 2, 2, 131, 77, 19, 35, mask, TN_FLOAT32, 5e-5, 0.25});
    agree(&(setting){1, 4, 2, 64, 64, 64, 16, mask, TN_FLOAT64, 1e-12, 0.5});
    agree(&(setting){1, 3, 1, 97, 130, 5, 1, mask, TN_FLOAT64, 1e-12, 0.9});
  }
  agree(&(setting){1, 4, 2, 75, 90, 24, 20, HIDES, TN_BFLOAT16, 0.06, 0.25});
  agree(&(setting){1, 1, 1, 3, 1, 8, 8, NO_MASK, TN_FLOAT32, 2e-5, 0.5});
}

/* As many counters are drawn as there are weights, so that what is drawn next does not tell the two ways apart. */
TN_TEST(ops_attention_tiles, dropout_draws_a_counter_a_weight) {
  const setting s = {2, 4, 2, 70, 33, 8, 8, CAUSAL, TN_FLOAT32, 0, 0.25};
  tn_tensor *in[3] = {random_of(&s, 4, 70, 8), random_of(&s, 2, 33, 8), random_of(&s, 2, 33, 8)}, *out[RESULTS];
  tn_generator *g = NULL;
  TN_CHECK_OK(tn_generator_default(tn_tensor_device(in[0]), &g));
  for (int composite = 0; composite < 2; composite++) {
    tn_generator_state state;
    attend(&s, in, NULL, composite, out);
    TN_CHECK_OK(tn_generator_get_state(g, &state));
    TN_CHECK_INT(state.seed, 11);
    TN_CHECK_INT(state.offset, 2 * 4 * 70 * 33);
    release(out, RESULTS);
  }
  release(in, 3);
}

/* Weights, and what is dropped of them, exist a tile at a time: here all of them would take 16 MB. */
TN_TEST(ops_attention_tiles, dropout_takes_no_memory_for_weights) {
  const setting s = {1, 1, 1, 2048, 2048, 8, 8, NO_MASK, TN_FLOAT32, 0, 0.25};
  tn_tensor *in[3] = {random_of(&s, 1, 2048, 8), random_of(&s, 1, 2048, 8), random_of(&s, 1, 2048, 8)};
  tn_tensor *out[RESULTS];
  tn_memory_stats before, after;
  TN_CHECK_OK(tn_memory_reset_peak(tn_tensor_device(in[0])));
  TN_CHECK_OK(tn_memory_get_stats(tn_tensor_device(in[0]), &before));
  attend(&s, in, NULL, false, out);
  TN_CHECK_OK(tn_memory_get_stats(tn_tensor_device(in[0]), &after));
  TN_CHECK(after.peak_bytes - before.current_bytes < 2048 * 2048);
  release(in, 3);
  release(out, RESULTS);
}

/* Scores of 1e4 and more: their exponentials overflow, those of differences do not. */
TN_TEST(ops_attention_tiles, large_scores_do_not_overflow) {
  setting s = {1, 1, 1, 70, 140, 8, 8, NO_MASK, TN_FLOAT32, 1e-2, 0};
  tn_tensor *in[3] = {random_of(&s, 1, 70, 8), random_of(&s, 1, 140, 8), random_of(&s, 1, 140, 8)};
  tn_tensor *fused[RESULTS], *composite[RESULTS];
  TN_CHECK_OK(tn_mul_scalar_(in[0], tn_float(3e4)));
  attend(&s, in, NULL, false, fused);
  attend(&s, in, NULL, true, composite);
  TN_CHECK(difference(fused[0], composite[0]) < 1e-2);
  for (int i = 0; i < RESULTS; i++) {
    double *values = values_of(fused[i]);
    for (int64_t k = 0; k < tn_tensor_numel(fused[i]); k++) TN_CHECK(isfinite(values[k]));
    free(values);
  }
  release(in, 3);
  release(fused, RESULTS);
  release(composite, RESULTS);
}

/* A NaN in row 3 of query makes that row NaN and no other. */
TN_TEST(ops_attention_tiles, a_nan_stays_in_its_row) {
  const setting s = {1, 1, 1, 70, 70, 8, 8, NO_MASK, TN_FLOAT32, 0, 0};
  tn_tensor *in[3] = {random_of(&s, 1, 70, 8), random_of(&s, 1, 70, 8), random_of(&s, 1, 70, 8)}, *y = NULL, *logs = NULL;
  ((float *)tn_tensor_data(in[0]))[3 * 8 + 2] = NAN;
  TN_CHECK_OK(tn__scaled_dot_product_attention(in[0], in[1], in[2], NULL, false, 1, 0, 0, 0, &y, &logs));
  double *values = values_of(y), *sums = values_of(logs);
  for (int64_t i = 0; i < 70; i++) {
    TN_CHECK_INT(isnan(sums[i]) != 0, i == 3);
    for (int64_t k = 0; k < 8; k++) TN_CHECK_INT(isnan(values[i * 8 + k]) != 0, i == 3);
  }
  free(values);
  free(sums);
  release(in, 3);
  release(&y, 1);
  release(&logs, 1);
}
