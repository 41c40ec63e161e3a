/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds an operator of its own with a body, a provider that declines, and kernels for an operator and a device
 * that this host does not have; those are counted and left out.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/operator.h>

#define SCHEMA "acme::twice(Tensor self) -> Tensor"
/* Published with two arguments; `extra` came later. */
#define GROWN "acme::grown(Tensor self, Scalar by, Scalar extra=1) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("operators", "2.1",
                               "Apache-2.0") "operator " SCHEMA "\n"
                                             "operator " GROWN "\n"
                                             "kernel toy add.Tensor float32 7\n"
                                             "kernel toy an.operator_of_the_future all 0\n"
                                             "kernel nobodys-device add.Tensor all 0\n"
                                             "override toy\n")

static tn_status decline(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_DECLINED;
}

static tn_status twice(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *add;
  TN_TRY(call->host->find_op("add.Tensor", &add));
  const tn_value add_args[3] = {args[0], args[0], tn_value_int(1)};
  return call->host->call(add, add_args, out);
}

/* self + (by + extra) * self */
static tn_status grown(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *add;
  TN_TRY(call->host->find_op("add.Tensor", &add));
  if (call->host->op_n_args(call->op) != 3 || args[2].kind != TN_VAL_INT)
    return TN_FAIL(TN_ERR_PLUGIN, "grown: three arguments were expected");
  const tn_value add_args[3] = {args[0], args[0], tn_value_int(args[1].u.i + args[2].u.i)};
  return call->host->call_n(add, add_args, 3, out);
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL("toy", "add.Tensor", decline, TN_DTYPE_BIT(TN_FLOAT32), .priority = 7),
    TN_KERNEL("toy", "an.operator_of_the_future", decline, TN_DTYPES_ALL),
    TN_KERNEL("nobodys-device", "add.Tensor", decline, TN_DTYPES_ALL)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_operator_def def = {
      .struct_size = sizeof def, .schema = SCHEMA, .body = twice, .doc = "self + self"};
  const tn_operator_def later = {
      .struct_size = sizeof later, .schema = GROWN, .body = grown, .n_appended = 1, .doc = "self + (by + extra) * self"};
  TN_TRY(host->register_operator(reg, &def));
  TN_TRY(host->register_operator(reg, &later));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "operators", .version = "2.1", .init = init)
