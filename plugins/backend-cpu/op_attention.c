/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward and backward, a block of query rows at a time: scores of the block against all keys that it may
 * see, softmax of each row, product with the values. Memory grows with rows of a block times keys, never with
 * queries times keys. The backward makes the probabilities again, block by block.
 *
 * Threads share (batch, head, block) forward; backward (batch, head of key), since the blocks of the heads of query
 * that share it add up in its gradients, in order.
 */
#include <math.h>
#include <tenon/kit/shape.h>

#include "plugins/backend-cpu/images.h"

/* Four-dimensional operand in the dtype that computes; strides in elements. */
typedef struct operand {
  const char *data;
  int64_t strides[4];
} operand;

typedef struct attention {
  tn_dtype dtype;
  size_t size;
  const cpu_gemm_kernel *gemm;
  const cpu_row_fns *rows;
  int64_t batch, heads, groups; /* groups: heads of key and value */
  int64_t n_rows, n_keys, e, v; /* e: width of query and key, v: of value */
  int64_t block, blocks;
  bool causal;
  double scale;
  operand query, key, value, grad;
  const tn_view *mask;
  tn_dim mask_strides[4];
  char *out, *logsumexp, *query_grad, *key_grad, *value_grad; /* row-major */
  char *scratch;
  size_t table_bytes, scratch_each; /* one block's scores; a worker's share */
} attention;

static tn_status read_operand(tn_call *call, const tn_view *v, tn_dtype dtype, operand *out) {
  tn_dim strides[TN_MAX_RANK];
  const void *data = v->data;
  const tn_dim *own = v->strides;
  if (v->dtype != dtype) {
    TN_TRY(cpu_contiguous_data(call, v, dtype, &data));
    tn_shape_contiguous_strides(v->ndim, v->sizes, strides);
    own = strides;
  }
  out->data = data;
  for (int i = 0; i < 4; ++i) out->strides[i] = own[i];
  return TN_OK;
}

/* ------------------------------------------------------------------ set-up */

static size_t product_bytes(const attention *a, int64_t m, int64_t n, int64_t k) {
  cpu_gemm g = {
      .m = m, .n = n, .k = k, .a_row = 2, .a_col = 2, .b_row = 2, .b_col = 2, .c_row = n, .c_col = 1};
  return a->gemm->scratch_bytes(&g);
}

static size_t most_product_bytes(const attention *a) {
  size_t most = product_bytes(a, a->block, a->n_keys, a->e > a->v ? a->e : a->v);
  size_t wide = product_bytes(a, a->block, a->e > a->v ? a->e : a->v, a->n_keys);
  size_t tall = product_bytes(a, a->n_keys, a->e > a->v ? a->e : a->v, a->block);
  most = wide > most ? wide : most;
  return ((tall > most ? tall : most) + 63) / 64 * 64;
}

/* tables: score tables a worker holds. */
static tn_status begin(tn_call *call, const tn_value *operands, const tn_value *mask, attention *a,
                       int tables) {
  enum { BLOCK = 64 };
  const tn_view *query = operands[0].u.v, *key = operands[1].u.v, *value = operands[2].u.v;
  void *scratch;
  a->dtype = cpu_wide(query->dtype);
  a->size = tn_kit_dtype_size(a->dtype);
  a->gemm = a->dtype == TN_FLOAT32 ? cpu_now->gemm_f32 : cpu_now->gemm_f64;
  a->rows = a->dtype == TN_FLOAT32 ? cpu_now->rows_f32 : cpu_now->rows_f64;
  a->batch = query->sizes[0];
  a->heads = query->sizes[1];
  a->groups = key->sizes[1];
  a->n_rows = query->sizes[2];
  a->n_keys = key->sizes[2];
  a->e = query->sizes[3];
  a->v = value->sizes[3];
  a->block = a->n_rows < BLOCK ? a->n_rows : BLOCK;
  a->blocks = (a->n_rows + BLOCK - 1) / BLOCK;
  TN_TRY(read_operand(call, query, a->dtype, &a->query));
  TN_TRY(read_operand(call, key, a->dtype, &a->key));
  TN_TRY(read_operand(call, value, a->dtype, &a->value));
  a->mask = cpu_view(mask);
  if (a->mask)
    tn_shape_expand_strides(a->mask->ndim, a->mask->sizes, a->mask->strides, 4,
                            (const tn_dim[4]){a->batch, a->heads, a->n_rows, a->n_keys}, a->mask_strides);
  a->table_bytes = ((size_t)(a->block * a->n_keys) * a->size + 63) / 64 * 64;
  a->scratch_each = a->table_bytes * (size_t)tables + most_product_bytes(a);
  TN_TRY(cpu_scratch(call, a->scratch_each * (size_t)tn_kit_host()->num_threads(), &scratch));
  a->scratch = scratch;
  return TN_OK;
}

/* ------------------------------------------------------------------ one block */

/* n rows of one head, and the keys that they may see. */
typedef struct tile {
  int64_t batch, head, group, row, n, keys;
  char *table, *second, *product; /* scratch */
} tile;

static tile tile_of(const attention *a, int64_t batch, int64_t head, int64_t row, int32_t worker,
                    int tables) {
  tile t = {.batch = batch, .head = head, .group = head / (a->heads / a->groups), .row = row};
  t.n = a->n_rows - row < a->block ? a->n_rows - row : a->block;
  t.keys = a->causal && row + t.n < a->n_keys ? row + t.n : a->n_keys;
  t.table = a->scratch + (size_t)worker * a->scratch_each;
  t.second = t.table + a->table_bytes;
  t.product = t.table + (size_t)tables * a->table_bytes;
  return t;
}

static const char *at(const attention *a, const operand *o, int64_t batch, int64_t head, int64_t row) {
  return o->data + (batch * o->strides[0] + head * o->strides[1] + row * o->strides[2]) * (int64_t)a->size;
}

static void *number_at(const attention *a, char *table, int64_t i) { return table + (size_t)i * a->size; }
static double get(const attention *a, const char *table, int64_t i) {
  return cpu_get_double(table + (size_t)i * a->size, a->dtype);
}
static void put(const attention *a, char *table, int64_t i, double value) {
  if (a->dtype == TN_FLOAT32)
    *(float *)number_at(a, table, i) = (float)value;
  else
    *(double *)number_at(a, table, i) = value;
}

/* table (n x keys) = alpha * rows of x @ (rows of y)^T, both w wide. */
static void score(const attention *a, const tile *t, const operand *x, const operand *y, int64_t w,
                  double alpha, char *table) {
  cpu_gemm g = {.m = t->n,
                .n = t->keys,
                .k = w,
                .alpha = alpha,
                .a = at(a, x, t->batch, t->head, t->row),
                .a_row = x->strides[2],
                .a_col = x->strides[3],
                .b = at(a, y, t->batch, t->group, 0),
                .b_row = y->strides[3],
                .b_col = y->strides[2],
                .c = table,
                .c_row = t->keys,
                .c_col = 1};
  a->gemm->run(&g, t->product);
}

static void hide_row(const attention *a, const tile *t, int64_t i, char *row) {
  double block[CPU_BLOCK];
  const tn_view *mask = a->mask;
  int64_t step = a->mask_strides[3] * mask->itemsize;
  const char *from =
      (const char *)mask->data +
      (t->batch * a->mask_strides[0] + t->head * a->mask_strides[1] + (t->row + i) * a->mask_strides[2]) *
          mask->itemsize;
  for (int64_t k = 0; k < t->keys; k += CPU_BLOCK) {
    int64_t m = t->keys - k < CPU_BLOCK ? t->keys - k : CPU_BLOCK;
    cpu_read(block, TN_FLOAT64, from + k * step, mask->dtype, step, m);
    for (int64_t j = 0; j < m; ++j)
      if (mask->dtype != TN_BOOL)
        put(a, row, k + j, get(a, row, k + j) + block[j]);
      else if (block[j] == 0)
        put(a, row, k + j, -INFINITY);
  }
}

/* Scores to probabilities; the natural logarithm of the row's sum of exponentials, -inf for one that sees nothing. */
static double soften_row(const attention *a, const tile *t, int64_t i, char *row) {
  if (t->keys == 0) return -INFINITY; /* nothing to see, and no memory */
  int64_t best = 0, seen = a->causal && t->row + i + 1 < t->keys ? t->row + i + 1 : t->keys;
  if (a->mask) hide_row(a, t, i, row);
  for (int64_t j = 1; j < seen; ++j) best = get(a, row, j) > get(a, row, best) ? j : best;
  double top = seen ? get(a, row, best) : -INFINITY;
  bool dead = top == -INFINITY;
  memset(row + (size_t)(dead ? 0 : seen) * a->size, 0, (size_t)(t->keys - (dead ? 0 : seen)) * a->size);
  if (dead) return -INFINITY;
  a->rows->softmax(row, row, seen);
  return top - log(get(a, row, best));
}

/* ------------------------------------------------------------------ forward */

static tn_status forward_chunk(int64_t begin_task, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  for (int64_t task = begin_task; task < end; ++task) {
    int64_t head = task / a->blocks;
    tile t = tile_of(a, head / a->heads, head % a->heads, task % a->blocks * a->block, worker, 1);
    int64_t first = head * a->n_rows + t.row;
    score(a, &t, &a->query, &a->key, a->e, a->scale, t.table);
    for (int64_t i = 0; i < t.n; ++i)
      put(a, a->logsumexp, first + i, soften_row(a, &t, i, number_at(a, t.table, i * t.keys)));
    cpu_gemm g = {.m = t.n,
                  .n = a->v,
                  .k = t.keys,
                  .alpha = 1,
                  .a = t.table,
                  .a_row = t.keys,
                  .a_col = 1,
                  .b = at(a, &a->value, t.batch, t.group, 0),
                  .b_row = a->value.strides[2],
                  .b_col = a->value.strides[3],
                  .c = number_at(a, a->out, first * a->v),
                  .c_row = a->v,
                  .c_col = 1};
    a->gemm->run(&g, t.product);
  }
  return TN_OK;
}

/* args: query key value attn_mask is_causal scale */
tn_status cpu_op_attention(tn_call *call, const tn_value *args, tn_value *out) {
  attention a = {.causal = args[4].u.i, .scale = args[5].u.f};
  cpu_image result, sums;
  if (out[1].u.v->numel == 0) return TN_OK;
  TN_TRY(begin(call, args, &args[3], &a, 1));
  TN_TRY(cpu_image_begin(call, &out[0], a.dtype, false, &result));
  TN_TRY(cpu_image_begin(call, &out[1], a.dtype, false, &sums));
  a.out = result.data;
  a.logsumexp = sums.data;
  TN_TRY(tn_kit_host()->parallel_for(a.batch * a.heads * a.blocks, 1, forward_chunk, &a));
  TN_TRY(cpu_image_end(&result));
  return cpu_image_end(&sums);
}

/* ------------------------------------------------------------------ backward */

/* Adds alpha * table^T @ rows of x (w wide) to the keys' rows of sums. */
static void add_keys(const attention *a, const tile *t, char *table, const operand *x, int64_t w,
                     double alpha, char *sums) {
  cpu_gemm g = {.m = t->keys,
                .n = w,
                .k = t->n,
                .alpha = alpha,
                .beta = 1,
                .a = table,
                .a_row = 1,
                .a_col = t->keys,
                .b = at(a, x, t->batch, t->head, t->row),
                .b_row = x->strides[2],
                .b_col = x->strides[3],
                .c_row = w,
                .c_col = 1,
                .c = number_at(a, sums, (t->batch * a->groups + t->group) * a->n_keys * w)};
  a->gemm->run(&g, t->product);
}

static void backward_block(const attention *a, const tile *t) {
  score(a, t, &a->query, &a->key, a->e, a->scale, t->table);
  for (int64_t i = 0; i < t->n; ++i) soften_row(a, t, i, number_at(a, t->table, i * t->keys));
  add_keys(a, t, t->table, &a->grad, a->v, 1, a->value_grad);
  score(a, t, &a->grad, &a->value, a->v, 1, t->second);
  for (int64_t i = 0; i < t->n && t->keys; ++i) {
    char *row = number_at(a, t->second, i * t->keys);
    a->rows->softmax_backward(row, row, number_at(a, t->table, i * t->keys), t->keys);
  }
  add_keys(a, t, t->second, &a->query, a->e, a->scale, a->key_grad);
  int64_t first = (t->batch * a->heads + t->head) * a->n_rows + t->row;
  cpu_gemm g = {.m = t->n,
                .n = a->e,
                .k = t->keys,
                .alpha = a->scale,
                .a = t->second,
                .a_row = t->keys,
                .a_col = 1,
                .b = at(a, &a->key, t->batch, t->group, 0),
                .b_row = a->key.strides[2],
                .b_col = a->key.strides[3],
                .c = number_at(a, a->query_grad, first * a->e),
                .c_row = a->e,
                .c_col = 1};
  a->gemm->run(&g, t->product);
}

static tn_status backward_chunk(int64_t begin_task, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  int64_t shared = a->heads / a->groups;
  for (int64_t task = begin_task; task < end; ++task) {
    const size_t keys = (size_t)(a->n_keys * a->e) * a->size, values = (size_t)(a->n_keys * a->v) * a->size;
    if (keys) memset(number_at(a, a->key_grad, task * a->n_keys * a->e), 0, keys);
    if (values) memset(number_at(a, a->value_grad, task * a->n_keys * a->v), 0, values);
    for (int64_t k = 0; k < shared * a->blocks; ++k) {
      int64_t head = task % a->groups * shared + k / a->blocks;
      tile t = tile_of(a, task / a->groups, head, k % a->blocks * a->block, worker, 2);
      backward_block(a, &t);
    }
  }
  return TN_OK;
}

/* args: grad_out query key value attn_mask output logsumexp is_causal scale */
tn_status cpu_op_attention_backward(tn_call *call, const tn_value *args, tn_value *out) {
  attention a = {.causal = args[7].u.i, .scale = args[8].u.f};
  cpu_image images[3];
  TN_TRY(begin(call, &args[1], &args[4], &a, 2));
  TN_TRY(read_operand(call, args[0].u.v, a.dtype, &a.grad));
  for (int i = 0; i < 3; ++i) TN_TRY(cpu_image_begin(call, &out[i], a.dtype, false, &images[i]));
  a.query_grad = images[0].data;
  a.key_grad = images[1].data;
  a.value_grad = images[2].data;
  TN_TRY(tn_kit_host()->parallel_for(a.batch * a.groups, 1, backward_chunk, &a));
  for (int i = 0; i < 3; ++i) TN_TRY(cpu_image_end(&images[i]));
  return TN_OK;
}
