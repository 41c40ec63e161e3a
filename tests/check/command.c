/* SPDX-License-Identifier: Apache-2.0
 *
 * See command.h.
 */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tn_test.h"

static char *read_all(FILE *pipe) {
  size_t size = 0, capacity = 1 << 16;
  char *text = malloc(capacity);
  TN_CHECK(text);
  for (size_t got; (got = fread(text + size, 1, capacity - 1 - size, pipe)) > 0;) {
    size += got;
    if (size + 1 < capacity) continue;
    text = realloc(text, capacity *= 2);
    TN_CHECK(text);
  }
  text[size] = 0;
  return text;
}

answer command(const char *arguments, ...) {
  char *rest = NULL, *line = NULL;
  va_list args;
  va_start(args, arguments);
  TN_CHECK(vasprintf(&rest, arguments, args) >= 0);
  va_end(args);
  TN_CHECK(asprintf(&line, "'%s' check %s 2>&1", TN_TEST_CLI, rest) >= 0);
  FILE *pipe = popen(line, "r");
  TN_CHECK(pipe);
  answer a = {.text = read_all(pipe)};
  int status = pclose(pipe);
  a.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  free(rest);
  free(line);
  return a;
}

void command_free(answer *a) {
  free(a->text);
  a->text = NULL;
}

const char *plugin_file(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "'%s/%s.so'", TN_CHECK_PLUGIN_DIR, name);
  return path;
}

char *failed_checks(const answer *a) {
  char *names = calloc(1, strlen(a->text) + 2);
  TN_CHECK(names);
  for (const char *line = a->text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
    char name[64], word[64];
    if (strncmp(line, "  ", 2) || line[2] == ' ' || sscanf(line, " %63s %63s", name, word) != 2 ||
        strcmp(word, "FAILED"))
      continue;
    strcat(strcat(names, name), " ");
  }
  return names;
}

bool check_failed(const answer *a, const char *check) {
  char *names = failed_checks(a), *with_blank = NULL;
  TN_CHECK(asprintf(&with_blank, "%s ", check) >= 0);
  const char *at = strstr(names, with_blank);
  bool failed = at && (at == names || at[-1] == ' ');
  free(names);
  free(with_blank);
  return failed;
}
