/* SPDX-License-Identifier: Apache-2.0
 *
 * The aspects of opcheck over samples and dtypes; ops.opcheck for a plugin's operators.
 */
#include "frontends/check/opcheck.h"

#include <stdio.h>

static const struct {
  const char *name;
  tni_opcheck_aspect look;
  bool float64_only;
} aspects[] = {{"arguments", tni_opcheck_arguments, false}, {"aliases", tni_opcheck_aliases, false},
               {"defaults", tni_opcheck_defaults, false},   {"meta", tni_ops_try_meta, false},
               {"forms", tni_ops_try_forms, false},         {"reference", tni_ops_try_forward, false},
               {"history", tni_opcheck_history, true},      {"gradient", tni_opcheck_gradient, true},
               {"second gradient", tni_opcheck_second_gradient, true}};

/* These write no elements: the core changes what their argument is, which no aspect here is about. */
static bool rewrites_metadata(const tni_ops_op *op) {
  static const char *const names[] = {"detach_", "resize_", "set_.source_Tensor"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], op->report.name)) return true;
  return false;
}

/* Does the operator take this sample in this dtype at all? What it refuses has no further aspects. */
static bool runs(const tni_ops_try *t) {
  tni_ops_case c;
  tni_ops_results r;
  if (tni_ops_case_make(&c, t->op, t->sample, t->dtype, t->device, TNI_OPS_AS_SAMPLE) != TN_OK) return false;
  tn_status status = tni_ops_call(&c, t->op, &r);
  if (status == TN_OK) tni_ops_results_release(&r);
  tni_ops_case_release(&c);
  return status == TN_OK;
}

static bool look_at(tni_ops_try *t) {
  char item[TNI_OPS_WORDS];
  snprintf(item, sizeof item, "%s %s %s", t->op->report.name, tn_dtype_name(t->dtype), t->sample->text);
  t->item = item;
  tni_check_at(t->r, item);
  if (!runs(t)) return false;
  for (size_t i = 0; i < sizeof aspects / sizeof *aspects; i++) {
    if (aspects[i].float64_only && t->dtype != TN_FLOAT64) continue;
    if (rewrites_metadata(t->op) && strcmp(aspects[i].name, "reference")) continue;
    snprintf(item, sizeof item, "%s %s %s: %s", t->op->report.name, tn_dtype_name(t->dtype), t->sample->text,
             aspects[i].name);
    tni_check_at(t->r, item);
    aspects[i].look(t);
    ref_reset();
  }
  return true;
}

static void look_at_all(tni_ops_try *t) {
  static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_INT64, TN_BOOL};
  char words[TNI_OPS_WORDS];
  for (const tn_sample *s = t->op->samples; tni_ops_is_sample(t->op, s); s++) {
    bool ran = false;
    t->sample = s;
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
      t->dtype = dtypes[k];
      ran |= look_at(t);
      if (t->dtype == TN_FLOAT32) snprintf(words, sizeof words, "%s", tn_error_message());
    }
    if (ran) continue;
    char item[TNI_OPS_WORDS];
    snprintf(item, sizeof item, "%s %s", t->op->report.name, s->text);
    tni_check_fail(t->r, item, "the sample runs for none of float32, float64, int64, bool; in float32: %s", words);
  }
}

/* What can be said without a call. A functional operator only: its forms have the same definition. */
static void look_at_definition(tni_ops_try *t) {
  const tn_op_report *report = &t->op->report;
  char item[TNI_OPS_WORDS];
  snprintf(item, sizeof item, "%s definition", report->name);
  bool computes = report->has_body || report->n_providers > 0 || report->flags & (TN_OP_VIEW | TN_OP_NO_KERNEL);
  if (!computes)
    tni_check_fail(t->r, item, "it has no body, and no plugin lists a kernel for it: every call fails");
  else if (!report->has_meta && !report->has_body)
    tni_check_fail(t->r, item, "it has neither a meta rule nor a body: nobody knows its results");
  else
    tni_check_pass(t->r, item);
}

void tni_opcheck(tni_check_report *r, const tni_check_context *c, const char *name, const char *device_name) {
  tni_ops_op op;
  tni_ops_try t = {.r = r, .c = c, .op = &op, .device_name = device_name};
  char item[TNI_OPS_WORDS];
  if (!tni_check_device(r, device_name, &t.device)) return;
  if (!tni_check_ok(r, tni_ops_op_open(name, &op), name, "it cannot be found")) return;
  if (strcmp(op.report.functional, op.report.name)) { /* its forms are an aspect of the functional operator */
    char functional[TNI_OPS_WORDS];
    snprintf(functional, sizeof functional, "%s", op.report.functional);
    tni_check_note(r, name, "a form of %s, which is looked at", functional);
    tni_ops_op_close(&op);
    if (!tni_check_ok(r, tni_ops_op_open(functional, &op), functional, "it cannot be found")) return;
  }
  snprintf(item, sizeof item, "%s samples", op.report.name);
  if (op.samples) {
    tni_check_pass(r, item);
  } else {
    op.samples = tni_opcheck_make_sample(&op);
    tni_check_note(r, item, "nobody gave samples (tn_operator_def.samples; `samples:` of its entry); %s",
                   op.samples ? "arguments were made up from the schema" : "and none can be made up from the schema");
  }
  look_at_definition(&t);
  look_at_all(&t);
  tni_ops_op_close(&op);
}

/* ------------------------------------------------------------------ as a check */

/* A schema text to its operator's name. */
static void name_of(const char *schema, char *name, size_t size) { snprintf(name, size, "%.*s", (int)strcspn(schema, "("), schema); }

/* As `tenon check op` runs it, stage is NAME@DEVICE. */
static void run(tni_check_report *r, const tni_check_context *c) {
  char name[TNI_OPS_WORDS];
  if (c->stage) {
    const char *at = strrchr(c->stage, '@');
    snprintf(name, sizeof name, "%.*s", (int)(at - c->stage), c->stage);
    tni_opcheck(r, c, name, at + 1);
    return;
  }
  for (size_t i = 0; i < c->n_operators; i++) {
    name_of(c->operators[i], name, sizeof name);
    tni_ops_op op;
    bool form = tni_ops_op_open(name, &op) == TN_OK && strcmp(op.report.functional, op.report.name) != 0;
    tni_ops_op_close(&op);
    if (!form) tni_opcheck(r, c, name, c->n_devices ? c->devices[0] : "cpu");
  }
}

const tni_check tni_check_ops_opcheck = {"ops.opcheck", "operators that it adds do what their schema declares",
                                         TNI_CHECK_OPERATORS, 120, run};
