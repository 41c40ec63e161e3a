/* SPDX-License-Identifier: Apache-2.0
 *
 * mm, bmm, addmm, baddbmm, mv, dot, and the first four again for small operands (Note [Small products]): prepares
 * operands, splits the work over threads, and calls the blocked product of the instruction set (per-isa/gemm.inc).
 * Halves are widened to float32 in scratch and rounded once at the end; integers run as int64, whose low bits are those
 * of any narrower type.
 *
 * Note [Splitting]
 * Threads get rectangles of the result, never parts of k, so an element is summed in one order whatever
 * the number of threads (gemm.inc says why its bits do not depend on the rectangle either).
 */
#include "plugins/backend-cpu/cpu.h"

/* One product of matrices, or a batch of them; strides between matrices in elements. */
typedef struct product {
  cpu_gemm g;
  int64_t batch, a_step, b_step, c_step, d_step;
  tn_dtype dtype; /* float32, float64 or int64 */
  cpu_scalar alpha, beta;
} product;

/* ------------------------------------------------------------------ vectors */

static double dot_run(tn_dtype dtype, const void *a, const void *b, int64_t n) {
  return dtype == TN_FLOAT32 ? cpu_now->dot_f32(a, b, n) : cpu_now->dot_f64(a, b, n);
}

static void put_result(const cpu_gemm *g, tn_dtype dtype, int64_t i, int64_t j, double sum) {
  int64_t at = i * g->c_row + j * g->c_col, from = i * g->d_row + j * g->d_col;
  if (dtype == TN_FLOAT32)
    ((float *)g->c)[at] =
        (g->beta == 0 ? 0 : (float)g->beta * ((const float *)g->d)[from]) + (float)g->alpha * (float)sum;
  else
    ((double *)g->c)[at] = (g->beta == 0 ? 0 : g->beta * ((const double *)g->d)[from]) + g->alpha * sum;
}

/* A column (n == 1) or a row (m == 1) whose sums run along unit strides: one dot each. */
static bool is_dots(const cpu_gemm *g) {
  return (g->n == 1 || g->m == 1) && (g->a_col == 1 || g->k == 1) && (g->b_row == 1 || g->k == 1);
}
static void run_dots(const cpu_gemm *g, tn_dtype dtype) {
  size_t size = tn_kit_dtype_size(dtype);
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j)
      put_result(g, dtype, i, j,
                 dot_run(dtype, (const char *)g->a + (size_t)(i * g->a_row) * size,
                         (const char *)g->b + (size_t)(j * g->b_col) * size, g->k));
}

/* The same product with c transposed: rows become columns. */
static cpu_gemm transposed(const cpu_gemm *g) {
  return (cpu_gemm){.m = g->n,
                    .n = g->m,
                    .k = g->k,
                    .a = g->b,
                    .a_row = g->b_col,
                    .a_col = g->b_row,
                    .b = g->a,
                    .b_row = g->a_col,
                    .b_col = g->a_row,
                    .c = g->c,
                    .c_row = g->c_col,
                    .c_col = g->c_row,
                    .d = g->d,
                    .d_row = g->d_col,
                    .d_col = g->d_row,
                    .alpha = g->alpha,
                    .beta = g->beta};
}

/* ------------------------------------------------------------------ integers */

static void run_int64(const product *p, int64_t batch) {
  const cpu_gemm *g = &p->g;
  const int64_t *a = (const int64_t *)g->a + batch * p->a_step,
                *b = (const int64_t *)g->b + batch * p->b_step;
  const int64_t *d = (const int64_t *)g->d + batch * p->d_step;
  int64_t *c = (int64_t *)g->c + batch * p->c_step;
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      const int64_t added = p->beta.i == 0 ? 0 : d[i * g->d_row + j * g->d_col]; /* c may be d */
      uint64_t sum = 0, *out = (uint64_t *)&c[i * g->c_row + j * g->c_col];
      for (int64_t k = 0; k < g->k; ++k)
        sum += (uint64_t)a[i * g->a_row + k * g->a_col] * (uint64_t)b[k * g->b_row + j * g->b_col];
      *out = (uint64_t)p->alpha.i * sum;
      if (p->beta.i != 0) *out += (uint64_t)p->beta.i * (uint64_t)added;
    }
}

static tn_status int64_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  for (int64_t i = begin; i < end; ++i) run_int64(ctx, i);
  return TN_OK;
}

/* ------------------------------------------------------------------ floats */

typedef struct gemm_job {
  const product *p;
  const cpu_gemm_kernel *kernel;
  int64_t rows, columns;      /* of one rectangle */
  int64_t across, rectangles; /* rectangles in a row of them, and in a matrix */
  char *scratch;
  size_t scratch_each; /* per worker */
  bool dots;           /* of the whole product: a rectangle of one column must not be summed in another way */
} gemm_job;

static cpu_gemm rectangle(const gemm_job *job, int64_t task) {
  const product *p = job->p;
  cpu_gemm g = p->g;
  size_t size = tn_kit_dtype_size(p->dtype);
  int64_t batch = task / job->rectangles, place = task % job->rectangles;
  int64_t i = place / job->across * job->rows, j = place % job->across * job->columns;
  g.m = g.m - i < job->rows ? g.m - i : job->rows;
  g.n = g.n - j < job->columns ? g.n - j : job->columns;
  g.a = (const char *)g.a + (size_t)((batch * p->a_step + i * g.a_row) * (int64_t)size);
  g.b = (const char *)g.b + (size_t)((batch * p->b_step + j * g.b_col) * (int64_t)size);
  g.c = (char *)g.c + (size_t)((batch * p->c_step + i * g.c_row + j * g.c_col) * (int64_t)size);
  g.d = (const char *)g.d + (size_t)((batch * p->d_step + i * g.d_row + j * g.d_col) * (int64_t)size);
  return g;
}

static tn_status gemm_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const gemm_job *job = ctx;
  for (int64_t task = begin; task < end; ++task) {
    cpu_gemm g = rectangle(job, task);
    if (job->dots)
      run_dots(&g, job->p->dtype);
    else
      job->kernel->run(&g, job->scratch + (size_t)worker * job->scratch_each);
  }
  return TN_OK;
}

/* Fewest multiply-adds worth a thread: 2^19 are some 4 us on one AVX-512 core, fork and join about 1. */
enum { TASK_WORK = 1 << 19 };

/* Halves the longer side (in register tiles) until there are enough rectangles. */
static void split(gemm_job *job, int64_t wanted) {
  const cpu_gemm *g = &job->p->g;
  int64_t mr = job->kernel->mr, nr = job->kernel->nr, down = 1, across = 1;
  while (down * across < wanted) {
    int64_t tiles_m = g->m / (mr * down), tiles_n = g->n / (nr * across);
    if (tiles_m < 2 && tiles_n < 2) break;
    if (tiles_n * nr >= tiles_m * mr)
      across *= 2;
    else
      down *= 2;
  }
  /* As even as can be: tiles come in every height, panels in whole and half width. */
  const int64_t half = nr / 2;
  job->rows = (g->m + down - 1) / down;
  job->columns = ((g->n + across - 1) / across + half - 1) / half * half;
  job->across = (g->n + job->columns - 1) / job->columns;
  job->rectangles = job->across * ((g->m + job->rows - 1) / job->rows);
}

/* Too little work to share: no rectangles, and scratch on the stack if it is small. */
static tn_status run_single(tn_call *call, const product *p, const cpu_gemm_kernel *kernel) {
  enum { LOCAL_BYTES = 8192 };
  char local[LOCAL_BYTES] __attribute__((aligned(64)));
  void *scratch = local;
  if (is_dots(&p->g)) {
    run_dots(&p->g, p->dtype);
    return TN_OK;
  }
  size_t bytes = kernel->scratch_bytes(&p->g);
  if (bytes > LOCAL_BYTES) TN_TRY(cpu_scratch(call, bytes, &scratch));
  kernel->run(&p->g, scratch);
  return TN_OK;
}

static tn_status run_shared(tn_call *call, const product *p, const cpu_gemm_kernel *kernel, double work) {
  gemm_job job = {.p = p, .kernel = kernel, .dots = is_dots(&p->g)};
  int64_t threads = tn_kit_host()->num_threads(), wanted = (int64_t)(work / TASK_WORK);
  split(&job, p->batch >= threads ? 1 : wanted < threads ? wanted : threads);
  int64_t tasks = job.rectangles * p->batch;
  double grain = TASK_WORK / (work / (double)job.rectangles);
  if (grain > (double)tasks) grain = (double)tasks;
  cpu_gemm first = rectangle(&job, 0);
  job.scratch_each = (kernel->scratch_bytes(&first) + 63) / 64 * 64;
  void *scratch;
  TN_TRY(cpu_scratch(call, job.scratch_each * (size_t)threads, &scratch));
  job.scratch = scratch;
  return tn_kit_host()->parallel_for(tasks, grain < 1 ? 1 : (int64_t)grain, gemm_chunk, &job);
}

static tn_status run_product(tn_call *call, product *p) {
  if (p->g.m == 0 || p->g.n == 0 || p->batch == 0) return TN_OK;
  if (p->dtype == TN_INT64) return tn_kit_host()->parallel_for(p->batch, 1, int64_chunk, p);
  if ((p->g.n == 1 && p->g.m > 1 && !is_dots(&p->g)) || (p->g.c_col != 1 && p->g.c_row == 1)) {
    p->g = transposed(&p->g);
    int64_t step = p->a_step;
    p->a_step = p->b_step;
    p->b_step = step;
  }
  const cpu_gemm_kernel *kernel = p->dtype == TN_FLOAT32 ? cpu_now->gemm_f32 : cpu_now->gemm_f64;
  double work = (double)p->g.m * (double)p->g.n * (double)(p->g.k > 0 ? p->g.k : 1);
  if (p->batch == 1 && work < 2 * (double)TASK_WORK) return run_single(call, p, kernel);
  return run_shared(call, p, kernel, work);
}

/* ------------------------------------------------------------------ operands */

/* A matrix (or batch of them): where it lies and its strides in elements. */
typedef struct matrix {
  const void *data;
  int64_t batch, row, col;
} matrix;

static matrix matrix_of(const tn_view *v, const void *data, bool own_strides) {
  uint32_t n = v->ndim;
  if (own_strides) return (matrix){data, n == 3 ? v->strides[0] : 0, v->strides[n - 2], v->strides[n - 1]};
  int64_t columns = v->sizes[n - 1];
  return (matrix){data, n == 3 ? columns * v->sizes[1] : 0, columns, 1};
}

/* v's matrices in the dtype that the product computes in: as they lie, or row-major in scratch. */
static tn_status operand(tn_call *call, const tn_view *v, tn_dtype dtype, matrix *out) {
  const void *data = v->data;
  if (v->dtype != dtype) TN_TRY(cpu_contiguous_data(call, v, dtype, &data));
  *out = matrix_of(v, data, v->dtype == dtype);
  return TN_OK;
}

/* The strides with which v spreads over `shape` (broadcast: 0). */
static matrix spread(const tn_view *v, const tn_view *shape) {
  int64_t strides[3] = {0, 0, 0};
  for (uint32_t i = 0; i < v->ndim; ++i)
    if (v->sizes[i] != 1) strides[3 - v->ndim + i] = v->strides[i];
  return (matrix){v->data, shape->ndim == 3 ? strides[0] : 0, strides[1], strides[2]};
}

/* What beta multiplies: self where it lies, or, in another dtype, copied to where the result will stand. */
static tn_status addend(const tn_view *target, const tn_view *self, matrix *out) {
  if (self->dtype == target->dtype) {
    *out = spread(self, target);
    return TN_OK;
  }
  *out = matrix_of(target, target->data, true);
  return cpu_copy(target, self);
}

static tn_dtype product_dtype(tn_dtype dtype) {
  return tn_kit_dtype_is_float(dtype) ? cpu_wide(dtype) : TN_INT64;
}

/* result = beta * self + alpha * (a @ b). self (may be NULL) broadcasts; beta 0 ignores it, NaN and all. */
static tn_status multiply(tn_call *call, const tn_view *result, const tn_view *self, const tn_view *a,
                          const tn_view *b, cpu_scalar beta, cpu_scalar alpha) {
  tn_dtype dtype = product_dtype(result->dtype);
  cpu_local wide;
  const tn_view *target = result;
  if (result->numel == 0) return TN_OK;
  if (dtype != result->dtype) {
    void *data;
    TN_TRY(cpu_scratch(call, (size_t)result->numel * tn_kit_dtype_size(dtype), &data));
    cpu_local_contiguous(&wide, data, dtype, result->ndim, result->sizes);
    target = &wide.view;
  }
  bool adds = self && (beta.f != 0 || beta.i != 0);
  matrix ma, mb, mc = matrix_of(target, target->data, true), md = mc;
  if (adds) TN_TRY(addend(target, self, &md));
  TN_TRY(operand(call, a, dtype, &ma));
  TN_TRY(operand(call, b, dtype, &mb));
  uint32_t n = result->ndim;
  cpu_scalar none = {0, 0};
  product p = {.g = {.m = result->sizes[n - 2],
                     .n = result->sizes[n - 1],
                     .k = a->sizes[n - 1],
                     .a = ma.data,
                     .a_row = ma.row,
                     .a_col = ma.col,
                     .b = mb.data,
                     .b_row = mb.row,
                     .b_col = mb.col,
                     .c = target->data,
                     .c_row = mc.row,
                     .c_col = mc.col,
                     .d = md.data,
                     .d_row = md.row,
                     .d_col = md.col,
                     .alpha = alpha.f,
                     .beta = adds ? beta.f : 0},
               .batch = n == 3 ? result->sizes[0] : 1,
               .a_step = ma.batch,
               .b_step = mb.batch,
               .c_step = mc.batch,
               .d_step = md.batch,
               .dtype = dtype,
               .alpha = alpha,
               .beta = adds ? beta : none};
  TN_TRY(run_product(call, &p));
  return target == result ? TN_OK : cpu_copy(result, target);
}

static const cpu_scalar one = {1, 1}, zero = {0, 0};

tn_status cpu_op_mm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, NULL, args[0].u.v, args[1].u.v, zero, one);
}

tn_status cpu_op_bmm(tn_call *call, const tn_value *args, tn_value *out) {
  return cpu_op_mm(call, args, out);
}

tn_status cpu_op_addmm(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_scalar beta = args[3].kind == TN_VAL_NONE ? one : cpu_scalar_of(&args[3]);
  cpu_scalar alpha = args[4].kind == TN_VAL_NONE ? one : cpu_scalar_of(&args[4]);
  return multiply(call, out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v, beta, alpha);
}

tn_status cpu_op_baddbmm(tn_call *call, const tn_value *args, tn_value *out) {
  return cpu_op_addmm(call, args, out);
}

/* ------------------------------------------------------------------ small products */

/* Note [Small products]
 * Up to some thousand multiply-adds what a product costs is the way to it. So these kernels stand before all providers
 * (CPU_SMALL_PRIORITY), claim only small tensors, and know one way: register tiles over the operands where they lie. They
 * decline what needs another: columns, whose sums run along k; numbers other than 0 and 1; odd strides; and what leaves most
 * of a tile empty, unless it is over before anybody else has begun (docs/measurements/2026-12-01-small.md). */
enum { SMALL_WORK = 1 << 15, SMALL_STACK_WORK = 1 << 17, SMALL_EMPTY_WORK = 1 << 10 };
static bool small_pays(const cpu_gemm *g, int64_t batch, int64_t lanes) {
  const int64_t work = g->m * g->n * g->k;
  if (work == 0 || work > SMALL_WORK || batch == 0 || batch * work > SMALL_STACK_WORK || g->n == 1) return false;
  if (g->m == 1 && g->b_col != 1) return false;
  return work <= SMALL_EMPTY_WORK || 2 * g->n > lanes;
}

/* result = adds ? self + a @ b : a @ b, of float32 or float64, which the meta rule has seen to. */
static tn_status small_product(const tn_view *result, const tn_view *self, const tn_view *a, const tn_view *b) {
  const uint32_t n = result->ndim;
  const int64_t batch = n == 3 ? result->sizes[0] : 1;
  const cpu_gemm_kernel *kernel = result->dtype == TN_FLOAT32 ? cpu_now->gemm_f32 : cpu_now->gemm_f64;
  const matrix d = self ? spread(self, result) : (matrix){NULL, 0, 0, 0};
  cpu_gemm g = {.m = result->sizes[n - 2],
                .n = result->sizes[n - 1],
                .k = a->sizes[n - 1],
                .a = a->data,
                .a_row = a->strides[n - 2],
                .a_col = a->strides[n - 1],
                .b = b->data,
                .b_row = b->strides[n - 2],
                .b_col = b->strides[n - 1],
                .c = result->data,
                .c_row = result->strides[n - 2],
                .c_col = result->strides[n - 1],
                .alpha = 1,
                .beta = self ? 1 : 0,
                .d = d.data,
                .d_row = d.row,
                .d_col = d.col};
  if (!small_pays(&g, batch, kernel->nr / 2) || !kernel->small(&g)) return TN_DECLINED;
  const int64_t size = result->itemsize;
  for (int64_t i = 1; i < batch; ++i) { /* what goes for the first goes for all */
    g.a = (const char *)g.a + a->strides[0] * size;
    g.b = (const char *)g.b + b->strides[0] * size;
    g.c = (char *)g.c + result->strides[0] * size;
    g.d = self ? (const char *)g.d + d.batch * size : NULL;
    (void)kernel->small(&g);
  }
  return TN_OK;
}

tn_status cpu_op_mm_small(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  return small_product(out[0].u.v, NULL, args[0].u.v, args[1].u.v);
}

tn_status cpu_op_bmm_small(tn_call *call, const tn_value *args, tn_value *out) {
  return cpu_op_mm_small(call, args, out);
}

tn_status cpu_op_addmm_small(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const double beta = args[3].kind == TN_VAL_NONE ? 1 : cpu_scalar_of(&args[3]).f;
  const double alpha = args[4].kind == TN_VAL_NONE ? 1 : cpu_scalar_of(&args[4]).f;
  if (alpha != 1 || (beta != 0 && beta != 1)) return TN_DECLINED;
  return small_product(out[0].u.v, beta == 1 ? args[0].u.v : NULL, args[1].u.v, args[2].u.v);
}

tn_status cpu_op_baddbmm_small(tn_call *call, const tn_value *args, tn_value *out) {
  return cpu_op_addmm_small(call, args, out);
}

/* ------------------------------------------------------------------ vectors as matrices */

/* v as a column (n, 1) or a row (1, n). */
static void as_matrix(cpu_local *out, const tn_view *v, bool column) {
  cpu_local_copy(out, v);
  out->view.ndim = 2;
  out->sizes[column] = 1;
  out->sizes[!column] = v->ndim ? v->sizes[0] : 1;
  out->strides[column] = 1;
  out->strides[!column] = v->ndim ? v->strides[0] : 1;
}

tn_status cpu_op_mv(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_local vec, result;
  as_matrix(&vec, args[1].u.v, true);
  as_matrix(&result, out[0].u.v, true);
  return multiply(call, &result.view, NULL, args[0].u.v, &vec.view, zero, one);
}

tn_status cpu_op_dot(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_local row, column, result;
  as_matrix(&row, args[0].u.v, false);
  as_matrix(&column, args[1].u.v, true);
  as_matrix(&result, out[0].u.v, true);
  return multiply(call, &result.view, NULL, &row.view, &column.view, zero, one);
}
