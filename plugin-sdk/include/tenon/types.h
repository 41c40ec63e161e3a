/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that applications, plugins and the core share: status codes, dtypes, devices, the view that a
 * kernel gets of a tensor, and the tagged value that every operator call passes.
 *
 * This header is the bottom of the tower: it includes C standard headers only. Everything in it is part of
 * ABI major 1. Written enumerator values are never reordered and never reused. The hot structs (tn_value,
 * tn_view) carry no size field, are frozen for the whole of major 1, are passed by pointer only, and are
 * valid until the kernel that got them returns; tenon/layout.h asserts every offset.
 */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_ABI_MAJOR 1
/* TN_ABI_FUTURE builds what a later minor could be, for tests of hosts and plugins of different ages: one more row,
 * dtype and flag, and one more field at the end of every struct that may grow. The operators of such a host have one
 * more argument with a default (registry/gen/main.py --future). */
#ifdef TN_ABI_FUTURE
#define TN_ABI_MINOR 3
#define TN_FUTURE_FIELD uint64_t future;
#else
#define TN_ABI_MINOR 2
#define TN_FUTURE_FIELD
#endif

/* Export mark of the one symbol that a plugin shows, and of the public functions of libtenon. */
#define TN_EXPORT __attribute__((visibility("default")))
#if defined(__GNUC__)
#define TN_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define TN_COLD __attribute__((cold))
#else
#define TN_PRINTF(fmt, first)
#define TN_COLD
#endif

/* ------------------------------------------------------------------ status */

/* 0 is success. On failure the words stand in the calling thread's error record (tn_error_message), and
 * every floor on the way up may add its own in front. */
typedef int32_t tn_status;

enum {
  TN_OK = 0,
  TN_DECLINED = 1,             /* kernel answer only: "not mine, ask the next provider"; before any write */
  TN_ERR_INVALID_ARGUMENT = 2, /* wrong shape, dim, NULL handle, value out of range */
  TN_ERR_DTYPE = 3,            /* a dtype that the operator does not take */
  TN_ERR_DEVICE = 4,           /* tensors on devices that do not go together */
  TN_ERR_OVERLAP = 5,          /* a write target that overlaps itself or an input */
  TN_ERR_OUT_OF_MEMORY = 6,
  TN_ERR_NOT_FOUND = 7,         /* no such operator, device, plugin, file */
  TN_ERR_UNAVAILABLE = 8,       /* known, but not usable here: the reason is the stored one */
  TN_ERR_MISSING_KERNEL = 9,    /* no provider and no body for (operator, backend) */
  TN_ERR_NOT_DIFFERENTIABLE = 10,
  TN_ERR_VERSION = 11,          /* a saved tensor was changed, or an ABI does not fit */
  TN_ERR_STATE = 12,            /* right call, wrong moment (graph freed, scope closed, after shutdown) */
  TN_ERR_IO = 13,
  TN_ERR_DATA = 14,             /* a file whose contents are malformed */
  TN_ERR_PLUGIN = 15,           /* a plugin broke its contract */
  TN_ERR_UNSUPPORTED = 16,      /* a valid request that this build or backend does not serve */
  TN_ERR_INTERRUPTED = 17,
  TN_ERR_INTERNAL = 18          /* our own mistake; please report */
};

/* ------------------------------------------------------------------ dtypes */

/* One byte in views. Codes of every dtype that we will have are given now, so that a file or a plugin never
 * sees a number change; the core of this version computes with the ten up to TN_FLOAT64. */
typedef uint8_t tn_dtype;

enum {
  TN_DTYPE_NONE = 0, /* "not given": as an argument, the default applies */
  TN_BOOL = 1,       /* one byte, 0 or 1 */
  TN_UINT8 = 2,
  TN_INT8 = 3,
  TN_INT16 = 4,
  TN_INT32 = 5,
  TN_INT64 = 6,
  TN_FLOAT16 = 7,
  TN_BFLOAT16 = 8,
  TN_FLOAT32 = 9,
  TN_FLOAT64 = 10,
  TN_UINT16 = 11, /* reserved from here on */
  TN_UINT32 = 12,
  TN_UINT64 = 13,
  TN_COMPLEX64 = 14,
  TN_COMPLEX128 = 15,
  TN_FLOAT8_E4M3FN = 16,
  TN_FLOAT8_E5M2 = 17,
  TN_FLOAT8_E4M3FNUZ = 18,
  TN_FLOAT8_E5M2FNUZ = 19,
  TN_FLOAT8_E8M0FNU = 20,
#ifdef TN_ABI_FUTURE
  TN_FUTURE8 = 21,
#endif
  TN_DTYPE_LIMIT = 64 /* dtype masks are 64 bits */
};

/* A set of dtypes: bit number = code. */
typedef uint64_t tn_dtype_mask;
#define TN_DTYPE_BIT(dtype) ((tn_dtype_mask)1 << (dtype))
#define TN_DTYPES_INT                                                                              \
  (TN_DTYPE_BIT(TN_UINT8) | TN_DTYPE_BIT(TN_INT8) | TN_DTYPE_BIT(TN_INT16) |                       \
   TN_DTYPE_BIT(TN_INT32) | TN_DTYPE_BIT(TN_INT64))
#define TN_DTYPES_HALF (TN_DTYPE_BIT(TN_FLOAT16) | TN_DTYPE_BIT(TN_BFLOAT16))
#define TN_DTYPES_FLOAT (TN_DTYPES_HALF | TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64))
#define TN_DTYPES_ALL (TN_DTYPE_BIT(TN_BOOL) | TN_DTYPES_INT | TN_DTYPES_FLOAT)

/* ------------------------------------------------------------------ devices */

/* A backend id is given at run time to a name and never reused within a process; names, never ids, go into
 * files. cpu is always 0 and meta always 23. */
enum {
  TN_BACKEND_CPU = 0,
  TN_BACKEND_META = 23,
  TN_BACKEND_LIMIT = 24,
  TN_BACKEND_NONE = 255 /* "not given" */
};

typedef struct tn_device {
  uint8_t backend; /* id, or TN_BACKEND_NONE */
  uint8_t reserved;
  int16_t index; /* which one of that backend's devices, from 0 */
} tn_device;

typedef int32_t tn_layout; /* only strided so far */
enum { TN_LAYOUT_NONE = 0, TN_STRIDED = 1 };

typedef int32_t tn_memory_format;
enum {
  TN_MEMORY_FORMAT_NONE = 0,
  TN_CONTIGUOUS_FORMAT = 1,
  TN_PRESERVE_FORMAT = 2,
  TN_CHANNELS_LAST = 3,
  TN_CHANNELS_LAST_3D = 4
};

/* ------------------------------------------------------------------ views */

#define TN_MAX_RANK 64

/* A size, stride or element count. Meta rules, bodies and gradient formulas use this name and the TN_DIM_
 * macros of tenon/kit/dim.h, so that the same text can be compiled for symbolic sizes. */
typedef int64_t tn_dim;

/* tn_view.flags */
enum {
  TN_VIEW_CONTIGUOUS = 1u << 0, /* row-major without gaps, in the order of the dims */
  TN_VIEW_DENSE = 1u << 1,      /* non-overlapping and without gaps, in some order of the dims */
  TN_VIEW_READ_ONLY = 1u << 2,  /* memory imported read-only: writes are refused by the core */
  TN_VIEW_WRAPPED_NUMBER = 1u << 3, /* made from a number: promotes below every tensor of its category */
  TN_VIEW_OPAQUE = 1u << 4          /* no strided memory: the plugin's own slot holds the value */
};

/* What a backend kernel gets of a tensor; a tensor begins with one. 80 bytes, frozen.
 * Invariants: 0 <= ndim <= TN_MAX_RANK; numel is the product of sizes; strides are in elements, may be 0 or
 * negative; data is NULL where the backend has no host-visible address (then mem and offset_bytes say where)
 * and may be NULL when numel is 0. data already includes offset_bytes. */
typedef struct tn_view {
  void *data;             /* address of element [0,...,0] on its device, or NULL */
  uint64_t mem;           /* the backend's handle of the allocation */
  int64_t offset_bytes;   /* from the start of mem to element [0,...,0] */
  void *storage;          /* opaque: the same pointer for views that share memory */
  const tn_dim *sizes;    /* ndim entries */
  const tn_dim *strides;  /* ndim entries, in elements */
  int64_t numel;          /* product of sizes */
  tn_dtype dtype;         /* TN_FLOAT32, ... */
  uint8_t ndim;           /* 0 .. TN_MAX_RANK */
  uint8_t itemsize;       /* bytes of one element; 0 if opaque */
  uint8_t backend;        /* backend id */
  int16_t device_index;   /* which device of that backend */
  uint16_t reserved0;     /* zero */
  uint32_t flags;         /* TN_VIEW_... */
  uint32_t reserved1;     /* zero */
  uint64_t reserved2;     /* zero */
} tn_view;

/* A tensor handle. Its first member is a tn_view, so a kernel may read a handle as one. */
typedef struct tn_tensor tn_tensor;
/* A tensor's geometry, dtype and device, for layers and bodies; borrowed while the handle lives. Its sizes must not be
 * relied on across a call that may resize the tensor. */
static inline const tn_view *tn_tensor_view(const tn_tensor *t) { return (const tn_view *)(const void *)t; }
/* One random stream: see tn_generator_new in tenon/tensor.h. */
typedef struct tn_generator tn_generator;
/* An operator record (`mul.Tensor`), found by name; lives as long as the process. */
typedef struct tn_op tn_op;

/* A view's device. */
static inline tn_device tn_view_device(const tn_view *v) {
  tn_device d = {v->backend, 0, v->device_index};
  return d;
}

/* ------------------------------------------------------------------ values */

/* tn_value.kind and, for lists, tn_value.elem. New kinds may be added: a kernel that meets an unknown one
 * answers TN_ERR_UNSUPPORTED. */
enum {
  TN_VAL_NONE = 0, /* an absent optional; differs from an empty list */
  TN_VAL_BOOL = 1,
  TN_VAL_INT = 2,
  TN_VAL_FLOAT = 3,
  TN_VAL_COMPLEX = 4, /* u.p: two doubles */
  TN_VAL_STRING = 5,  /* u.s: NUL-terminated UTF-8, count = length in bytes */
  TN_VAL_DTYPE = 6,
  TN_VAL_LAYOUT = 7,
  TN_VAL_MEMORY_FORMAT = 8,
  TN_VAL_DEVICE = 9,
  TN_VAL_TENSOR = 10, /* u.t for layers and bodies; u.v for backend kernels: the same pointer */
  TN_VAL_GENERATOR = 11,
  TN_VAL_LIST = 12, /* elem says of what; u.p points to the array, count entries */
  /* element kinds that occur only in lists */
  TN_VAL_SCALAR = 13,         /* tn_value entries, each bool, int, float or complex */
  TN_VAL_OPTIONAL_TENSOR = 14 /* entries may be NULL */
};

/* One argument or result: 16 bytes, frozen. List arrays: bool as uint8_t, int as int64_t, float as double,
 * scalar as tn_value, tensor as tn_tensor* (read as tn_view* by kernels).
 * Values are borrowed for the call; who keeps one duplicates it. */
typedef struct tn_value {
  union {
    int64_t i;              /* BOOL (0 or 1), INT, DTYPE, LAYOUT, MEMORY_FORMAT */
    double f;               /* FLOAT */
    const char *s;          /* STRING */
    tn_device d;            /* DEVICE */
    tn_tensor *t;           /* TENSOR */
    const tn_view *v;       /* TENSOR, as kernels read it */
    tn_generator *g;        /* GENERATOR */
    const void *p;          /* COMPLEX, LIST */
    const int64_t *ints;    /* LIST of INT */
    const double *floats;   /* LIST of FLOAT */
    const uint8_t *bools;   /* LIST of BOOL */
    tn_tensor *const *ts;   /* LIST of TENSOR or OPTIONAL_TENSOR */
    const tn_view *const *vs; /* the same, as kernels read it */
    uint64_t bits;
  } u;
  uint8_t kind;     /* TN_VAL_... */
  uint8_t elem;     /* TN_VAL_... of the entries when kind is LIST, else 0 */
  uint16_t reserved; /* zero */
  uint32_t count;   /* entries of a list, bytes of a string, else 0 */
} tn_value;

/* A number as operators take it (ATen's Scalar): kind is TN_VAL_BOOL, TN_VAL_INT or TN_VAL_FLOAT. */
typedef tn_value tn_scalar;

/* The second word of a value: kind, elem and count as one number, so that making a value is two stores. (From an
 * initialiser gcc 12 makes overlapping narrow stores, and whoever reads the value next waits for them.) */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TN_VALUE_TAG(kind, elem, count) ((uint64_t)(kind) | (uint64_t)(elem) << 8 | (uint64_t)(count) << 32)
#else
#define TN_VALUE_TAG(kind, elem, count) ((uint64_t)(kind) << 56 | (uint64_t)(elem) << 48 | (uint64_t)(uint32_t)(count))
#endif
static inline tn_value tn_value_make(uint64_t bits, uint64_t tag) {
  tn_value v;
  v.u.bits = bits;
  memcpy(&v.kind, &tag, sizeof tag);
  return v;
}
static inline tn_value tn_value_none(void) { return tn_value_make(0, 0); }
static inline tn_value tn_value_bool(bool b) { return tn_value_make(b, TN_VALUE_TAG(TN_VAL_BOOL, 0, 0)); }
static inline tn_value tn_value_int(int64_t i) {
  return tn_value_make((uint64_t)i, TN_VALUE_TAG(TN_VAL_INT, 0, 0));
}
static inline tn_value tn_value_float(double f) {
  tn_value v = tn_value_make(0, TN_VALUE_TAG(TN_VAL_FLOAT, 0, 0));
  v.u.f = f;
  return v;
}
static inline tn_value tn_value_dtype(tn_dtype dtype) {
  return tn_value_make(dtype, dtype == TN_DTYPE_NONE ? 0 : TN_VALUE_TAG(TN_VAL_DTYPE, 0, 0));
}
static inline tn_value tn_value_device(tn_device d) {
  tn_value v = tn_value_make(0, d.backend == TN_BACKEND_NONE ? 0 : TN_VALUE_TAG(TN_VAL_DEVICE, 0, 0));
  v.u.d = d;
  return v;
}
/* t may be NULL: an absent optional tensor. */
static inline tn_value tn_value_tensor(tn_tensor *t) {
  return tn_value_make((uint64_t)(uintptr_t)t, t ? TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0) : 0);
}
static inline tn_value tn_value_ints(const int64_t *ints, size_t n) {
  return tn_value_make((uint64_t)(uintptr_t)ints, TN_VALUE_TAG(TN_VAL_LIST, TN_VAL_INT, (uint32_t)n));
}
static inline tn_value tn_value_tensors(tn_tensor *const *ts, size_t n) {
  return tn_value_make((uint64_t)(uintptr_t)ts, TN_VALUE_TAG(TN_VAL_LIST, TN_VAL_TENSOR, (uint32_t)n));
}
/* Short names for numbers in calls: tn_add(x, y, tn_int(1), &z). */
static inline tn_scalar tn_int(int64_t i) { return tn_value_int(i); }
static inline tn_scalar tn_float(double f) { return tn_value_float(f); }
static inline tn_scalar tn_bool(bool b) { return tn_value_bool(b); }

#ifdef __cplusplus
}
#endif
#endif
