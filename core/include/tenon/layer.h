/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of plugins, as an application uses them: switched on and off by name, per thread, and listed in the order
 * in which a call meets them. A layer that is off costs nothing.
 *
 * What is on in a thread is on for the workers that run its backward, too. A thread that the application starts
 * begins with none. The environment's TENON_LAYERS="counter,nan_finder" switches layers on in the thread that starts
 * the library.
 */
#ifndef TENON_LAYER_H
#define TENON_LAYER_H

#include <tenon/load.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Switches a layer on or off for the calling thread and opens its plugin if need be. *out_before (may be NULL): what
 * it was, for putting it back. TN_ERR_NOT_FOUND if no plugin offers it, TN_ERR_UNAVAILABLE with the reason if it
 * cannot be opened; nothing has changed then. Inside a layer's own kernel the layer stays off, whatever is set. */
TN_EXPORT tn_status tn_layer_set(const char *name, bool on, bool *out_before);
/* Is it on in the calling thread? false for names that nobody offers, and while its plugin is unloaded. */
TN_EXPORT bool tn_layer_is_on(const char *name);
/* Switches several layers on, named by a comma list: all of them, or none if one fails. */
TN_EXPORT tn_status tn_layers_set_on(const char *names);

/* Strings are borrowed for the life of the process. */
typedef struct tn_layer_report {
  const char *name;
  const char *plugin;     /* NULL: a fixed point of the core */
  int32_t bit;            /* higher ones are met first; of this process only. -1: it has no place */
  const char *class_name; /* "kernel", "record", "trace", "mode"; NULL for the core's */
  const char *above;      /* what the manifest demands: comma lists of names, "" if nothing */
  const char *below;
  bool on;                /* in the calling thread */
  tn_plugin_state state;  /* of the plugin */
  const char *reason;     /* of that state, "" if there is nothing to say */
  const char *why;        /* what decided that it stands here */
} tn_layer_report;
/* Every layer of every plugin found and the core's fixed points, the highest first, those without a place last. */
TN_EXPORT size_t tn_layer_count(void);
TN_EXPORT tn_status tn_layer_get(size_t i, tn_layer_report *out_report);

#ifdef __cplusplus
}
#endif
#endif
