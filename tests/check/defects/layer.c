/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that hands every call on, and, compiled with DEFECT=..., the same layer with exactly one thing wrong.
 */
#include <pthread.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/plugin_layer.h>
#include <time.h>

#include "defects.h"

#define HAS(defect) (DEFECT == (defect))

TN_MANIFEST(TN_MANIFEST_HEADER("glasspane", "1.0", "Apache-2.0") "layer glasspane class mode\n"
                                                                 "kernel glasspane * all 0\n")

enum { N_ARGS = 4 };

/* Through one array for all threads: a call takes what was put there last, its own or another's. Each reference is
 * counted and changes hands under a lock, so that the defect is a wrong result every time and never a crash. */
static tn_status hand_on_shared(tn_call *call, const tn_value *args, tn_value *out) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static tn_tensor *shared[2];
  const tn_host *host = tn_kit_host();
  tn_tensor *old[2], *mine[2];
  for (int i = 0; i < 2; i++) host->tensor_retain(args[i].u.t);
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 2; i++) old[i] = shared[i], shared[i] = args[i].u.t;
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < 2; i++) host->tensor_release(old[i]);
  nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* others come, on a busy machine as well */
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 2; i++) mine[i] = shared[i], shared[i] = NULL;
  pthread_mutex_unlock(&mutex);
  tn_value taken[N_ARGS] = {args[0], args[1], args[2]};
  for (int i = 0; i < 2; i++)
    if (mine[i]) taken[i].u.t = mine[i];
  tn_status status = host->redispatch(call, taken, out);
  for (int i = 0; i < 2; i++) host->tensor_release(mine[i]);
  return status;
}

static tn_status hand_on(tn_call *call, const tn_value *args, tn_value *out) {
  bool sub = !strcmp(tn_kit_host()->op_name(call->op), "sub.Tensor");
  if (HAS(DEFECT_LAYER_SHARED) && sub) return hand_on_shared(call, args, out);
  if (HAS(DEFECT_LAYER_SWAPS) && sub) {
    const tn_value turned[N_ARGS] = {args[1], args[0], args[2]};
    return tn_kit_host()->redispatch(call, turned, out);
  }
  return tn_kit_host()->redispatch(call, args, out);
}

static void *never_rest(void *unused) {
  for (volatile unsigned i = 0;; i++) {
  }
  return unused;
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  static const tn_layer_def layer = {.struct_size = sizeof layer, .name = "glasspane"};
  static const tn_kernel_def kernel = {.struct_size = sizeof kernel,
                                       .op = "*",
                                       .key = "glasspane",
                                       .fn = hand_on,
                                       .flags = TN_KERNEL_LAYER_FALLBACK};
  pthread_t thread;
  if (HAS(DEFECT_LAYER_SPINS) && pthread_create(&thread, NULL, never_rest, NULL) == 0) pthread_detach(thread);
  TN_TRY(host->register_layer(reg, &layer));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "glasspane", .version = "1.0", .init = init)
