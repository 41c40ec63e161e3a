/* SPDX-License-Identifier: Apache-2.0
 *
 * The helpers of tools.h.
 */
#include "tools.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

tn_tensor *tt_vector(const double *values, size_t n) {
  float *data = malloc((n ? n : 1) * sizeof *data);
  TN_CHECK(data != NULL);
  for (size_t i = 0; i < n; i++) data[i] = (float)values[i];
  tn_tensor *t = NULL;
  tn_dim size = (tn_dim)n;
  tn_status status = tn_tensor_from_host(data, &size, 1, NULL, &t);
  free(data);
  TN_CHECK_OK(status);
  return t;
}

double tt_at(tn_tensor *tensor, size_t i) {
  tn_tensor *wide = NULL;
  bool grad = tn_grad_mode_set(false);
  TN_CHECK_OK(tn_to_dtype(tensor, TN_FLOAT64, false, false, TN_MEMORY_FORMAT_NONE, &wide));
  tn_grad_mode_set(grad);
  size_t n = (size_t)tn_tensor_numel(wide);
  TN_CHECK(i < n);
  double *data = malloc(n * sizeof *data);
  TN_CHECK(data != NULL);
  TN_CHECK_OK(tn_tensor_to_host(wide, data, n * sizeof *data));
  double value = data[i];
  free(data);
  tn_tensor_release(wide);
  return value;
}

/* ------------------------------------------------------------------ files */

static char folder[256];

static void remove_folder(void) {
  char path[600];
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] != '.') unlink(path);
  }
  if (dir) closedir(dir);
  rmdir(folder);
}

const char *tt_folder(void) {
  if (!*folder) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tenon-test-XXXXXX", base && *base ? base : "/tmp");
    TN_CHECK_NOT_NULL(mkdtemp(folder));
    atexit(remove_folder);
  }
  return folder;
}

const char *tt_file(const char *name, const void *data, size_t size_bytes) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", tt_folder(), name);
  FILE *file = fopen(path, "wb");
  TN_CHECK(file != NULL);
  TN_CHECK_INT(fwrite(data, 1, size_bytes, file), size_bytes);
  TN_CHECK_INT(fclose(file), 0);
  return path;
}

/* ------------------------------------------------------------------ commands */

static void read_all(FILE *file, char *to, size_t size) {
  size_t got = fread(to, 1, size - 1, file);
  to[got] = 0;
  char rest[4096];
  while (fread(rest, 1, sizeof rest, file) > 0) continue; /* so that the command does not block */
}

const tt_result *tt_tenon(const char *arguments) { return tt_limited(":", arguments); }

const tt_result *tt_limited(const char *before, const char *arguments) {
  static tt_result result;
  char words_path[512], line[2048];
  snprintf(words_path, sizeof words_path, "%s/stderr", tt_folder());
  snprintf(line, sizeof line, "%s; '%s' %s 2>'%s'", before, TN_TEST_CLI, arguments, words_path);
  FILE *pipe = popen(line, "r");
  TN_CHECK_NOT_NULL(pipe);
  read_all(pipe, result.out, sizeof result.out);
  int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  FILE *file = fopen(words_path, "r");
  TN_CHECK(file != NULL);
  read_all(file, result.words, sizeof result.words);
  fclose(file);
  return &result;
}
