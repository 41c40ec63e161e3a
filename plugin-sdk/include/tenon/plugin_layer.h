/* SPDX-License-Identifier: Apache-2.0
 *
 * What a layer fills: a name, where it stands among the other layers, and per-thread state of its own. Its
 * kernels are tn_kernel_def with key = the layer's name (one of them may be the fallback for every operator).
 * A layer does its part and calls host->redispatch, which runs what stands below.
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
  /* Optional; absent: the layer keeps no state per thread. Called when a thread's state is snapshotted for a
   * worker; returns an owned copy. free releases one. */
  void *(*state_dup)(void *state);
  void (*state_free)(void *state);
  TN_FUTURE_FIELD
} tn_layer_def;

#ifdef __cplusplus
}
#endif
#endif
