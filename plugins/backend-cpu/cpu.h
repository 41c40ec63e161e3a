/* SPDX-License-Identifier: Apache-2.0
 *
 * What the op_*.c files share: reading arguments, strided blocks of elements, copies between views, lines
 * along one dim, checked indices, and the threads' grain. No vector code here (isa.h), no shapes: the meta
 * rules have checked those before a kernel runs; only index values are still unknown.
 */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include <string.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

#include "plugins/backend-cpu/isa.h"
#include "plugins/backend-cpu/kernels.inc"

/* Elements from which a region is cut. Measured 2026-11-29 on two AVX-512 cores (EPYC guest), inline and in two chunks
 * on our threads and on libgomp's, whose fork and join cost 0.15 and 0.5 us:
 *   c = a + b, operands in turn:  8192: 503, 227, 641 ns; 16384: 1012, 635, 1034; 32768: 1633, 1160, 1556
 *   0.37 ns an element (exp):     2048: 773, 523, 859 ns;  4096: 1526, 899, 1237;  8192: 3027, 1643, 1965
 * So both gain, or lose nothing, from 16384 light and 4096 heavy elements on. */
enum { CPU_GRAIN = 16384, CPU_GRAIN_HEAVY = 4096 };
/* Elements in a block on the stack. */
enum { CPU_BLOCK = 512 };

/* ------------------------------------------------------------------ arguments */

static inline const tn_view *cpu_view(const tn_value *v) { return v->kind == TN_VAL_TENSOR ? v->u.v : NULL; }
static inline int64_t cpu_int(const tn_value *v, int64_t absent) {
  return v->kind == TN_VAL_NONE ? absent : v->kind == TN_VAL_FLOAT ? (int64_t)v->u.f : v->u.i;
}
static inline double cpu_double(const tn_value *v, double absent) {
  return v->kind == TN_VAL_NONE ? absent : v->kind == TN_VAL_FLOAT ? v->u.f : (double)v->u.i;
}
/* Both halves of a number; a float beyond int64 saturates, NaN is 0. */
cpu_scalar cpu_scalar_of(const tn_value *v);
/* A dim argument counted from the front; 0 for a 0-d view. */
static inline uint32_t cpu_dim(int64_t dim, uint32_t ndim) {
  return ndim == 0 ? 0 : (uint32_t)(dim < 0 ? dim + ndim : dim);
}
static inline int64_t cpu_size(const tn_view *v, uint32_t dim) { return v->ndim ? v->sizes[dim] : 1; }
static inline int64_t cpu_stride_bytes(const tn_view *v, uint32_t dim) {
  return v->ndim ? v->strides[dim] * v->itemsize : 0;
}
static inline bool cpu_contiguous(const tn_view *v) { return v->flags & TN_VIEW_CONTIGUOUS; }
/* The dtype that a half is computed in; every other one is its own. */
static inline tn_dtype cpu_wide(tn_dtype dtype) {
  return dtype == TN_FLOAT16 || dtype == TN_BFLOAT16 ? TN_FLOAT32 : dtype;
}

/* ------------------------------------------------------------------ views of our own */

/* A view whose dims stand in the struct itself, for views that a kernel makes. */
typedef struct cpu_local {
  tn_view view;
  tn_dim sizes[TN_MAX_RANK];
  tn_dim strides[TN_MAX_RANK];
} cpu_local;

void cpu_local_copy(cpu_local *out, const tn_view *v);
/* Row-major view of sizes at data. */
void cpu_local_contiguous(cpu_local *out, void *data, tn_dtype dtype, uint32_t ndim, const tn_dim *sizes);
/* v broadcast to sizes, into which it fits. */
void cpu_local_expand(cpu_local *out, const tn_view *v, uint32_t ndim, const tn_dim *sizes);
/* v without dim (a 0-d view stays as it is). */
void cpu_local_drop(cpu_local *out, const tn_view *v, uint32_t dim);
/* length entries of dim from begin on. */
void cpu_local_narrow(cpu_local *out, const tn_view *v, uint32_t dim, int64_t begin, int64_t length);
/* v with dim moved to the end. */
void cpu_local_last(cpu_local *out, const tn_view *v, uint32_t dim);

/* ------------------------------------------------------------------ elements */

/* n elements at src, stride bytes apart, to contiguous dst of another dtype, and back. */
void cpu_read(void *dst, tn_dtype dst_dtype, const char *src, tn_dtype src_dtype, int64_t stride, int64_t n);
void cpu_write(char *dst, tn_dtype dst_dtype, int64_t stride, const void *src, tn_dtype src_dtype, int64_t n);
/* The same without a change of dtype, by size of an element. */
void cpu_gather(void *dst, const char *src, int64_t stride, int64_t n, size_t itemsize);
void cpu_scatter(char *dst, int64_t stride, const void *src, int64_t n, size_t itemsize);
/* One element from a number (converted) at p. */
void cpu_put_scalar(void *p, tn_dtype dtype, const cpu_scalar *s);
double cpu_get_double(const void *p, tn_dtype dtype);
int64_t cpu_get_int(const void *p, tn_dtype dtype);

/* ------------------------------------------------------------------ past the caches (stream.c) */

/* An operator that reads and writes more bytes than this stores its result past the caches. See Note [Past
 * the caches]. Set once, in init. */
extern int64_t cpu_stream_bytes;
/* Whether operand 0, the result, should be stored so. Broadcast operands do not count: they are small. False
 * if the result is an input too, whose lines are read anyway. */
bool cpu_streams(uint32_t n, const tn_view *const *operands);
/* After stores past the caches, on the thread that stored, before another thread may look. */
static inline void cpu_stream_end(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}
/* tn_iter_each for a result that is stored so. */
tn_status cpu_each_streamed(uint32_t n, const tn_view *const *operands, int64_t grain, tn_loop_fn fn,
                            void *ctx);
/* n elements of size bytes at p: those before the first cache line, and how many after them are whole
 * groups. */
typedef struct cpu_groups {
  int64_t before, grouped;
} cpu_groups;
static inline cpu_groups cpu_groups_of(const void *p, int64_t size, int64_t n) {
  const int64_t before = (int64_t)(-(uintptr_t)p & (CPU_LINE - 1)) / size;
  if (before >= n) return (cpu_groups){n, 0};
  return (cpu_groups){before, (n - before) / CPU_STREAM_GROUP * CPU_STREAM_GROUP};
}

/* ------------------------------------------------------------------ whole views (copies.c) */

/* dst = src, cast; src broadcasts to dst. */
tn_status cpu_copy(const tn_view *dst, const tn_view *src);
/* dst = s everywhere. */
tn_status cpu_fill(const tn_view *dst, const cpu_scalar *s);
/* ------------------------------------------------------------------ scratch */

/* Row-major memory of v's elements in dtype: v's own if it is that already, else a copy in scratch. */
tn_status cpu_contiguous_data(tn_call *call, const tn_view *v, tn_dtype dtype, const void **out_data);
tn_status cpu_scratch(tn_call *call, size_t size_bytes, void **out_data);

/* Adds an element, times alpha, to a place in the place's own dtype (op_index.c). */
typedef void (*cpu_add_fn)(char *dst, const char *src, const cpu_scalar *alpha);
extern const cpu_add_fn cpu_adders[CPU_DTYPES];

/* ------------------------------------------------------------------ lines along one dim */

/* One line per position of the other dims: data[k] is the line's first element of operand k. */
typedef void (*cpu_line_fn)(void *ctx, char *const *data);
enum { CPU_LINES_OPERANDS = 4 };
/* Operands that have dim lose it; `sizes` of the others' dims are operand 0's. grain in lines. */
tn_status cpu_lines(uint32_t n_operands, const tn_view *const *views, uint32_t dim, int64_t grain,
                    cpu_line_fn fn, void *ctx);

/* Every index is within [0, size); with wrap, [-size, size). Else TN_ERR_INVALID_ARGUMENT that names value
 * and size. */
tn_status cpu_check_index(const tn_view *index, int64_t size, bool wrap);

/* ------------------------------------------------------------------ kernels */

/* Elementwise kernels from the registry's expressions: user is one of these. */
typedef struct cpu_ew {
  const char *name;
  uint32_t op;          /* CPU_EW_... */
  tn_dtype_mask dtypes; /* compute dtypes */
  int64_t grain;
  uint8_t n_tensors, n_scalars;
  uint8_t divisor;           /* number of the operand that integers are divided by + 1 (numbers after tensors), or 0 */
  bool to_bool;              /* the result is bool, whatever the inputs */
  tn_dtype flat[CPU_DTYPES]; /* result dtype where the loop takes the operands as they lie, else NONE */
  cpu_ew_fn fns[CPU_DTYPES]; /* halves: the float32 loop */
} cpu_ew;
tn_status cpu_register_elementwise(tn_registration *reg);

#define CPU_KERNEL_PROTOTYPE(op, fn, word, mask) \
  tn_status fn(tn_call *call, const tn_value *args, tn_value *out);
CPU_KERNELS(CPU_KERNEL_PROTOTYPE)
CPU_SMALL_KERNELS(CPU_KERNEL_PROTOTYPE)
#undef CPU_KERNEL_PROTOTYPE

extern const tn_backend_def cpu_backend;
void cpu_describe(void); /* in init, after cpu_select: fixes what the backend says of itself */

#endif
