/* SPDX-License-Identifier: Apache-2.0
 *
 * The float64 reference of operators, for the tests of this tree and for `tenon check`: tensors of doubles with strides, naive loops, nothing shared
 * with the code under test. One function an operator, in ref_<family>.c, by the operator's name; elementwise
 * expressions come from the generator (ref_elementwise.c).
 *
 * A reference computes on the exact values that the operator got (already rounded to the dtype under test), in
 * double; the harness rounds or truncates to the result's dtype when it compares. All memory of one call comes
 * from an arena that ref_reset empties; running out of it ends the program, as no test goes on from there.
 */
#ifndef TENON_CHECK_REFERENCE_REF_H
#define TENON_CHECK_REFERENCE_REF_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/types.h>

enum { RT_RANK = 8, REF_OUTS = 16 };

/* How a result is judged. */
typedef enum ref_check {
  REF_VALUES = 0,  /* every element against the reference */
  REF_RANGE = 1,   /* random: low <= element < high */
  REF_SHAPE = 2,   /* uninitialised, or a state that no test knows */
  REF_ABSENT = 3   /* the result does not exist in this call */
} ref_check;

typedef struct rt {
  double *p;
  int nd;
  int64_t n[RT_RANK];
  int64_t st[RT_RANK];
  int64_t numel;
  ref_check check;
  double low, high;
} rt;

typedef struct ref_arg {
  uint8_t kind;       /* TN_VAL_... of the argument as the operator got it */
  uint8_t elem;
  rt *t;              /* TENSOR */
  rt **ts;            /* LIST of tensors; entries may be NULL */
  double num;         /* BOOL, INT, FLOAT, DTYPE */
  const int64_t *ints; /* LIST of INT */
  const double *floats; /* LIST of FLOAT */
  const uint8_t *bools;
  const char *s;      /* STRING */
  int n;              /* entries of a list */
} ref_arg;

typedef struct ref_call {
  const char *op;
  const ref_arg *args;
  int n_args;
  tn_dtype dtype; /* of the first tensor argument, else the one under test */
  rt *out[REF_OUTS];
  int n_out;
} ref_call;

typedef void (*ref_fn)(ref_call *c);
typedef struct ref_entry {
  const char *op;
  ref_fn fn;
} ref_entry;

/* NULL if no family has the operator. */
ref_fn ref_find(const char *op);
/* One NULL-terminated table a family. */
extern const ref_entry ref_create[], ref_view[], ref_elementwise[], ref_reduce[], ref_linalg[], ref_factor[], ref_nn[],
    ref_index[], ref_optim[], ref_attention[], ref_sort[], ref_norm[], ref_loss[], ref_pool[], ref_conv[];

/* The generated expression of an elementwise entry, or NULL. */
bool ref_has_expression(const char *op);
void ref_expression(ref_call *c);

/* ------------------------------------------------------------------ memory and shapes */

void *ref_alloc(size_t size_bytes); /* zeroed */
void ref_reset(void);
rt *rt_new(int nd, const int64_t *n); /* zeros, row-major */
rt *rt_like(const rt *t);             /* zeros of t's shape */
rt *rt_copy(const rt *t);             /* row-major */
rt *rt_view(const rt *t);             /* a second header over t's values */
rt *rt_scalar(double value);
rt *rt_fill(rt *t, double value);
rt *rt_expand(const rt *t, int nd, const int64_t *n); /* broadcast, by strides */
/* Shape that a and b broadcast to; out gets it, the result is its rank. */
int rt_broadcast(const rt *a, const rt *b, int64_t *out);
/* Element i in row-major order. */
double *rt_at(const rt *t, int64_t i);
/* Element at an index per dimension. */
double *rt_index(const rt *t, const int64_t *index);
/* Row-major position to index, and on to the next one (false: that was the last). */
void rt_unravel(const rt *t, int64_t i, int64_t *index);
/* Negative dims from the end; a 0-d tensor has one dim of size 1. */
int rt_dim(const rt *t, int64_t dim);
int64_t rt_size(const rt *t, int64_t dim);

/* ------------------------------------------------------------------ arguments and results */

static inline bool ref_has(const ref_call *c, int i) { return i < c->n_args && c->args[i].kind != TN_VAL_NONE; }
static inline const rt *ref_t(const ref_call *c, int i) { return c->args[i].t; }
static inline double ref_f(const ref_call *c, int i) { return c->args[i].num; }
static inline int64_t ref_i(const ref_call *c, int i) { return (int64_t)c->args[i].num; }
static inline rt *ref_out(ref_call *c, rt *t) { return c->out[c->n_out++] = t; }

/* Applies f element by element to broadcast operands. */
typedef double (*ref_unary)(double a);
typedef double (*ref_binary)(double a, double b);
rt *rt_map(const rt *a, ref_unary f);
rt *rt_map2(const rt *a, const rt *b, ref_binary f);
/* fold over `dims` (n_dims 0: all of them); v holds the group's elements in row-major order. */
typedef double (*ref_fold)(const double *v, int64_t n, double parameter);
rt *rt_fold(const rt *t, const int64_t *dims, int n_dims, bool keepdim, ref_fold fold, double parameter);
/* mean, sum or nothing: ATen's reduction numbers 0 none, 1 mean, 2 sum. */
rt *rt_reduction(rt *t, int64_t reduction);
rt *rt_matmul(const rt *a, const rt *b);
bool ref_is_int(double dtype); /* the dtype's number is an integer's or bool's */

#endif
