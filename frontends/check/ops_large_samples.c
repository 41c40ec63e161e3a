/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of several blocks, threads and tiles, with odd tails: one or two of each kind of kernel. Written here and not
 * in the registry, because they are for the conformance of kernels and would make every operator test slow.
 */
#include "frontends/check/ops.h"

#define SIZES(...) .sizes = (const int64_t[]){__VA_ARGS__}, .ndim = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)
#define T(...) {.kind = TN_SAMPLE_TENSOR, .n_tensors = 1, .tensors = (const tn_sample_tensor[]){{SIZES(__VA_ARGS__)}}}
#define DIAGONAL(n) \
  {.kind = TN_SAMPLE_TENSOR, .n_tensors = 1, .tensors = (const tn_sample_tensor[]){{SIZES(n, n), .diagonal = 4 * n}}}
#define WITH_DTYPE(dtype_, low_, high_, ...)                     \
  {.kind = TN_SAMPLE_TENSOR,                                     \
   .n_tensors = 1,                                               \
   .tensors = (const tn_sample_tensor[]){                        \
       {SIZES(__VA_ARGS__), .dtype = dtype_, .has_range = true, .low = low_, .high = high_}}}
#define LIST(...)                                                                                       \
  {.kind = TN_SAMPLE_VALUE,                                                                             \
   .value = {.u = {.ints = (const int64_t[]){__VA_ARGS__}},                                             \
             .kind = TN_VAL_LIST,                                                                       \
             .elem = TN_VAL_INT,                                                                        \
             .count = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)}}
#define INT(x) {.kind = TN_SAMPLE_VALUE, .value = {.u = {.i = x}, .kind = TN_VAL_INT}}
#define BOOL(x) {.kind = TN_SAMPLE_VALUE, .value = {.u = {.i = x}, .kind = TN_VAL_BOOL}}
#define FLOAT(x) {.kind = TN_SAMPLE_VALUE, .value = {.u = {.f = x}, .kind = TN_VAL_FLOAT}}
#define DEFAULT {.kind = TN_SAMPLE_DEFAULT}
#define NONE {.kind = TN_SAMPLE_NONE}
#define ARGS(...) (const tn_sample_arg[]){__VA_ARGS__}, sizeof((const tn_sample_arg[]){__VA_ARGS__}) / sizeof(tn_sample_arg)

/* Those of one operator stand together. The last field marks those that are too long to look at every byte around. */
static const tn_sample samples[] = {
    {"add.Tensor", "large", ARGS(T(1000003), T(1000003), DEFAULT), true},
    {"add.Tensor", "large broadcast", ARGS(T(41, 1, 37), T(43, 1), DEFAULT), false},
    {"mul.Tensor", "large", ARGS(T(7, 7001), T(7, 7001)), false},
    {"sub.Tensor", "large", ARGS(T(49999), T(49999), DEFAULT), false},
    {"div.Tensor", "large", ARGS(T(49999), WITH_DTYPE(TN_DTYPE_NONE, 1, 4, 49999)), false},
    {"exp", "large", ARGS(T(1000003)), true},
    {"neg", "large", ARGS(T(49999)), false},
    {"relu", "large", ARGS(T(49999)), false},
    {"sigmoid", "large", ARGS(T(49999)), false},
    {"tanh", "large", ARGS(T(49999)), false},
    {"where.self", "large", ARGS(WITH_DTYPE(TN_BOOL, 0, 2, 49999), T(49999), T(49999)), false},
    {"copy_", "large", ARGS(T(217, 231), T(217, 231), DEFAULT), false},
    {"fill_.Scalar", "large", ARGS(T(49999), INT(1)), false},
    {"sum", "large", ARGS(T(1000003), DEFAULT), true},
    {"sum.dim_IntList", "large rows", ARGS(T(5, 20011), LIST(1), DEFAULT, DEFAULT), false},
    {"sum.dim_IntList", "large columns", ARGS(T(20011, 5), LIST(0), DEFAULT, DEFAULT), false},
    {"mean.dim", "large", ARGS(T(5, 20011), LIST(1), DEFAULT, DEFAULT), false},
    {"amax", "large", ARGS(T(5, 20011), LIST(1), DEFAULT), false},
    {"argmax", "large", ARGS(T(5, 20011), INT(1), DEFAULT), false},
    {"cumsum", "large", ARGS(T(3, 10007), INT(1), DEFAULT), false},
    {"_softmax", "large", ARGS(T(37, 1003), INT(1), BOOL(0)), false},
    {"_log_softmax", "large", ARGS(T(37, 1003), INT(1), BOOL(0)), false},
    {"native_layer_norm", "large", ARGS(T(37, 1003), LIST(1003), T(1003), T(1003), FLOAT(1e-5)), false},
    {"mm", "large", ARGS(T(131, 259), T(259, 137)), false},
    {"mm", "large square", ARGS(T(192, 192), T(192, 192)), false},
    {"addmm", "large", ARGS(T(137), T(131, 259), T(259, 137), DEFAULT, DEFAULT), false},
    {"bmm", "large", ARGS(T(5, 67, 129), T(5, 129, 71)), false},
    {"baddbmm", "large", ARGS(T(5, 67, 71), T(5, 67, 129), T(5, 129, 71), DEFAULT, DEFAULT), false},
    {"mv", "large", ARGS(T(517, 1031), T(1031)), false},
    {"convolution", "large",
     ARGS(T(3, 16, 19, 21), T(24, 16, 3, 3), T(24), LIST(1, 1), LIST(1, 1), LIST(1, 1), BOOL(0), LIST(0, 0), INT(1)), false},
    {"convolution", "large depthwise",
     ARGS(T(2, 32, 33, 31), T(32, 1, 3, 3), NONE, LIST(1, 1), LIST(1, 1), LIST(1, 1), BOOL(0), LIST(0, 0), INT(32)), false},
    {"index_select", "large", ARGS(T(1009, 67), INT(0), WITH_DTYPE(TN_INT64, 0, 1009, 2003)), false},
    {"embedding", "large", ARGS(T(1009, 67), WITH_DTYPE(TN_INT64, 0, 1009, 2003), DEFAULT, DEFAULT, DEFAULT), false},
    {"linalg_cholesky_ex", "large", ARGS(DIAGONAL(97), DEFAULT, DEFAULT), false},
    {NULL, NULL, NULL, 0, false}};

const tn_sample *tni_ops_large_samples(const char *functional) {
  for (const tn_sample *s = samples; s->op; s++)
    if (!strcmp(s->op, functional)) return s;
  return NULL;
}
