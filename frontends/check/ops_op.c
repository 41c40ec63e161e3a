/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators by name: report, schema, forms, samples. The schema's parser is the registry's own; it makes its failures
 * through the kit's pointer to a host, which in this program is a table with the words alone.
 */
#include <stdlib.h>

#include "frontends/check/ops.h"

static const tn_host words = {
    .struct_size = sizeof words, .abi_major = TN_ABI_MAJOR, .abi_minor = TN_ABI_MINOR, .fail = tn_fail, .wrap = tn_wrap};

/* The parser's memory. */
void *tni_alloc(size_t size_bytes);
void tni_free(void *p);
void *tni_alloc(size_t size_bytes) { return malloc(size_bytes); }
void tni_free(void *p) { free(p); }

__attribute__((constructor)) static void give_words(void) { tn_kit_host_table = &words; }

static const tn_sample *samples_of(const tn_op_report *report) {
  if (report->samples) return report->samples;
  for (const tn_sample *s = tn_op_samples; s->op; s++)
    if (!strcmp(s->op, report->functional)) return s;
  return NULL;
}

tn_status tni_ops_op_open(const char *name, tni_ops_op *out_op) {
  *out_op = (tni_ops_op){0};
  TN_TRY(tn_op_find(name, &out_op->op));
  TN_TRY(tn_op_describe(out_op->op, &out_op->report));
  TN_TRY(tni_schema_parse(out_op->report.schema, &out_op->schema));
  const tni_schema *s = out_op->schema;
  for (uint32_t i = 0; i < s->n_args; i++)
    if (s->args[i].writes) out_op->writes |= (uint64_t)1 << i;
  out_op->list_result = s->n_results == 1 && s->results[0].list;
  out_op->samples = samples_of(&out_op->report);
  return TN_OK;
}

void tni_ops_op_close(tni_ops_op *op) {
  tni_schema_release(op->schema);
  op->schema = NULL;
}

/* The form's name, NULL if there is none. Kept for the last functional operator: every sample asks, and the walk is over
 * all operators. */
static const char *form_name(const char *functional, uint8_t form) {
  static const char *of, *names[TN_FORM_OUT + 1];
  if (of != functional) {
    of = functional;
    names[TN_FORM_INPLACE] = names[TN_FORM_OUT] = NULL;
    for (size_t i = 0, n = tn_op_count(); i < n; i++) {
      tn_op_report report;
      if (tn_op_get(i, &report) != TN_OK || report.form > TN_FORM_OUT || report.form == TN_FORM_FUNCTIONAL) continue;
      if (!strcmp(report.functional, of) && strcmp(report.name, of)) names[report.form] = report.name;
    }
  }
  return names[form];
}

bool tni_ops_form_open(const tni_ops_op *functional, uint8_t form, tni_ops_op *out_op) {
  const char *name = form_name(functional->report.name, form);
  return name && tni_ops_op_open(name, out_op) == TN_OK;
}

bool tni_ops_is_sample(const tni_ops_op *op, const tn_sample *sample) {
  return sample && sample->op && !strcmp(sample->op, op->report.functional);
}
