/* SPDX-License-Identifier: Apache-2.0
 *
 * A check in a process of its own: how it is started, what comes over the pipe, and how it ended.
 */
#ifndef TENON_CHECK_PROCESS_H
#define TENON_CHECK_PROCESS_H

#include "frontends/check/check.h"

/* One thing that the process said. kind: 'P'ass, 'F'ail, 'S'kip, 'N'ote. */
typedef void (*tni_record_fn)(void *ctx, char kind, const char *item, const char *words);

typedef struct tni_process {
  const tni_check_context *context;
  const tni_check *check;
  const char *stage;           /* NULL: the check itself */
  const char *const *settings; /* NAME=VALUE, ended by NULL; NULL: none */
  int timeout_s;               /* as written: sanitizers get more */
  tni_record_fn record;
  void *ctx;
} tni_process;

/* false: it could not be started; out_end->words says why. out_at: the item that was tried last (owned). */
bool tni_process_run(const tni_process *process, tni_check_end *out_end, char **out_at);
/* Asked by a signal handler: the running process is ended, and tni_process_run returns. */
void tni_process_interrupt(void);
bool tni_process_interrupted(void);

/* The process's side: runs the check that argv names, and never returns to the runner's code. */
int tni_child_main(int argc, char **argv);
/* Sends one record; any thread. The file descriptor is the child's own. */
void tni_child_send(tni_check_report *r, char kind, const char *item, const char *words);

#endif
