/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices: rows of the result on the host's threads. Whichever of the inner two loops runs along memory goes
 * inside.
 */
#include <string.h>

#include "forty.h"

/* One stack of products; strides in elements, data of the first matrices. */
typedef struct product {
  const char *a, *b;
  char *r;
  int64_t m, n, k; /* r [m, n] = a [m, k] times b [k, n] */
  int64_t batch_a, batch_b, batch_r;
  int64_t a0, a1, b0, b1, r0, r1;
} product;

#define ROWS(ctype, name)                                                                \
  static void row_##name(const product *p, int64_t batch, int64_t i) {                   \
    const ctype *a = (const ctype *)(const void *)p->a + batch * p->batch_a + i * p->a0; \
    const ctype *b = (const ctype *)(const void *)p->b + batch * p->batch_b;             \
    ctype *r = (ctype *)(void *)p->r + batch * p->batch_r + i * p->r0;                   \
    if (p->b0 == 1 && p->b1 != 1) {                                                      \
      for (int64_t j = 0; j < p->n; j++) {                                               \
        ctype sum = 0;                                                                   \
        for (int64_t k = 0; k < p->k; k++) sum += a[k * p->a1] * b[j * p->b1 + k];       \
        r[j * p->r1] = sum;                                                              \
      }                                                                                  \
      return;                                                                            \
    }                                                                                    \
    for (int64_t j = 0; j < p->n; j++) r[j * p->r1] = 0;                                 \
    for (int64_t k = 0; k < p->k; k++) {                                                 \
      const ctype x = a[k * p->a1], *line = b + k * p->b0;                               \
      if (p->b1 == 1 && p->r1 == 1)                                                      \
        for (int64_t j = 0; j < p->n; j++) r[j] += x * line[j];                          \
      else                                                                               \
        for (int64_t j = 0; j < p->n; j++) r[j * p->r1] += x * line[j * p->b1];          \
    }                                                                                    \
  }                                                                                      \
  static tn_status rows_##name(int64_t begin, int64_t end, int32_t worker, void *ctx) {  \
    const product *p = ctx;                                                              \
    for (int64_t i = begin; i < end; i++) row_##name(p, i / p->m, i % p->m);             \
    return TN_OK;                                                                        \
  }
ROWS(float, float32)
ROWS(double, float64)

/* The last two dims are the matrix. batches 1: of mm. */
static tn_status multiply(const tn_view *r, const tn_view *a, const tn_view *b, int64_t batches) {
  const int d = a->ndim - 2;
  product p = {.a = forty_bytes(a->data),
               .b = forty_bytes(b->data),
               .r = forty_bytes(r->data),
               .m = r->sizes[d],
               .n = r->sizes[d + 1],
               .k = a->sizes[d + 1],
               .batch_a = d ? a->strides[0] : 0,
               .batch_b = d ? b->strides[0] : 0,
               .batch_r = d ? r->strides[0] : 0,
               .a0 = a->strides[d],
               .a1 = a->strides[d + 1],
               .b0 = b->strides[d],
               .b1 = b->strides[d + 1],
               .r0 = r->strides[d],
               .r1 = r->strides[d + 1]};
  int64_t work = p.n * p.k, grain = work ? FORTY_GRAIN / work + 1 : FORTY_GRAIN;
  if (!r->numel) return TN_OK;
  return tn_kit_host()->parallel_for(batches * p.m, grain,
                                     a->dtype == TN_FLOAT32 ? rows_float32 : rows_float64, &p);
}

tn_status forty_mm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(out[0].u.v, args[0].u.v, args[1].u.v, 1);
}
tn_status forty_bmm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(out[0].u.v, args[0].u.v, args[1].u.v, out[0].u.v->sizes[0]);
}
