/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this folder share. Each helper ends the test if it fails itself.
 */
#ifndef TN_TEST_FRONTENDS_TOOLS_H
#define TN_TEST_FRONTENDS_TOOLS_H

#include <stdlib.h>
#include <string.h>
#include <tenon/nn.h>

#include "tn_test.h"

/* A float32 vector (owned). */
tn_tensor *tt_vector(const double *values, size_t n);
#define TT_VECTOR(...) \
  tt_vector((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
/* Element i in row-major order, of any real dtype. */
double tt_at(tn_tensor *tensor, size_t i);
/* A float32 tensor of numbers without a pattern that a wrong index could hide in (owned). */
tn_tensor *tt_waves(const tn_dim *sizes, size_t ndim, double phase);
#define TT_WAVES(phase, ...) \
  tt_waves((const tn_dim[]){__VA_ARGS__}, sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim), phase)
/* All elements as doubles, row-major; the caller frees. */
double *tt_numbers(tn_tensor *tensor);
/* What the module makes of x (owned). */
tn_tensor *tt_forward(tn_module *module, tn_tensor *x);
void tt_check_same(tn_tensor *a, tn_tensor *b, double tolerance);
void tt_check_shape(tn_tensor *tensor, const tn_dim *sizes, int32_t ndim);
#define TT_CHECK_SHAPE(tensor, ...)                     \
  tt_check_shape(tensor, (const tn_dim[]){__VA_ARGS__}, \
                 (int32_t)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim)))
/* Overwrites a file in this process's temporary folder and returns its path (borrowed until the next call).
 * */
const char *tt_file(const char *name, const void *data, size_t size_bytes);
/* The folder itself; made at the first call, removed at exit. */
const char *tt_folder(void);

/* A small Fashion-MNIST in the folder: n images (under 65536) and labels, prefix "train" or "t10k". Their class shows:
 * the pixels of one of ten bands are bright. */
void tt_write_images(const char *prefix, int n);

/* What a command left: exit status (128 + n after signal n), stdout and stderr, cut at their sizes. */
typedef struct tt_result {
  int status;
  char out[1 << 18];
  char words[1 << 12];
} tt_result;
/* Runs `tenon ARGUMENTS` through the shell. Borrowed until the next call. */
const tt_result *tt_tenon(const char *arguments);
/* The same after a shell command, such as a ulimit. */
const tt_result *tt_limited(const char *before, const char *arguments);
/* Runs `tenon` with arguments made by printf's rules. It must end with status 0 and no words on stderr. */
const tt_result *tt_succeeds(const char *format, ...) TN_PRINTF(1, 2);
/* It must end with the status, and say the words on stderr. */
const tt_result *tt_fails(int status, const char *words, const char *format, ...) TN_PRINTF(3, 4);
/* The value of `"key": ` at its last occurrence in JSON lines: a number, or a text without escapes (borrowed until the
 * next call). */
double tt_number(const char *json, const char *key);
const char *tt_text(const char *json, const char *key);

#endif
