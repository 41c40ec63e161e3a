/* SPDX-License-Identifier: Apache-2.0
 *
 * From a sample to bytes, and from bytes to a verdict: what a sample's tensor holds and how it lies in memory, single
 * elements of every dtype as doubles, and when a value agrees with the reference. Host memory only; whoever uses it
 * makes tensors of the bytes. No function here knows libtenon, so that it may test what libtenon does.
 */
#ifndef TENON_CHECK_REFERENCE_MAKE_H
#define TENON_CHECK_REFERENCE_MAKE_H

#include <tenon/samples.h>

#include "ref.h"

/* ------------------------------------------------------------------ elements */

/* Bytes of one element of the dtypes up to TN_FLOAT64; 0 of others. */
size_t ref_item_size(tn_dtype dtype);
/* Rounds a double to a dtype, as a store does. */
double ref_as_dtype(double value, tn_dtype dtype);
/* One element; address needs no alignment. */
void ref_store(void *address, tn_dtype dtype, double value);
double ref_load(const void *address, tn_dtype dtype);

/* ------------------------------------------------------------------ a sample's tensor */

/* How a tensor lies in memory, in elements. `elements` are needed in all; element [0,...,0] is at `offset`. */
typedef struct ref_layout {
  int64_t strides[RT_RANK];
  int64_t elements;
  int64_t offset;
  int64_t numel;
} ref_layout;

/* Where the values of an operator's sample begin: the same ones every time, whatever ran before. */
uint64_t ref_seed(const char *op, const char *sample);
/* In [0, 1); moves the state on. */
double ref_unit(uint64_t *state);
/* How s lies in memory; contiguous: row-major instead of as the sample says. */
void ref_layout_of(const tn_sample_tensor *s, bool contiguous, ref_layout *out_layout);
/* Draws the values of s in row-major order into memory of layout->elements elements. Elements of memory that no index
 * reaches stay as they are. */
void ref_draw(const tn_sample_tensor *s, tn_dtype dtype, const ref_layout *layout, uint64_t *state, void *memory);
/* The values of a strided tensor; data: the address of element [0,...,0]. Of the reference's arena. */
rt *ref_read(const void *data, tn_dtype dtype, int nd, const int64_t *sizes, const int64_t *strides);

/* ------------------------------------------------------------------ judging */

/* Relative and absolute allowance of a kernel that computes in a dtype. */
double ref_tolerance(tn_dtype dtype);
bool ref_agrees(double got, double expected, double tolerance);
/* Compares a result with the reference, which is rounded to dtype first. false: words say where they differ, as an
 * end of a sentence that begins with the result's name. */
bool ref_judge(const rt *got, const rt *expected, tn_dtype dtype, double tolerance, char *words, size_t size_bytes);

#endif
