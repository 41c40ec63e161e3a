/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of the operator tests brought to the device with their geometry, and what comes back compared as a CPU result
 * would be.
 */
#include "check_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"

static int count;

int cases_run(void) {
  const int n = count;
  count = 0;
  return n;
}

static bool claims(const tn_op *op, tn_device device, tn_dtype dtype) {
  for (const tni_kernel *k = op->kernels; k; k = k->next)
    if (k->bit == device.backend && (!k->dtypes || k->dtypes & TN_DTYPE_BIT(dtype))) return true;
  return false;
}

/* Each (operator, dtype) is a compilation. float32 runs every sample; of the other dtypes an operator runs two, others for
 * each operator, so that all come up. TN_TEST_ALL=1 runs every one. */
static bool chosen(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  if (dtype == TN_FLOAT32 || getenv("TN_TEST_ALL")) return true;
  if (sample != first_sample(op)) return false;
  const size_t turn = (size_t)(sample - tn_op_samples);
  return dtype % 5 == turn % 5;
}

/* The case's arguments, on the device. Owned through moved. */
typedef struct moved {
  tn_value args[CASE_ARGS];
  tn_tensor *lists[CASE_ARGS][CASE_LIST];
  tn_tensor *owned[CASE_TENSORS];
  size_t n;
} moved;

static tn_tensor *move(moved *m, const tn_tensor *t, tn_device device) {
  return t ? m->owned[m->n++] = gpu_like(t, device) : NULL;
}

static void move_arguments(moved *m, const op_case *c, tn_device device) {
  m->n = 0;
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &c->args[i];
    m->args[i] = *v;
    if (v->kind == TN_VAL_TENSOR) m->args[i] = tn_value_tensor(move(m, v->u.t, device));
    if (c->op->flags & TN_OP_FACTORY && c->op->schema->args[i].type == TNI_T_DEVICE)
      m->args[i] = tn_value_device(device);
    if (v->kind != TN_VAL_LIST || (v->elem != TN_VAL_TENSOR && v->elem != TN_VAL_OPTIONAL_TENSOR)) continue;
    for (uint32_t k = 0; k < v->count; k++) m->lists[i][k] = move(m, v->u.ts[k], device);
    m->args[i].u.ts = m->lists[i];
  }
}

static void moved_release(moved *m) {
  while (m->n) tn_tensor_release(m->owned[--m->n]);
}

static void compare_home(const op_case *c, const char *what, tn_tensor *t, const rt *expected,
                         double tolerance) {
  tn_tensor *home = t ? gpu_home(t) : NULL;
  compare(c, what, home, expected, tolerance);
  tn_tensor_release(home);
}

static void compare_all(const op_case *c, const moved *m, const tn_value *out, const ref_call *call,
                        const ref_arg *args, double tolerance) {
  char what[64];
  for (uint32_t i = 0; i < c->op->n_outs; i++) {
    snprintf(what, sizeof what, "result %u", i);
    compare_home(c, what, out[i].kind == TN_VAL_TENSOR ? out[i].u.t : NULL, call->out[i], tolerance);
  }
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &m->args[i];
    snprintf(what, sizeof what, "argument %s afterwards", c->op->schema->args[i].name);
    const double allowed = c->op->write_args & TNI_KEY(i) ? tolerance : 0;
    if (v->kind == TN_VAL_TENSOR) compare_home(c, what, v->u.t, args[i].t, allowed);
    if (v->kind != TN_VAL_LIST || v->elem != TN_VAL_TENSOR) continue;
    for (uint32_t k = 0; k < v->count; k++)
      if (v->u.ts[k]) compare_home(c, what, v->u.ts[k], args[i].ts[k], allowed);
  }
}

void check_device(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  op_case c;
  ref_call call;
  ref_arg args[CASE_ARGS];
  tn_value out[REF_OUTS] = {{{0}, 0, 0, 0, 0}};
  static moved m;
  tn_device device;
  ref_fn reference = ref_find(op->name);
  TN_CHECK_OK(tn_device_open("opencl", &device));
  if (!reference || !claims(op, device, dtype) || !chosen(op, sample, dtype)) return;
  case_build(&c, op, sample, dtype, CASE_CPU);
  move_arguments(&m, &c, device);
  case_reference(&c, &call, args);
  TN_CHECK_OK(tn_manual_seed(17));
  tn_status status = tni_call(op, m.args, out);
  ++count;
  if (status == TN_OK) {
    const double tolerance = case_tolerance(&c, NULL);
    reference(&call);
    compare_all(&c, &m, out, &call, args, tolerance < 1e-10 && dtype != TN_FLOAT64 ? 1e-5 : tolerance);
    for (uint32_t i = 0; i < op->n_outs; i++)
      if (out[i].kind == TN_VAL_TENSOR) tn_tensor_release(out[i].u.t);
  } else if (!may_decline(op, dtype, status)) {
    finding(&c, "failed with %d: %s", (int)status, tn_error_message());
  }
  moved_release(&m);
  case_release(&c);
}

void check_device_in_place(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  const tn_op *form = form_of(op, TN_FORM_INPLACE);
  op_case c;
  static moved m;
  tn_value out[REF_OUTS] = {{{0}, 0, 0, 0, 0}};
  tn_device device;
  bool equal = false;
  TN_CHECK_OK(tn_device_open("opencl", &device));
  if (!form || dtype != TN_FLOAT32 || !claims(op, device, dtype)) return;
  case_build(&c, op, sample, dtype, CASE_CONTIGUOUS);
  move_arguments(&m, &c, device);
  if (tni_call(op, m.args, out) == TN_OK) {
    const bool fits =
        tn_tensor_dtype(out[0].u.t) == dtype && tn_tensor_numel(out[0].u.t) == tn_tensor_numel(m.args[0].u.t);
    ++count;
    if (fits && tni_call(form, m.args, NULL) != TN_OK)
      finding(&c, "%s failed: %s", form->name, tn_error_message());
    if (fits) {
      tn_tensor *a = gpu_home(out[0].u.t), *b = gpu_home(m.args[0].u.t);
      equal = !tn_tensor_numel(a) || memcmp(tn_tensor_view(a)->data, tn_tensor_view(b)->data,
                                            (size_t)tn_tensor_numel(a) * sizeof(float)) == 0;
      if (!equal)
        finding(&c, "%s writes other bits than the functional form gives", form->name);
      tn_tensor_release(a);
      tn_tensor_release(b);
    }
    tn_tensor_release(out[0].u.t);
  }
  moved_release(&m);
  case_release(&c);
}
