/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements at any stride to contiguous blocks and back, single elements as numbers, and whole copies and
 * fills between views. Every kernel that meets strides or a half dtype goes through these blocks, so that
 * vector loops are written for contiguous float32, float64 and integers only.
 */
#include <tenon/kit/shape.h>

#include "plugins/backend-cpu/cpu.h"

#define GATHER(bytes, T)                                                        \
  case bytes: {                                                                 \
    T *d = dst;                                                                 \
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

/* ------------------------------------------------------------------ copy */

typedef struct copy_job {
  tn_dtype dst, src;
} copy_job;

enum { ROW_TILE = 64 };

static void copy_row(const copy_job *job, char *dst, const char *src, int64_t dst_stride, int64_t src_stride,
                     int64_t n) {
  if (dst_stride == (int64_t)tn_kit_dtype_size(job->dst))
    cpu_read(dst, job->dst, src, job->src, src_stride, n);
  else if (src_stride == (int64_t)tn_kit_dtype_size(job->src))
    cpu_write(dst, job->dst, dst_stride, src, job->src, n);
  else {
    uint64_t block[CPU_BLOCK];
    size_t size = tn_kit_dtype_size(job->src);
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
      int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
      cpu_gather(block, src + i * src_stride, src_stride, m, size);
      cpu_write(dst + i * dst_stride, job->dst, dst_stride, block, job->src, m);
    }
  }
}

/* Rows as they come; but where the source's short stride is the outer one (a transpose), in tiles, so that
 * a cache line of the source serves several rows before it is gone. */
static void copy_rows(void *ctx, char **data, const int64_t *inner, const int64_t *outer, int64_t n_inner,
                      int64_t n_outer) {
  const copy_job *job = ctx;
  int64_t in = inner[1] < 0 ? -inner[1] : inner[1], across = outer[1] < 0 ? -outer[1] : outer[1];
  int64_t tile = n_outer > 1 && across != 0 && across < in ? ROW_TILE : n_inner;
  for (int64_t i = 0; i < n_inner; i += tile) {
    int64_t m = n_inner - i < tile ? n_inner - i : tile;
    for (int64_t o = 0; o < n_outer; ++o)
      copy_row(job, data[0] + o * outer[0] + i * inner[0], data[1] + o * outer[1] + i * inner[1], inner[0],
               inner[1], m);
  }
}

typedef struct flat_copy {
  copy_job job;
  char *dst;
  const char *src;
} flat_copy;

static tn_status copy_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const flat_copy *f = ctx;
  size_t out = tn_kit_dtype_size(f->job.dst), in = tn_kit_dtype_size(f->job.src);
  cpu_read(f->dst + (size_t)begin * out, f->job.dst, f->src + (size_t)begin * in, f->job.src, (int64_t)in,
           end - begin);
  return TN_OK;
}

tn_status cpu_copy(const tn_view *dst, const tn_view *src) {
  if (dst->numel == 0) return TN_OK;
  if (cpu_contiguous(dst) && cpu_contiguous(src) && dst->numel == src->numel) {
    flat_copy f = {{dst->dtype, src->dtype}, dst->data, src->data};
    if (dst->numel <= CPU_GRAIN) return copy_chunk(0, dst->numel, 0, &f);
    return tn_kit_host()->parallel_for(dst->numel, CPU_GRAIN, copy_chunk, &f);
  }
  const tn_view *operands[2] = {dst, src};
  copy_job job = {dst->dtype, src->dtype};
  tn_iter it;
  TN_TRY(tn_iter_init(&it, dst->ndim, dst->sizes, 1, 2, operands, 0));
  return tn_iter_run2(&it, CPU_GRAIN, copy_rows, &job);
}

/* ------------------------------------------------------------------ fill */

typedef struct fill_job {
  uint64_t pattern[8]; /* 64 bytes of the element */
  size_t itemsize;
} fill_job;

static void fill_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const fill_job *f = ctx;
  char *dst = data[0];
  if (strides[0] != (int64_t)f->itemsize) {
    for (int64_t i = 0; i < n; ++i) memcpy(dst + i * strides[0], f->pattern, f->itemsize);
    return;
  }
  size_t bytes = (size_t)n * f->itemsize;
  for (; bytes >= sizeof f->pattern; bytes -= sizeof f->pattern, dst += sizeof f->pattern)
    memcpy(dst, f->pattern, sizeof f->pattern);
  memcpy(dst, f->pattern, bytes);
}

tn_status cpu_fill(const tn_view *dst, const cpu_scalar *s) {
  fill_job f = {.itemsize = dst->itemsize};
  for (size_t i = 0; i < sizeof f.pattern; i += dst->itemsize)
    cpu_put_scalar((char *)f.pattern + i, dst->dtype, s);
  const tn_view *operands[1] = {dst};
  return tn_iter_each(1, 1, operands, CPU_GRAIN, fill_row, &f);
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
