/* SPDX-License-Identifier: Apache-2.0
 *
 * One optimiser step over one parameter: an item reads and writes its element of every array once. Formulas as the registry's
 * optim.yaml describes them; numbers that depend on the step alone come computed. KIND: ADAM, SGD, RMSPROP. Arrays that a
 * step lacks are not touched (AMSGRAD, MOMENTUM, CENTERED say which there are). SCALED: grad_scale divides the
 * gradient, which is written back; FOUND: a found_inf that is not 0 makes the step do nothing.
 */
#define ADAM    0
#define SGD     1
#define RMSPROP 2

typedef struct {
  i64 first;
  i64 numel;
  i64 ndim;
  i64 sizes[RANK];
  i64 strides[5][RANK]; /* param, grad, and up to three states; an absent one repeats param's */
} arrays_t;
typedef struct {
  T lr, weight_decay, eps, sign;
  T beta1, rest1, log1, beta2, rest2, log2, keep; /* Adam; log1 is beta1's logarithm. beta2 is RMSprop's alpha */
  T momentum, fresh, ahead;                       /* gradient descent */
} step_t;

KERNEL void NAME(GLOBAL MEM(T0) *param, i64 at0, GLOBAL MEM(T0) *grad, i64 at1, GLOBAL MEM(T0) *one, i64 at2,
                 GLOBAL MEM(T0) *two, i64 at3, GLOBAL MEM(T0) *three, i64 at4, GLOBAL const MEM(TS) *count, i64 count_at,
                 GLOBAL const MEM(TG) *grad_scale, i64 scale_at, GLOBAL const MEM(TF) *found_inf, i64 found_at,
                 arrays_t s, step_t h) {
  i64 left = PLACE(0);
  if (left >= s.numel) return;
#if FOUND
  if (READ(TF, found_inf[found_at]) != 0) return;
#endif
  for (i32 d = 0; d < (i32)s.ndim; ++d) {
    const i64 k = left % s.sizes[d];
    left /= s.sizes[d];
    at0 += k * s.strides[0][d];
    at1 += k * s.strides[1][d];
    at2 += k * s.strides[2][d];
    at3 += k * s.strides[3][d];
    at4 += k * s.strides[4][d];
  }
  const T p = (T)READ(T0, param[at0]);
  T g = (T)READ(T0, grad[at1]);
#if SCALED
  g = g / (T)READ(TG, grad_scale[scale_at]);
  grad[at1] = STORE(T0, g);
#endif
#if KIND == ADAM
  const T t = (T)READ(TS, count[count_at]); /* 1 - beta^t, which float32 holds in this form only */
  const T correction1 = -expm1(t * h.log1), correction2 = sqrt(-expm1(t * h.log2));
  const T d = g * h.sign + h.weight_decay * p;
  const T m = h.beta1 * (T)READ(T0, one[at2]) + h.rest1 * d, v = h.beta2 * (T)READ(T0, two[at3]) + h.rest2 * d * d;
  T top = v;
#if AMSGRAD
  const T most = (T)READ(T0, three[at4]);
  top = ((most > v) | (most != most)) ? most : v;
  three[at4] = STORE(T0, top);
#endif
  one[at2] = STORE(T0, m);
  two[at3] = STORE(T0, v);
  param[at0] = STORE(T0, p * h.keep - h.lr / correction1 * m / (sqrt(top) / correction2 + h.eps));
#elif KIND == SGD
  T d = g * h.sign + h.weight_decay * p;
#if MOMENTUM
  /* The first step's momentum is 0, and its buffer may hold anything. */
  const T b = (h.momentum == 0 ? (T)0 : h.momentum * (T)READ(T0, one[at2])) + h.fresh * d;
  one[at2] = STORE(T0, b);
  d = h.ahead != 0 ? d + h.ahead * b : b;
#endif
  param[at0] = STORE(T0, p - h.lr * d);
#else
  const T d = g * h.sign + h.weight_decay * p;
  const T kept = h.beta2 * (T)READ(T0, one[at2]) + h.rest2 * d * d;
  T spread = kept;
#if CENTERED
  const T mean = h.beta2 * (T)READ(T0, two[at3]) + h.rest2 * d;
  two[at3] = STORE(T0, mean);
  spread = kept - mean * mean;
#endif
  T unit = d / (sqrt(spread < 0 ? (T)0 : spread) + h.eps);
#if MOMENTUM
  unit = h.momentum * (T)READ(T0, three[at4]) + unit;
  three[at4] = STORE(T0, unit);
#endif
  one[at2] = STORE(T0, kept);
  param[at0] = STORE(T0, p - h.lr * unit);
#endif
}
