/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon explain OP` prints what the generator made of an operator's entry; `tenon why OP DEVICE DTYPE` says
 * who would run it. The text of explain is a file of the build: beside the installed tree, or in the build
 * tree.
 */
#include <errno.h>
#include <unistd.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"

/* ------------------------------------------------------------------ explain */

/* Opens the file by the real path of this executable: <prefix>/bin/tenon -> <prefix>/share/tenon/explain.txt.
 * */
static FILE *open_text(char *path, size_t size) {
  static const char *const places[] = {"/../share/tenon/explain.txt", "/../gen/explain.txt"};
  char exe[4096];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0 || n == (ssize_t)sizeof exe - 1) return NULL;
  exe[n] = 0;
  *strrchr(exe, '/') = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, size, "%s%s", exe, places[i]);
    FILE *file = fopen(path, "r");
    if (file) return file;
  }
  return NULL;
}

/* "mul.Tensor" is meant by itself; "mul" by each of its overloads. */
static bool is_meant(const char *heading, const char *op) {
  size_t n = strlen(op);
  return !strncmp(heading, op, n) &&
         (heading[n] == '\n' || heading[n] == 0 || (heading[n] == '.' && !strchr(op, '.')));
}

/* A text that grows line by line. */
typedef struct block {
  char *at;
  size_t count, capacity;
} block;

static bool block_add(block *b, const char *line) {
  size_t n = strlen(line);
  if (b->count + n + 1 > b->capacity) {
    size_t wanted = (b->count + n + 1) * 2;
    char *p = realloc(b->at, wanted);
    if (!p) return false;
    b->at = p;
    b->capacity = wanted;
  }
  memcpy(b->at + b->count, line, n + 1);
  b->count += n;
  return true;
}

static void print_block(block *b, char *name, bool as_json) {
  if (!b->count) return;
  name[strcspn(name, "\n")] = 0;
  if (as_json) {
    tni_json json = {.file = stdout};
    tni_json_open(&json, NULL, '{');
    tni_json_string(&json, "name", name);
    tni_json_string(&json, "text", b->at);
    tni_json_close(&json, '}');
  } else {
    fputs(b->at, stdout);
  }
  b->count = 0;
}

/* Prints every block that is meant; the number of them, -1 if memory ran out. */
static int print_blocks(FILE *file, const char *op, bool as_json) {
  block b = {0};
  char *line = NULL, *name = NULL;
  size_t size = 0;
  int found = 0;
  while (found >= 0 && getline(&line, &size, file) > 0) {
    bool heading = !strncmp(line, "== ", 3);
    if (heading) {
      if (name) print_block(&b, name, as_json);
      free(name);
      name = is_meant(line + 3, op) ? strdup(line + 3) : NULL;
      found += name != NULL;
    }
    if (name && !block_add(&b, line)) found = -1;
  }
  if (name && found > 0) print_block(&b, name, as_json);
  free(name);
  free(line);
  free(b.at);
  return found;
}

static int run_explain(int argc, char **argv) {
  bool json = false;
  const char *op = NULL;
  char path[4200] = "explain.txt";
  const tni_option options[] = {{"--json", TNI_OPTION_FLAG, &json, NULL, "one JSON object a line", 0, 0},
                                {0}};
  int result = tni_args_parse(&tni_cmd_explain, options, argc, argv, &op);
  if (result >= 0) return result;
  FILE *file = open_text(path, sizeof path);
  if (!file) {
    fprintf(stderr, "tenon: %s: cannot be opened: %s\n", path, strerror(errno));
    return TNI_EXIT_FAILED;
  }
  int found = print_blocks(file, op, json);
  fclose(file);
  if (found > 0) return TNI_EXIT_OK;
  if (found < 0)
    fprintf(stderr, "tenon: out of memory while reading %s\n", path);
  else
    fprintf(stderr, "tenon: there is no operator '%s'; `tenon ops` lists them\n", op);
  return TNI_EXIT_FAILED;
}

const tni_command tni_cmd_explain = {
    "explain",
    "OP",
    1,
    1,
    "Prints everything that was generated for an operator, with its source line.\n"
    "OP: mul.Tensor, or mul for all its overloads.",
    run_explain};

/* ------------------------------------------------------------------ why */

static void print_line(void *ctx, const char *words) {
  tni_json *json = ctx;
  if (json)
    tni_json_string(json, NULL, words);
  else
    printf("%s\n", words);
}

static int run_why(int argc, char **argv) {
  bool as_json = false;
  const char *arg[3] = {0};
  const tni_option options[] = {{"--json", TNI_OPTION_FLAG, &as_json, NULL, "one JSON object a line", 0, 0},
                                {0}};
  int result = tni_args_parse(&tni_cmd_why, options, argc, argv, arg);
  if (result >= 0) return result;
  tn_dtype dtype = tn_dtype_find(arg[2]);
  const tn_op *op = NULL;
  if (dtype == TN_DTYPE_NONE) {
    fprintf(stderr, "tenon: '%s' is no dtype; float32 or int64, for example, was expected\n", arg[2]);
    return TNI_EXIT_FAILED;
  }
  if (tn_init() != TN_OK || tn_op_find(arg[0], &op) != TN_OK) return tni_cli_failed();
  tni_json json = {.file = stdout};
  if (as_json) {
    tni_json_open(&json, NULL, '{');
    tni_json_string(&json, "op", arg[0]);
    tni_json_string(&json, "device", arg[1]);
    tni_json_string(&json, "dtype", tn_dtype_name(dtype));
    tni_json_open(&json, "lines", '[');
  }
  tn_status status = tn_op_why(arg[0], arg[1], dtype, print_line, as_json ? &json : NULL);
  if (as_json) {
    tni_json_close(&json, ']');
    tni_json_string(&json, "error", status == TN_OK ? NULL : tn_error_message());
    tni_json_close(&json, '}');
  }
  return status == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
}

const tni_command tni_cmd_why = {"why",
                                 "OP DEVICE DTYPE",
                                 3,
                                 3,
                                 "Says which plugin would run an operator, which lost, and why.\n"
                                 "For example: tenon why mm cpu float32",
                                 run_why};
