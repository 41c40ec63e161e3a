/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schema's text says of arguments and results, for every built-in operator and for odd ones.
 */
#include <tenon/kit/signature.h>

#include "core/dispatch/dispatch.h"
#include "core/load/load.h"
#include "tn_test.h"

TN_TEST(kit_signature, agrees_with_every_operator) {
  TN_CHECK_OK(tni_load_init());
  for (size_t i = 0; i < tni_op_count(); ++i) {
    const tn_op *op = tni_op_at(i);
    tn_kit_signature s = tn_kit_signature_read(op->schema_text);
    if (s.n_args != op->n_args || s.n_results != op->n_outs || s.written != op->write_args)
      tn_test_fail(__FILE__, __LINE__, "%s: %u arguments, %u results, written %llx", op->schema_text, s.n_args,
                   s.n_results, (unsigned long long)s.written);
    TN_CHECK_INT(s.targets, op->form == TN_FORM_OUT ? op->write_args : 0);
  }
}

TN_TEST(kit_signature, reads_defaults_and_lists) {
  tn_kit_signature s = tn_kit_signature_read("a::f(Tensor[] xs, int[2] n=[1, 2], *, str s=\"x\") -> (Tensor, Tensor[])");
  TN_CHECK_INT(s.n_args, 3);
  TN_CHECK_INT(s.n_results, 2);
  TN_CHECK_INT(s.written, 0);
  TN_CHECK_INT(tn_kit_signature_read("a::g(Tensor(a!)[] xs) -> ()").written, 1);
  s = tn_kit_signature_read("a::f.out(Tensor x, *, Tensor(a!) low, Tensor(b!) high) -> (Tensor(a!), Tensor(b!))");
  TN_CHECK_INT(s.targets, 6); /* by their place, not by their names */
  TN_CHECK_INT(tn_kit_signature_read("a::f_(Tensor(a!) output, Tensor x) -> Tensor(a!)").targets, 0);
  s = tn_kit_signature_read("a::count(Tensor x, Tensor(a!) calls) -> Tensor");
  TN_CHECK_INT(s.written, 2);
  TN_CHECK_INT(s.n_results, 1); /* one that is no written argument */
  TN_CHECK_INT(tn_kit_signature_read("a::h() -> ()").n_results, 0);
  TN_CHECK_INT(tn_kit_signature_read("nonsense").n_args, 0);
}
