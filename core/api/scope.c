/* SPDX-License-Identifier: Apache-2.0
 *
 * Scopes: a thread's stack of lists of tensors that are released together, each with the first failure that
 * happened in it.
 */
#include "core/tensor/tensor.h"

struct tn_scope {
  struct tn_scope *outer;
  tn_tensor **items; /* owned handles */
  size_t count, capacity;
  tn_status status;
  char *words; /* of the first failure, owned by the C library (tni_error_take) */
};

tn_status tn_scope_begin(tn_scope **out_scope) {
  if (!out_scope) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_scope_begin: 'out_scope' is NULL");
  tn_scope *scope = tni_alloc_zero(sizeof *scope);
  *out_scope = scope;
  if (!scope) return tni_oom(sizeof *scope, "a scope");
  scope->outer = tni_tls.scope;
  tni_tls.scope = scope;
  return TN_OK;
}

tn_tensor *tn_scope_add(tn_tensor *tensor) {
  tn_scope *scope = tni_tls.scope;
  if (!tensor) return NULL;
  tn_status status = scope ? tni_grow(&scope->items, &scope->capacity, scope->count, sizeof *scope->items)
                           : tn_fail(TN_ERR_STATE, "no scope is open on this thread; call tn_scope_begin first");
  if (status != TN_OK) {
    tn_tensor_release(tensor);
    tn_scope_note(status);
    return NULL;
  }
  scope->items[scope->count++] = tensor;
  return tensor;
}

tn_tensor *tn_scope_keep(tn_tensor *tensor) { return tn_tensor_retain(tensor); }

tn_status tn_scope_note(tn_status status) {
  tn_scope *scope = tni_tls.scope;
  if (status == TN_OK || !scope || scope->status != TN_OK) return status;
  scope->status = status;
  scope->words = tni_error_copy();
  return status;
}

tn_status tn_scope_status(void) {
  const tn_scope *scope = tni_tls.scope;
  if (!scope || scope->status == TN_OK) return TN_OK;
  return scope->words ? tn_fail(scope->status, "%s", scope->words) : scope->status;
}

tn_status tn_scope_end(tn_scope *scope) {
  if (!scope) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_scope_end: 'scope' is NULL");
  if (scope != tni_tls.scope)
    return tn_fail(TN_ERR_STATE, "tn_scope_end: the scope is not this thread's innermost one");
  tni_tls.scope = scope->outer;
  while (scope->count) tn_tensor_release(scope->items[--scope->count]);
  tn_status status = scope->status;
  if (scope->words) tni_error_give(scope->words);
  tni_free(scope->items);
  tni_free(scope);
  return status;
}
