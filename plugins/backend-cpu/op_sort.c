/* SPDX-License-Identifier: Apache-2.0
 *
 * sort and topk along a dim. Elements of every dtype become 64-bit keys whose unsigned order is the order asked for
 * (NaN above everything, the two zeros equal), so one merge sort and one heap serve all; ties keep their place.
 */
#include "plugins/backend-cpu/cpu.h"

typedef struct pair {
  uint64_t key;
  int64_t at;
} pair;

typedef struct sort_job {
  tn_iter lines; /* values, indices, self: their first elements */
  tn_dtype dtype;
  int64_t n, k; /* of a line; of its results */
  int64_t stride, value_stride, index_stride;
  bool descending;
  char *scratch;
  size_t scratch_each;
} sort_job;

/* ------------------------------------------------------------------ keys */

static uint64_t key_of_double(double x) {
  uint64_t bits;
  if (x != x) return UINT64_MAX;
  if (x == 0) x = 0; /* -0 as 0 */
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static void read_keys(const sort_job *job, const char *line, pair *out) {
  union {
    double f[CPU_BLOCK];
    int64_t i[CPU_BLOCK];
  } block;
  bool floats = tn_kit_dtype_is_float(job->dtype);
  uint64_t flip = job->descending ? UINT64_MAX : 0;
  for (int64_t i = 0; i < job->n; i += CPU_BLOCK) {
    int64_t m = job->n - i < CPU_BLOCK ? job->n - i : CPU_BLOCK;
    cpu_read(&block, floats ? TN_FLOAT64 : TN_INT64, line + i * job->stride, job->dtype, job->stride, m);
    for (int64_t j = 0; j < m; ++j) {
      uint64_t key = floats ? key_of_double(block.f[j]) : (uint64_t)block.i[j] ^ (uint64_t)1 << 63;
      out[i + j] = (pair){key ^ flip, i + j};
    }
  }
}

/* ------------------------------------------------------------------ order */

static bool before(pair a, pair b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }

static void insertion_sort(pair *x, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    pair p = x[i];
    int64_t j = i;
    for (; j > 0 && before(p, x[j - 1]); --j) x[j] = x[j - 1];
    x[j] = p;
  }
}

static void merge(const pair *x, int64_t middle, int64_t n, pair *out) {
  int64_t i = 0, j = middle;
  while (i < middle && j < n) *out++ = before(x[j], x[i]) ? x[j++] : x[i++];
  while (i < middle) *out++ = x[i++];
  while (j < n) *out++ = x[j++];
}

/* Sorts n pairs in x with the help of as many in y; the answer says which of them holds the result. */
static pair *merge_sort(pair *x, pair *y, int64_t n) {
  enum { RUN = 16 };
  for (int64_t i = 0; i < n; i += RUN) insertion_sort(x + i, n - i < RUN ? n - i : RUN);
  for (int64_t width = RUN; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      int64_t rest = n - i;
      merge(x + i, rest < width ? rest : width, rest < 2 * width ? rest : 2 * width, y + i);
    }
    pair *swap = x;
    x = y;
    y = swap;
  }
  return x;
}

/* Restores a heap whose largest is on top after its element i became smaller. */
static void sift_down(pair *heap, int64_t n, int64_t i) {
  pair p = heap[i];
  for (int64_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && before(heap[child], heap[child + 1])) ++child;
    if (!before(p, heap[child])) break;
    heap[i] = heap[child];
  }
  heap[i] = p;
}

/* The first k of n pairs in order, at the front of x. */
static void select_first(pair *x, int64_t n, int64_t k) {
  for (int64_t i = k / 2; i-- > 0;) sift_down(x, k, i);
  for (int64_t i = k; i < n; ++i)
    if (before(x[i], x[0])) {
      x[0] = x[i];
      sift_down(x, k, 0);
    }
  for (int64_t rest = k; rest > 1;) {
    pair last = x[--rest];
    x[rest] = x[0];
    x[0] = last;
    sift_down(x, rest, 0);
  }
}

/* ------------------------------------------------------------------ lines */

static tn_status sort_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const sort_job *job = ctx;
  size_t itemsize = tn_kit_dtype_size(job->dtype);
  pair *x = (pair *)(void *)(job->scratch + (size_t)worker * job->scratch_each), *sorted = x;
  for (int64_t i = begin; i < end; ++i) {
    char *data[3];
    tn_iter_pointers(&job->lines, NULL, i, data);
    read_keys(job, data[2], x);
    if (job->k < job->n)
      select_first(x, job->n, job->k);
    else
      sorted = merge_sort(x, x + job->n, job->n);
    for (int64_t j = 0; j < job->k; ++j) {
      memcpy(data[0] + j * job->value_stride, data[2] + sorted[j].at * job->stride, itemsize);
      memcpy(data[1] + j * job->index_stride, &sorted[j].at, sizeof sorted[j].at);
    }
  }
  return TN_OK;
}

static tn_status sort_lines(tn_call *call, const tn_view *self, tn_value *out, uint32_t dim,
                            bool descending) {
  const tn_view *values = out[0].u.v, *indices = out[1].u.v, *views[3] = {values, indices, self};
  cpu_local dropped[3];
  const tn_view *operands[3];
  void *scratch;
  if (values->numel == 0) return TN_OK;
  sort_job job = {.dtype = self->dtype,
                  .n = cpu_size(self, dim),
                  .k = cpu_size(values, dim),
                  .stride = cpu_stride_bytes(self, dim),
                  .value_stride = cpu_stride_bytes(values, dim),
                  .index_stride = cpu_stride_bytes(indices, dim),
                  .descending = descending};
  for (int i = 0; i < 3; ++i) {
    cpu_local_drop(&dropped[i], views[i], dim);
    operands[i] = &dropped[i].view;
  }
  TN_TRY(tn_iter_init(&job.lines, operands[0]->ndim, operands[0]->sizes, 2, 3, operands, 0));
  job.scratch_each = 2 * (size_t)job.n * sizeof(pair);
  TN_TRY(cpu_scratch(call, job.scratch_each * (size_t)tn_kit_host()->num_threads(), &scratch));
  job.scratch = scratch;
  return tn_kit_host()->parallel_for(job.lines.numel, CPU_GRAIN_HEAVY / 8 / job.n + 1, sort_chunk, &job);
}

/* args: self dim descending */
tn_status cpu_op_sort(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  return sort_lines(call, self, out, cpu_dim(args[1].u.i, self->ndim), args[2].u.i);
}

/* args: self k dim largest sorted */
tn_status cpu_op_topk(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  return sort_lines(call, self, out, cpu_dim(args[2].u.i, self->ndim), args[3].u.i);
}
