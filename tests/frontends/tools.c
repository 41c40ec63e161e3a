/* SPDX-License-Identifier: Apache-2.0
 *
 * The helpers of tools.h.
 */
#include "tools.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
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

/* Numbers without a pattern that a wrong index could hide in. */
static double wave(size_t i, double phase) {
  return sin(1.7 * (double)i + phase) + 0.25 * cos(0.31 * (double)i);
}

tn_tensor *tt_waves(const tn_dim *sizes, size_t ndim, double phase) {
  size_t n = 1;
  for (size_t d = 0; d < ndim; d++) n *= (size_t)sizes[d];
  double *values = malloc((n ? n : 1) * sizeof *values);
  TN_CHECK(values != NULL);
  for (size_t i = 0; i < n; i++) values[i] = wave(i, phase);
  tn_tensor *flat = tt_vector(values, n), *t = NULL;
  free(values);
  TN_CHECK_OK(tn_reshape(flat, sizes, ndim, &t));
  tn_tensor_release(flat);
  return t;
}

double *tt_numbers(tn_tensor *t) {
  tn_tensor *wide = NULL;
  bool grad = tn_grad_mode_set(false);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, false, TN_MEMORY_FORMAT_NONE, &wide));
  tn_grad_mode_set(grad);
  size_t size = (size_t)tn_tensor_numel(wide) * sizeof(double);
  double *data = malloc(size ? size : 1);
  TN_CHECK(data != NULL);
  TN_CHECK_OK(tn_tensor_to_host(wide, data, size));
  tn_tensor_release(wide);
  return data;
}

tn_tensor *tt_forward(tn_module *m, tn_tensor *x) {
  tn_tensor *y = NULL;
  TN_CHECK_OK(tn_module_forward(m, x, &y));
  return y;
}

void tt_check_shape(tn_tensor *t, const tn_dim *sizes, int32_t ndim) {
  TN_CHECK_INT(tn_tensor_ndim(t), ndim);
  for (int32_t d = 0; d < ndim; d++) TN_CHECK_INT(tn_tensor_sizes(t)[d], sizes[d]);
}

void tt_check_same(tn_tensor *a, tn_tensor *b, double tolerance) {
  double *x = tt_numbers(a), *y = tt_numbers(b);
  TN_CHECK_INT(tn_tensor_numel(a), tn_tensor_numel(b));
  for (int64_t i = 0; i < tn_tensor_numel(a); i++) TN_CHECK_DOUBLE(x[i], y[i], tolerance);
  free(x);
  free(y);
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

void tt_write_images(const char *prefix, int n) {
  size_t size = 16 + (size_t)n * 784;
  unsigned char *images = calloc(1, size), *labels = calloc(1, 8 + (size_t)n);
  TN_CHECK(images && labels);
  memcpy(images,
         (const unsigned char[]){0, 0, 8, 3, 0, 0, (unsigned char)(n >> 8), (unsigned char)n, 0, 0, 0, 28, 0,
                                 0, 0, 28},
         16);
  memcpy(labels, (const unsigned char[]){0, 0, 8, 1, 0, 0, (unsigned char)(n >> 8), (unsigned char)n}, 8);
  for (int i = 0; i < n; i++) {
    int class = i * 7 % 10;
    labels[8 + i] = (unsigned char)class;
    for (int p = 0; p < 784; p++)
      images[16 + i * 784 + p] = p / 78 == class ? 200 : (unsigned char)(p * 31 + i * 17) % 64;
  }
  char name[64];
  snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", prefix);
  tt_file(name, images, size);
  snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", prefix);
  tt_file(name, labels, 8 + (size_t)n);
  free(images);
  free(labels);
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

static const tt_result *run_formatted(const char *format, va_list args) {
  char line[1600];
  TN_CHECK(vsnprintf(line, sizeof line, format, args) < (int)sizeof line);
  return tt_tenon(line);
}

const tt_result *tt_succeeds(const char *format, ...) {
  va_list args;
  va_start(args, format);
  const tt_result *r = run_formatted(format, args);
  va_end(args);
  TN_CHECK_STR(r->words, "");
  TN_CHECK_INT(r->status, 0);
  return r;
}

const tt_result *tt_fails(int status, const char *words, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const tt_result *r = run_formatted(format, args);
  va_end(args);
  TN_CHECK_INT(r->status, status);
  TN_CHECK_CONTAINS(r->words, words);
  return r;
}

/* Behind the last `"key": `. */
static const char *value_of(const char *json, const char *key) {
  char sought[64];
  const char *found = NULL;
  snprintf(sought, sizeof sought, "\"%s\": ", key);
  for (const char *at = json; (at = strstr(at, sought)) != NULL;) found = at += strlen(sought);
  TN_CHECK_NOT_NULL(found);
  return found;
}

double tt_number(const char *json, const char *key) { return strtod(value_of(json, key), NULL); }

const char *tt_text(const char *json, const char *key) {
  static char text[1 << 16];
  const char *at = value_of(json, key);
  TN_CHECK(*at == '"');
  size_t n = strcspn(at + 1, "\"");
  TN_CHECK(n < sizeof text);
  memcpy(text, at + 1, n);
  text[n] = 0;
  return text;
}
