/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole copies (with casts and broadcasts) and fills between views: which of four ways a copy takes. Flat
 * ones go in one piece; where the source's short side is another dim than the target's, in tiles that
 * registers transpose; all else row by row (elements.c).
 */
#include "plugins/backend-cpu/cpu.h"

typedef struct copy_job {
  tn_dtype dst, src;
  int64_t dst_size, src_size; /* of an element */
  bool stream;
} copy_job;

static copy_job job_of(const tn_view *dst, const tn_view *src) {
  const tn_view *operands[2] = {dst, src};
  return (copy_job){dst->dtype, src->dtype, dst->itemsize, src->itemsize, cpu_streams(2, operands)};
}

/* ------------------------------------------------------------------ flat */

typedef struct flat_copy {
  copy_job job;
  char *dst;
  const char *src;
} flat_copy;

/* In groups where there is such a loop, else in blocks that stay in the first cache. */
static void stream_cast(const copy_job *job, char *dst, const char *src, int64_t n) {
  uint64_t block[CPU_BLOCK] __attribute__((aligned(CPU_LINE)));
  const int64_t out = job->dst_size, in = job->src_size, most = (int64_t)sizeof block / TN_DIM_MAX(out, in);
  cpu_cast_fn cast = cpu_now->cast(job->dst, job->src), grouped = cpu_now->cast_stream(job->dst, job->src);
  if (grouped) {
    const cpu_groups g = cpu_groups_of(dst, out, n);
    cast(dst, src, g.before);
    grouped(dst + g.before * out, src + g.before * in, g.grouped);
    const int64_t done = g.before + g.grouped;
    cast(dst + done * out, src + done * in, n - done);
    return;
  }
  for (int64_t i = 0; i < n; i += most) {
    int64_t m = n - i < most ? n - i : most;
    cast(block, src + i * in, m);
    cpu_now->move->stream(dst + i * out, block, m * out);
  }
}

static tn_status copy_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const flat_copy *f = ctx;
  const copy_job *job = &f->job;
  char *dst = f->dst + begin * job->dst_size;
  const char *src = f->src + begin * job->src_size;
  if (!job->stream) {
    cpu_read(dst, job->dst, src, job->src, job->src_size, end - begin);
    return TN_OK;
  }
  if (job->dst == job->src)
    cpu_now->move->stream(dst, src, (end - begin) * job->dst_size);
  else
    stream_cast(job, dst, src, end - begin);
  cpu_stream_end();
  return TN_OK;
}

static tn_status copy_flat(const tn_view *dst, const tn_view *src) {
  flat_copy f = {job_of(dst, src), dst->data, src->data};
  if (dst->numel <= CPU_GRAIN) return copy_chunk(0, dst->numel, 0, &f);
  return tn_kit_host()->parallel_for(dst->numel, CPU_GRAIN, copy_chunk, &f);
}

/* ------------------------------------------------------------------ transposed */

/* Target rows of a tile are as long as TILE_COLUMNS elements; source rows of it as TILE_BYTES, four cache
 * lines side by side. A tile of float32 has 16384 elements. What no cache will hold is read from
 * memory, which likes long pieces: source rows of a page, a few lines of each target row (float32 on one thread of an AMD EPYC,
 * GB/s, 256 bytes / 1 KiB / a page: 4096 x 4096 15 / 22 / 24, 2048 x 2048 24 / 26 / 27; a copy 41, 51; asking for the
 * next lines ahead gains nothing, a block in the second cache between the two less than this). */
enum { TILE_BYTES = 256, TILE_COLUMNS = 256, PAST_BYTES = 4096, PAST_COLUMNS = 64, CAST_COLUMNS = 64 };

/* Dim 0 of the iteration is the target's row, dim 1 the source's; tiles cover both, in each place of the
 * outer dims. */
typedef struct turned_copy {
  copy_job job;
  const tn_iter *it;
  cpu_transpose_fn transpose;
  int64_t tile_rows, tile_columns;
  int64_t down, across; /* tiles over dim 1 and dim 0 */
} turned_copy;

/* A tile that is cast: transposed into a block on the stack, piece by piece, and its rows cast from there. */
static void cast_tile(const turned_copy *t, char *dst, const char *src, int64_t rows, int64_t columns) {
  uint64_t block[TILE_BYTES / 8 * CAST_COLUMNS] __attribute__((aligned(64)));
  const copy_job *job = &t->job;
  const int64_t dst_stride = t->it->strides[1][0], src_stride = t->it->strides[0][1];
  const int64_t row_bytes = CAST_COLUMNS * job->src_size;
  cpu_cast_fn cast = cpu_now->cast(job->dst, job->src);
  for (int64_t c = 0; c < columns; c += CAST_COLUMNS) {
    int64_t n = columns - c < CAST_COLUMNS ? columns - c : CAST_COLUMNS;
    t->transpose(block, row_bytes, src + c * src_stride, src_stride, rows, n, false);
    for (int64_t r = 0; r < rows; ++r)
      cast(dst + r * dst_stride + c * job->dst_size, (char *)block + r * row_bytes, n);
  }
}

static void copy_tile(const turned_copy *t, int64_t tile) {
  const tn_iter *it = t->it;
  char *data[2];
  const int64_t c = tile % t->across * t->tile_columns, r = tile / t->across % t->down * t->tile_rows,
                outer = tile / t->across / t->down * it->sizes[0] * it->sizes[1];
  const int64_t columns = TN_DIM_MIN(it->sizes[0] - c, t->tile_columns),
                rows = TN_DIM_MIN(it->sizes[1] - r, t->tile_rows);
  tn_iter_pointers(it, NULL, outer, data);
  char *dst = data[0] + r * it->strides[1][0] + c * it->strides[0][0];
  const char *src = data[1] + r * it->strides[1][1] + c * it->strides[0][1];
  if (t->job.dst == t->job.src)
    t->transpose(dst, it->strides[1][0], src, it->strides[0][1], rows, columns, t->job.stream);
  else
    cast_tile(t, dst, src, rows, columns);
}

static tn_status copy_tiles(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const turned_copy *t = ctx;
  for (int64_t i = begin; i < end; ++i) copy_tile(t, i);
  if (t->job.stream) cpu_stream_end();
  return TN_OK;
}

/* Makes the dim along which the source's elements lie side by side dim 1, if the target's rows are another
 * dim. The order of dims is free: each element is copied once. */
static bool find_turned(tn_iter *it, const copy_job *job) {
  const int64_t row = it->strides[0][1];
  if (it->strides[0][0] != job->dst_size || row == job->src_size || row == 0) return false;
  for (uint32_t d = 1; d < it->ndim; ++d) {
    if (it->strides[d][1] != job->src_size) continue;
    int64_t size = it->sizes[d];
    it->sizes[d] = it->sizes[1];
    it->sizes[1] = size;
    for (int k = 0; k < 2; ++k) {
      int64_t stride = it->strides[d][k];
      it->strides[d][k] = it->strides[1][k];
      it->strides[1][k] = stride;
    }
    return true;
  }
  return false;
}

/* Rows of the target a multiple of 4 KiB apart compete for the same few lines of the first cache, and an
 * ordinary store waits for each: past the caches it is twice as fast (2048 x 2048: 40 instead of 20 GB/s),
 * and worth it once the second cache is out of reach anyway. */
enum { RIVAL_BYTES = 4096, RIVAL_SHARE = 8 };
static bool rows_compete(const tn_iter *it, const copy_job *job) {
  return it->strides[1][0] % RIVAL_BYTES == 0 &&
         it->numel > cpu_stream_bytes / RIVAL_SHARE / (job->dst_size + job->src_size);
}

static tn_status copy_turned(const tn_iter *it, const copy_job *job) {
  turned_copy t = {.job = *job, .it = it, .transpose = cpu_now->move->transpose((size_t)job->src_size)};
  /* Casts go through a block of the stack. */
  const bool past = job->stream && job->dst == job->src && it->sizes[1] >= PAST_BYTES / job->src_size;
  t.job.stream = t.job.stream || rows_compete(it, job);
  t.tile_rows = (past ? PAST_BYTES : TILE_BYTES) / job->src_size;
  t.tile_columns = past ? PAST_COLUMNS : TILE_COLUMNS;
  t.down = (it->sizes[1] + t.tile_rows - 1) / t.tile_rows;
  t.across = (it->sizes[0] + t.tile_columns - 1) / t.tile_columns;
  int64_t plane = it->sizes[0] * it->sizes[1], tiles = it->numel / plane * t.down * t.across;
  int64_t each = plane / (t.down * t.across); /* elements of a tile, on average */
  return tn_kit_host()->parallel_for(tiles, CPU_GRAIN / (each + 1) + 1, copy_tiles, &t);
}

/* ------------------------------------------------------------------ row by row */

enum { ROW_TILE = 64 };

static void copy_row(const copy_job *job, char *dst, const char *src, int64_t dst_stride, int64_t src_stride,
                     int64_t n) {
  if (dst_stride == job->dst_size)
    cpu_read(dst, job->dst, src, job->src, src_stride, n);
  else if (src_stride == job->src_size)
    cpu_write(dst, job->dst, dst_stride, src, job->src, n);
  else {
    uint64_t block[CPU_BLOCK];
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
      int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
      cpu_gather(block, src + i * src_stride, src_stride, m, (size_t)job->src_size);
      cpu_write(dst + i * dst_stride, job->dst, dst_stride, block, job->src, m);
    }
  }
}

/* Rows as they come; but where the source's shorter stride is the outer one, in tiles, so that a cache line
 * of the source serves several rows before it is gone. */
static void copy_rows(void *ctx, char **data, const int64_t *inner, const int64_t *outer, int64_t n_inner,
                      int64_t n_outer) {
  const copy_job *job = ctx;
  if (job->dst == job->src && inner[0] == job->dst_size && inner[1] == job->src_size) {
    for (int64_t o = 0; o < n_outer; ++o)
      memcpy(data[0] + o * outer[0], data[1] + o * outer[1], (size_t)(n_inner * job->dst_size));
    return;
  }
  int64_t in = inner[1] < 0 ? -inner[1] : inner[1], across = outer[1] < 0 ? -outer[1] : outer[1];
  int64_t tile = n_outer > 1 && across != 0 && across < in ? ROW_TILE : n_inner;
  for (int64_t i = 0; i < n_inner; i += tile) {
    int64_t m = n_inner - i < tile ? n_inner - i : tile;
    for (int64_t o = 0; o < n_outer; ++o)
      copy_row(job, data[0] + o * outer[0] + i * inner[0], data[1] + o * outer[1] + i * inner[1], inner[0],
               inner[1], m);
  }
}

tn_status cpu_copy(const tn_view *dst, const tn_view *src) {
  if (dst->numel == 0) return TN_OK;
  if (cpu_contiguous(dst) && cpu_contiguous(src) && dst->numel == src->numel) return copy_flat(dst, src);
  const tn_view *operands[2] = {dst, src};
  copy_job job = job_of(dst, src);
  tn_iter it;
  TN_TRY(tn_iter_init(&it, dst->ndim, dst->sizes, 1, 2, operands, 0));
  if (find_turned(&it, &job)) return copy_turned(&it, &job);
  return tn_iter_run2(&it, CPU_GRAIN, copy_rows, &job);
}

/* ------------------------------------------------------------------ fill */

typedef struct fill_job {
  uint64_t line[8]; /* 64 bytes of the element */
  int64_t itemsize;
  bool stream;
} fill_job;

static void fill_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const fill_job *f = ctx;
  if (strides[0] == f->itemsize)
    cpu_now->move->fill(data[0], f->line, n * f->itemsize, f->stream);
  else
    for (int64_t i = 0; i < n; ++i) memcpy(data[0] + i * strides[0], f->line, (size_t)f->itemsize);
}

tn_status cpu_fill(const tn_view *dst, const cpu_scalar *s) {
  const tn_view *operands[1] = {dst};
  const size_t itemsize = dst->itemsize;
  fill_job f = {.itemsize = dst->itemsize};
  cpu_put_scalar(f.line, dst->dtype, s);
  if (dst->numel == 1) {
    memcpy(dst->data, f.line, itemsize);
    return TN_OK;
  }
  for (size_t i = itemsize; i < sizeof f.line; i += itemsize) memcpy((char *)f.line + i, f.line, itemsize);
  f.stream = cpu_streams(1, operands);
  if (f.stream) return cpu_each_streamed(1, operands, CPU_GRAIN, fill_row, &f);
  return tn_iter_each(1, 1, operands, CPU_GRAIN, fill_row, &f);
}
