/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices, in a batch: r = alpha a b + beta s, any strides. Two ways of one text. TILED: a group brings tiles of
 * both operands to local memory, and each of its items holds ROWS x COLUMNS results in registers; what a GPU wants. Not
 * TILED: each item works alone, on neighbouring columns, since on a CPU local memory is plain memory and barriers cost.
 * A is the accumulator: float32 for float32 and halves, float64, int64 (which wraps as the narrower types do).
 */
typedef struct {
  i64 m, n, k;
  i64 a_batch, a_row, a_column;
  i64 b_batch, b_row, b_column;
  i64 s_batch, s_row, s_column;
  i64 r_batch, r_row, r_column;
} product_t;

#if IS_FLOAT
#define MULTIPLY_ADD(sum, x, y) ((sum) + (x) * (y))
#else
#define MULTIPLY_ADD(sum, x, y) ((A)((u64)(sum) + (u64)(x) * (u64)(y)))
#endif

DEVICE void put(const product_t *g, GLOBAL MEM(TO) *r, GLOBAL const MEM(T0) *s, i64 batch, i64 i, i64 j, A sum, A alpha,
                A beta) {
  if (i >= g->m || j >= g->n) return;
#if SCALED
  sum = alpha * sum;
  if (beta != 0) sum = MULTIPLY_ADD(sum, beta, (A)READ(T0, s[batch * g->s_batch + i * g->s_row + j * g->s_column]));
#endif
  r[batch * g->r_batch + i * g->r_row + j * g->r_column] = STORE(TO, sum);
}

KERNEL void NAME(GLOBAL MEM(TO) *r, i64 at, GLOBAL const MEM(T0) *a, i64 a_at, GLOBAL const MEM(T0) *b, i64 b_at,
                 GLOBAL const MEM(T0) *s, i64 s_at, product_t g, A alpha, A beta) {
  const i64 batch = GROUP_AT(2);
  A sums[ROWS][COLUMNS];
  for (i32 x = 0; x < ROWS; ++x)
    for (i32 y = 0; y < COLUMNS; ++y) sums[x][y] = 0;
  r += at;
  s += s_at;
  a += a_at + batch * g.a_batch;
  b += b_at + batch * g.b_batch;
#if TILED
  /* SIDE x SIDE items; item (x, y) holds rows x, x + SIDE, ... and columns y, y + SIDE, ... of the group's block. */
  LOCAL_ARRAY(A, left, SIDE * ROWS * DEPTH);
  LOCAL_ARRAY(A, right, SIDE * COLUMNS * DEPTH);
  const i32 y = ITEM(0), x = ITEM(1), me = x * SIDE + y;
  const i64 row = GROUP_AT(1) * (SIDE * ROWS), column = GROUP_AT(0) * (SIDE * COLUMNS);
  for (i64 k = 0; k < g.k; k += DEPTH) {
    for (i32 e = me; e < SIDE * ROWS * DEPTH; e += SIDE * SIDE) {
      const i64 i = row + e / DEPTH, l = k + e % DEPTH;
      left[e % DEPTH * (SIDE * ROWS) + e / DEPTH] =
          i < g.m && l < g.k ? (A)READ(T0, a[i * g.a_row + l * g.a_column]) : (A)0;
    }
    for (i32 e = me; e < SIDE * COLUMNS * DEPTH; e += SIDE * SIDE) {
      const i64 j = column + e % (SIDE * COLUMNS), l = k + e / (SIDE * COLUMNS);
      right[e] = j < g.n && l < g.k ? (A)READ(T0, b[l * g.b_row + j * g.b_column]) : (A)0;
    }
    BARRIER();
    for (i32 l = 0; l < DEPTH; ++l)
      for (i32 p = 0; p < ROWS; ++p) {
        const A v = left[l * (SIDE * ROWS) + x + p * SIDE];
        for (i32 q = 0; q < COLUMNS; ++q)
          sums[p][q] = MULTIPLY_ADD(sums[p][q], v, right[l * (SIDE * COLUMNS) + y + q * SIDE]);
      }
    BARRIER();
  }
  for (i32 p = 0; p < ROWS; ++p)
    for (i32 q = 0; q < COLUMNS; ++q)
      put(&g, r, s, batch, row + x + p * SIDE, column + y + q * SIDE, sums[p][q], alpha, beta);
#else
  const i64 row = PLACE(1) * ROWS, column = PLACE(0) * COLUMNS;
  if (row >= g.m || column >= g.n) return;
  if (row + ROWS <= g.m && column + COLUMNS <= g.n) {
    a += row * g.a_row;
    b += column * g.b_column;
    for (i64 l = 0; l < g.k; ++l) {
      A line[COLUMNS];
#if UNIT /* b's columns are neighbours in memory: a vector load */
      for (i32 q = 0; q < COLUMNS; ++q) line[q] = (A)READ(T0, b[l * g.b_row + q]);
#else
      for (i32 q = 0; q < COLUMNS; ++q) line[q] = (A)READ(T0, b[l * g.b_row + q * g.b_column]);
#endif
      for (i32 p = 0; p < ROWS; ++p) {
        const A v = (A)READ(T0, a[p * g.a_row + l * g.a_column]);
        for (i32 q = 0; q < COLUMNS; ++q) sums[p][q] = MULTIPLY_ADD(sums[p][q], v, line[q]);
      }
    }
    for (i32 p = 0; p < ROWS; ++p)
      for (i32 q = 0; q < COLUMNS; ++q) put(&g, r, s, batch, row + p, column + q, sums[p][q], alpha, beta);
    return;
  }
  for (i64 i = row; i < row + ROWS && i < g.m; ++i)
    for (i64 j = column; j < column + COLUMNS && j < g.n; ++j) {
      A sum = 0;
      for (i64 l = 0; l < g.k; ++l)
        sum = MULTIPLY_ADD(sum, (A)READ(T0, a[i * g.a_row + l * g.a_column]), (A)READ(T0, b[l * g.b_row + j * g.b_column]));
      put(&g, r, s, batch, i, j, sum, alpha, beta);
    }
#endif
}
