/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend whose kernels are right, and, compiled with DEFECT=..., the same one with one kernel wrong in one way. Naive:
 * every element is found through its strides and computed in double, so that nothing but the defect can be wrong. The
 * tests' table (test_ops_defects.c) says which check is to catch each.
 */
#include <math.h>
#include <stdlib.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

enum {
  DEFECT_NONE,
  DEFECT_TAIL,         /* exp: the last element of an odd number is left out */
  DEFECT_IN_ORDER,     /* neg: writes as if the result were contiguous */
  DEFECT_BEYOND,       /* mul: writes one element behind the end */
  DEFECT_ROUNDING,     /* exp: float32 results are rounded to bfloat16 */
  DEFECT_NARROW,       /* mul: float64 is computed in float32 */
  DEFECT_EMPTY,        /* sum: of nothing it is 1 */
  DEFECT_MUTATES,      /* neg: clears its input */
  DEFECT_LATE_DECLINE, /* clone: writes, and then declines matrices */
  DEFECT_UNSTEADY,     /* exp: the last bits of float32 change from call to call */
  DEFECT_IN_PLACE,     /* tanh: another result in place */
  DEFECT_OVERLAP,      /* mul: reads its input after it was overwritten, where the target is the input */
  DEFECT_CLAIMS,       /* exp: claims float64 and refuses it */
  DEFECT_BLOCK,        /* mm: loses the terms after the first 256 */
  DEFECT_BACKWARD,     /* tanh_backward: forgets a square */
  DEFECT_SCRATCH,      /* sum: writes behind its scratch memory */
  DEFECT_DECLINES,     /* clone: declines whatever comes; the core copies in its place */
  DEFECT_MISSING       /* exp: has no kernel for halves, and says so */
};
#ifndef DEFECT
#define DEFECT DEFECT_NONE
#endif
/* A constant: the other branch is compiled, too. */
#define HAS(defect) (DEFECT == (defect))

#define LINE(op, dtypes) "kernel acme " op " " dtypes " 0\n"
TN_MANIFEST(TN_MANIFEST_HEADER("acme-kernels", "1.0", "Apache-2.0") "device acme\n" LINE("add.Tensor", "float32,float64,int32")
                LINE("mul.Tensor", "float32,float64") LINE("neg", "float32,float64,int32") LINE("exp", "float")
                    LINE("tanh", "float32,float64") LINE("tanh_backward", "float32,float64") LINE("sum", "float32,float64")
                        LINE("mm", "float32,float64") LINE("clone", "float32,float64") LINE("fill_.Scalar", "float32,float64"))

/* ------------------------------------------------------------------ memory */

static tn_status device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 1;
  return TN_OK;
}

static tn_status acme_alloc(void *ctx, int32_t index, uint64_t size, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  void *p = size > (uint64_t)1 << 40 ? NULL : aligned_alloc(64, (size + 127) / 64 * 64);
  if (!p) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "acme: no %llu bytes", (unsigned long long)size);
  *out_memory = (tn_memory){(uintptr_t)p, p, size};
  return TN_OK;
}

static void acme_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free((void *)(uintptr_t)memory->mem);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset, const void *host, uint64_t size,
                           void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy((char *)(uintptr_t)mem + offset, host, size);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset, void *host, uint64_t size, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(host, (const char *)(uintptr_t)mem + offset, size);
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "acme",
                                       .alignment_bytes = 64,
                                       .device_count = device_count,
                                       .alloc = acme_alloc,
                                       .free = acme_free,
                                       .from_host = from_host,
                                       .to_host = to_host};

/* ------------------------------------------------------------------ elements */

/* The element of v that stands at element i of shape, to which v broadcasts. */
static char *at(const tn_view *v, const tn_view *shape, int64_t i) {
  int64_t offset = 0;
  for (int d = shape->ndim - 1, k = v->ndim - 1; d >= 0; d--, k--) {
    int64_t c = i % shape->sizes[d];
    i /= shape->sizes[d];
    if (k >= 0 && v->sizes[k] != 1) offset += c * v->strides[k];
  }
  return (char *)v->data + offset * v->itemsize;
}

static double load(const char *p, tn_dtype dtype) {
  switch (dtype) {
    case TN_INT32: return *(const int32_t *)(const void *)p;
    case TN_FLOAT16: return tn_float16_to_float(*(const tn_float16 *)(const void *)p);
    case TN_BFLOAT16: return tn_bfloat16_to_float(*(const tn_bfloat16 *)(const void *)p);
    case TN_FLOAT32: return *(const float *)(const void *)p;
    default: return *(const double *)(const void *)p;
  }
}

static void store(char *p, tn_dtype dtype, double x) {
  switch (dtype) {
    case TN_INT32: *(int32_t *)(void *)p = (int32_t)x; return;
    case TN_FLOAT16: *(tn_float16 *)(void *)p = tn_float16_from_float((float)x); return;
    case TN_BFLOAT16: *(tn_bfloat16 *)(void *)p = tn_bfloat16_from_float((float)x); return;
    case TN_FLOAT32: *(float *)(void *)p = (float)x; return;
    default: *(double *)(void *)p = x;
  }
}

static double get(const tn_value *v, const tn_view *shape, int64_t i) { return load(at(v->u.v, shape, i), v->u.v->dtype); }
static void put(const tn_view *out, int64_t i, double x) { store(at(out, out, i), out->dtype, x); }
static double number(const tn_value *v) { return v->kind == TN_VAL_FLOAT ? v->u.f : (double)v->u.i; }

/* ------------------------------------------------------------------ kernels */

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *o = out->u.v;
  for (int64_t i = 0; i < o->numel; i++) put(o, i, get(&args[0], o, i) + number(&args[2]) * get(&args[1], o, i));
  return TN_OK;
}

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *o = out->u.v;
  bool onto_input = o->data == args[0].u.v->data && !(call->flags & TN_CALL_IN_PLACE);
  for (int64_t i = 0; i < o->numel; i++) {
    double a = get(&args[0], o, i), b = get(&args[1], o, i);
    put(o, i, HAS(DEFECT_NARROW) ? (float)a * (float)b : a * b);
    if (HAS(DEFECT_OVERLAP) && onto_input) put(o, i, get(&args[0], o, i) * b);
  }
  if (HAS(DEFECT_BEYOND) && o->numel && o->flags & TN_VIEW_CONTIGUOUS)
    store((char *)o->data + o->numel * o->itemsize, o->dtype, 7);
  return TN_OK;
}

static tn_status neg(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *o = out->u.v;
  for (int64_t i = 0; i < o->numel; i++) {
    char *to = HAS(DEFECT_IN_ORDER) ? (char *)o->data + i * o->itemsize : at(o, o, i);
    store(to, o->dtype, -get(&args[0], o, i));
  }
  for (int64_t i = 0; HAS(DEFECT_MUTATES) && o->data != args[0].u.v->data && i < o->numel; i++)
    store(at(args[0].u.v, o, i), o->dtype, 0);
  return TN_OK;
}

static double rounded_wrongly(double x) { return tn_bfloat16_to_float(tn_bfloat16_from_float((float)x)); }

static tn_status exponential(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  static int calls;
  const tn_view *o = out->u.v;
  bool single = o->dtype == TN_FLOAT32;
  int64_t n = o->numel;
  if (HAS(DEFECT_CLAIMS) && o->dtype == TN_FLOAT64) return TN_FAIL(TN_ERR_DTYPE, "acme: exp of float64 is not served");
  if (HAS(DEFECT_MISSING) && TN_DTYPES_HALF & TN_DTYPE_BIT(o->dtype))
    return TN_FAIL(TN_ERR_MISSING_KERNEL, "acme: exp of halves is not written yet");
  if (HAS(DEFECT_TAIL) && n > 1) n = n / 2 * 2;
  calls++;
  for (int64_t i = 0; i < n; i++) {
    double x = exp(get(&args[0], o, i));
    if (HAS(DEFECT_ROUNDING) && single) x = rounded_wrongly(x);
    if (HAS(DEFECT_UNSTEADY) && single && calls % 2) x *= 1 + 3e-7;
    put(o, i, x);
  }
  return TN_OK;
}

static tn_status hyperbolic(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *o = out->u.v;
  bool halved = HAS(DEFECT_IN_PLACE) && call->flags & TN_CALL_IN_PLACE;
  for (int64_t i = 0; i < o->numel; i++) put(o, i, tanh(get(&args[0], o, i)) * (halved ? 0.5 : 1));
  return TN_OK;
}

/* tanh_backward(grad_output, output) */
static tn_status hyperbolic_backward(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *o = out->u.v;
  for (int64_t i = 0; i < o->numel; i++) {
    double y = get(&args[1], o, i);
    put(o, i, get(&args[0], o, i) * (1 - (HAS(DEFECT_BACKWARD) ? y : y * y)));
  }
  return TN_OK;
}

static tn_status sum(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *a = args[0].u.v;
  tn_memory total;
  TN_TRY(tn_kit_host()->scratch(call, sizeof(double), &total));
  double *sums = total.address;
  sums[0] = HAS(DEFECT_EMPTY) && a->numel == 0;
  for (int64_t i = 0; i < a->numel; i++) sums[0] += get(&args[0], a, i);
  if (HAS(DEFECT_SCRATCH)) memset(&sums[1], 0, sizeof(double));
  put(out->u.v, 0, sums[0]);
  return TN_OK;
}

/* All elements, row-major; freed by the caller. */
static double *doubles(const tn_view *v) {
  double *all = malloc((size_t)v->numel * sizeof *all + 1);
  for (int64_t i = 0; all && i < v->numel; i++) all[i] = load(at(v, v, i), v->dtype);
  return all;
}

static tn_status mm(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *o = out->u.v, *a = args[0].u.v, *b = args[1].u.v;
  const int64_t all = a->sizes[1], rows = o->sizes[0], columns = o->sizes[1];
  const int64_t inner = HAS(DEFECT_BLOCK) && all > 256 ? 256 : all;
  double *x = doubles(a), *y = doubles(b);
  for (int64_t i = 0; x && y && i < rows * columns; i++) {
    const double *row = x + i / columns * all, *column = y + i % columns;
    double dot = 0;
    for (int64_t k = 0; k < inner; k++) dot += row[k] * column[k * columns];
    put(o, i, dot);
  }
  const bool whole = x && y;
  free(x);
  free(y);
  return whole ? TN_OK : TN_FAIL(TN_ERR_OUT_OF_MEMORY, "acme: no memory for a product");
}

static tn_status copy(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *o = out->u.v;
  if (HAS(DEFECT_DECLINES)) return TN_DECLINED;
  for (int64_t i = 0; i < o->numel; i++) put(o, i, get(&args[0], o, i));
  return HAS(DEFECT_LATE_DECLINE) && o->ndim == 2 ? TN_DECLINED : TN_OK;
}

static tn_status fill(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < out->u.v->numel; i++) put(out->u.v, i, number(&args[1]));
  return TN_OK;
}

/* ------------------------------------------------------------------ registration */

#define WIDE (TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64))

static const tn_kernel_def kernels[] = {TN_KERNEL("acme", "add.Tensor", add, WIDE | TN_DTYPE_BIT(TN_INT32)),
                                        TN_KERNEL("acme", "mul.Tensor", mul, WIDE),
                                        TN_KERNEL("acme", "neg", neg, WIDE | TN_DTYPE_BIT(TN_INT32)),
                                        TN_KERNEL("acme", "exp", exponential, TN_DTYPES_FLOAT),
                                        TN_KERNEL("acme", "tanh", hyperbolic, WIDE),
                                        TN_KERNEL("acme", "tanh_backward", hyperbolic_backward, WIDE),
                                        TN_KERNEL("acme", "sum", sum, WIDE),
                                        TN_KERNEL("acme", "mm", mm, WIDE),
                                        TN_KERNEL("acme", "clone", copy, WIDE),
                                        TN_KERNEL("acme", "fill_.Scalar", fill, WIDE)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "acme-kernels", .version = "1.0", .init = init)
