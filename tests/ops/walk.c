/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking operators, samples and dtypes, and reporting: a check looks at all cases of its family and prints a
 * line for each finding, so that one run shows everything that is wrong; the test fails at the end.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tenon/load.h>

#include "case.h"

static int findings;
enum { MOST_LINES = 60 }; /* more findings are counted, not printed */

void finding(const op_case *c, const char *format, ...) {
  va_list list;
  if (++findings > MOST_LINES) return;
  printf("\n  %s (%s) %s: ", c->op->name, c->sample->text, tn_dtype_name(c->dtype));
  va_start(list, format);
  vprintf(format, list);
  va_end(list);
  fflush(stdout);
}

/* ------------------------------------------------------------------ operators and samples */

bool in_family(const tn_op *op, const char *family) {
  char name[64];
  snprintf(name, sizeof name, "/%s.yaml", family);
  return op->def && op->def->file && strstr(op->def->file, name);
}

const tn_sample *first_sample(const tn_op *op) {
  for (const tn_sample *s = tn_op_samples; s->op; s++)
    if (strcmp(s->op, op->name) == 0) return s;
  return NULL;
}

const tn_op *form_of(const tn_op *op, uint8_t form) {
  for (size_t i = 0; i < tni_op_count(); i++) {
    const tn_op *other = tni_op_at(i);
    if (other != op && other->functional == op && other->form == form) return other;
  }
  return NULL;
}

/* Dtypes that the kernels of the CPU claim; 0 if there are none (a body or a view). */
static tn_dtype_mask claimed(const tn_op *op) {
  tn_dtype_mask mask = 0;
  for (const tni_kernel *k = op->kernels; k; k = k->next)
    if (k->bit == TN_BACKEND_CPU) mask |= k->dtypes ? k->dtypes : TN_DTYPES_ALL;
  return mask;
}

/* Samples whose numbers a dtype cannot hold. */
static bool out_of_range(const tn_op *op, tn_dtype dtype, tn_status status) {
  return status == TN_ERR_INVALID_ARGUMENT && dtype == TN_BOOL && strcmp(op->name, "random_.from") == 0;
}

bool may_decline(const tn_op *op, tn_dtype dtype, tn_status status) {
  if (out_of_range(op, dtype, status)) return true;
  if (status != TN_ERR_DTYPE && status != TN_ERR_MISSING_KERNEL && status != TN_ERR_UNSUPPORTED) return false;
  tn_dtype_mask mask = claimed(op);
  if (mask && !(op->flags & TN_OP_ALWAYS_BODY)) return status == TN_ERR_DTYPE || !(mask & TN_DTYPE_BIT(dtype));
  return dtype != TN_FLOAT32 && dtype != TN_FLOAT64;
}

static void each(const char *family, tn_dtype_mask dtypes, bool all_samples, case_fn fn) {
  TN_CHECK_OK(tn_init());
  findings = 0;
  for (size_t i = 0; i < tni_op_count(); i++) {
    const tn_op *op = tni_op_at(i);
    if (op->functional != op || !in_family(op, family)) continue;
    for (const tn_sample *s = first_sample(op); s && s->op && strcmp(s->op, op->name) == 0; s++) {
      for (tn_dtype dtype = TN_BOOL; dtype <= TN_FLOAT64; dtype++)
        if (dtypes & TN_DTYPE_BIT(dtype)) fn(op, s, dtype), ref_reset();
      if (!all_samples) break;
    }
  }
  if (findings) printf("\n");
  TN_CHECK_INT(findings, 0);
}

void each_case(const char *family, case_fn fn) { each(family, TN_DTYPES_ALL, true, fn); }
void each_first_case(const char *family, case_fn fn) { each(family, TN_DTYPES_ALL, false, fn); }
void each_float64_case(const char *family, case_fn fn) { each(family, TN_DTYPE_BIT(TN_FLOAT64), true, fn); }

/* ------------------------------------------------------------------ comparing */

double case_tolerance(const op_case *c, const op_results *results) {
  double tolerance = 1e-11;
  for (size_t i = 0; i < c->n_tensors; i++) tolerance = fmax(tolerance, ref_tolerance(tn_tensor_dtype(c->tensors[i])));
  for (uint32_t i = 0; results && i < results->n; i++)
    if (results->t[i]) tolerance = fmax(tolerance, ref_tolerance(tn_tensor_dtype(results->t[i])));
  /* A composite rounds after every step. */
  return c->op->kernels ? tolerance : 4 * tolerance;
}

bool compare(const op_case *c, const char *what, const tn_tensor *t, const rt *expected, double tolerance) {
  char words[160];
  if (!t) {
    if (expected->check != REF_ABSENT) finding(c, "%s is absent", what);
    return expected->check == REF_ABSENT;
  }
  bool good = ref_judge(read_tensor(t), expected, tn_tensor_dtype(t), tolerance, words, sizeof words);
  if (!good) finding(c, "%s %s", what, words);
  return good;
}
