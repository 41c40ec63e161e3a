/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/trace.h from C: names that need care in JSON, sums by name, what is refused.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/trace.h>

#include "tools.h"

static void compute(void) {
  tn_tensor *a, *y;
  TN_CHECK_OK(tn_ones((const tn_dim[]){4}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &a));
  TN_CHECK_OK(tn_mul(a, a, &y));
  tn_tensor_release(y);
  tn_tensor_release(a);
}

TN_TEST(frontends_trace, names_of_spans_become_json) {
  char path[512], text[1 << 14];
  snprintf(path, sizeof path, "%s/spans.json", tt_folder());
  tn_trace *t;
  TN_CHECK_OK(tn_trace_open(path, &t));
  tn_range_begin("a \"quoted\"\n\\ \xc3\xa9 \xff end");
  compute();
  tn_range_end();
  TN_CHECK_OK(tn_trace_close(t));
  FILE *file = fopen(path, "r");
  TN_CHECK_NOT_NULL(file);
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  TN_CHECK_CONTAINS(text, "\"a \\\"quoted\\\"\\u000a\\\\ \xc3\xa9 \\u00ff end\"");
  TN_CHECK_CONTAINS(text, "\"cat\":\"range\"");
  TN_CHECK_CONTAINS(text, "\"inputs\":[\"float32[4] cpu\",\"float32[4] cpu\"]");
  TN_CHECK_CONTAINS(text + n - 4, "\n]}\n");
}

TN_TEST(frontends_trace, what_is_wrong_is_refused_in_words) {
  tn_trace *t;
  tn_profile *p;
  tn_profile_row row;
  TN_CHECK_FAILS(tn_trace_open(NULL, &t), TN_ERR_INVALID_ARGUMENT, "path is NULL");
  TN_CHECK_FAILS(tn_trace_open("/nonexistent/t.json", &t), TN_ERR_IO, "/nonexistent/t.json: cannot be written");
  TN_CHECK_PTR_NULL(t);
  TN_CHECK_OK(tn_trace_close(NULL));
  TN_CHECK_OK(tn_profile_begin(&p));
  TN_CHECK_INT(tn_profile_count(p), 0); /* still listening */
  TN_CHECK_OK(tn_profile_end(p));
  TN_CHECK_OK(tn_profile_end(p));
  TN_CHECK_FAILS(tn_profile_get(p, 0, &row), TN_ERR_INVALID_ARGUMENT, "row 0 of 0");
  tn_profile_free(p);
  tn_profile_free(NULL);
}

TN_TEST(frontends_trace, sums_by_name_own_time_without_parts) {
  tn_profile *p, *beside;
  tn_profile_row row, span = {0}, mul = {0};
  TN_CHECK_OK(tn_profile_begin(&p));
  TN_CHECK_OK(tn_profile_begin(&beside));
  for (int i = 0; i < 20; ++i) {
    tn_range_begin("turn");
    compute();
    tn_range_end();
  }
  TN_CHECK_OK(tn_profile_end(p));
  compute();
  TN_CHECK_OK(tn_profile_end(beside));
  TN_CHECK(tn_profile_count(p) >= 3);
  uint64_t before = UINT64_MAX, own = 0;
  for (size_t i = 0; i < tn_profile_count(p); ++i) {
    TN_CHECK_OK(tn_profile_get(p, i, &row));
    TN_CHECK(row.self_ns <= before && row.self_ns <= row.total_ns && row.max_ns <= row.total_ns);
    before = row.self_ns;
    own += row.self_ns;
    if (row.kind == TN_PROFILE_RANGE) span = row;
    if (strcmp(row.name, "mul.Tensor") == 0) mul = row;
  }
  TN_CHECK_INT(span.n_calls, 20);
  TN_CHECK_INT(mul.n_calls, 20);
  TN_CHECK(span.total_ns > mul.total_ns);
  TN_CHECK_INT(own, span.total_ns); /* everything happened inside the spans */
  TN_CHECK(tn_profile_wall_ns(p) >= span.total_ns);
  for (size_t i = 0; i < tn_profile_count(beside); ++i) {
    TN_CHECK_OK(tn_profile_get(beside, i, &row));
    if (strcmp(row.name, "mul.Tensor") == 0) TN_CHECK_INT(row.n_calls, 21);
  }
  char text[4096] = "";
  FILE *file = fmemopen(text, sizeof text, "w");
  TN_CHECK_NOT_NULL(file);
  TN_CHECK_OK(tn_profile_print(p, file));
  fclose(file);
  TN_CHECK_CONTAINS(text, "mul.Tensor");
  TN_CHECK_CONTAINS(text, "all ");
  FILE *full = fopen("/dev/full", "w");
  if (full) {
    TN_CHECK_FAILS(tn_profile_print(p, full), TN_ERR_IO, "could not be written");
    fclose(full);
  }
  tn_profile_free(p);
  tn_profile_free(beside);
}
