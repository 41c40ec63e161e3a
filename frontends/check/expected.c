/* SPDX-License-Identifier: Apache-2.0
 *
 * See expected.h.
 */
#include "frontends/check/expected.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontends/check/tools.h"

struct tni_expected_line {
  char *text; /* owned; the other three point into it */
  const char *check, *item, *why;
  size_t number;
};

static const tni_check drift_check = {
    .name = "expected.drift", .about = "every line of the expected-failures file still describes a failure"};

/* ------------------------------------------------------------------ reading */

static void trim_end(char *text) {
  size_t n = strlen(text);
  while (n && strchr(" \t\r\n", text[n - 1])) text[--n] = 0;
}

/* false: not of the form. */
static bool take_line(char *text, struct tni_expected_line *line) {
  char *start = text + strspn(text, " \t");
  char *why = strstr(start, " #"), *item;
  if (!why) return false;
  *why = 0;
  why += 2;
  why += strspn(why, " \t");
  trim_end(why);
  trim_end(start);
  item = start + strcspn(start, " \t");
  if (!*item || !*why) return false;
  *item++ = 0;
  *line = (struct tni_expected_line){text, start, item + strspn(item, " \t"), why, 0};
  return true;
}

char *tni_expected_read(const char *path, tni_expected *out_expected) {
  *out_expected = (tni_expected){.path = tni_check_text("%s", path)};
  FILE *file = fopen(path, "r");
  if (!file) return tni_check_text("%s: %s", path, strerror(errno));
  char *text = NULL, *words = NULL;
  size_t room = 0, number = 0;
  while (!words && getline(&text, &room, file) >= 0) {
    number++;
    trim_end(text);
    if (text[strspn(text, " \t")] == 0 || text[strspn(text, " \t")] == '#') continue;
    struct tni_expected_line line;
    char *copy = tni_check_text("%s", text);
    if (!take_line(copy, &line)) {
      words = tni_check_text("%s line %zu: expected CHECK ITEM  # why, not \"%s\"", path, number, text);
      free(copy);
      break;
    }
    line.number = number;
    tni_check_grow(&out_expected->lines, out_expected->n_lines, sizeof line);
    out_expected->lines[out_expected->n_lines++] = line;
  }
  free(text);
  fclose(file);
  return words;
}

char *tni_expected_find(const tni_check_context *c) {
  char *beside = tni_check_text("%.*s.expected", (int)(strlen(c->file) - 3), c->file);
  if (access(beside, F_OK) == 0) return beside;
  free(beside);
  const char *end = c->self + strlen(c->self);
  for (int up = 0; up < 3 && end > c->self; up++) /* PREFIX/libexec/tenon/tenon-check */
    while (--end > c->self && *end != '/') {
    }
  char *shared =
      tni_check_text("%.*s/share/tenon/expected/%s.expected", (int)(end - c->self), c->self, c->plugin);
  if (access(shared, F_OK) == 0) return shared;
  free(shared);
  return NULL;
}

void tni_expected_free(tni_expected *expected) {
  for (size_t i = 0; i < expected->n_lines; i++) free(expected->lines[i].text);
  free(expected->lines);
  free(expected->path);
  *expected = (tni_expected){0};
}

/* ------------------------------------------------------------------ applying */

static bool matches(const struct tni_expected_line *line, const char *check, const char *item) {
  return fnmatch(line->check, check, 0) == 0 && fnmatch(line->item, item, 0) == 0;
}

static void mark(const struct tni_expected_line *line, tni_outcome *o) {
  char *words = tni_check_text("%s (expected: %s)", o->words, line->why);
  free(o->words);
  o->words = words;
  o->kind = TNI_OUTCOME_EXPECTED;
}

/* A line that meets neither a failure nor a pass does not apply here: its check did not run, or was skipped. */
static bool has_drifted(const struct tni_expected_line *line, const tni_run *run) {
  size_t passed = 0, failed = 0;
  for (size_t i = 0; i < run->n_results; i++) {
    for (size_t k = 0; k < run->results[i].n_outcomes; k++) {
      const tni_outcome *o = &run->results[i].outcomes[k];
      if (!matches(line, run->results[i].check->name, o->item)) continue;
      passed += o->kind == TNI_OUTCOME_PASSED;
      failed += o->kind == TNI_OUTCOME_EXPECTED || o->kind == TNI_OUTCOME_FAILED;
    }
  }
  return passed > 0 && failed == 0;
}

void tni_expected_mark(const tni_expected *expected, tni_result *result) {
  for (size_t n = 0; n < expected->n_lines; n++)
    for (size_t k = 0; k < result->n_outcomes; k++) {
      tni_outcome *o = &result->outcomes[k];
      if (o->kind == TNI_OUTCOME_FAILED && matches(&expected->lines[n], result->check->name, o->item))
        mark(&expected->lines[n], o);
    }
}

bool tni_expected_drift(const tni_expected *expected, tni_run *run) {
  tni_result drift = {.check = &drift_check};
  for (size_t n = 0; n < expected->n_lines; n++) {
    const struct tni_expected_line *line = &expected->lines[n];
    if (!has_drifted(line, run)) continue;
    char *item = tni_check_text("%s %s", line->check, line->item);
    char *words = tni_check_text("passes now: remove line %zu of %s", line->number, expected->path);
    tni_outcome_add(&drift, TNI_OUTCOME_FAILED, item, words);
    free(item);
    free(words);
  }
  if (!drift.n_outcomes) return false;
  tni_check_grow(&run->results, run->n_results, sizeof *run->results);
  run->results[run->n_results++] = drift;
  return true;
}
