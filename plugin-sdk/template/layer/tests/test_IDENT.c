/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that "@NAME@" is to count, made by two threads: 40 sums and 20 products. TENON_LAYERS switches the layer on in
 * the first; threads that a program starts switch on what they want. tn_shutdown makes the layer print.
 */
#include <pthread.h>
#include <tenon/tenon.h>

/* 20 sums and 10 products of x with itself, freed with the scope. */
static tn_status work(tn_tensor *x) {
  tn_scope *scope = NULL;
  tn_status status = tn_scope_begin(&scope);
  if (status) return status;
  for (int i = 0; i < 20; i++) tns_add(x, x, tn_int(1));
  for (int i = 0; i < 10; i++) tns_mul(x, x);
  return tn_scope_end(scope);
}

static void *thread(void *x) { return work(x) == TN_OK ? NULL : x; }

static void *thread_with_layer(void *x) {
  return tn_layer_set("@NAME@", true, NULL) == TN_OK && work(x) == TN_OK ? NULL : x;
}

int main(void) {
  pthread_t other;
  void *failed = NULL;
  tn_tensor *x = NULL, *y = NULL;
  tn_status status = tn_tensor_from_host((float[]){1, 2, 3}, (tn_dim[]){3}, 1, NULL, &x);
  bool on = tn_layer_is_on("@NAME@");
  if (!status && pthread_create(&other, NULL, on ? thread_with_layer : thread, x))
    status = tn_fail(TN_ERR_STATE, "no thread could be started");
  if (!status) {
    status = work(x);
    pthread_join(other, &failed);
    if (failed) status = tn_fail(TN_ERR_STATE, "the other thread failed");
  }
  if (!status) status = tn_sum(x, TN_DTYPE_NONE, &y);
  if (status) fprintf(stderr, "%s\n", tn_error_message());
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_shutdown();
  return status != TN_OK;
}
