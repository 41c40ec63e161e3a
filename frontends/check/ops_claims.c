/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.claims: a kernel serves what its line claims. Through the core a kernel that always declines is not seen: a body,
 * another provider, or the CPU gives the right result in its place, and so does a kernel that never ran. Here each one is
 * called alone (ops_direct.h): for each operator and dtype of the plugin's kernel lines at least one sample must be served by one
 * of its own kernels.
 */
#include <stdio.h>
#include <stdlib.h>

#include "frontends/check/ops_direct.h"
#include "frontends/check/tools.h"

/* What the kernels of one (key, operator) answered for one dtype. */
typedef struct answers {
  const char *key, *op;
  tn_dtype dtype;
  unsigned tried, served, declined, untold; /* untold: the kernel needed a running Tenon */
  char words[TNI_OPS_WORDS];                /* of the last refusal that is no TN_DECLINED */
} answers;

static answers *list;
static size_t n_list;

static answers *answers_of(const char *key, const char *op, tn_dtype dtype) {
  for (size_t i = n_list; i-- > 0;) /* mostly the last */
    if (list[i].dtype == dtype && !strcmp(list[i].op, op) && !strcmp(list[i].key, key)) return &list[i];
  return NULL;
}

static void visit(tni_direct_call *call) {
  const tn_kernel_def *k = call->kernel;
  answers *a = answers_of(k->key, k->op, call->tested);
  if (!a) {
    tni_check_grow(&list, n_list, sizeof *list);
    a = &list[n_list++];
    *a = (answers){.key = k->key, .op = k->op, .dtype = call->tested};
  }
  a->tried++;
  if (call->status == TN_OK) a->served++;
  else if (call->status == TN_DECLINED) a->declined++;
  else if (call->host_refused) a->untold++;
  else snprintf(a->words, sizeof a->words, ", the last refusal: %s: %s", tn_status_name(call->status), tn_error_message());
  call->d->enough = a->served > 0;
}

/* own: of a device of the plugin. A provider of somebody else's may find that all samples are better served by the next,
 * which another machine decides otherwise; but an answer other than TN_DECLINED is the end of the call. */
static void judge(tni_check_report *r, const tni_claim_kernel *line, bool own, tn_dtype dtype, const char *item) {
  const answers *a = answers_of(line->key, line->op, dtype);
  if (a && a->served)
    tni_check_pass(r, item);
  else if (!a)
    tni_check_skip(r, item, "no sample is a call of this kernel alone; ops.dtypes tries it through the core");
  else if (a->untold)
    tni_check_skip(r, item, "the kernel asks for what only a running Tenon has; ops.dtypes tries it there");
  else if (!own && a->declined == a->tried)
    tni_check_skip(r, item, "the kernel declines all %u samples, which are small, on this machine", a->tried);
  else
    tni_check_fail(r, item, "claimed, and its kernel served none of %u samples: it declined %u%s", a->tried, a->declined,
                   a->words);
}

/* Line k of the manifest, if it is the first of its key and operator. */
static void judge_line(tni_check_report *r, const tni_check_context *c, size_t k) {
  const tni_claim_kernel *line = &c->kernels[k];
  const bool own = tni_ops_is_own(c, line->key), here = own || !strcmp(line->key, "cpu");
  tni_ops_op op;
  tn_dtype_mask claimed = tni_ops_claimed(c, k);
  if (!claimed || !strcmp(line->op, "*") || tni_ops_is_layer(c, line->key)) return;
  if (tni_ops_op_open(line->op, &op) != TN_OK) return; /* of another registry */
  const bool samples = tni_ops_is_sample(&op, op.samples);
  for (tn_dtype dtype = TN_BOOL; dtype <= TN_FLOAT64; dtype++) {
    if (!(claimed & TN_DTYPE_BIT(dtype))) continue;
    const bool said = strcmp(line->key, "cpu") && (c->n_devices > 1 || !own);
    char *item = tni_check_text("%s %s%s%s", line->op, tn_dtype_name(dtype), said ? " on " : "", said ? line->key : "");
    if (!here)
      tni_check_skip(r, item, "the memory is another plugin's; ops.dtypes tries it through the core");
    else if (!samples)
      tni_check_skip(r, item, "the operator has no samples");
    else
      judge(r, line, own, dtype, item);
    free(item);
  }
  tni_ops_op_close(&op);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (!tni_direct_each(r, c, TNI_DIRECT_PLAIN, visit)) return;
  for (size_t k = 0; k < c->n_kernels; k++) judge_line(r, c, k);
  free(list);
}

const tni_check tni_check_ops_claims = {"ops.claims", "a kernel itself serves each operator and dtype that it claims",
                                        TNI_CHECK_KERNELS, 300, run};
