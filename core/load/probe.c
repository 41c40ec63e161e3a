/* SPDX-License-Identifier: Apache-2.0
 *
 * Note [The probe]
 * Opening a plugin runs its code, and code can end the process or never come back. So before the first opening of a
 * file that nobody vouches for, tenon-probe opens it in a process of its own. The question is only whether that
 * process lives: everything that a plugin says in words (no such library, no hardware, a failed init) it says again,
 * in the same words, when it is opened here. A process that was killed, called exit, or was not done in time
 * quarantines the file; the answer is remembered on disk (probe_cache.c), so that the next process need not ask.
 *
 * Vouched for is what stands beside libtenon, because whoever can write there can replace libtenon too, and what the
 * user pinned by its SHA-256. TENON_PROBE=off probes nothing, TENON_PROBE=all also these. Where there is no helper
 * the plugin is opened unprobed, and its reason says so.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "core/load/load_int.h"

enum { LIMIT_MS = 5000, LIMIT_MOST_MS = 600000 };

void tni_probe_free(tni_probe *probe) {
  if (!probe) return;
  tni_free(probe->words);
  tni_free(probe->advice);
  tni_free(probe->devices);
  tni_free(probe->libraries);
  tni_free(probe);
}

static bool mode_is(const char *word) {
  const char *mode = secure_getenv("TENON_PROBE");
  return mode && strcmp(mode, word) == 0;
}

bool tni_probe_trusts(const tni_plugin *p) { return (p->beside || p->pin) && !mode_is("all"); }

static uint32_t limit_ms(void) {
  const char *text = secure_getenv("TENON_PROBE_MS");
  if (!text) return LIMIT_MS;
  char *end;
  long value = strtol(text, &end, 10);
  if (*text && !*end && value > 0 && value <= LIMIT_MOST_MS) return (uint32_t)value;
  tn_log(TN_LOG_WARN, "TENON_PROBE_MS is \"%s\", expected 1 to %d milliseconds; %d are used", text, LIMIT_MOST_MS,
         LIMIT_MS);
  return LIMIT_MS;
}

/* ------------------------------------------------------------------ what the child said */

/* The next line of *rest, NULL at the end. */
static char *next_line(char **rest) {
  char *line = *rest, *end = strchr(line, '\n');
  if (!*line || !end) return NULL;
  *end = 0;
  *rest = end + 1;
  return line;
}

static const char *after(const char *line, const char *key) {
  size_t n = strlen(key);
  return strncmp(line, key, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

/* Appends text and an ending. */
static tn_status append(char **text, const char *more, const char *end) {
  size_t had = *text ? strlen(*text) : 0, size = had + strlen(more) + strlen(end) + 1;
  char *grown = tni_realloc(*text, size);
  if (!grown) return tni_oom(size, "a probe's words");
  snprintf(grown + had, size - had, "%s%s", more, end);
  *text = grown;
  return TN_OK;
}

typedef struct answer {
  const char *stage; /* NULL: it did not come so far */
  bool done, refused;
} answer;

/* Consumes the output's lines. */
static tn_status read_answer(char *output, tni_probe *probe, answer *out_answer) {
  tn_status status = TN_OK;
  *out_answer = (answer){0};
  for (char *line; status == TN_OK && (line = next_line(&output)) != NULL;) {
    const char *value;
    if ((value = after(line, "stage")) != NULL)
      out_answer->stage = value;
    else if ((value = after(line, "library")) != NULL)
      status = append(&probe->libraries, value, "\n");
    else if ((value = after(line, "device")) != NULL)
      status = append(&probe->devices, probe->devices ? ", " : "", value);
    else if (after(line, "refused"))
      out_answer->refused = true;
    else if (strcmp(line, "done") == 0)
      out_answer->done = true;
  }
  if (status == TN_OK && !probe->devices) status = append(&probe->devices, "", "");
  if (status == TN_OK && !probe->libraries) status = append(&probe->libraries, "", "");
  return status;
}

/* How the child ended, as the thread's words. */
static void say_end(const tni_child *child, const char *stage, uint32_t limit) {
  if (child->timed_out)
    tn_fail(TN_ERR_PLUGIN, "a child process that opened it was not done with %s after %u ms", stage, limit);
  else if (child->status == -1)
    tn_fail(TN_ERR_PLUGIN, "a child process that opened it ended in %s", stage);
  else if (WIFSIGNALED(child->status))
    tn_fail(TN_ERR_PLUGIN, "a child process that opened it was killed by signal %d (%s) in %s",
            WTERMSIG(child->status), strsignal(WTERMSIG(child->status)), stage);
  else
    tn_fail(TN_ERR_PLUGIN, "it ended a child process that opened it with exit status %d in %s",
            WEXITSTATUS(child->status), stage);
}

static tn_status judge(const tni_child *child, const answer *a, uint32_t limit, tni_probe *probe) {
  probe->when = (int64_t)time(NULL);
  probe->took_ms = child->milliseconds;
  probe->verdict = a->done ? TNI_PROBE_READY : TNI_PROBE_QUARANTINED;
  /* Killed from outside, by the system when memory runs out: no word about the file for others. */
  bool killed = !child->timed_out && child->status != -1 && WIFSIGNALED(child->status) &&
                WTERMSIG(child->status) == SIGKILL;
  probe->lasting = !a->refused && !killed;
  if (a->done) return append(&probe->words, "", "");
  say_end(child, a->stage, limit);
  return append(&probe->words, tn_error_message(), "");
}

/* ------------------------------------------------------------------ asking */

/* TN_ERR_NOT_FOUND or TN_ERR_IO: it could not be asked. */
static tn_status run(const tni_plugin *p, tni_probe **out_probe) {
  char *helper;
  tni_child child;
  uint32_t limit = limit_ms();
  TN_TRY(tni_helper_path("tenon-probe", &helper));
  tn_status status = tni_child_run(helper, p->path, NULL, 0, limit, &child);
  tni_free(helper);
  if (status != TN_OK) return status;
  tni_probe *probe = tni_alloc_zero(sizeof *probe);
  answer a = {0};
  status = probe ? read_answer(child.output, probe, &a) : tni_oom(sizeof *probe, "a probe");
  if (status == TN_OK && !a.stage) status = TN_FAIL(TN_ERR_IO, "tenon-probe ended before it began");
  if (status == TN_OK) status = judge(&child, &a, limit, probe);
  free(child.output);
  if (status == TN_OK)
    *out_probe = probe;
  else
    tni_probe_free(probe);
  return status;
}

/* Keeps the words as a remark on the plugin, for its reason once it is ready. */
static tn_status note_unprobed(tni_plugin *p) {
  char *words = tni_error_take();
  tni_free(p->remark);
  p->remark = NULL;
  tn_status status = append(&p->remark, "opened without a probe: ", words ? words : "");
  free(words);
  if (status == TN_OK) tn_log(TN_LOG_INFO, "plugin %s: %s", p->path, p->remark);
  return status;
}

static tn_status find_or_ask(tni_plugin *p, tni_probe **out_probe) {
  TN_TRY(tni_cache_find(p, out_probe));
  if (*out_probe) return TN_OK;
  tn_status status = run(p, out_probe);
  if (status == TN_ERR_OUT_OF_MEMORY) return status;
  if (status != TN_OK) return note_unprobed(p);
  tn_log(TN_LOG_INFO, "plugin %s: probed in %u ms: %s", p->path, (*out_probe)->took_ms,
         (*out_probe)->verdict == TNI_PROBE_READY ? "it opens" : (*out_probe)->words);
  if (!(*out_probe)->lasting) return TN_OK;
  return tni_cache_store(p, *out_probe);
}

/* The whole reason: what happened, and how long that holds. */
static tn_status add_advice(const tni_plugin *p, tni_probe *probe) {
  static const char how[] = "; holds until the file or a library of it changes, or `tenon plugins --clear ";
  tn_status status = append(&probe->advice, probe->words, how);
  return status == TN_OK ? append(&probe->advice, p->name, "`") : status;
}

/* Makes it readable for reports; nothing that a report may hold is freed. */
static void publish(tni_plugin *p, tni_probe *probe) {
  tni_probe *expected = NULL;
  if (!atomic_compare_exchange_strong(&p->probe, &expected, probe)) tni_probe_free(probe);
}


tn_status tni_probe_check(tni_plugin *p) {
  if (tni_probe_trusts(p)) return TN_OK;
  if (mode_is("off")) return TN_OK;
  const tni_probe *known = atomic_load_explicit(&p->probe, memory_order_acquire);
  if (!known) {
    tni_probe *probe = NULL;
    tn_status status = find_or_ask(p, &probe);
    if (status != TN_OK) {
      tni_probe_free(probe);
      return status;
    }
    if (!probe) return TN_OK;
    if (probe->verdict == TNI_PROBE_QUARANTINED && (status = add_advice(p, probe)) != TN_OK) {
      tni_probe_free(probe);
      return status;
    }
    publish(p, probe);
    known = atomic_load_explicit(&p->probe, memory_order_acquire);
  }
  return known->verdict == TNI_PROBE_QUARANTINED ? TN_FAIL(TN_ERR_PLUGIN, "%s", known->advice) : TN_OK;
}

const tni_probe *tni_probe_remembered(tni_plugin *p) {
  const tni_probe *known = atomic_load_explicit(&p->probe, memory_order_acquire);
  if (known || tni_probe_trusts(p) || mode_is("off") || !p->manifest) return known;
  tni_probe *probe = NULL;
  tni_words words = tni_words_aside();
  if (tni_cache_find(p, &probe) == TN_OK && probe &&
      (probe->verdict == TNI_PROBE_READY || add_advice(p, probe) == TN_OK))
    publish(p, probe);
  else
    tni_probe_free(probe);
  tni_words_back(words);
  return atomic_load_explicit(&p->probe, memory_order_acquire);
}

/* ------------------------------------------------------------------ forgetting */

/* Reports may still show it: what was known stays allocated, behind what is known now. */
static void forget(tni_plugin *p) {
  tni_probe *known = atomic_exchange(&p->probe, NULL);
  if (!known) return;
  known->older = p->forgotten;
  p->forgotten = known;
  tn_error_clear();
  if (tni_plugin_state(p) == TN_PLUGIN_QUARANTINED) tni_plugin_set(p, TN_PLUGIN_LOADABLE);
}

tn_status tni_probes_clear(const char *plugin, size_t *out_count) {
  TN_TRY(tni_load_lock());
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (!plugin || strcmp(p->name, plugin) == 0 || strcmp(p->file, plugin) == 0) forget(p);
  }
  tn_status status = tni_cache_clear(plugin, out_count);
  tni_load_unlock();
  return status;
}
