/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements picked by index: r[..., i, ...] = x[..., index, ...]. An item for each element of the result, whose places in the result, in
 * the index and in x (the picked dim left out) are walked together. Elements are only moved (bits types). An index outside its bounds
 * sets the device's fault word (gpu.h); that element becomes 0.
 */
typedef struct {
  i64 numel;
  i64 ndim;
  i64 picked; /* size of the dim that the index counts in */
  i64 step;   /* its stride in x */
  i64 sizes[RANK];
  i64 strides[3][RANK]; /* of the result, the index, x */
} pick_t;

KERNEL void NAME(GLOBAL MEM(T0) *r, i64 at, GLOBAL const MEM(TI) *index, i64 index_at, GLOBAL const MEM(T0) *x, i64 x_at,
                 GLOBAL i64 *fault, i64 fault_at, pick_t s) {
  i64 left = PLACE(0);
  if (left >= s.numel) return;
  for (i32 d = 0; d < (i32)s.ndim; ++d) {
    const i64 k = left % s.sizes[d];
    left /= s.sizes[d];
    at += k * s.strides[0][d];
    index_at += k * s.strides[1][d];
    x_at += k * s.strides[2][d];
  }
  const i64 k = (i64)index[index_at];
  if (k >= 0 && k < s.picked) {
    r[at] = x[x_at + k * s.step];
    return;
  }
  r[at] = 0;
  if (FIRST_TO_SET(fault + fault_at, 1)) {
    fault[fault_at + 1] = k;
    fault[fault_at + 2] = s.picked;
  }
}
