/* SPDX-License-Identifier: Apache-2.0
 *
 * The one pointer by which the kit reaches its host. A file of its own, so that the core, which fills a table
 * itself, links this and not the plugin's side of the door (plugin.c).
 */
#include <tenon/kit/status.h>

const tn_host *tn_kit_host_table;
