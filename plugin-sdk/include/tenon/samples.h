/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of an operator: arguments on which it can be tried. The generator makes them from the `samples:` lines of an
 * entry and, for elementwise entries, adds broadcast, 0-d, empty and non-contiguous ones by itself. A sample says what
 * to make, not what comes out. A plugin gives those of its operators in tn_operator_def.samples; `tenon check` and the
 * tests of this tree make tensors of them.
 *
 * A sample belongs to the functional operator; its in-place and out forms take the same arguments.
 */
#ifndef TENON_SAMPLES_H
#define TENON_SAMPLES_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tn_sample_arg.kind */
enum {
  TN_SAMPLE_DEFAULT = 0,     /* not given: pass kind NONE, the schema's default applies */
  TN_SAMPLE_NONE = 1,        /* given as None */
  TN_SAMPLE_TENSOR = 2,      /* tensors[0] */
  TN_SAMPLE_TENSORS = 3,     /* a list: n_tensors of tensors */
  TN_SAMPLE_VALUE = 4,       /* value, ready to pass */
  TN_SAMPLE_TESTED_DTYPE = 5 /* the dtype under test */
};

/* tn_sample_tensor.layout: how the stated shape lies in memory. */
enum {
  TN_SAMPLE_CONTIGUOUS = 0,
  TN_SAMPLE_TRANSPOSED = 1, /* the last two dims are swapped in memory */
  TN_SAMPLE_SLICED = 2,     /* every second element of the last dim of a larger tensor, with an offset */
  TN_SAMPLE_EXPANDED = 3,   /* the first dim has stride 0 */
  TN_SAMPLE_CHANNELS_LAST = 4, /* dim 1 varies fastest, then the others from the last to the first */
  TN_SAMPLE_FLIPPED = 5        /* all strides are negative: the first element lies last */
};

/* One tensor to make. Values are uniform in [low, high); for integers whole numbers of that range. */
typedef struct tn_sample_tensor {
  const int64_t *sizes; /* ndim entries */
  uint8_t ndim;
  uint8_t layout; /* TN_SAMPLE_CONTIGUOUS, ... */
  tn_dtype dtype; /* TN_DTYPE_NONE: the dtype under test */
  bool absent;    /* entry of a Tensor?[] that is None */
  bool has_range; /* false: the test's usual range, low and high are 0 */
  double low;
  double high;
  double diagonal; /* added where the last two indices are equal: matrices that are easy to solve with */
} tn_sample_tensor;

typedef struct tn_sample_arg {
  uint8_t kind; /* TN_SAMPLE_... */
  uint32_t n_tensors;
  const tn_sample_tensor *tensors;
  tn_value value; /* numbers of a Scalar argument have their own kind; lists point to static arrays */
} tn_sample_arg;

typedef struct tn_sample {
  const char *op;            /* "mul.Tensor"; NULL ends the table */
  const char *text;          /* as written, for messages; of automatic ones what they are */
  const tn_sample_arg *args; /* one per schema argument */
  uint32_t n_args;
  bool automatic; /* made by the generator for an elementwise entry */
} tn_sample;

#ifdef __cplusplus
}
#endif
#endif
