/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking over what a plugin's kernel lines claim, and the verdicts that several checks give. One item is one
 * operator, dtype and sample.
 */
#include <stdio.h>

#include "frontends/check/ops.h"

/* ------------------------------------------------------------------ claims */

tn_dtype_mask tni_ops_claimed(const tni_check_context *c, size_t k) {
  const tni_claim_kernel *line = &c->kernels[k];
  tn_dtype_mask mask = 0;
  for (size_t i = 0; i < c->n_kernels; i++) {
    if (strcmp(c->kernels[i].key, line->key) || strcmp(c->kernels[i].op, line->op)) continue;
    if (i < k) return 0;
    mask |= c->kernels[i].dtypes ? c->kernels[i].dtypes : TN_DTYPES_ALL;
  }
  return mask & TN_DTYPES_ALL;
}

bool tni_ops_is_layer(const tni_check_context *c, const char *key) {
  for (size_t i = 0; i < c->n_layers; i++)
    if (!strcmp(c->layers[i].name, key)) return true;
  return false;
}

bool tni_ops_is_own(const tni_check_context *c, const char *key) {
  for (size_t i = 0; i < c->n_devices; i++)
    if (!strcmp(c->devices[i], key)) return true;
  return false;
}

/* One line as far as the walk is concerned: its device open, its operator known. */
static bool open_line(tni_ops_try *t, const tni_claim_kernel *line, tni_ops_op *op) {
  if (!strcmp(line->op, "*") || tni_ops_is_layer(t->c, line->key)) return false;
  if (tni_ops_is_own(t->c, line->key)) {
    if (!tni_check_device(t->r, line->key, &t->device)) return false;
  } else if (tn_device_open(line->key, &t->device) != TN_OK) {
    return false; /* kernels for somebody else's device, which is not installed here */
  }
  t->device_name = line->key;
  return tni_ops_op_open(line->op, op) == TN_OK;
}

/* ------------------------------------------------------------------ the walk */

typedef void (*try_fn)(tni_ops_try *t);

static void try_one(tni_ops_try *t, const tn_sample *sample, tn_dtype dtype, try_fn fn) {
  char item[TNI_OPS_WORDS];
  /* Said where it could be another: one of several devices, or somebody else's beside the CPU. */
  const bool said = strcmp(t->device_name, "cpu") && (t->c->n_devices > 1 || !tni_ops_is_own(t->c, t->device_name));
  const char *device = said ? t->device_name : "";
  snprintf(item, sizeof item, "%s %s%s%s%s%s", t->op->report.name, tn_dtype_name(dtype), sample ? " " : "",
           sample ? sample->text : "", *device ? " on " : "", device);
  t->sample = sample;
  t->dtype = dtype;
  t->item = item;
  tni_check_at(t->r, item);
  fn(t);
  ref_reset();
}

static void try_operator(tni_ops_try *t, tn_dtype_mask dtypes, bool samples, try_fn fn) {
  for (tn_dtype dtype = TN_BOOL; dtype <= TN_FLOAT64; dtype++) {
    if (!(dtypes & TN_DTYPE_BIT(dtype))) continue;
    if (!samples) try_one(t, NULL, dtype, fn);
    for (const tn_sample *s = t->op->samples; samples && tni_ops_is_sample(t->op, s); s++) try_one(t, s, dtype, fn);
  }
}

static void each(tni_check_report *r, const tni_check_context *c, tn_dtype_mask dtypes, bool samples, try_fn fn) {
  if (tni_ops_run_alone(r, c)) return;
  for (size_t k = 0; k < c->n_kernels; k++) {
    tn_dtype_mask claimed = tni_ops_claimed(c, k) & dtypes;
    tni_ops_op op = {0};
    tni_ops_try t = {.r = r, .c = c, .op = &op};
    if (claimed && open_line(&t, &c->kernels[k], &op)) try_operator(&t, claimed, samples, fn);
    tni_ops_op_close(&op);
  }
}

void tni_ops_each(tni_check_report *r, const tni_check_context *c, tn_dtype_mask dtypes, try_fn fn) {
  each(r, c, dtypes, true, fn);
}

void tni_ops_each_claim(tni_check_report *r, const tni_check_context *c, tn_dtype_mask dtypes, try_fn fn) {
  each(r, c, dtypes, false, fn);
}

/* ------------------------------------------------------------------ verdicts */

bool tni_ops_judge(tni_ops_try *t, const char *what, tn_tensor *result, const rt *expected, double tolerance) {
  char words[TNI_OPS_WORDS];
  if (!result) {
    if (expected->check != REF_ABSENT) tni_check_fail(t->r, t->item, "%s is absent", what);
    return expected->check == REF_ABSENT;
  }
  const rt *got = tni_ops_read(result);
  if (!got) {
    tni_check_fail(t->r, t->item, "%s cannot be read: %s", what, tn_error_message());
    return false;
  }
  bool good = ref_judge(got, expected, tn_tensor_dtype(result), tolerance, words, sizeof words);
  if (!good) tni_check_fail(t->r, t->item, "%s %s", what, words);
  return good;
}

/* Does the sample itself name a dtype, so that the call may compute in another than the claimed one? */
static bool names_dtype(const tn_sample *s) {
  for (uint32_t i = 0; i < s->n_args; i++) {
    if (s->args[i].kind == TN_SAMPLE_VALUE && s->args[i].value.kind == TN_VAL_DTYPE) return true;
    for (uint32_t k = 0; k < s->args[i].n_tensors; k++)
      if (s->args[i].tensors[k].dtype != TN_DTYPE_NONE) return true;
  }
  return false;
}

void tni_ops_judge_failure(tni_ops_try *t, tn_status status) {
  char words[TNI_OPS_WORDS];
  snprintf(words, sizeof words, "%s", tn_error_message());
  tni_ops_case other;
  tni_ops_results r;
  bool on_cpu = t->device.backend == TN_BACKEND_CPU;
  tn_device cpu = {.backend = TN_BACKEND_CPU};
  tn_status expected = tni_ops_case_make(&other, t->op, t->sample, t->dtype, cpu, on_cpu ? TNI_OPS_META : TNI_OPS_AS_SAMPLE);
  if (expected == TN_OK) {
    expected = tni_ops_call(&other, t->op, &r);
    if (expected == TN_OK) tni_ops_results_release(&r);
    tni_ops_case_release(&other);
  }
  if (status == TN_ERR_MISSING_KERNEL || (status == TN_ERR_DTYPE && names_dtype(t->sample)))
    tni_check_skip(t->r, t->item, "its kernel declines, and nobody else serves it: %s", words);
  else if (expected == status)
    tni_check_skip(t->r, t->item, "the sample does not suit the dtype: %s", words);
  else
    tni_check_fail(t->r, t->item, "failed: %s: %s", tn_status_name(status), words);
}
