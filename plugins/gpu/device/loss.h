/* SPDX-License-Identifier: Apache-2.0
 *
 * nll_loss and its gradient. A target that is no class sets the device's fault word (gpu.h), which the next wait for the device
 * reports; the loss of that row counts as 0. A is the accumulator, REDUCTION 0 none, 1 mean, 2 sum.
 */
typedef struct {
  i64 rows, classes, ignore;
  i64 self_row, self_class; /* strides; of the result in the gradient */
  i64 target_row, weight_class, out_row;
} nll_t;

/* The class of a row, or -1 if the row does not count. */
DEVICE i64 class_of(const nll_t *s, GLOBAL const MEM(TT) *target, i64 row, GLOBAL i64 *fault) {
  const i64 c = (i64)target[row * s->target_row];
  if (c == s->ignore) return -1;
  if (c >= 0 && c < s->classes) return c;
  if (FIRST_TO_SET(fault, 1)) {
    fault[1] = c;
    fault[2] = s->classes;
  }
  return -1;
}
DEVICE A weight_of(const nll_t *s, GLOBAL const MEM(T0) *weight, i64 c) {
#if WEIGHTED
  return (A)READ(T0, weight[c * s->weight_class]);
#else
  return (A)1;
#endif
}

#if BACKWARD

/* An item for each element of the result. grad and total are 0-d, grad has a row each if REDUCTION is 0. */
KERNEL void NAME(GLOBAL MEM(T0) *r, i64 at, GLOBAL const MEM(T0) *grad, i64 grad_at, GLOBAL const MEM(TT) *target,
                 i64 target_at, GLOBAL const MEM(T0) *weight, i64 weight_at, GLOBAL const MEM(T0) *total, i64 total_at,
                 GLOBAL i64 *fault, i64 fault_at, nll_t s) {
  const i64 i = PLACE(0);
  if (i >= s.rows * s.classes) return;
  const i64 row = i / s.classes, c = class_of(&s, target + target_at, row, fault + fault_at);
  A value = 0;
  if (c == i % s.classes) {
    value = -weight_of(&s, weight + weight_at, c) * (A)READ(T0, grad[grad_at + row * s.out_row]);
#if REDUCTION == 1
    value = value / (A)READ(T0, total[total_at]);
#endif
  }
  r[at + row * s.self_row + i % s.classes * s.self_class] = STORE(T0, value);
}

#else

/* One group, whose items share the rows: a batch is small. */
KERNEL void NAME(GLOBAL MEM(T0) *r, i64 at, GLOBAL MEM(T0) *total, i64 total_at, GLOBAL const MEM(T0) *self, i64 self_at,
                 GLOBAL const MEM(TT) *target, i64 target_at, GLOBAL const MEM(T0) *weight, i64 weight_at,
                 GLOBAL i64 *fault, i64 fault_at, nll_t s) {
  LOCAL_ARRAY(A, sums, GROUP);
  LOCAL_ARRAY(A, weights, GROUP);
  const i32 me = ITEM(0);
  A sum = 0, all = 0;
  for (i64 row = me; row < s.rows; row += GROUP) {
    const i64 c = class_of(&s, target + target_at, row, fault + fault_at);
    const A w = c < 0 ? (A)0 : weight_of(&s, weight + weight_at, c);
    const A loss = c < 0 ? (A)0 : -w * (A)READ(T0, self[self_at + row * s.self_row + c * s.self_class]);
    sum += loss;
    all += w;
#if REDUCTION == 0
    r[at + row * s.out_row] = STORE(T0, loss);
#endif
  }
  sums[me] = sum;
  weights[me] = all;
  BARRIER();
  for (i32 step = GROUP / 2; step > 0; step /= 2) {
    if (me < step) {
      sums[me] += sums[me + step];
      weights[me] += weights[me + step];
    }
    BARRIER();
  }
  if (me != 0) return;
#if REDUCTION == 0
  total[total_at] = STORE(T0, (A)0);
#else
#if REDUCTION == 1
  r[at] = STORE(T0, sums[0] / weights[0]);
#else
  r[at] = STORE(T0, sums[0]);
#endif
  total[total_at] = STORE(T0, weights[0]);
#endif
}

#endif
