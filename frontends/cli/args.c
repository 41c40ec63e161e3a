/* SPDX-License-Identifier: Apache-2.0
 *
 * The option parser: `--name value`, `--name=value`, flags, positional arguments in between, `--` before
 * arguments that begin with a dash. A wrong usage prints one sentence and how to get help.
 */
#include <errno.h>
#include <math.h>

#include "frontends/cli/cli.h"

static int wrong(const tni_command *command, const char *words, const char *what) {
  fprintf(stderr, "tenon %s: %s '%s'; see tenon %s --help\n", command->name, words, what, command->name);
  return TNI_EXIT_USAGE;
}

void tni_args_help(const tni_command *command, const tni_option *options) {
  printf("usage: tenon %s%s%s [options]\n\n%s\n\noptions:\n", command->name, *command->positional ? " " : "",
         command->positional, command->about);
  for (const tni_option *o = options; o->name; o++) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-18s %s\n", left, o->help);
  }
  printf("  %-18s %s\n", "--help", "this text");
}

static bool in_range(const tni_option *o, double value) {
  return (o->low == 0 && o->high == 0) || (value >= o->low && value <= o->high);
}

/* false: the text is no number of that kind, or outside its range. */
static bool store(const tni_option *o, const char *text) {
  char *end = NULL;
  errno = 0;
  if (o->kind == TNI_OPTION_STRING) {
    *(const char **)o->out = text;
    return true;
  }
  if (o->kind == TNI_OPTION_INT) {
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || !in_range(o, (double)value)) return false;
    *(int64_t *)o->out = value;
    return true;
  }
  double value = strtod(text, &end);
  if (errno || end == text || *end || !isfinite(value) || !in_range(o, value)) return false;
  *(double *)o->out = value;
  return true;
}

static const tni_option *find(const tni_option *options, const char *arg, size_t n) {
  for (const tni_option *o = options; o->name; o++)
    if (strlen(o->name) == n && !memcmp(o->name, arg, n)) return o;
  return NULL;
}

/* One argument that begins with "--"; *at moves on if the value is the next one. */
static int take_option(const tni_command *command, const tni_option *options, int argc, char **argv,
                       int *at) {
  const char *arg = argv[*at];
  size_t n = strcspn(arg, "=");
  const tni_option *o = find(options, arg, n);
  if (!o) return wrong(command, "unknown option", arg);
  if (o->kind == TNI_OPTION_FLAG) {
    if (arg[n]) return wrong(command, "no value was expected in", arg);
    *(bool *)o->out = true;
    return -1;
  }
  if (!arg[n] && *at + 1 >= argc) return wrong(command, "a value is missing after", arg);
  const char *text = arg[n] ? arg + n + 1 : argv[++*at];
  if (store(o, text)) return -1;
  char words[128];
  if (o->low == 0 && o->high == 0)
    snprintf(words, sizeof words, "%s takes a number, not", o->name);
  else
    snprintf(words, sizeof words, "%s takes a%s number from %.15g to %.15g, not", o->name,
             o->kind == TNI_OPTION_INT ? " whole" : "", o->low, o->high);
  return wrong(command, words, text);
}

int tni_args_parse(const tni_command *command, const tni_option *options, int argc, char **argv,
                   const char **positional) {
  int n = 0;
  bool literal = false;
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i];
    if (!literal && (!strcmp(arg, "--help") || !strcmp(arg, "-h"))) {
      tni_args_help(command, options);
      return TNI_EXIT_OK;
    }
    if (!literal && !strcmp(arg, "--man")) { /* for the build: man.c */
      tni_man_command(command, options);
      return TNI_EXIT_OK;
    }
    if (!literal && !strcmp(arg, "--")) {
      literal = true;
    } else if (!literal && arg[0] == '-' && arg[1]) {
      int result = take_option(command, options, argc, argv, &i);
      if (result >= 0) return result;
    } else {
      if (n == command->max_positional) return wrong(command, "one argument too many:", arg);
      positional[n++] = arg;
    }
  }
  if (n >= command->min_positional) return -1;
  fprintf(stderr, "tenon %s: %s was expected; see tenon %s --help\n", command->name, command->positional,
          command->name);
  return TNI_EXIT_USAGE;
}
