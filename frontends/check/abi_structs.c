/* SPDX-License-Identifier: Apache-2.0
 *
 * abi.structs: init with host tables of other ages, and the tables that it hands over. The host's table ends where its
 * struct_size says: the page behind it cannot be touched, so a plugin that reads further dies here.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "frontends/check/door.h"
#include "frontends/check/tools.h"

enum { TIMEOUT_S = 5, LONGER = 16 * sizeof(void *) };

/* Bytes of the table that hosts of a minor have. Rows of minor 2 begin with register_interface. */
static size_t table_bytes(uint32_t minor) {
  return minor >= 2 ? sizeof(tn_host) : offsetof(tn_host, register_interface);
}

/* A table of `bytes` at the very end of readable memory. */
static const tn_host *place_table(size_t bytes, uint32_t minor) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  unsigned char *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + room, page, PROT_NONE) != 0) return NULL;
  unsigned char *start = memory + room - bytes;
  memset(start, 0xEE, bytes); /* rows of the future: a call to one ends the process */
  tn_host table = *tni_door_host();
  table.struct_size = (uint32_t)bytes;
  table.abi_minor = minor;
  memcpy(start, &table, bytes < sizeof table ? bytes : sizeof table);
  mprotect(memory, room, PROT_READ);
  return (const tn_host *)(const void *)start;
}

/* ------------------------------------------------------------------ in the stage's process */

static bool is_refusal(tn_status status) {
  return status == TN_ERR_VERSION || status == TN_ERR_UNSUPPORTED || status == TN_ERR_UNAVAILABLE;
}

static void init_with(tni_check_report *r, const tni_check_context *c, const char *item, size_t bytes,
                      uint32_t minor) {
  tni_door door;
  tni_check_at(r, item);
  char *words = tni_door_open(c->file, &door);
  const tn_host *table = place_table(bytes, minor);
  if (words || !table || tni_door_negotiate(&door) != TN_OK || !door.answer.init) {
    tni_check_skip(r, item, "the door does not open: see abi.door");
    return free(words);
  }
  tn_status status = tni_door_init(&door, table);
  bool said = *tn_error_message() != 0;
  tni_check_that(r, status == TN_OK || (is_refusal(status) && (said || bytes < sizeof(tn_host))), item,
                 "init answered \"%s\"%s%s; expected success, or a refusal in words", tn_status_name(status),
                 said ? ": " : " without words", tn_error_message());
  tni_door_close(&door);
}

/* A host's table longer than this one's, page-aligned ends included. */
static bool run_stage(tni_check_report *r, const tni_check_context *c) {
  if (!c->stage) return false;
  if (!strcmp(c->stage, "longer"))
    init_with(r, c, "newer host", sizeof(tn_host) + LONGER, TN_ABI_MINOR + 7);
  else
    init_with(r, c, "oldest host", table_bytes(c->needs_minor), c->needs_minor);
  return true;
}

/* ------------------------------------------------------------------ what is handed over */

static void check_tables(tni_check_report *r, const tni_check_context *c) {
  tni_door door;
  if (!tni_door_enter(r, c, &door)) return;
  for (size_t i = 0; i < door.n_faults; i++)
    tni_check_fail(r, door.faults[i].item, "%s", door.faults[i].words);
  if (!door.n_faults) tni_check_pass(r, "tables");
  tni_door_close(&door);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (run_stage(r, c)) return;
  static const struct {
    const char *stage, *item;
  } stages[] = {{"longer", "newer host"}, {"oldest", "oldest host"}};
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    tni_check_end end;
    if (!tni_check_stage(r, c, stages[i].stage, NULL, TIMEOUT_S, &end)) continue;
    if (!end.finished || end.exit_status != 0)
      tni_check_fail(r, stages[i].item, "init with such a host's table: the process %s", end.words);
  }
  check_tables(r, c);
}

const tni_check tni_check_abi_structs = {.name = "abi.structs",
                                         .about =
                                             "init works with hosts of other ages, and its tables are whole",
                                         .run = run};
