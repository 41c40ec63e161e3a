/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward and backward: walks the tiles of per-isa/attention.inc over heads, rows and keys, brings each
 * tile's operands to the form that the loops read, and writes results in any strides and dtype. Memory grows with
 * rows and with keys, never with their product.
 *
 * Note [Tasks of attention]
 * Forward, threads share (batch, head, tile of rows). Backward, rows add up in gradients of keys and keys in those of
 * rows: a task is (batch, head of key) and goes over all pairs of tiles, five products each. Where that gives fewer
 * tasks than threads, one pass makes the gradients of keys, by tiles of keys, and a second one those of rows, by tiles
 * of rows: seven products, in as many tasks as there are tiles. Every sum runs over tiles in the same order either way,
 * so that bits do not tell which it was. See also Note [Attention in tiles].
 */
#include <math.h>
#include <tenon/kit/shape.h>

#include "plugins/backend-cpu/cpu.h"

/* A four-dimensional operand; strides in elements. */
typedef struct operand {
  const tn_view *view;
  int64_t width;
  int read, turned, flat; /* areas of scratch */
} operand;

/* What a worker's scratch holds, each from an address of 64 bytes on. */
enum {
  SCORES,
  SECOND,
  MASK,
  LEFT,
  QUERY_READ,
  KEY_READ,
  VALUE_READ,
  GRAD_READ,
  QUERY_TURNED,
  KEY_TURNED,
  VALUE_TURNED,
  GRAD_TURNED,
  QUERY_FLAT,
  KEY_FLAT,
  VALUE_FLAT,
  GRAD_FLAT,
  ROW_SUMS, /* forward: a tile's results; backward: gradients of all rows of the heads that share keys */
  KEY_SUMS,
  VALUE_SUMS,
  TOPS, /* a number per row of ROW_SUMS: forward the greatest scores, backward what forward left */
  TOTALS,
  LINE,
  AREAS
};

typedef struct attention {
  tn_dtype dtype; /* that computes */
  size_t size;
  const cpu_attention_fns *fns;
  int64_t batch, heads, shared; /* shared: heads of query for one of key */
  int64_t n_rows, n_keys, e, v; /* e: width of query and key, v: of value */
  int64_t blocks;               /* of rows */
  bool causal, in_passes;
  double scale;
  cpu_dropout dropout;
  operand query, key, value, grad;
  const tn_view *output, *logsumexp, *mask;
  const tn_view *results[3];
  char *logs, *deltas; /* in passes: of all rows */
  tn_dim mask_strides[4];
  char *scratch;
  size_t area[AREAS + 1]; /* where each begins; the last: bytes of a worker */
} attention;

/* ------------------------------------------------------------------ scratch */

static int64_t wide(const attention *a, int64_t n) {
  return (n + a->fns->panel - 1) / a->fns->panel * a->fns->panel;
}

/* Elements of each area. */
static void count_areas(const attention *a, bool backward, double *n) {
  const double tile = CPU_TILE, e = (double)wide(a, a->e), v = (double)wide(a, a->v);
  const double rows = backward && !a->in_passes ? (double)a->n_rows * (double)a->shared : tile;
  n[SCORES] = n[MASK] = tile * tile;
  if (a->dropout.kept) n[LEFT] = tile * tile;
  n[QUERY_READ] = n[KEY_READ] = n[QUERY_TURNED] = n[KEY_TURNED] = tile * e;
  n[VALUE_READ] = n[VALUE_FLAT] = tile * v;
  n[ROW_SUMS] = rows * (backward ? e : v);
  n[TOPS] = rows;
  n[TOTALS] = 2 * rows; /* of doubles */
  n[LINE] = e > v ? e : v;
  if (!backward) return;
  n[SECOND] = tile * tile;
  n[QUERY_FLAT] = n[KEY_FLAT] = n[KEY_SUMS] = tile * e;
  n[GRAD_READ] = n[GRAD_FLAT] = n[GRAD_TURNED] = n[VALUE_TURNED] = n[VALUE_SUMS] = tile * v;
}

static tn_status take_scratch(tn_call *call, attention *a, bool backward) {
  double n[AREAS] = {0}, bytes = 0;
  void *scratch;
  count_areas(a, backward, n);
  for (int i = 0; i < AREAS; ++i) {
    a->area[i] = (size_t)bytes;
    bytes = ceil((bytes + n[i] * (double)a->size) / 64) * 64;
    if (bytes > 0x1p52)
      return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "attention over %lld rows of width %lld needs %g bytes of scratch",
                     (long long)a->n_rows, (long long)a->e, bytes);
  }
  a->area[AREAS] = (size_t)bytes;
  TN_TRY(cpu_scratch(call, a->area[AREAS] * (size_t)tn_kit_host()->num_threads(), &scratch));
  a->scratch = scratch;
  return TN_OK;
}

static void *area(const attention *a, int32_t worker, int which) {
  return a->scratch + (size_t)worker * a->area[AREAS] + a->area[which];
}

/* args: query, key, value; mask */
static void describe(attention *a, const tn_value *operands, const tn_value *mask) {
  const tn_view *query = operands[0].u.v, *key = operands[1].u.v, *value = operands[2].u.v;
  a->dtype = cpu_wide(query->dtype);
  a->size = tn_kit_dtype_size(a->dtype);
  a->fns = a->dtype == TN_FLOAT32 ? cpu_now->attention_f32 : cpu_now->attention_f64;
  a->batch = query->sizes[0];
  a->heads = query->sizes[1];
  a->shared = a->heads / key->sizes[1];
  a->n_rows = query->sizes[2];
  a->n_keys = key->sizes[2];
  a->e = query->sizes[3];
  a->v = value->sizes[3];
  a->blocks = (a->n_rows + CPU_TILE - 1) / CPU_TILE;
  a->query = (operand){query, a->e, QUERY_READ, QUERY_TURNED, QUERY_FLAT};
  a->key = (operand){key, a->e, KEY_READ, KEY_TURNED, KEY_FLAT};
  a->value = (operand){value, a->v, VALUE_READ, VALUE_TURNED, VALUE_FLAT};
  a->mask = cpu_view(mask);
  if (a->mask)
    tn_shape_expand_strides(a->mask->ndim, a->mask->sizes, a->mask->strides, 4,
                            (const tn_dim[4]){a->batch, a->heads, a->n_rows, a->n_keys}, a->mask_strides);
}

/* ------------------------------------------------------------------ a tile's operands */

/* Some rows of one head of one batch. */
typedef struct place {
  int64_t batch, head, row, n;
} place;

static place place_of(int64_t batch, int64_t head, int64_t row, int64_t n_rows) {
  return (place){batch, head, row, n_rows - row < CPU_TILE ? n_rows - row : CPU_TILE};
}

static char *address(const tn_view *v, const place *p, int64_t row) {
  int64_t at = p->batch * v->strides[0] + p->head * v->strides[1] + (p->row + row) * v->strides[2];
  return (char *)v->data + at * v->itemsize;
}

/* v's rows there as a matrix of the dtype that computes: where they lie, or read into room (then width wide). */
static cpu_matrix rows_of(const attention *a, const tn_view *v, const place *p, void *room) {
  if (v->dtype == a->dtype) return (cpu_matrix){address(v, p, 0), v->strides[2], v->strides[3]};
  for (int64_t j = 0; j < p->n; ++j)
    cpu_read((char *)room + (size_t)(j * v->sizes[3]) * a->size, a->dtype, address(v, p, j), v->dtype,
             cpu_stride_bytes(v, 3), v->sizes[3]);
  return (cpu_matrix){room, v->sizes[3], 1};
}

static const void *turned(const attention *a, const operand *o, const cpu_matrix *x, int64_t n, double scale,
                          int32_t worker) {
  void *out = area(a, worker, o->turned);
  a->fns->turn(out, x, n, o->width, scale);
  return out;
}

/* Rows of whole panels: where they lie, if they are as wide. */
static const void *flat(const attention *a, const operand *o, const cpu_matrix *x, int64_t n, int32_t worker,
                        int64_t *out_row) {
  void *out = area(a, worker, o->flat);
  const int64_t width = wide(a, o->width);
  if (x->col == 1 && width == o->width) {
    *out_row = x->row;
    return x->data;
  }
  a->fns->flat(out, x, n, o->width);
  *out_row = width;
  return out;
}

/* The part of the mask over rows p and n keys from key on, in the dtype that computes. */
static void read_mask(const attention *a, const place *p, int64_t key, int64_t n, int32_t worker,
                      cpu_attention_tile *t) {
  const tn_view *mask = a->mask;
  const tn_dim *strides = a->mask_strides;
  char *out = area(a, worker, MASK);
  t->mask = mask ? out : NULL;
  if (!mask) return;
  t->mask_hides = mask->dtype == TN_BOOL;
  int64_t at = p->batch * strides[0] + p->head * strides[1] + p->row * strides[2] + key * strides[3];
  for (int64_t i = 0; i < p->n; ++i, at += strides[2])
    cpu_read(out + (size_t)(i * CPU_TILE) * a->size, a->dtype, (const char *)mask->data + at * mask->itemsize,
             mask->dtype, strides[3] * mask->itemsize, n);
}

/* What dropout leaves of the weights of t: rows p and keys from key on. Weights are numbered in [B, H, L, S]. */
static void draw_left(const attention *a, const place *p, int64_t key, int32_t worker,
                      cpu_attention_tile *t) {
  void *out = area(a, worker, LEFT);
  t->left = a->dropout.kept ? out : NULL;
  if (!t->left) return;
  const int64_t row = (p->batch * a->heads + p->head) * a->n_rows + p->row;
  for (int64_t i = 0; i < p->n; ++i)
    a->fns->leave(t, i, &a->dropout, (uint64_t)((row + i) * a->n_keys + key), out);
}

/* dropout_p seed offset */
static cpu_dropout dropout_of(const tn_value *three) {
  const double p = three[0].u.f;
  cpu_dropout d = {.seed = (uint64_t)three[1].u.i, .offset = (uint64_t)three[2].u.i};
  if (p == 0) return d;
  d.kept = (uint64_t)ceil((1 - p) * 0x1p53);
  d.scale = 1 / (1 - p);
  return d;
}

/* Scaled rows of x to v's rows at p. */
static void write_rows(const attention *a, const tn_view *v, const place *p, const void *x, double scale,
                       int32_t worker) {
  const int64_t width = v->sizes[3];
  cpu_matrix from = {x, wide(a, width), 1};
  if (v->dtype == a->dtype && v->strides[3] == 1) {
    a->fns->scale(address(v, p, 0), v->strides[2], &from, p->n, width, scale);
    return;
  }
  void *line = area(a, worker, LINE);
  for (int64_t j = 0; j < p->n; ++j) {
    a->fns->scale(line, width, &from, 1, width, scale);
    cpu_write(address(v, p, j), v->dtype, cpu_stride_bytes(v, 3), line, a->dtype, width);
    from.data = (const char *)from.data + (size_t)from.row * a->size;
  }
}

/* Keys that rows p see, and for the tile from key on how many of it the first of them sees. */
static int64_t keys_of(const attention *a, const place *p) {
  return a->causal && p->row + p->n < a->n_keys ? p->row + p->n : a->n_keys;
}
static int64_t seen_of(const attention *a, const place *p, int64_t key) {
  return a->causal ? p->row - key + 1 : CPU_TILE;
}

/* Fewest multiply-adds worth a thread, as tasks of `each`. */
static int64_t grain(double each) {
  const double n = 0x1p19 / (each + 1);
  return n < 1 ? 1 : (int64_t)n;
}

/* ------------------------------------------------------------------ forward */

static void forward_rows(const attention *a, const place *p, int32_t worker, cpu_attention_tile *t) {
  const int64_t end = keys_of(a, p);
  for (int64_t i = 0; i < p->n; ++i) {
    cpu_put_scalar((char *)t->tops + (size_t)i * a->size, a->dtype, &(cpu_scalar){-INFINITY, 0});
    t->totals[i] = 0;
  }
  memset(t->sums, 0, (size_t)(p->n * wide(a, a->v)) * a->size);
  cpu_matrix x = rows_of(a, a->query.view, p, area(a, worker, QUERY_READ));
  t->query_turned = turned(a, &a->query, &x, p->n, a->scale, worker);
  for (int64_t key = 0; key < end; key += CPU_TILE) {
    const place at = place_of(p->batch, p->head / a->shared, key, end);
    t->keys = at.n;
    t->seen = seen_of(a, p, key);
    x = rows_of(a, a->key.view, &at, area(a, worker, KEY_READ));
    t->key_turned = turned(a, &a->key, &x, at.n, 1, worker);
    x = rows_of(a, a->value.view, &at, area(a, worker, VALUE_READ));
    t->value = flat(a, &a->value, &x, at.n, worker, &t->value_row);
    read_mask(a, p, key, at.n, worker, t);
    draw_left(a, p, key, worker, t);
    a->fns->forward(t);
  }
}

/* Tasks: tiles of rows, of every head. */
static place rows_of_task(const attention *a, int64_t task) {
  const int64_t head = task / a->blocks;
  return place_of(head / a->heads, head % a->heads, task % a->blocks * CPU_TILE, a->n_rows);
}

static tn_status forward_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  const tn_view *out = a->results[0];
  cpu_attention_tile t = {.e = a->e,
                          .v = a->v,
                          .scores = area(a, worker, SCORES),
                          .sums = area(a, worker, ROW_SUMS),
                          .tops = area(a, worker, TOPS),
                          .totals = area(a, worker, TOTALS)};
  for (int64_t task = begin; task < end; ++task) {
    const place p = rows_of_task(a, task);
    void *logs = (char *)a->logsumexp->data + (size_t)(task / a->blocks * a->n_rows + p.row) * a->size;
    t.rows = p.n;
    forward_rows(a, &p, worker, &t);
    if (out->dtype == a->dtype && out->strides[3] == 1) {
      a->fns->finish(&t, address(out, &p, 0), out->strides[2], logs);
    } else {
      a->fns->finish(&t, t.sums, wide(a, a->v), logs);
      write_rows(a, out, &p, t.sums, 1, worker);
    }
  }
  return TN_OK;
}

/* args: query key value attn_mask is_causal scale dropout_p seed offset */
tn_status cpu_op_attention(tn_call *call, const tn_value *args, tn_value *out) {
  attention a = {.causal = args[4].u.i,
                 .scale = args[5].u.f,
                 .dropout = dropout_of(&args[6]),
                 .results = {out[0].u.v},
                 .logsumexp = out[1].u.v};
  if (a.logsumexp->numel == 0) return TN_OK;
  describe(&a, args, &args[3]);
  TN_TRY(take_scratch(call, &a, false));
  const double each =
      (double)(a.n_rows < CPU_TILE ? a.n_rows : CPU_TILE) * (double)a.n_keys * (double)(a.e + a.v);
  return tn_kit_host()->parallel_for(a.batch * a.heads * a.blocks, grain(each), forward_chunk, &a);
}

/* ------------------------------------------------------------------ backward */

/* The numbers that forward left for the rows of head, and the sums of grad * output. */
static void read_rows(const attention *a, const place *p, int32_t worker, void *logs, void *deltas) {
  const tn_view *l = a->logsumexp;
  const char *from =
      (const char *)l->data +
      (p->batch * l->strides[0] + p->head * l->strides[1] + p->row * l->strides[2]) * l->itemsize;
  cpu_read(logs, a->dtype, from, l->dtype, cpu_stride_bytes(l, 2), p->n);
  cpu_matrix x = rows_of(a, a->grad.view, p, area(a, worker, GRAD_READ));
  cpu_matrix y = rows_of(a, a->output, p, area(a, worker, VALUE_READ));
  cpu_matrix grad = {.col = 1}, output = {.col = 1};
  grad.data = flat(a, &a->grad, &x, p->n, worker, &grad.row);
  output.data = flat(a, &a->value, &y, p->n, worker, &output.row);
  a->fns->dots(deltas, &grad, &output, p->n, a->v);
}

static void load_rows(const attention *a, const place *p, int32_t worker, cpu_attention_tile *t) {
  int64_t first =
      a->in_passes ? (p->batch * a->heads + p->head) * a->n_rows : p->head % a->shared * a->n_rows;
  const size_t at = (size_t)(first + p->row) * a->size;
  t->rows = p->n;
  t->logsumexp = (a->in_passes ? a->logs : (char *)area(a, worker, TOPS)) + at;
  t->deltas = (a->in_passes ? a->deltas : (char *)area(a, worker, TOTALS)) + at;
  cpu_matrix x = rows_of(a, a->query.view, p, area(a, worker, QUERY_READ));
  t->query_turned = turned(a, &a->query, &x, p->n, a->scale, worker);
  t->query = flat(a, &a->query, &x, p->n, worker, &t->query_row);
  x = rows_of(a, a->grad.view, p, area(a, worker, GRAD_READ));
  t->grad_turned = turned(a, &a->grad, &x, p->n, 1, worker);
  t->grad = flat(a, &a->grad, &x, p->n, worker, &t->grad_row);
}

static void load_keys(const attention *a, const place *keys, int32_t worker, cpu_attention_tile *t) {
  t->keys = keys->n;
  cpu_matrix x = rows_of(a, a->key.view, keys, area(a, worker, KEY_READ));
  t->key_turned = turned(a, &a->key, &x, keys->n, 1, worker);
  t->key = flat(a, &a->key, &x, keys->n, worker, &t->key_row);
  x = rows_of(a, a->value.view, keys, area(a, worker, VALUE_READ));
  t->value_turned = turned(a, &a->value, &x, keys->n, 1, worker);
}

/* The rows and keys that t holds. */
static void meet(const attention *a, const place *rows, const place *keys, int32_t worker,
                 cpu_attention_tile *t) {
  t->seen = seen_of(a, rows, keys->row);
  read_mask(a, rows, keys->row, keys->n, worker, t);
  draw_left(a, rows, keys->row, worker, t);
  a->fns->backward(t);
}

/* Gradients of n keys from all heads that share them; sums: of the rows, NULL in passes. */
static void backward_keys(const attention *a, const place *keys, int32_t worker, char *sums,
                          cpu_attention_tile *t) {
  load_keys(a, keys, worker, t);
  t->key_sums = area(a, worker, KEY_SUMS);
  t->value_sums = area(a, worker, VALUE_SUMS);
  memset(t->key_sums, 0, (size_t)(keys->n * wide(a, a->e)) * a->size);
  memset(t->value_sums, 0, (size_t)(keys->n * wide(a, a->v)) * a->size);
  for (int64_t h = 0; h < a->shared; ++h)
    for (int64_t row = a->causal ? keys->row : 0; row < a->n_rows; row += CPU_TILE) {
      const place p = place_of(keys->batch, keys->head * a->shared + h, row, a->n_rows);
      t->query_sums = sums ? sums + (size_t)((h * a->n_rows + row) * wide(a, a->e)) * a->size : NULL;
      load_rows(a, &p, worker, t);
      meet(a, &p, keys, worker, t);
    }
  write_rows(a, a->results[1], keys, t->key_sums, a->scale, worker);
  write_rows(a, a->results[2], keys, t->value_sums, 1, worker);
}

static cpu_attention_tile backward_tile(const attention *a, int32_t worker) {
  return (cpu_attention_tile){
      .e = a->e, .v = a->v, .scores = area(a, worker, SCORES), .second = area(a, worker, SECOND)};
}

/* Tasks: heads of key. */
static tn_status backward_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  const int64_t groups = a->heads / a->shared, tiles = a->shared * a->blocks;
  char *logs = area(a, worker, TOPS), *deltas = area(a, worker, TOTALS), *sums = area(a, worker, ROW_SUMS);
  cpu_attention_tile t = backward_tile(a, worker);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / groups, group = task % groups;
    memset(sums, 0, (size_t)(a->shared * a->n_rows * wide(a, a->e)) * a->size);
    for (int64_t k = 0; k < tiles; ++k) {
      const place p = place_of(batch, group * a->shared + k / a->blocks, k % a->blocks * CPU_TILE, a->n_rows);
      const size_t at = (size_t)(k / a->blocks * a->n_rows + p.row) * a->size;
      read_rows(a, &p, worker, logs + at, deltas + at);
    }
    for (int64_t key = 0; key < a->n_keys; key += CPU_TILE) {
      const place p = place_of(batch, group, key, a->n_keys);
      backward_keys(a, &p, worker, sums, &t);
    }
    for (int64_t k = 0; k < tiles; ++k) {
      const place p = place_of(batch, group * a->shared + k / a->blocks, k % a->blocks * CPU_TILE, a->n_rows);
      const int64_t row = k / a->blocks * a->n_rows + p.row;
      write_rows(a, a->results[0], &p, sums + (size_t)(row * wide(a, a->e)) * a->size, a->scale, worker);
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ backward in passes */

static tn_status deltas_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  for (int64_t task = begin; task < end; ++task) {
    const place p = rows_of_task(a, task);
    const size_t at = (size_t)(task / a->blocks * a->n_rows + p.row) * a->size;
    read_rows(a, &p, worker, a->logs + at, a->deltas + at);
  }
  return TN_OK;
}

static tn_status keys_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  const int64_t groups = a->heads / a->shared, tiles = (a->n_keys + CPU_TILE - 1) / CPU_TILE;
  cpu_attention_tile t = backward_tile(a, worker);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t group = task / tiles;
    const place p = place_of(group / groups, group % groups, task % tiles * CPU_TILE, a->n_keys);
    backward_keys(a, &p, worker, NULL, &t);
  }
  return TN_OK;
}

static tn_status rows_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const attention *a = ctx;
  cpu_attention_tile t = backward_tile(a, worker);
  t.query_sums = area(a, worker, ROW_SUMS);
  for (int64_t task = begin; task < end; ++task) {
    const place p = rows_of_task(a, task);
    memset(t.query_sums, 0, (size_t)(p.n * wide(a, a->e)) * a->size);
    load_rows(a, &p, worker, &t);
    for (int64_t key = 0; key < keys_of(a, &p); key += CPU_TILE) {
      const place keys = place_of(p.batch, p.head / a->shared, key, a->n_keys);
      load_keys(a, &keys, worker, &t);
      meet(a, &p, &keys, worker, &t);
    }
    write_rows(a, a->results[0], &p, t.query_sums, a->scale, worker);
  }
  return TN_OK;
}

static tn_status run_in_passes(tn_call *call, attention *a, double each) {
  const int64_t rows = a->batch * a->heads * a->blocks,
                keys = a->batch * (a->heads / a->shared) * ((a->n_keys + CPU_TILE - 1) / CPU_TILE);
  const size_t bytes = (size_t)(a->batch * a->heads * a->n_rows) * a->size;
  void *logs, *deltas;
  TN_TRY(cpu_scratch(call, bytes, &logs));
  TN_TRY(cpu_scratch(call, bytes, &deltas));
  a->logs = logs;
  a->deltas = deltas;
  TN_TRY(tn_kit_host()->parallel_for(rows, grain(CPU_TILE * (double)a->v), deltas_chunk, a));
  TN_TRY(tn_kit_host()->parallel_for(keys, grain(each / (double)(keys + 1)), keys_chunk, a));
  return tn_kit_host()->parallel_for(rows, grain(each / (double)(rows + 1)), rows_chunk, a);
}

/* args: grad_out query key value attn_mask output logsumexp is_causal scale dropout_p seed offset */
tn_status cpu_op_attention_backward(tn_call *call, const tn_value *args, tn_value *out) {
  attention a = {.causal = args[7].u.i,
                 .scale = args[8].u.f,
                 .dropout = dropout_of(&args[9]),
                 .output = args[5].u.v,
                 .logsumexp = args[6].u.v,
                 .results = {out[0].u.v, out[1].u.v, out[2].u.v}};
  describe(&a, &args[1], &args[4]);
  a.grad = (operand){args[0].u.v, a.v, GRAD_READ, GRAD_TURNED, GRAD_FLAT};
  const int64_t tasks = a.batch * (a.heads / a.shared);
  a.in_passes =
      tasks > 0 && tasks < tn_kit_host()->num_threads() && a.n_rows > CPU_TILE && a.n_keys > CPU_TILE;
  TN_TRY(take_scratch(call, &a, true));
  const double each = (double)a.n_rows * (double)a.n_keys * (double)(3 * a.e + 2 * a.v) * (double)a.shared;
  if (a.in_passes) return run_in_passes(call, &a, each * (double)tasks);
  return tn_kit_host()->parallel_for(tasks, grain(each), backward_chunk, &a);
}
