/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements at any stride to contiguous blocks and back, and single elements as numbers. Every kernel that
 * meets strides or a half dtype goes through these blocks, so that vector loops are written for contiguous
 * float32, float64 and integers only. Whole copies between views are in copies.c.
 */
#include <tenon/kit/shape.h>

#include "plugins/backend-cpu/cpu.h"

/* A repeated element is read once, so that the stores become vectors. */
#define GATHER(bytes, T)                                                        \
  case bytes: {                                                                 \
    T *d = dst;                                                                 \
    if (stride == 0 && n > 0) {                                                 \
      T x;                                                                      \
      memcpy(&x, src, sizeof x);                                                \
      for (int64_t i = 0; i < n; ++i) d[i] = x;                                 \
      return;                                                                   \
    }                                                                           \
    for (int64_t i = 0; i < n; ++i) memcpy(&d[i], src + i * stride, sizeof(T)); \
    return;                                                                     \
  }
void cpu_gather(void *dst, const char *src, int64_t stride, int64_t n, size_t itemsize) {
  if (stride == (int64_t)itemsize) {
    memcpy(dst, src, (size_t)n * itemsize);
    return;
  }
  switch (itemsize) {
    GATHER(1, uint8_t)
    GATHER(2, uint16_t)
    GATHER(4, uint32_t)
    GATHER(8, uint64_t)
  }
}
#undef GATHER

#define SCATTER(bytes, T)                                                       \
  case bytes: {                                                                 \
    const T *s = src;                                                           \
    for (int64_t i = 0; i < n; ++i) memcpy(dst + i * stride, &s[i], sizeof(T)); \
    return;                                                                     \
  }
void cpu_scatter(char *dst, int64_t stride, const void *src, int64_t n, size_t itemsize) {
  if (stride == (int64_t)itemsize) {
    memcpy(dst, src, (size_t)n * itemsize);
    return;
  }
  switch (itemsize) {
    SCATTER(1, uint8_t)
    SCATTER(2, uint16_t)
    SCATTER(4, uint32_t)
    SCATTER(8, uint64_t)
  }
}
#undef SCATTER

/* Runs in blocks: a gather into stack memory, then one contiguous cast. */
void cpu_read(void *dst, tn_dtype dst_dtype, const char *src, tn_dtype src_dtype, int64_t stride, int64_t n) {
  size_t in = tn_kit_dtype_size(src_dtype), out = tn_kit_dtype_size(dst_dtype);
  if (src_dtype == dst_dtype) {
    cpu_gather(dst, src, stride, n, in);
    return;
  }
  cpu_cast_fn cast = cpu_now->cast(dst_dtype, src_dtype);
  if (stride == (int64_t)in) {
    cast(dst, src, n);
    return;
  }
  uint64_t block[CPU_BLOCK];
  for (int64_t i = 0; i < n; i += CPU_BLOCK) {
    int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
    cpu_gather(block, src + i * stride, stride, m, in);
    cast((char *)dst + (size_t)i * out, block, m);
  }
}

void cpu_write(char *dst, tn_dtype dst_dtype, int64_t stride, const void *src, tn_dtype src_dtype,
               int64_t n) {
  size_t in = tn_kit_dtype_size(src_dtype), out = tn_kit_dtype_size(dst_dtype);
  if (src_dtype == dst_dtype) {
    cpu_scatter(dst, stride, src, n, out);
    return;
  }
  cpu_cast_fn cast = cpu_now->cast(dst_dtype, src_dtype);
  if (stride == (int64_t)out) {
    cast(dst, src, n);
    return;
  }
  uint64_t block[CPU_BLOCK];
  for (int64_t i = 0; i < n; i += CPU_BLOCK) {
    int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
    cast(block, (const char *)src + (size_t)i * in, m);
    cpu_scatter(dst + i * stride, stride, block, m, out);
  }
}

/* ------------------------------------------------------------------ single elements */

void cpu_put_scalar(void *p, tn_dtype dtype, const cpu_scalar *s) {
  switch (dtype) {
    case TN_BOOL: *(uint8_t *)p = s->f != 0; break; /* NaN counts as true, 0.5 too */
    case TN_UINT8: *(uint8_t *)p = (uint8_t)s->i; break;
    case TN_INT8: *(int8_t *)p = (int8_t)s->i; break;
    case TN_INT16: *(int16_t *)p = (int16_t)s->i; break;
    case TN_INT32: *(int32_t *)p = (int32_t)s->i; break;
    case TN_INT64: *(int64_t *)p = s->i; break;
    case TN_FLOAT16: *(tn_float16 *)p = tn_float16_from_float((float)s->f); break;
    case TN_BFLOAT16: *(tn_bfloat16 *)p = tn_bfloat16_from_float((float)s->f); break;
    case TN_FLOAT32: *(float *)p = (float)s->f; break;
    default: *(double *)p = s->f; break;
  }
}

double cpu_get_double(const void *p, tn_dtype dtype) {
  switch (dtype) {
    case TN_FLOAT16: return tn_float16_to_float(*(const tn_float16 *)p);
    case TN_BFLOAT16: return tn_bfloat16_to_float(*(const tn_bfloat16 *)p);
    case TN_FLOAT32: return *(const float *)p;
    case TN_FLOAT64: return *(const double *)p;
    default: return (double)cpu_get_int(p, dtype);
  }
}

int64_t cpu_get_int(const void *p, tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: return *(const uint8_t *)p != 0;
    case TN_UINT8: return *(const uint8_t *)p;
    case TN_INT8: return *(const int8_t *)p;
    case TN_INT16: return *(const int16_t *)p;
    case TN_INT32: return *(const int32_t *)p;
    case TN_INT64: return *(const int64_t *)p;
    default: {
      tn_value v = tn_value_float(cpu_get_double(p, dtype));
      return cpu_scalar_of(&v).i;
    }
  }
}

/* ------------------------------------------------------------------ scratch */

tn_status cpu_scratch(tn_call *call, size_t size_bytes, void **out_data) {
  tn_memory memory = {0};
  if (size_bytes) TN_TRY(tn_kit_host()->scratch(call, size_bytes, &memory));
  *out_data = memory.address;
  return TN_OK;
}

tn_status cpu_contiguous_data(tn_call *call, const tn_view *v, tn_dtype dtype, const void **out_data) {
  if (v->dtype == dtype && cpu_contiguous(v)) {
    *out_data = v->data;
    return TN_OK;
  }
  void *data;
  TN_TRY(cpu_scratch(call, (size_t)v->numel * tn_kit_dtype_size(dtype), &data));
  cpu_local local;
  cpu_local_contiguous(&local, data, dtype, v->ndim, v->sizes);
  *out_data = data;
  return cpu_copy(&local.view, v);
}
