/* SPDX-License-Identifier: Apache-2.0
 *
 * Products as oneDNN takes them: views become plain matrices, the table says in which pieces, the host's threads run
 * the pieces. Every reason to decline is known before the first write.
 *
 * Note [Two ways in]
 * float32 goes to dnnl_sgemm: any leading dims, beta and alpha, nothing to prepare or keep. The library's other kernels
 * for float32 take only whole dense operands, are no faster but for few rows times a transposed matrix (7 %), and
 * lose a tenth above a thousand terms. bfloat16 has no such call: each shape of piece is a primitive from the cache.
 */
#include "plugins/onednn/matmul.h"

#include <string.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/iter.h>

#include "plugins/onednn/table.h"

/* A stack of matrices; strides in elements. */
typedef struct matrix {
  char *data;
  int64_t batch, row, col;
} matrix;

/* c = beta c + alpha (a @ b), `batch` times. */
typedef struct product {
  int64_t m, n, k, batch;
  matrix a, b, c;
  double alpha, beta;
  tn_dtype dtype;
} product;

/* ------------------------------------------------------------------ primitives */

/* The key of a primitive: one piece of a product of bfloat16. */
typedef struct problem {
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row;
  double alpha, beta;
} problem;

enum { MD_A = 0, MD_B, MD_C };

static tn_status describe(dnnl_memory_desc_t *md, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  dnnl_dims_t dims = {rows, cols}, strides = {row, col};
  return od_status(dnnl_memory_desc_init_by_strides(md, 2, dims, dnnl_bf16, strides), "describe a matrix");
}

static tn_status make_product(const void *key, void *value) {
  const problem *q = key;
  od_primitive *p = value;
  dnnl_matmul_desc_t descriptor;
  dnnl_primitive_attr_t attributes;
  TN_TRY(describe(&p->mds[MD_A], q->m, q->k, q->a_row, q->a_col));
  TN_TRY(describe(&p->mds[MD_B], q->k, q->n, q->b_row, q->b_col));
  TN_TRY(describe(&p->mds[MD_C], q->m, q->n, q->c_row, 1));
  TN_TRY(od_status(dnnl_matmul_desc_init(&descriptor, &p->mds[MD_A], &p->mds[MD_B], NULL, &p->mds[MD_C]),
                   "describe a product"));
  TN_TRY(od_attributes(q->alpha, q->beta, &attributes));
  tn_status status = od_primitive_make(&descriptor, attributes, NULL, p, NULL);
  dnnl_primitive_attr_destroy(attributes);
  return status;
}

static void drop_product(void *value) { od_primitive_drop(value); }

static const od_kind product_kind = {sizeof(problem), sizeof(od_primitive), make_product, drop_product};

/* ------------------------------------------------------------------ pieces */

/* Pieces are of one size but for the last row of them and the last column. */
enum { LAST_ROW = 1, LAST_COLUMN = 2, VARIANTS = 4 };

typedef struct job {
  const product *p;
  od_cut cut;
  int64_t down, across;
  const od_primitive *variants[VARIANTS]; /* bfloat16: taken from the cache */
  char *scratch;
  size_t scratch_each; /* per worker */
} job;

static int64_t parts_of(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

static int64_t rows_of(const job *j, int shape) {
  return shape & LAST_ROW ? j->p->m - (j->down - 1) * j->cut.rows : j->cut.rows;
}
static int64_t columns_of(const job *j, int shape) {
  return shape & LAST_COLUMN ? j->p->n - (j->across - 1) * j->cut.columns : j->cut.columns;
}

static void give_variants(job *j) {
  for (int v = 0; v < VARIANTS; ++v) od_give(j->variants[v]);
}

static tn_status take_variant(job *j, int v) {
  const product *p = j->p;
  const void *value = NULL;
  problem q = {.m = rows_of(j, v),
               .n = columns_of(j, v),
               .k = p->k,
               .a_row = p->a.row,
               .a_col = p->a.col,
               .b_row = p->b.row,
               .b_col = p->b.col,
               .c_row = p->c.row,
               .alpha = p->alpha,
               .beta = p->beta};
  TN_TRY(od_take(&product_kind, &q, &value));
  const od_primitive *taken = j->variants[v] = value;
  if (taken->scratch_bytes > j->scratch_each) j->scratch_each = taken->scratch_bytes;
  return taken->handle ? TN_OK : TN_DECLINED;
}

/* TN_DECLINED if the library has no good code for one of them. */
static tn_status take_variants(job *j) {
  tn_status status = TN_OK;
  if (j->p->dtype == TN_FLOAT32) return TN_OK;
  for (int v = 0; v < VARIANTS && status == TN_OK; ++v)
    /* One row of pieces is the last one, and so for columns. */
    if ((j->down > 1 || v & LAST_ROW) && (j->across > 1 || v & LAST_COLUMN)) status = take_variant(j, v);
  if (status != TN_OK) give_variants(j);
  return status;
}

static char *at(const product *p, const matrix *x, int64_t batch, int64_t row, int64_t col) {
  return x->data + (batch * x->batch + row * x->row + col * x->col) * (int64_t)tn_kit_dtype_size(p->dtype);
}

/* See Note [Two ways in]. */
static tn_status run_float(const job *j, int shape, const char *a, const char *b, char *c) {
  const product *p = j->p;
  bool a_down = p->a.col != 1, b_down = p->b.col != 1;
  return od_status(dnnl_sgemm(a_down ? 'T' : 'N', b_down ? 'T' : 'N', rows_of(j, shape), columns_of(j, shape),
                              p->k, (float)p->alpha, (const float *)(const void *)a,
                              a_down ? p->a.col : p->a.row, (const float *)(const void *)b,
                              b_down ? p->b.col : p->b.row, (float)p->beta, (float *)(void *)c, p->c.row),
                   "multiply");
}

static tn_status run_half(const od_primitive *v, char *a, char *b, char *c, char *scratch) {
  const od_operand operands[] = {{DNNL_ARG_SRC, &v->mds[MD_A], a},
                                 {DNNL_ARG_WEIGHTS, &v->mds[MD_B], b},
                                 {DNNL_ARG_DST, &v->mds[MD_C], c}};
  return od_run(v, 3, operands, scratch);
}

static tn_status run_piece(const job *j, int64_t piece, char *scratch) {
  const product *p = j->p;
  int64_t batch = piece / (j->down * j->across), place = piece % (j->down * j->across);
  int64_t row = place / j->across, column = place % j->across;
  int shape = (row == j->down - 1 ? LAST_ROW : 0) | (column == j->across - 1 ? LAST_COLUMN : 0);
  row *= j->cut.rows;
  column *= j->cut.columns;
  char *a = at(p, &p->a, batch, row, 0), *b = at(p, &p->b, batch, 0, column),
       *c = at(p, &p->c, batch, row, column);
  return p->dtype == TN_FLOAT32 ? run_float(j, shape, a, b, c)
                                : run_half(j->variants[shape], a, b, c, scratch);
}

static tn_status run_pieces(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const job *j = ctx;
  tn_status status = TN_OK;
  int before = od_single_begin();
  for (int64_t piece = begin; piece < end && status == TN_OK; ++piece)
    status = run_piece(j, piece, j->scratch + (size_t)worker * j->scratch_each);
  od_single_end(before);
  return status;
}

/* ------------------------------------------------------------------ whether */

/* Unit stride along rows or down columns, the other one no shorter than what it steps over. Strides of dims of one
 * element mean nothing and are made plain: they stand in the key. */
static bool is_plain(matrix *x, int64_t rows, int64_t cols) {
  if (cols == 1) x->col = 1;
  if (rows == 1) x->row = x->col == 1 ? cols : 1;
  if (x->col == 1 && cols == 1 && rows > 1) return x->row >= 1;
  return (x->col == 1 && x->row >= cols) || (x->row == 1 && x->col >= rows);
}

/* The same product with c transposed. */
static void turn(product *p) {
  product t = *p;
  p->m = t.n, p->n = t.m;
  p->a = (matrix){t.b.data, t.b.batch, t.b.col, t.b.row};
  p->b = (matrix){t.a.data, t.a.batch, t.a.col, t.a.row};
  p->c = (matrix){t.c.data, t.c.batch, t.c.col, t.c.row};
}

/* Turns the product so that its result lies in rows, and asks the table. alpha 0 has a rule of its own (NaN times 0
 * is NaN): not here. */
static bool plan(product *p, job *j) {
  *j = (job){.p = p};
  if (p->k == 0 || p->batch == 0 || p->alpha == 0) return false;
  if (p->c.col != 1 && p->c.row == 1) turn(p);
  if (p->c.col != 1 || p->c.row < p->n) return false;
  if (!is_plain(&p->a, p->m, p->k) || !is_plain(&p->b, p->k, p->n)) return false;
  od_shape shape = {p->m, p->n, p->k, p->batch, p->b.col != 1};
  j->cut = od_cut_product(od_library_isa(), p->dtype, &shape);
  if (j->cut.rows == 0) return false;
  j->down = parts_of(p->m, j->cut.rows);
  j->across = parts_of(p->n, j->cut.columns);
  return true;
}

/* ------------------------------------------------------------------ operators */

static matrix matrix_of(const tn_view *v) {
  uint32_t n = v->ndim;
  return (matrix){v->data, n == 3 ? v->strides[0] : 0, v->strides[n - 2], v->strides[n - 1]};
}

static void copy_loop(void *ctx, char **data, const int64_t *strides, int64_t n) {
  size_t size = *(const size_t *)ctx;
  char *dst = data[0];
  const char *src = data[1];
  if (strides[0] == (int64_t)size && strides[1] == (int64_t)size) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; ++i) memcpy(dst + i * strides[0], src + i * strides[1], size);
}

static tn_status copy(const tn_view *result, const tn_view *self) {
  enum { GRAIN = 32768 };
  const tn_view *views[] = {result, self};
  size_t size = result->itemsize;
  return tn_iter_each(1, 2, views, GRAIN, copy_loop, &size);
}

static tn_status run(tn_call *call, job *j, const tn_view *result, const tn_view *self) {
  tn_memory scratch = {0};
  int32_t threads = tn_kit_host()->num_threads();
  if (j->scratch_each) TN_TRY(tn_kit_host()->scratch(call, j->scratch_each * (size_t)threads, &scratch));
  j->scratch = scratch.address;
  if (self && self->data != result->data) TN_TRY(copy(result, self));
  return tn_kit_host()->parallel_for(j->p->batch * j->down * j->across, 1, run_pieces, j);
}

/* result = beta self + alpha (a @ b); self (may be NULL) broadcasts; beta 0 ignores it. */
static tn_status multiply(tn_call *call, const tn_view *result, const tn_view *self, const tn_view *a,
                          const tn_view *b, double beta, double alpha) {
  uint32_t nd = result->ndim;
  if (od_too_small(result->sizes[nd - 2], result->sizes[nd - 1], a->sizes[nd - 1])) return TN_DECLINED;
  if (a->dtype != result->dtype || b->dtype != result->dtype || (self && self->dtype != result->dtype))
    return TN_DECLINED;
  bool adds = self && beta != 0;
  product p = {.m = result->sizes[nd - 2],
               .n = result->sizes[nd - 1],
               .k = a->sizes[nd - 1],
               .batch = nd == 3 ? result->sizes[0] : 1,
               .a = matrix_of(a),
               .b = matrix_of(b),
               .c = matrix_of(result),
               .alpha = alpha,
               .beta = adds ? beta : 0,
               .dtype = result->dtype};
  job j;
  if (!plan(&p, &j)) return TN_DECLINED;
  TN_TRY(take_variants(&j));
  tn_status status = run(call, &j, result, adds ? self : NULL);
  give_variants(&j);
  return status;
}

tn_status od_mm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, NULL, args[0].u.v, args[1].u.v, 0, 1);
}

static double number(const tn_value *v) {
  return v->kind == TN_VAL_NONE ? 1 : v->kind == TN_VAL_FLOAT ? v->u.f : (double)v->u.i;
}

tn_status od_addmm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(call, out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v, number(&args[3]),
                  number(&args[4]));
}
