/* SPDX-License-Identifier: Apache-2.0
 *
 * One result per item: r[i] = EXPR of a0, a1, ... (N_IN operands) and s0, s1, ... (N_NUM numbers); `i` is the element's number
 * in row-major order where the host kept the order. EXPR comes from the registry (elementwise.inc, generated) or from
 * the host. FLAT: every operand is contiguous; else a walk over up to RANK dims, the innermost first.
 */
#if !FLAT
typedef struct {
  i64 first; /* number of the launch's first element */
  i64 numel;
  i64 ndim;
  i64 sizes[RANK];
  i64 strides[1 + N_IN][RANK]; /* in elements; of the result, then of each operand */
} shape_t;
#endif

KERNEL void NAME(GLOBAL MEM(TO) *r, i64 at
#if FLAT
                 , i64 numel
#else
                 , shape_t shape
#endif
#if N_IN > 0
                 , GLOBAL const MEM(T0) *p0, i64 at0
#endif
#if N_IN > 1
                 , GLOBAL const MEM(T1) *p1, i64 at1
#endif
#if N_IN > 2
                 , GLOBAL const MEM(T2) *p2, i64 at2
#endif
#if N_IN > 3
                 , GLOBAL const MEM(T3) *p3, i64 at3
#endif
#if N_NUM > 0
                 , MEM(S0) s0
#endif
#if N_NUM > 1
                 , MEM(S1) s1
#endif
#if N_NUM > 2
                 , MEM(S2) s2
#endif
#if N_NUM > 3
                 , MEM(S3) s3
#endif
#if N_NUM > 4
                 , MEM(S4) s4
#endif
) {
  i64 i = PLACE(0);
#if FLAT
  if (i >= numel) return;
  at += i;
#if N_IN > 0
  at0 += i;
#endif
#if N_IN > 1
  at1 += i;
#endif
#if N_IN > 2
  at2 += i;
#endif
#if N_IN > 3
  at3 += i;
#endif
#else
  if (i >= shape.numel) return;
  i64 left = i;
  for (i32 d = 0; d < (i32)shape.ndim; ++d) {
    const i64 k = left % shape.sizes[d];
    left /= shape.sizes[d];
    at += k * shape.strides[0][d];
#if N_IN > 0
    at0 += k * shape.strides[1][d];
#endif
#if N_IN > 1
    at1 += k * shape.strides[2][d];
#endif
#if N_IN > 2
    at2 += k * shape.strides[3][d];
#endif
#if N_IN > 3
    at3 += k * shape.strides[4][d];
#endif
  }
  i += shape.first;
#endif
#if N_IN > 0
  const T a0 = (T)READ(T0, p0[at0]);
#endif
#if N_IN > 1
  const T a1 = (T)READ(T1, p1[at1]);
#endif
#if N_IN > 2
  const T a2 = (T)READ(T2, p2[at2]);
#endif
#if N_IN > 3
  const T a3 = (T)READ(T3, p3[at3]);
#endif
  r[at] = STORE(TO, (EXPR));
}
