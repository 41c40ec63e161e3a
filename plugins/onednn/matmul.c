/* SPDX-License-Identifier: Apache-2.0
 *
 * Products as oneDNN takes them: views become descriptors of plain matrices, the table says in which pieces, the
 * host's threads run the pieces. Every reason to decline is known before the first write.
 *
 * Note [Depth]
 * Above a thousand or so terms oneDNN's float32 kernels lose a tenth of their speed, so a long sum is taken in parts
 * of at most that: the first part adds to what beta keeps of the old result, the later ones to what is there. Borders
 * come from the shape alone. bfloat16 would be rounded after each part, so it is never parted.
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

/* The key of a primitive: one piece of a product. */
typedef struct problem {
  int64_t dtype, m, n, k, a_row, a_col, b_row, b_col, c_row;
  double alpha, beta;
} problem;

enum { MD_A = 0, MD_B, MD_C };

static tn_status describe(dnnl_memory_desc_t *md, const problem *q, int64_t rows, int64_t cols, int64_t row,
                          int64_t col) {
  dnnl_dims_t dims = {rows, cols}, strides = {row, col};
  dnnl_data_type_t type = q->dtype == TN_FLOAT32 ? dnnl_f32 : dnnl_bf16;
  return od_status(dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides), "describe a matrix");
}

static tn_status make_product(const void *key, void *value) {
  const problem *q = key;
  od_primitive *p = value;
  dnnl_matmul_desc_t descriptor;
  dnnl_primitive_attr_t attributes;
  TN_TRY(describe(&p->mds[MD_A], q, q->m, q->k, q->a_row, q->a_col));
  TN_TRY(describe(&p->mds[MD_B], q, q->k, q->n, q->b_row, q->b_col));
  TN_TRY(describe(&p->mds[MD_C], q, q->m, q->n, q->c_row, 1));
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

/* Pieces of one size but for the last row of them, the last column, and the first and the last part of a sum. */
enum { LAST_ROW = 1, LAST_COLUMN = 2, FIRST_PART = 4, LAST_PART = 8, VARIANTS = 16 };

typedef struct job {
  const product *p;
  od_cut cut;
  int64_t down, across, parts;
  const od_primitive *variants[VARIANTS]; /* taken from the cache */
  char *scratch;
  size_t scratch_each; /* per worker */
} job;

static int64_t parts_of(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }
static int64_t extent(int64_t n, int64_t piece, bool last) {
  return last ? n - (parts_of(n, piece) - 1) * piece : piece;
}

static problem variant_problem(const job *j, int variant) {
  const product *p = j->p;
  return (problem){.dtype = p->dtype,
                   .m = extent(p->m, j->cut.rows, variant & LAST_ROW),
                   .n = extent(p->n, j->cut.columns, variant & LAST_COLUMN),
                   .k = extent(p->k, j->cut.depth, variant & LAST_PART),
                   .a_row = p->a.row,
                   .a_col = p->a.col,
                   .b_row = p->b.row,
                   .b_col = p->b.col,
                   .c_row = p->c.row,
                   .alpha = p->alpha,
                   .beta = variant & FIRST_PART ? p->beta : 1};
}

/* Does a piece of this kind occur? With one row of pieces it is the last one, and so on. */
static bool occurs(const job *j, int variant) {
  bool first = variant & FIRST_PART, last = variant & LAST_PART;
  bool part = j->parts == 1 ? first && last : !(first && last) && (first || last || j->parts > 2);
  return part && (j->down > 1 || variant & LAST_ROW) && (j->across > 1 || variant & LAST_COLUMN);
}

static void give_variants(job *j) {
  for (int v = 0; v < VARIANTS; ++v) od_give(j->variants[v]);
}

/* TN_DECLINED if the library has no good code for one of them. */
static tn_status take_variants(job *j) {
  tn_status status = TN_OK;
  for (int v = 0; v < VARIANTS && status == TN_OK; ++v) {
    if (!occurs(j, v)) continue;
    problem q = variant_problem(j, v);
    const void *value = NULL;
    status = od_take(&product_kind, &q, &value);
    j->variants[v] = value;
    if (status == TN_OK && !j->variants[v]->handle) status = TN_DECLINED;
    if (status == TN_OK && j->variants[v]->scratch_bytes > j->scratch_each)
      j->scratch_each = j->variants[v]->scratch_bytes;
  }
  if (status != TN_OK) give_variants(j);
  return status;
}

static char *at(const product *p, const matrix *x, int64_t batch, int64_t row, int64_t col) {
  return x->data + (batch * x->batch + row * x->row + col * x->col) * (int64_t)tn_kit_dtype_size(p->dtype);
}

static tn_status run_piece(const job *j, int64_t piece, char *scratch) {
  const product *p = j->p;
  int64_t batch = piece / (j->down * j->across), place = piece % (j->down * j->across);
  int64_t row = place / j->across, column = place % j->across;
  int shape = (row == j->down - 1 ? LAST_ROW : 0) | (column == j->across - 1 ? LAST_COLUMN : 0);
  row *= j->cut.rows;
  column *= j->cut.columns;
  for (int64_t part = 0; part < j->parts; ++part) {
    int64_t depth = part * j->cut.depth;
    const od_primitive *v =
        j->variants[shape | (part == 0 ? FIRST_PART : 0) | (part == j->parts - 1 ? LAST_PART : 0)];
    const od_operand operands[] = {{DNNL_ARG_SRC, &v->mds[MD_A], at(p, &p->a, batch, row, depth)},
                                   {DNNL_ARG_WEIGHTS, &v->mds[MD_B], at(p, &p->b, batch, depth, column)},
                                   {DNNL_ARG_DST, &v->mds[MD_C], at(p, &p->c, batch, row, column)}};
    TN_TRY(od_run(v, 3, operands, scratch));
  }
  return TN_OK;
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
  j->cut = od_cut_product(od_library_isa(), p->dtype, p->m, p->n, p->k, p->batch);
  if (j->cut.rows == 0) return false;
  j->down = parts_of(p->m, j->cut.rows);
  j->across = parts_of(p->n, j->cut.columns);
  j->parts = parts_of(p->k, j->cut.depth);
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
