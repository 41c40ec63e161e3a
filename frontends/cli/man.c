/* SPDX-License-Identifier: Apache-2.0
 *
 * Man pages, from the texts that --help prints: `tenon --man FOLDER` writes them all while building, and each command
 * prints its own for `tenon COMMAND --man`, where its options are known. Neither is in the help: nobody but the build
 * asks for them.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontends/cli/cli.h"

const tni_setting tni_settings[] = {
    {"TENON_PLUGIN_PATH", "folders with plugins, absolute, by colons; before the installed one"},
    {"TENON_PLUGINS", "\"allow:acme*,cpu off:spy require:acme\": plugins that may be opened, or must"},
    {"TENON_PLUGIN_PINS", "a file of SHA-256 sums that the plugins of TENON_PLUGIN_PATH must have"},
    {"TENON_SAFE_MODE", "1: only installed plugins, and no layers"},
    {"TENON_PROBE", "off or all: which plugins a child opens first (those of TENON_PLUGIN_PATH)"},
    {"TENON_PROBE_MS", "how long that may take (5000)"},
    {"TENON_PROVIDERS", "\"openblas:off,onednn:off\": plugins that serve nothing"},
    {"TENON_FALLBACK", "error, warn, allow or whole, also by operator or device: may the CPU serve what a device lacks"},
    {"TENON_LAYERS", "layers of plugins to switch on, by commas"},
    {"TENON_PRIVATEUSE1", "the plugin whose device is also called privateuse1, where several ask for that"},
    {"TENON_NUM_THREADS", "threads of parallel regions (the physical cores)"},
    {"TENON_BIND", "off, nodes, cores or auto: where worker threads may run (auto)"},
    {"TENON_CPU_ISA", "scalar, avx2 or avx512: the most that the CPU backend uses"},
    {"TENON_OPENCL_AS_GPU", "1: an OpenCL device that is a CPU gets the kernels that GPUs get"},
    {"TENON_OPENCL_TEXTS", "a folder in which the OpenCL plugin keeps the device texts that it compiled"},
    {"TENON_INSIDE_CC", "set by tenon-cc in its own process: a compiler may not ask for another one"},
    {"TENON_LOG", "error, warn, info or debug (warn)"},
    {0}};

/* Commands that are another program, which alone knows their options, and its words that have a help of their own. */
typedef struct foreign {
  const char *command;
  const char *parts[4];
} foreign;
static const foreign foreigners[] = {{"check", {"plugin", "op", NULL}}};

/* A text as roff: its dashes are dashes, no line of it is a request. Lines stay as they are. */
static void print_text(const char *text) {
  bool begins = true;
  for (; *text; text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
    begins = *text == '\n';
    if (*text == '\\')
      fputs("\\e", stdout);
    else if (*text == '-')
      fputs("\\-", stdout);
    else
      putchar(*text);
  }
}

static void print_head(const char *command, const char *about) {
  fputs(".\\\" Written by tenon --man; the text is that of --help.\n.TH TENON", stdout);
  if (command) fputs("\\-", stdout);
  for (const char *c = command ? command : ""; *c; c++) putchar(toupper((unsigned char)*c));
  printf(" 1 \"\" \"tenon %s\" \"Tenon\"\n.SH NAME\n", tn_version());
  fputs("tenon", stdout);
  if (command) printf("\\-"), print_text(command);
  fputs(" \\- ", stdout);
  print_text(about);
}

static void print_item(const char *name, const char *value, const char *help) {
  fputs("\n.TP\n\\fB", stdout);
  print_text(name);
  fputs("\\fR", stdout);
  if (value) fputs(" \\fI", stdout), print_text(value), fputs("\\fR", stdout);
  putchar('\n');
  print_text(help);
}

static void print_end(void) {
  fputs("\n.SH EXIT STATUS\n0: done. 1: failed; a sentence on the standard error says why. 2: wrong usage. "
        "130: "
        "interrupted.\n.SH SEE ALSO\n",
        stdout);
}

/* Name and synopsis. */
static void print_about(const tni_command *command) {
  char first[256];
  snprintf(first, sizeof first, "%.*s", (int)strcspn(command->about, "\n"), command->about);
  size_t n = strlen(first);
  if (n && first[n - 1] == '.') first[n - 1] = 0;
  print_head(command->name, first);
  fputs("\n.SH SYNOPSIS\n.B tenon ", stdout);
  print_text(command->name);
  putchar('\n');
  print_text(command->positional);
  fputs(" [options]", stdout);
}

void tni_man_command(const tni_command *command, const tni_option *options) {
  print_about(command);
  fputs("\n.SH DESCRIPTION\n.nf\n", stdout);
  print_text(command->about);
  fputs("\n.fi\n.SH OPTIONS", stdout);
  for (const tni_option *o = options; o->name; o++) print_item(o->name, o->value, o->help);
  print_item("--help", NULL, "a shorter text");
  fputs("\n.SH ENVIRONMENT\nAs in \\fBtenon\\fR(1).", stdout);
  print_end();
  puts(".BR tenon (1)");
}

/* tenon.1 */
static void print_page(const tni_command *const *commands, int n) {
  print_head(NULL, "a tensor runtime whose backends are plugins");
  fputs("\n.SH SYNOPSIS\n.B tenon\nCOMMAND [arguments] [options]\n.SH DESCRIPTION\nEach command has a page "
        "of its own, "
        "\\fBtenon\\-\\fICOMMAND\\fR(1).\n.SH COMMANDS",
        stdout);
  for (int i = 0; i < n; i++) {
    char first[256];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(commands[i]->about, "\n"), commands[i]->about);
    print_item(commands[i]->name, *commands[i]->positional ? commands[i]->positional : NULL, first);
  }
  fputs("\n.SH OPTIONS", stdout);
  print_item("--help", NULL, "a shorter text");
  print_item("--version", NULL, "the version");
  fputs("\n.SH ENVIRONMENT", stdout);
  for (const tni_setting *s = tni_settings; s->name; s++) print_item(s->name, NULL, s->help);
  print_end();
  for (int i = 0; i < n; i++) printf(".BR tenon\\-%s (1)%s\n", commands[i]->name, i + 1 < n ? "," : "");
}

/* What `tenon COMMAND [PART] --help` prints, as it is printed; a child, since it may become another program. */
static bool print_help(const tni_command *command, const char *part) {
  char name[64], word[64], option[] = "--help", *argv[] = {name, option, NULL, NULL};
  int ends[2], status = 0;
  snprintf(name, sizeof name, "%s", command->name);
  snprintf(word, sizeof word, "%s", part ? part : "");
  if (part) argv[1] = word, argv[2] = option;
  fflush(NULL);
  pid_t child = pipe(ends) ? -1 : fork();
  if (child == 0) {
    bool ready = dup2(ends[1], STDOUT_FILENO) >= 0;
    close(ends[0]), close(ends[1]);
    _exit(ready && command->run(part ? 3 : 2, argv) == TNI_EXIT_OK && !fflush(stdout) ? 0 : 1);
  }
  if (child < 0) return false;
  close(ends[1]);
  FILE *text = fdopen(ends[0], "r");
  char line[1024];
  while (text && fgets(line, sizeof line, text)) print_text(line);
  if (text) fclose(text);
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && text;
}

/* The page of a command whose options stand in another program. */
static bool print_foreign(const tni_command *command, const foreign *f) {
  print_about(command);
  fputs("\n.SH DESCRIPTION\n.nf\n", stdout);
  bool printed = print_help(command, NULL);
  for (const char *const *part = f->parts; *part && printed; part++) {
    printf(".fi\n.SH tenon %s %s\n.nf\n", command->name, *part);
    printed = print_help(command, *part);
  }
  fputs(".fi\n.SH ENVIRONMENT\nAs in \\fBtenon\\fR(1).", stdout);
  print_end();
  puts(".BR tenon (1)");
  return printed;
}

static int print_command(const tni_command *command) {
  char name[64], option[] = "--man", *argv[] = {name, option, NULL};
  snprintf(name, sizeof name, "%s", command->name);
  for (size_t i = 0; i < sizeof foreigners / sizeof *foreigners; i++)
    if (!strcmp(foreigners[i].command, command->name))
      return print_foreign(command, &foreigners[i]) ? TNI_EXIT_OK : TNI_EXIT_FAILED;
  return command->run(2, argv);
}

/* One page into a file, by a child, whose stdout it becomes. */
static bool write_page(const char *folder, const tni_command *const *commands, int n,
                       const tni_command *command) {
  char path[PATH_MAX];
  int length =
      snprintf(path, sizeof path, "%s/tenon%s%s.1", folder, command ? "-" : "", command ? command->name : "");
  if (length < 0 || length >= (int)sizeof path) return false;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen(path, "w", stdout)) _exit(1);
    int result = TNI_EXIT_OK;
    if (command)
      result = print_command(command);
    else
      print_page(commands, n);
    _exit(fflush(stdout) || ferror(stdout) ? TNI_EXIT_FAILED : result);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  fprintf(stderr, "tenon: %s: cannot be written\n", path);
  return false;
}

int tni_man_write(const char *folder, const tni_command *const *commands, int n) {
  bool written = write_page(folder, commands, n, NULL);
  for (int i = 0; written && i < n; i++) written = write_page(folder, commands, n, commands[i]);
  return written ? TNI_EXIT_OK : TNI_EXIT_FAILED;
}
