/* SPDX-License-Identifier: Apache-2.0
 *
 * The README's example: two tensors, a product, its gradient. Every call's failure is kept by the scope.
 */
#include <tenon/tenon.h>

int main(void) {
  const float values[] = {1, 2, 3}, weights[] = {4, 6, 8};
  const tn_dim size = 3;
  tn_tensor *x = NULL, *w = NULL;
  tn_scope *scope = NULL;
  tn_tensor_from_host(values, &size, 1, NULL, &x);
  tn_tensor_from_host(weights, &size, 1, NULL, &w);
  tn_scope_begin(&scope);
  tn_scope_note(tn_set_requires_grad(x, true));
  tn_tensor *loss = tns_sum(tns_mul(x, w), TN_DTYPE_NONE); /* freed by the scope, like every tns_ result */
  tn_scope_note(tn_backward_run(loss, NULL));
  tn_scope_note(tn_tensor_print(loss, stdout));
  tn_scope_note(tn_tensor_print(tn_grad(x), stdout)); /* the weights: 4, 6, 8 */
  tn_status status = tn_scope_end(scope);
  if (status != TN_OK) fprintf(stderr, "%s\n", tn_error_message());
  tn_tensor_release(w);
  tn_tensor_release(x);
  return status != TN_OK;
}
