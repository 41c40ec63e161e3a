/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by its definition, one row of query at a time, and its gradients.
 */
#include <math.h>

#include "ref.h"

typedef struct attention {
  rt *q, *k, *v; /* [B, H, L, E], [B, G, S, E], [B, G, S, V] */
  rt *mask;      /* [B, H, L, S], or NULL */
  bool causal, is_bool;
  double scale, dropout;
  uint64_t seed, offset;
} attention;

/* In front of t's shape ones, so that it has four dims. */
static rt *four(const rt *t) {
  int64_t n[4] = {1, 1, 1, 1};
  for (int d = 0; d < t->nd; d++) n[4 - t->nd + d] = t->n[d];
  rt *copy = rt_copy(t), *out = rt_new(4, n);
  out->p = copy->p;
  return out;
}

static attention attention_of(const ref_call *c, int first, int mask, bool causal, double scale) {
  attention a = {four(ref_t(c, first)), four(ref_t(c, first + 1)), four(ref_t(c, first + 2)), NULL, causal, false, scale, 0, 0, 0};
  if (!ref_has(c, mask)) return a;
  int64_t n[4] = {a.q->n[0], a.q->n[1], a.q->n[2], a.k->n[2]};
  a.mask = rt_expand(ref_t(c, mask), 4, n);
  a.is_bool = true; /* values of a bool mask are 0 and 1; of a floating one others */
  for (int64_t i = 0; i < a.mask->numel; i++) a.is_bool &= *rt_at(a.mask, i) == 0 || *rt_at(a.mask, i) == 1;
  return a;
}

static double *element(rt *t, int64_t b, int64_t h, int64_t i, int64_t j) {
  return rt_index(t, (int64_t[]){b, h, i, j});
}

/* Probabilities of row (b, h, i) into p; the answer is the logarithm of the sum of exponentials. */
static double row_of(const attention *a, int64_t b, int64_t h, int64_t i, double *p) {
  int64_t g = h / (a->q->n[1] / a->k->n[1]);
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a->k->n[2]; j++) {
    p[j] = 0;
    for (int64_t e = 0; e < a->q->n[3]; e++) p[j] += *element(a->q, b, h, i, e) * *element(a->k, b, g, j, e) * a->scale;
    if (a->causal && j > i) p[j] = -INFINITY;
    if (a->mask && a->is_bool && *element(a->mask, b, h, i, j) == 0) p[j] = -INFINITY;
    if (a->mask && !a->is_bool) p[j] += *element(a->mask, b, h, i, j);
    top = fmax(top, p[j]);
  }
  for (int64_t j = 0; j < a->k->n[2]; j++) sum += p[j] = top == -INFINITY ? 0 : exp(p[j] - top);
  for (int64_t j = 0; j < a->k->n[2]; j++) p[j] = sum == 0 ? 0 : p[j] / sum;
  return top + log(sum);
}

/* args: dropout_p seed offset from argument `first` on */
static void read_dropout(attention *a, const ref_call *c, int first) {
  a->dropout = ref_f(c, first);
  a->seed = (uint64_t)ref_i(c, first + 1);
  a->offset = (uint64_t)ref_i(c, first + 2);
}

/* The number in [0, 1) that a counter gives: the first 53 bits of Philox4x32-10 (Salmon and others, SC 2011), whose
 * counter is 128 bits wide and whose key is the seed. */
static double drawn(uint64_t seed, uint64_t counter) {
  uint32_t x[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t a = UINT64_C(0xD2511F53) * x[0], b = UINT64_C(0xCD9E8D57) * x[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key[0], (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ key[1], (uint32_t)a};
    for (int i = 0; i < 4; i++) x[i] = next[i];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return (double)(((uint64_t)x[0] << 32 | x[1]) >> 11) * 0x1p-53;
}

/* What dropout makes of the weight of row r (of all) and key j: times 0 or more than 1. */
static double left_of(const attention *a, int64_t r, int64_t j) {
  if (a->dropout == 0) return 1;
  uint64_t place = (uint64_t)(r * a->k->n[2] + j);
  return drawn(a->seed, a->offset + place) < 1 - a->dropout ? 1 / (1 - a->dropout) : 0;
}

static void forward(const attention *a, rt **out, rt **logsumexp) {
  int64_t n[4] = {a->q->n[0], a->q->n[1], a->q->n[2], a->v->n[3]};
  double *p = ref_alloc((size_t)a->k->n[2] * sizeof *p);
  *out = rt_new(4, n);
  *logsumexp = rt_new(3, n);
  for (int64_t r = 0; r < (*logsumexp)->numel; r++) {
    int64_t at[3];
    rt_unravel(*logsumexp, r, at);
    (*logsumexp)->p[r] = row_of(a, at[0], at[1], at[2], p);
    int64_t g = at[1] / (a->q->n[1] / a->k->n[1]);
    for (int64_t j = 0; j < a->k->n[2]; j++)
      for (int64_t e = 0; e < n[3]; e++) (*out)->p[r * n[3] + e] += left_of(a, r, j) * p[j] * *element(a->v, at[0], g, j, e);
  }
}

/* (query, key, value, mask, dropout, causal, scale, gqa) */
static void op_attention(ref_call *c) {
  const rt *q = ref_t(c, 0);
  double scale = ref_has(c, 6) ? ref_f(c, 6) : 1 / sqrt((double)q->n[q->nd - 1]);
  attention a = attention_of(c, 0, 3, ref_i(c, 5), scale);
  /* Three dims: batches as heads; four() put them there. */
  rt *out, *sums, *shape = rt_view(q);
  forward(&a, &out, &sums);
  shape->n[q->nd - 1] = a.v->n[3];
  rt *result = rt_new(q->nd, shape->n);
  result->p = out->p;
  ref_out(c, result);
}
static void op_fused_attention(ref_call *c) {
  attention a = attention_of(c, 0, 3, ref_i(c, 4), ref_f(c, 5));
  rt *out, *sums;
  read_dropout(&a, c, 6);
  if (ref_t(c, 0)->numel == 0) a.mask = NULL;
  forward(&a, &out, &sums);
  ref_out(c, out);
  ref_out(c, sums);
}

/* (grad, query, key, value, mask, output, logsumexp, causal, scale, dropout, seed, offset): a function of all of them, whether or not the
 * two results are those of a forward. */
static void op_attention_backward(ref_call *c) {
  attention a = attention_of(c, 1, 4, ref_i(c, 7), ref_f(c, 8));
  read_dropout(&a, c, 9);
  rt *grad = four(ref_t(c, 0)), *output = four(ref_t(c, 5)), *logs = four(ref_t(c, 6));
  rt *dq = rt_like(a.q), *dk = rt_like(a.k), *dv = rt_like(a.v);
  int64_t keys = a.k->n[2], width = a.v->n[3], at[4];
  double *p = ref_alloc((size_t)keys * sizeof *p), *d = ref_alloc((size_t)keys * sizeof *d);
  for (int64_t r = 0; r < a.q->numel / a.q->n[3]; r++) {
    rt_unravel(a.q, r * a.q->n[3], at); /* r: of all rows */
    int64_t b = at[0], h = at[1], i = at[2], g = h / (a.q->n[1] / a.k->n[1]);
    double delta = 0, sum = row_of(&a, b, h, i, p);
    for (int64_t e = 0; e < width; e++) delta += *element(grad, b, h, i, e) * *element(output, b, h, i, e);
    for (int64_t j = 0; j < keys; j++) {
      p[j] *= exp(sum - *element(logs, 0, b, h, i));
      d[j] = 0;
      for (int64_t e = 0; e < width; e++) {
        d[j] += left_of(&a, r, j) * *element(grad, b, h, i, e) * *element(a.v, b, g, j, e);
        *element(dv, b, g, j, e) += left_of(&a, r, j) * p[j] * *element(grad, b, h, i, e);
      }
    }
    for (int64_t j = 0; j < keys; j++)
      for (int64_t e = 0; e < a.q->n[3]; e++) {
        double s = p[j] * (d[j] - delta) * a.scale;
        *element(dq, b, h, i, e) += s * *element(a.k, b, g, j, e);
        *element(dk, b, g, j, e) += s * *element(a.q, b, h, i, e);
      }
  }
  ref_out(c, dq);
  ref_out(c, dk);
  ref_out(c, dv);
}

const ref_entry ref_attention[] = {
    {"scaled_dot_product_attention", op_attention},
    {"_scaled_dot_product_attention", op_fused_attention},
    {"_scaled_dot_product_attention_backward", op_attention_backward},
    {NULL, NULL},
};
