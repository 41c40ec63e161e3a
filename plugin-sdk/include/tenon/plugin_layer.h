/* SPDX-License-Identifier: Apache-2.0
 *
 * What a layer fills: a name, where it stands among the other layers, and per-thread state of its own. Its
 * kernels are tn_kernel_def with key = the layer's name (one of them may be the fallback for every operator).
 * A layer does its part and calls host->redispatch, which runs what stands below; or it answers TN_DECLINED before it has
 * done anything, and the call goes on below as if it were not there. It never meets its own calls (docs/write-a-layer.md).
 *
 * Where a layer stands is in its manifest (`layer NAME class C above A below B`), because the order of all
 * layers is solved before the first tensor exists; this struct repeats the name only.
 */
#ifndef TENON_PLUGIN_LAYER_H
#define TENON_PLUGIN_LAYER_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_layer_def {
  uint32_t struct_size;
  uint32_t flags; /* zero */
  const char *name;
  /* Both or none; absent: the layer keeps no state per thread (host->layer_slot). dup is called when a thread's state is
   * snapshotted for workers and when a worker takes it over, by several threads at once for one state that nobody
   * changes; it returns an owned copy, or NULL for none. free releases one, on any thread: at the thread's end, at the
   * end of the worker's node, or before the plugin's shutdown. Neither may call operators. */
  void *(*state_dup)(void *state);
  void (*state_free)(void *state);
  TN_FUTURE_FIELD
} tn_layer_def;

#ifdef __cplusplus
}
#endif
#endif
