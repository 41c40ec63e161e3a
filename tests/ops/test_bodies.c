/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of every operator that has a kernel as well: what a backend without the kernel would compute. Called directly,
 * on the CPU, so that the parts are known to be good; against the float64 reference, and against the kernel's result in
 * dtype, shape and absence. Refusals are the meta rule's, which stands before both.
 */
#include <string.h>
#include <tenon/tenon.h>

#include "case.h"

static tn_status run_body(op_case *c, op_results *r) {
  tn_call call = {.host = tn_kit_host_table, .op = c->op};
  const tni_cell cell = {.bit = TN_BACKEND_CPU};
  call.cell = &cell;
  *r = (op_results){0};
  tn_status status = tni_body_checked(&call, c->args, r->values);
  if (status != TN_OK) return status;
  r->n = c->op->n_outs;
  for (uint32_t i = 0; i < r->n; i++) r->t[i] = r->values[i].kind == TN_VAL_TENSOR ? r->values[i].u.t : NULL;
  return TN_OK;
}

static void compare_geometry(const op_case *c, const op_results *kernel, const op_results *body) {
  for (uint32_t i = 0; i < kernel->n && i < body->n; i++) {
    if (!kernel->t[i] != !body->t[i]) finding(c, "result %u is absent in kernel or body only", i);
    if (!kernel->t[i] || !body->t[i]) continue;
    const tn_view *k = tn_tensor_view(kernel->t[i]), *b = tn_tensor_view(body->t[i]);
    if (k->dtype != b->dtype)
      finding(c, "the body's result %u is %s, the kernel's %s", i, tn_dtype_name(b->dtype),
              tn_dtype_name(k->dtype));
  }
}

/* Half types are rounded after every part. */
static double tolerance_of_parts(const op_case *c, const op_results *r) { return 4 * case_tolerance(c, r); }

static void compare_values(const op_case *c, const op_results *r, ref_arg *args, ref_call *call,
                           ref_fn reference) {
  char what[64];
  double tolerance = tolerance_of_parts(c, r);
  reference(call);
  for (uint32_t i = 0; i < r->n && (int)i < call->n_out; i++) {
    snprintf(what, sizeof what, "the body's result %u", i);
    if (!compare(c, what, r->t[i], call->out[i], tolerance)) return;
  }
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &c->args[i];
    double allowed = c->op->write_args & TNI_KEY(i) ? tolerance : 0;
    snprintf(what, sizeof what, "argument %s after the body", c->op->schema->args[i].name);
    if (v->kind == TN_VAL_TENSOR && !compare(c, what, v->u.t, args[i].t, allowed)) return;
    if (v->kind != TN_VAL_LIST || v->elem != TN_VAL_TENSOR) continue;
    for (uint32_t k = 0; k < v->count; k++)
      if (v->u.ts[k] && !compare(c, what, v->u.ts[k], args[i].ts[k], allowed)) return;
  }
}

static void check_body(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  op_case c, again;
  op_results r, kernel;
  ref_call call;
  ref_arg args[CASE_ARGS];
  ref_fn reference = ref_find(op->name);
  tn_device cpu;
  TN_CHECK_OK(tn_device_open("cpu", &cpu)); /* its kernels are known from then on */
  if (!op->body || !op->meta || !op->kernels || !reference || op->rng || strcmp(op->name, "copy_") == 0) return;
  case_build(&again, op, sample, dtype, CASE_CPU);
  tn_status expected = case_call(&again, op, &kernel);
  case_build(&c, op, sample, dtype, CASE_CPU);
  case_reference(&c, &call, args);
  tn_status status = run_body(&c, &r);
  if (expected == TN_OK && status != TN_OK)
    finding(&c, "the body failed with %d: %s", (int)status, tn_error_message());
  if (expected == TN_OK && status == TN_OK) {
    compare_geometry(&c, &kernel, &r);
    compare_values(&c, &r, args, &call, reference);
  }
  for (uint32_t i = 0; i < c.n_tensors && status == TN_OK && expected == TN_OK; i++)
    if (c.tensors[i] &&
        tni_version_get(c.tensors[i]) > tni_version_get(again.tensors[i])) /* unwritten: uncounted */
      finding(&c, "the body counted tensor %u %u times, the kernel %u", i, tni_version_get(c.tensors[i]),
              tni_version_get(again.tensors[i]));
  if (status == TN_OK) results_release(&r);
  if (expected == TN_OK) results_release(&kernel);
  case_release(&c);
  case_release(&again);
}

#define FAMILY(family) \
  TN_TEST(bodies_##family, a_body_gives_what_the_kernel_gives) { each_case(#family, check_body); }
FAMILY(create)
FAMILY(elementwise)
FAMILY(compare)
FAMILY(reduce)
FAMILY(linalg)
FAMILY(nn)
FAMILY(index)
FAMILY(optim)
FAMILY(attention)
FAMILY(norm)
FAMILY(loss)
FAMILY(activation)
