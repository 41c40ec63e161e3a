/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of a plugin, in one macro:
 *
 *   TN_PLUGIN(.name = "acme", .version = "1.2", .init = acme_init, .shutdown = acme_shutdown)
 *
 * It defines the one exported symbol, negotiates with the host, and wraps init: the host's table is copied
 * into a full-size one of the kit, in which a row that an older host lacks answers TN_ERR_UNSUPPORTED and
 * says which host is needed. So init and kernels never see a NULL row. name and version repeat the
 * manifest's.
 */
#ifndef TENON_KIT_PLUGIN_H
#define TENON_KIT_PLUGIN_H

#include <tenon/kit/sanitizer.h>
#include <tenon/kit/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_plugin_info {
  const char *name;
  const char *version;
  tn_status (*init)(const tn_host *host, tn_registration *reg); /* host: the kit's full-size table */
  void (*shutdown)(void);                                        /* NULL: nothing to do */
  uint32_t needs_minor; /* the oldest host minor that the plugin can work with */
} tn_plugin_info;

/* Fills the kit's table from the host's and makes tn_kit_host() answer it. TN_ERR_VERSION for a table of
 * another major or without the rows of minor 0's words. */
tn_status tn_kit_attach(const tn_host *host);
/* The plugin's side of the negotiation; sanitizer as this plugin was built. */
tn_status tn_kit_answer(tn_query *query, const tn_plugin_info *info, uint32_t sanitizer,
                        tn_status (*init)(const tn_host *host, tn_registration *reg));

/* The door is C's, also in a C++ file. */
#ifdef __cplusplus
#define TN_KIT_C extern "C"
#else
#define TN_KIT_C
#endif

#define TN_PLUGIN(...)                                                                             \
  static const tn_plugin_info tn_plugin_info_here = {__VA_ARGS__};                                 \
  static tn_status tn_plugin_init_here(const tn_host *host, tn_registration *reg) {                \
    TN_TRY(tn_kit_attach(host));                                                                   \
    return tn_plugin_info_here.init(tn_kit_host(), reg);                                           \
  }                                                                                                \
  TN_KIT_C TN_EXPORT tn_status tenon_plugin_query(tn_query *query);                                \
  TN_KIT_C TN_EXPORT tn_status tenon_plugin_query(tn_query *query) {                               \
    return tn_kit_answer(query, &tn_plugin_info_here, TN_SANITIZER_HERE, tn_plugin_init_here);     \
  }

#ifdef __cplusplus
}
#endif
#endif
