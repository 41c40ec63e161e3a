/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: types as device text names them, the geometry of a launch, the cache of compiled
 * kernels, argument lists. Everything is for one driver, which gpu_register sets once.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include <tenon/kit/dtype.h>
#include <tenon/kit/dim.h>

#include "plugins/gpu/driver.h"
#include "plugins/gpu/kernels.inc"

extern const gpu_driver *gpu_now;

/* ------------------------------------------------------------------ types */

/* Codes of dtypes, and of elements that are only moved. */
enum { GPU_BITS8 = 64, GPU_BITS16, GPU_BITS32, GPU_BITS64, GPU_UINT64, GPU_TYPES };

/* The name in device text ("float32", "boolean", "bits16"). */
const char *gpu_type_name(uint8_t type);
/* What the type computes in: float32 for halves, uint8 for bool, else itself. */
uint8_t gpu_compute_type(uint8_t type);
/* Accumulators: float64 (float32 where the device has no double), int64. */
uint8_t gpu_wide_type(uint8_t type, const gpu_caps *caps);
bool gpu_type_is_float(uint8_t type);
size_t gpu_type_size(uint8_t type);
/* Elements of this size that are only moved. */
uint8_t gpu_bits_type(size_t itemsize);
/* Neither needs double on a device that has none. */
bool gpu_type_fits(uint8_t type, const gpu_caps *caps);

/* A number by value, as the device's type. */
typedef struct gpu_number {
  uint8_t type;
  union {
    uint8_t u8;
    int8_t i8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
  } u;
} gpu_number;
/* v is bool, int or float. */
gpu_number gpu_number_of(uint8_t type, const tn_value *v);
gpu_number gpu_number_float(uint8_t type, double f);
gpu_number gpu_number_int(uint8_t type, int64_t i);

/* ------------------------------------------------------------------ arguments of operators */

static inline int64_t gpu_int(const tn_value *v, int64_t absent) {
  return v->kind == TN_VAL_NONE ? absent : v->kind == TN_VAL_FLOAT ? (int64_t)v->u.f : v->u.i;
}
static inline double gpu_double(const tn_value *v, double absent) {
  return v->kind == TN_VAL_NONE ? absent : v->kind == TN_VAL_FLOAT ? v->u.f : (double)v->u.i;
}
static inline const tn_view *gpu_view(const tn_value *v) { return v->kind == TN_VAL_TENSOR ? v->u.v : NULL; }
static inline uint32_t gpu_dim(int64_t dim, uint32_t ndim) {
  return (uint32_t)(dim < 0 ? dim + (ndim ? ndim : 1) : dim);
}
/* A kernel's facts about its device. */
static inline tn_status gpu_caps_of(const tn_call *call, gpu_caps *out_caps) {
  return gpu_now->caps(call->device.index, out_caps);
}

/* ------------------------------------------------------------------ geometry */

/* Note [Ranks]
 * A launch walks GPU_RANK dims. Dims that lie in memory as one are merged first, in all operands at once, which leaves one to
 * three in practice. A map with more (up to TN_MAX_RANK) is several launches, one for each place in the outer dims; reductions
 * and rows, which need all dims in one launch, decline. */
enum { GPU_RANK = 8, GPU_OPERANDS = 6 };

/* Dim 0 is the innermost. */
typedef struct gpu_geometry {
  uint32_t ndim; /* at least 1 */
  uint32_t n;    /* operands */
  int64_t numel;
  int64_t sizes[TN_MAX_RANK];
  int64_t strides[GPU_OPERANDS][TN_MAX_RANK]; /* in elements */
  int64_t at[GPU_OPERANDS];                   /* of element [0, ..., 0] in its memory, in elements */
} gpu_geometry;

/* views broadcast to sizes. in_order: the walk is row-major; else the order of operand 0's strides. TN_DECLINED for
 * an operand that is elsewhere than operand 0, or that does not begin at a multiple of its element's size. */
tn_status gpu_geometry_make(gpu_geometry *g, uint32_t ndim, const tn_dim *sizes, uint32_t n,
                            const tn_view *const *views, bool in_order);
/* The dims of a shape that are in mask (inside) or not, in row-major order. strides[k]: of operand k, for every dim of the
 * shape; places are the caller's. */
void gpu_geometry_part(gpu_geometry *g, uint32_t ndim, const tn_dim *sizes, uint64_t mask, bool inside,
                       uint32_t n, const tn_dim *const *strides);
/* Every operand is contiguous: one dim of stride 1. */
bool gpu_geometry_flat(const gpu_geometry *g);
/* Into words as device text declares them: sizes[GPU_RANK], then strides[n][GPU_RANK]. ndim <= GPU_RANK. Returns the end. */
int64_t *gpu_geometry_sizes(const gpu_geometry *g, int64_t *words);
int64_t *gpu_geometry_strides(const gpu_geometry *g, uint32_t operand, int64_t *words);
/* A contiguous view of scratch memory, whose sizes and strides the caller keeps (a stride for each size). */
tn_view gpu_scratch_view(const tn_call *call, const tn_memory *memory, tn_dtype dtype, uint32_t ndim,
                         const tn_dim *sizes, tn_dim *strides);
/* Where a view begins, in elements of itself. TN_DECLINED if that is not whole. */
tn_status gpu_place(const tn_view *v, int64_t *out_at);

/* ------------------------------------------------------------------ compiled kernels */

/* Which kernel, as numbers: what families of device text are told. Zeroed, then filled; compared as bytes. */
typedef struct gpu_key {
  uint8_t family;
  uint8_t flags[3];
  uint16_t device;
  uint16_t op;
  uint8_t types[8];
} gpu_key;

/* Families, each with texts of its own. */
enum { GPU_MAP = 1, GPU_RANDOM, GPU_REDUCE, GPU_PRODUCT, GPU_ROWS, GPU_LOSS, GPU_OPTIM, GPU_PICK };

/* Defines in front of the text. Short texts: what does not fit is an internal error, never cut. */
typedef struct gpu_defines {
  size_t used;
  char text[1536];
} gpu_defines;
void gpu_define(gpu_defines *d, const char *format, ...) TN_PRINTF(2, 3);

/* The kernel of a key, compiled at its first use on the device. write puts the defines, NAME among them; ctx is its. */
tn_status gpu_kernel_get(const gpu_key *key, void (*write)(gpu_defines *d, const void *ctx), const void *ctx,
                         void **out_kernel);

/* ------------------------------------------------------------------ launches */

enum { GPU_ARGS = 24 };
typedef struct gpu_args {
  uint32_t n;
  gpu_arg list[GPU_ARGS];
  int64_t places[GPU_ARGS]; /* what offsets point to */
} gpu_args;

void gpu_arg_bytes(gpu_args *a, const void *bytes, size_t size);
/* A buffer and the place in it, as two arguments. */
void gpu_arg_place(gpu_args *a, uint64_t mem, int64_t at);
/* The same of a view; NULL: absent. */
tn_status gpu_arg_view(gpu_args *a, const tn_view *v);

/* n items in groups of a fitting size. */
tn_status gpu_launch_items(const tn_call *call, void *kernel, int64_t n, const gpu_args *args);
/* n groups of `items`; items 1: the text asks for one item a job, so that items share groups as they like. */
tn_status gpu_launch_groups(const tn_call *call, void *kernel, int64_t n, uint32_t items,
                            const gpu_args *args);

/* The buffer of the device's fault words (gpu_check_faults), for a kernel that is about to be launched by operator `name`. */
tn_status gpu_fault_words(const tn_call *call, const char *name, uint64_t *out_mem);

/* ------------------------------------------------------------------ maps: one result per element */

enum { GPU_INPUTS = 4, GPU_NUMBERS = 5 };
typedef struct gpu_map {
  const char *name;              /* of the kernel, a C identifier */
  const char *expr;              /* of a0.., s0.., i */
  uint8_t family;                /* GPU_MAP or GPU_RANDOM */
  uint16_t op;                   /* tells expressions of a family apart */
  uint8_t compute;               /* type of a0.. */
  bool is_bool;                  /* T is the uint8 of bool: 0 or 1 */
  bool in_order;                 /* expr uses i */
  uint8_t types[1 + GPU_INPUTS]; /* how operands are read and the result is stored; 0: as their dtype says */
  uint32_t n_numbers;
  gpu_number numbers[GPU_NUMBERS];
} gpu_map;
/* views: the result, then the operands, which broadcast to it. */
tn_status gpu_map_run(tn_call *call, const gpu_map *map, uint32_t n, const tn_view *const *views);

/* to = from, any strides and dtypes; both on the call's device. */
tn_status gpu_copy(tn_call *call, const tn_view *to, const tn_view *from);
tn_status gpu_fill(tn_call *call, const tn_view *to, const tn_value *number);

/* Numbers of expressions that are not the registry's, behind those that are. */
enum {
  GPU_OP_MOVE = 1000,
  GPU_OP_FILL,
  GPU_OP_TRIL,
  GPU_OP_TRIU,
  GPU_OP_WHERE,
  GPU_OP_MASKED_FILL,
  GPU_OP_ARANGE,
  GPU_OP_DOT
};

/* to = sum of from over all its elements, through the wide accumulator; to is 0-d. */
tn_status gpu_sum_all(tn_call *call, const tn_view *from, const tn_view *to);

/* ------------------------------------------------------------------ operators */

#define GPU_PROTOTYPE(op, fn, words, mask) tn_status fn(tn_call *call, const tn_value *args, tn_value *out);
GPU_KERNELS(GPU_PROTOTYPE)
/* What other plugins may ask of this one (tenon/gpu_kernels.h). */
tn_status gpu_register_interface(const tn_host *host, tn_registration *reg, const gpu_driver *driver);
/* The operators that are expressions of the registry. */
tn_status gpu_register_elementwise(tn_registration *reg, const char *key);

#endif
