/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon new-plugin NAME --kind K` writes a project that builds a plugin out of this tree: a copy of the template
 * share/tenon/template/K with names filled in (plugin-sdk/template/README.md says which). The folder appears whole or
 * not at all: it is written beside its place under another name, which is changed at the end.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"

enum { NAME_LIMIT = 64, IDENT_ROOM = NAME_LIMIT + 1, MAX_DEPTH = 4 };

typedef struct names {
  const char *name;       /* "acme-2" */
  char ident[IDENT_ROOM]; /* "acme_2" */
  char upper[IDENT_ROOM]; /* "ACME_2" */
  const char *version;    /* of this Tenon */
} names;

static int failed(const char *path, const char *words) {
  fprintf(stderr, "tenon: new-plugin: %s: %s\n", path, words);
  return TNI_EXIT_FAILED;
}

static int failed_errno(const char *path, const char *what) {
  fprintf(stderr, "tenon: new-plugin: %s: %s: %s\n", path, what, strerror(errno));
  return TNI_EXIT_FAILED;
}

/* ------------------------------------------------------------------ names */

/* What the host, and CMake's targets, have taken. */
static bool is_taken(const char *name) {
  static const char *const taken[] = {"cpu",   "meta",     "privateuse1", "onednn",   "openblas", "back",
                                      "front", "autograd", "trace",       "autocast", "all",      "clean",
                                      "help",  "install",  "package",     "test",     "tests",    "tenon"};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (!strcmp(name, taken[i])) return true;
  return false;
}

/* The manifest's grammar, and the first character a letter, since C and CMake names are made of it. */
static bool is_name(const char *name) {
  if (!isalpha((unsigned char)name[0]) || (unsigned char)name[0] > 127 || strlen(name) > NAME_LIMIT)
    return false;
  return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == 0;
}

static void names_fill(names *n, const char *name) {
  size_t i = 0;
  n->name = name;
  n->version = tn_version();
  for (; name[i]; i++) {
    n->ident[i] = name[i] == '.' || name[i] == '-' ? '_' : name[i];
    n->upper[i] = (char)toupper((unsigned char)n->ident[i]);
  }
  n->ident[i] = n->upper[i] = 0;
}

typedef struct token {
  const char *text, *value;
} token;

/* The token that `at` begins with, by name and value; NULL: none. */
static const token *token_at(const token *tokens, const char *at, size_t room) {
  for (; tokens->text; tokens++) {
    size_t n = strlen(tokens->text);
    if (n <= room && !memcmp(at, tokens->text, n)) return tokens;
  }
  return NULL;
}

/* ------------------------------------------------------------------ files */

/* A path of two parts; false: it does not fit (and errno says so). */
static bool join(char *path, const char *folder, const char *name) {
  int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
  if (n > 0 && n < PATH_MAX) return true;
  errno = ENAMETOOLONG;
  return false;
}

/* The text of a file with its tokens filled in. */
static bool write_filled(FILE *out, const char *text, size_t size, const token *tokens) {
  for (size_t i = 0; i < size;) {
    const token *t = text[i] == '@' ? token_at(tokens, text + i, size - i) : NULL;
    if (t) {
      fputs(t->value, out);
      i += strlen(t->text);
    } else {
      putc(text[i++], out);
    }
  }
  return !ferror(out);
}

static char *read_whole(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "r");
  char *text = NULL;
  long size = -1;
  if (file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET) &&
      (text = malloc((size_t)size + 1)) && fread(text, 1, (size_t)size, file) != (size_t)size) {
    free(text);
    text = NULL;
    if (!errno) errno = EIO;
  }
  if (file) fclose(file);
  *out_size = size < 0 ? 0 : (size_t)size;
  return text;
}

static int copy_file(const char *from, const char *to, const names *n) {
  const token tokens[] = {
      {"@NAME@", n->name}, {"@IDENT@", n->ident}, {"@UPPER@", n->upper}, {"@VERSION@", n->version}, {0}};
  size_t size;
  char *text = read_whole(from, &size);
  if (!text) return failed_errno(from, "cannot be read");
  FILE *out = fopen(to, "wx");
  bool written = out && write_filled(out, text, size, tokens);
  if (out && fclose(out)) written = false;
  free(text);
  return written ? TNI_EXIT_OK : failed_errno(to, "cannot be written");
}

/* NAME and IDENT at the word borders of a file's name: NAME.c, test_IDENT.c. */
static bool filled_name(char *out, const char *file, const names *n) {
  const token tokens[] = {{"NAME", n->name}, {"IDENT", n->ident}, {0}};
  size_t at = 0;
  while (*file) {
    const token *t = token_at(tokens, file, strlen(file));
    const char *piece = t ? t->value : file;
    size_t length = t ? strlen(t->value) : 1;
    if (at + length > NAME_MAX) return false;
    memcpy(out + at, piece, length);
    at += length;
    file += t ? strlen(t->text) : 1;
  }
  out[at] = 0;
  return true;
}

static int copy_folder(const char *from, const char *to, const names *n, int depth);

static int copy_entry(const char *from, const char *to, const char *file, const names *n, int depth) {
  char source[PATH_MAX], target[PATH_MAX], name[NAME_MAX + 1];
  struct stat st;
  if (!filled_name(name, file, n)) return failed(file, "the name gets too long");
  if (!join(source, from, file) || stat(source, &st)) return failed_errno(source, "cannot be read");
  if (!join(target, to, name)) return failed_errno(to, "cannot be written");
  if (!S_ISDIR(st.st_mode)) return copy_file(source, target, n);
  if (mkdir(target, 0777)) return failed_errno(target, "cannot be made");
  return copy_folder(source, target, n, depth + 1);
}

static int copy_folder(const char *from, const char *to, const names *n, int depth) {
  errno = ELOOP;
  DIR *dir = depth < MAX_DEPTH ? opendir(from) : NULL;
  int result = TNI_EXIT_OK;
  if (!dir) return failed_errno(from, "cannot be read");
  for (struct dirent *e; result == TNI_EXIT_OK && (errno = 0, e = readdir(dir));)
    if (e->d_name[0] != '.') result = copy_entry(from, to, e->d_name, n, depth);
  if (result == TNI_EXIT_OK && errno) result = failed_errno(from, "cannot be read");
  closedir(dir);
  return result;
}

/* Removes what was written; the first failure is already told. */
static void remove_folder(const char *path) {
  DIR *dir = opendir(path);
  char child[PATH_MAX];
  if (dir) {
    for (struct dirent *e; (e = readdir(dir));) {
      if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !join(child, path, e->d_name)) continue;
      if (unlink(child)) remove_folder(child);
    }
    closedir(dir);
  }
  rmdir(path);
}

/* ------------------------------------------------------------------ the command */

/* Where this executable's bin/ stands, by its real path. */
static bool find_prefix(char *prefix) {
  ssize_t n = readlink("/proc/self/exe", prefix, PATH_MAX - 1);
  if (n <= 0) return false;
  prefix[n] = 0;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(prefix, '/');
    if (slash) *slash = 0;
  }
  return true;
}

/* share/tenon/template/KIND there; the build tree has it at the same place. */
static bool find_template(char *path, const char *prefix, const char *kind) {
  int n = snprintf(path, PATH_MAX, "%s/share/tenon/template/%s", prefix, kind);
  return n > 0 && n < PATH_MAX;
}

/* Writes the project under a passing name and gives it its own; an existing one is never replaced. */
static int write_project(const char *template, const char *parent, const char *folder, const names *n) {
  char work[PATH_MAX], scratch[NAME_LIMIT + 16];
  snprintf(scratch, sizeof scratch, ".%s.XXXXXX", n->name);
  if (!join(work, parent, scratch) || !mkdtemp(work))
    return failed_errno(parent, "no folder can be made in it");
  mode_t mask = umask(0);
  umask(mask);
  int result = copy_folder(template, work, n, 0);
  if (result == TNI_EXIT_OK &&
      (chmod(work, 0777 & ~mask) || renameat2(AT_FDCWD, work, AT_FDCWD, folder, RENAME_NOREPLACE)))
    result = failed_errno(folder, "cannot be made");
  if (result != TNI_EXIT_OK) remove_folder(work);
  return result;
}

/* What was done and what comes next. CMake looks in /usr and /usr/local by itself. */
static void tell(const char *folder, const char *kind, const char *prefix, bool as_json) {
  tni_json json = {.file = stdout};
  if (!as_json) {
    bool known = !strcmp(prefix, "/usr") || !strcmp(prefix, "/usr/local");
    printf("%s: written, a project of kind %s. Next:\n"
           "  %s%s%scmake -S %s -B %s/build && cmake --build %s/build && ctest --test-dir %s/build\n",
           folder, kind, known ? "" : "CMAKE_PREFIX_PATH=", known ? "" : prefix, known ? "" : " ", folder,
           folder, folder, folder);
    return;
  }
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "folder", folder);
  tni_json_string(&json, "kind", kind);
  tni_json_close(&json, '}');
}

static int run(int argc, char **argv) {
  const char *name = NULL, *kind = "backend", *parent = ".";
  bool as_json = false;
  const tni_option options[] = {
      {"--kind", TNI_OPTION_STRING, &kind, "KIND", "backend, layer or operators (backend)", 0, 0},
      {"--dir", TNI_OPTION_STRING, &parent, "DIR", "the folder that NAME is made in (the working directory)",
       0, 0},
      {"--json", TNI_OPTION_FLAG, &as_json, NULL, "one JSON object a line", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_new_plugin, options, argc, argv, &name);
  if (result >= 0) return result;
  if (!is_name(name) || is_taken(name)) {
    fprintf(stderr, "tenon new-plugin: '%s' %s\n", name,
            is_name(name) ? "is taken by Tenon or CMake; another name was expected"
                          : "is no name of a letter and up to 63 letters, digits, '.', '_', '-'");
    return TNI_EXIT_USAGE;
  }
  if (strcmp(kind, "backend") && strcmp(kind, "layer") && strcmp(kind, "operators")) {
    fprintf(stderr, "tenon new-plugin: --kind is backend, layer or operators, not '%s'\n", kind);
    return TNI_EXIT_USAGE;
  }
  char prefix[PATH_MAX], template[PATH_MAX], folder[PATH_MAX];
  names n;
  struct stat st;
  names_fill(&n, name);
  if (!find_prefix(prefix) || !find_template(template, prefix, kind))
    return failed(kind, "the path of its template is too long");
  if (!strcmp(parent, ".") ? !snprintf(folder, sizeof folder, "%s", name) : !join(folder, parent, name))
    return failed_errno(parent, "cannot be used");
  if (!lstat(folder, &st)) return failed(folder, "is already there");
  result = write_project(template, parent, folder, &n);
  if (result == TNI_EXIT_OK) tell(folder, kind, prefix, as_json);
  return result;
}

const tni_command tni_cmd_new_plugin = {
    "new-plugin",
    "NAME",
    1,
    1,
    "Writes a project that builds a plugin against the installed SDK, with tests.\n"
    "NAME becomes the folder's, the plugin's and the device's, layer's or operators' name:\n"
    "a letter, then letters, digits, '.', '_', '-'.",
    run};
