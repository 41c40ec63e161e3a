/* SPDX-License-Identifier: Apache-2.0
 *
 * Short words for the autograd tests: float64 vectors written in place, and comparisons of whole tensors.
 * Tensors that these make belong to the innermost scope; a test begins with open_scope and ends with
 * close_scope, so that what leaks is a node or a gradient and not the test.
 */
#ifndef TENON_TESTS_AUTOGRAD_TOOLS_H
#define TENON_TESTS_AUTOGRAD_TOOLS_H

#include <tenon/tenon.h>

#include "tn_test.h"

#define ONE           tn_int(1)
#define COUNT_OF(...) (sizeof((double[]){__VA_ARGS__}) / sizeof(double))
/* A plain vector, a leaf that requires grad. */
#define VEC(...)  tools_vec((double[]){__VA_ARGS__}, COUNT_OF(__VA_ARGS__), false)
#define LEAF(...) tools_vec((double[]){__VA_ARGS__}, COUNT_OF(__VA_ARGS__), true)
/* A number of no dims, as a leaf. */
#define NUMBER(x) tools_number(x)
/* The elements of a tensor, row-major, are these. */
#define VALUES(t, ...) \
  tools_values((t), (double[]){__VA_ARGS__}, COUNT_OF(__VA_ARGS__), #t, __FILE__, __LINE__)

tn_scope *open_scope(void);
/* Checks that no tns_ call in the scope failed. */
void close_scope(tn_scope *scope);
tn_tensor *tools_vec(const double *values, size_t n, bool requires_grad);
tn_tensor *tools_number(double value);
tn_tensor *tools_matrix(const double *values, int64_t rows, int64_t columns, bool requires_grad);
tn_tensor *tools_of_dtype(const double *values, size_t n, tn_dtype dtype, bool requires_grad);
/* A vector whose memory adds 1 to *freed when it is given up. Owned by the caller, not by the scope. */
tn_tensor *tools_watched(int *freed);
void tools_values(tn_tensor *t, const double *values, size_t n, const char *text, const char *file, int line);
/* sum(t), as a root. */
tn_tensor *total(tn_tensor *t);
/* backward(sum(t)) checked. */
void back(tn_tensor *t);
/* grad(root, input), in the scope. */
tn_tensor *grad_one(tn_tensor *root, tn_tensor *input, bool create_graph);

#endif
