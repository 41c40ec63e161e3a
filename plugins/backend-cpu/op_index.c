/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that read or write at places given by an index tensor. Index values are checked in a pass
 * before the first write, so a bad one leaves everything as it was; also where there is nothing to move, as one that is
 * out of range is a mistake for any width of a row. Threads share lines or columns that no
 * two of them write, never additions to one place: sums come in the order of the index.
 */
#include "plugins/backend-cpu/cpu.h"

/* Adds an element (scaled) to a place, in the place's own dtype. */
typedef void (*add_fn)(char *dst, const char *src, const cpu_scalar *alpha);
#define ADD(code, S, name)                                                                                  \
  static void add_##name(char *dst, const char *src, const cpu_scalar *alpha) {                             \
    S *d = (S *)(void *)dst;                                                                                \
    *d = tn_from_acc_##name((tn_acc_##name)(                                                                \
        tn_to_acc_##name(*d) + (tn_acc_##name)alpha->f * tn_to_acc_##name(*(const S *)(const void *)src))); \
  }
#define ADD_INT(code, S, name)                                                               \
  static void add_##name(char *dst, const char *src, const cpu_scalar *alpha) {              \
    S *d = (S *)(void *)dst;                                                                 \
    *d = (S)((uint64_t)*d + (uint64_t)alpha->i * (uint64_t) * (const S *)(const void *)src); \
  }
TN_FOR_FLOAT(ADD)
TN_FOR_INT_AND_BOOL(ADD_INT)
#define ADD_ROW(code, S, name) [code] = add_##name,
const cpu_add_fn cpu_adders[CPU_DTYPES] = {TN_FOR_ALL_DTYPES(ADD_ROW)};

static const cpu_scalar one = {1, 1};

/* out = self, unless it is self already (in place). */
static tn_status begin_from(const tn_view *out, const tn_view *self) {
  return out->data == self->data ? TN_OK : cpu_copy(out, self);
}

/* ------------------------------------------------------------------ gather and scatter */

typedef struct lines_job {
  int64_t n; /* entries of a line of index */
  int64_t index_stride, to_stride, from_stride;
  tn_dtype index_dtype;
  size_t itemsize;
  cpu_add_fn add;    /* NULL: stores */
  char value[8]; /* scatter.value: what is stored */
  bool constant;
} lines_job;

/* data: out, index, self */
static void gather_line(void *ctx, char *const *data) {
  const lines_job *job = ctx;
  for (int64_t i = 0; i < job->n; ++i) {
    int64_t at = cpu_get_int(data[1] + i * job->index_stride, job->index_dtype);
    memcpy(data[0] + i * job->to_stride, data[2] + at * job->from_stride, job->itemsize);
  }
}

/* data: index, out, src */
static void scatter_line(void *ctx, char *const *data) {
  const lines_job *job = ctx;
  for (int64_t i = 0; i < job->n; ++i) {
    int64_t at = cpu_get_int(data[0] + i * job->index_stride, job->index_dtype);
    char *to = data[1] + at * job->to_stride;
    const char *from = job->constant ? job->value : data[2] + i * job->from_stride;
    if (job->add)
      job->add(to, from, &one);
    else
      memcpy(to, from, job->itemsize);
  }
}

tn_status cpu_op_gather(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *result = out[0].u.v,
                *views[3] = {result, index, self};
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  TN_TRY(cpu_check_index(index, cpu_size(self, dim), false));
  if (result->numel == 0) return TN_OK;
  lines_job job = {.n = cpu_size(index, dim),
                   .index_stride = cpu_stride_bytes(index, dim),
                   .to_stride = cpu_stride_bytes(result, dim),
                   .from_stride = cpu_stride_bytes(self, dim),
                   .index_dtype = index->dtype,
                   .itemsize = self->itemsize};
  return cpu_lines(3, views, dim, CPU_GRAIN_HEAVY / (job.n + 1), gather_line, &job);
}

/* args: self dim index src-or-value */
static tn_status scatter(const tn_value *args, tn_value *out, bool add) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *src = cpu_view(&args[3]), *result = out[0].u.v;
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  TN_TRY(cpu_check_index(index, cpu_size(self, dim), false));
  TN_TRY(begin_from(result, self));
  if (index->numel == 0) return TN_OK;
  lines_job job = {.n = cpu_size(index, dim),
                   .index_stride = cpu_stride_bytes(index, dim),
                   .to_stride = cpu_stride_bytes(result, dim),
                   .from_stride = src ? cpu_stride_bytes(src, dim) : 0,
                   .index_dtype = index->dtype,
                   .itemsize = result->itemsize,
                   .add = add ? cpu_adders[result->dtype] : NULL,
                   .constant = !src};
  if (!src) {
    cpu_scalar s = cpu_scalar_of(&args[3]);
    cpu_put_scalar(job.value, result->dtype, &s);
  }
  const tn_view *views[3] = {index, result, src};
  return cpu_lines(src ? 3 : 2, views, dim, CPU_GRAIN_HEAVY / (job.n + 1), scatter_line, &job);
}

tn_status cpu_op_scatter_add(tn_call *call, const tn_value *args, tn_value *out) {
  return scatter(args, out, true);
}
tn_status cpu_op_scatter_src(tn_call *call, const tn_value *args, tn_value *out) {
  return scatter(args, out, false);
}
tn_status cpu_op_scatter_value(tn_call *call, const tn_value *args, tn_value *out) {
  return scatter(args, out, false);
}

/* ------------------------------------------------------------------ whole slices */

/* The i-th slice of v along dim. */
static void slice_of(cpu_local *out, const tn_view *v, uint32_t dim, int64_t i) {
  cpu_local_drop(out, v, dim);
  if (v->data) out->view.data = (char *)v->data + i * cpu_stride_bytes(v, dim);
}

static int64_t index_at(const tn_view *index, int64_t i) {
  return cpu_get_int((const char *)index->data + (index->ndim ? i * cpu_stride_bytes(index, 0) : 0),
                     index->dtype);
}

/* Rows of a contiguous table: row index[i] of self becomes row i of out. */
typedef struct table_job {
  char *out;
  const char *table;
  const tn_view *index;
  const int64_t *flat; /* or the indices themselves, row-major */
  size_t row_bytes;
} table_job;

static tn_status table_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const table_job *job = ctx;
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = job->flat ? job->flat[i] : index_at(job->index, i);
    memcpy(job->out + (size_t)i * job->row_bytes, job->table + (size_t)row * job->row_bytes, job->row_bytes);
  }
  return TN_OK;
}

static tn_status take_rows(table_job *job, int64_t n, int64_t row_elements) {
  return tn_kit_host()->parallel_for(n, CPU_GRAIN / (row_elements + 1) + 1, table_chunk, job);
}

tn_status cpu_op_index_select(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *result = out[0].u.v;
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  TN_TRY(cpu_check_index(index, cpu_size(self, dim), false));
  if (result->numel == 0) return TN_OK;
  if (dim == 0 && cpu_contiguous(self) && cpu_contiguous(result)) {
    table_job job = {result->data, self->data, index, NULL,
                     (size_t)(result->numel / index->numel) * self->itemsize};
    return take_rows(&job, index->numel, result->numel / index->numel);
  }
  for (int64_t i = 0; i < index->numel; ++i) {
    cpu_local to, from;
    slice_of(&to, result, dim, i);
    slice_of(&from, self, dim, index_at(index, i));
    TN_TRY(cpu_copy(&to.view, &from.view));
  }
  return TN_OK;
}

/* Row of a slice: dst += alpha * src. */
typedef struct add_job {
  cpu_add_fn add;
  cpu_scalar alpha;
} add_job;

static void add_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const add_job *job = ctx;
  for (int64_t i = 0; i < n; ++i) job->add(data[0] + i * strides[0], data[1] + i * strides[1], &job->alpha);
}

/* args: self dim index source alpha */
tn_status cpu_op_index_add(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *source = args[3].u.v, *result = out[0].u.v;
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  TN_TRY(cpu_check_index(index, cpu_size(self, dim), false));
  TN_TRY(begin_from(result, self));
  add_job job = {cpu_adders[result->dtype], args[4].kind == TN_VAL_NONE ? one : cpu_scalar_of(&args[4])};
  for (int64_t i = 0; i < index->numel && source->numel; ++i) {
    cpu_local to, from;
    slice_of(&to, result, dim, index_at(index, i));
    slice_of(&from, source, dim, i);
    const tn_view *operands[2] = {&to.view, &from.view};
    TN_TRY(tn_iter_each(1, 2, operands, CPU_GRAIN_HEAVY, add_row, &job));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ embedding */

tn_status cpu_op_embedding(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *weight = args[0].u.v, *indices = args[1].u.v, *result = out[0].u.v;
  TN_TRY(cpu_check_index(indices, weight->sizes[0], false));
  if (result->numel == 0) return TN_OK;
  const void *flat, *table;
  TN_TRY(cpu_contiguous_data(call, indices, TN_INT64, &flat));
  TN_TRY(cpu_contiguous_data(call, weight, weight->dtype, &table));
  void *rows = result->data;
  if (!cpu_contiguous(result)) TN_TRY(cpu_scratch(call, (size_t)result->numel * result->itemsize, &rows));
  table_job job = {rows, table, NULL, flat, (size_t)weight->sizes[1] * weight->itemsize};
  TN_TRY(take_rows(&job, indices->numel, weight->sizes[1]));
  if (rows == result->data) return TN_OK;
  cpu_local block;
  cpu_local_contiguous(&block, rows, result->dtype, result->ndim, result->sizes);
  return cpu_copy(result, &block.view);
}

/* Adds gradient rows into table rows, columns [begin, end) of all of them: each thread has columns of its
 * own. */
typedef struct embedding_job {
  char *table; /* float32 or float64, zeroed */
  const char *grad;
  const int64_t *flat;
  const int64_t *counts; /* of each row, or NULL */
  int64_t n, columns, padding;
  bool single; /* float32 */
} embedding_job;

#define ADD_COLUMNS(T)                                                                         \
  static void add_columns_##T(const embedding_job *job, int64_t i, int64_t row, int64_t begin, \
                              int64_t end) {                                                   \
    T *t = (T *)(void *)job->table + row * job->columns;                                       \
    const T *g = (const T *)(const void *)job->grad + i * job->columns;                        \
    const T scale = job->counts ? (T)1 / (T)job->counts[row] : (T)1;                           \
    for (int64_t j = begin; j < end; ++j) t[j] += g[j] * scale;                                \
  }
ADD_COLUMNS(float)
ADD_COLUMNS(double)

static tn_status embedding_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const embedding_job *job = ctx;
  for (int64_t i = 0; i < job->n; ++i) {
    if (job->flat[i] == job->padding) continue;
    (job->single ? add_columns_float : add_columns_double)(job, i, job->flat[i], begin, end);
  }
  return TN_OK;
}

static tn_status count_rows(tn_call *call, embedding_job *job, int64_t rows) {
  void *memory;
  TN_TRY(cpu_scratch(call, (size_t)rows * sizeof(int64_t), &memory));
  int64_t *counts = memory;
  memset(counts, 0, (size_t)rows * sizeof(int64_t));
  for (int64_t i = 0; i < job->n; ++i) ++counts[job->flat[i]];
  job->counts = counts;
  return TN_OK;
}

/* args: grad_output indices num_weights padding_idx scale_grad_by_freq */
tn_status cpu_op_embedding_dense_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *grad = args[0].u.v, *indices = args[1].u.v, *result = out[0].u.v;
  tn_dtype dtype = cpu_wide(result->dtype);
  cpu_scalar none = {0, 0};
  TN_TRY(cpu_check_index(indices, result->sizes[0], false));
  if (result->numel == 0) return TN_OK;
  cpu_local wide;
  bool direct = result->dtype == dtype && cpu_contiguous(result);
  void *table = result->data;
  if (!direct) TN_TRY(cpu_scratch(call, (size_t)result->numel * tn_kit_dtype_size(dtype), &table));
  cpu_local_contiguous(&wide, table, dtype, result->ndim, result->sizes);
  TN_TRY(cpu_fill(&wide.view, &none));
  const void *flat, *rows;
  TN_TRY(cpu_contiguous_data(call, indices, TN_INT64, &flat));
  TN_TRY(cpu_contiguous_data(call, grad, dtype, &rows));
  embedding_job job = {
      table, rows, flat, NULL, indices->numel, result->sizes[1], cpu_int(&args[3], -1), dtype == TN_FLOAT32};
  if (cpu_int(&args[4], 0)) TN_TRY(count_rows(call, &job, result->sizes[0]));
  TN_TRY(tn_kit_host()->parallel_for(job.columns, CPU_GRAIN_HEAVY / (job.n + 1) + 16, embedding_chunk, &job));
  return direct ? TN_OK : cpu_copy(result, &wide.view);
}
