/* SPDX-License-Identifier: Apache-2.0
 *
 * One contiguous loop from one expression: CPU_EW_LOOP makes the function of an operator for one type. T
 * is the compute type, P the prefix of its functions, R what is stored (SAME as T, or BOOL).
 */
#ifndef CPU_PER_ISA_LOOP_H
#define CPU_PER_ISA_LOOP_H

#define EW_IN_0(T)
#define EW_IN_1(T) EW_IN_0(T) const T *x0 = in[0];
#define EW_IN_2(T) EW_IN_1(T) const T *x1 = in[1];
#define EW_IN_3(T) EW_IN_2(T) const T *x2 = in[2];
#define EW_IN_4(T) EW_IN_3(T) const T *x3 = in[3];
#define EW_AT_0(T)
#define EW_AT_1(T)               \
  EW_AT_0(T) const T a0 = x0[i]; \
  (void)a0;
#define EW_AT_2(T)               \
  EW_AT_1(T) const T a1 = x1[i]; \
  (void)a1;
#define EW_AT_3(T)               \
  EW_AT_2(T) const T a2 = x2[i]; \
  (void)a2;
#define EW_AT_4(T)               \
  EW_AT_3(T) const T a3 = x3[i]; \
  (void)a3;
/* half: which half of cpu_scalar, f or i. Not every expression uses every operand: flags of the schema,
 * isnan of an integer. */
#define EW_SCALARS_0(T, half)
#define EW_SCALARS_1(T, half)      \
  const T s0 = (T)scalars[0].half; \
  (void)s0;
#define EW_SCALARS_2(T, half)                            \
  EW_SCALARS_1(T, half) const T s1 = (T)scalars[1].half; \
  (void)s1;
#define EW_SCALARS_3(T, half)                            \
  EW_SCALARS_2(T, half) const T s2 = (T)scalars[2].half; \
  (void)s2;
#define EW_SCALARS_4(T, half)                            \
  EW_SCALARS_3(T, half) const T s3 = (T)scalars[3].half; \
  (void)s3;
#define EW_NAMES_1_0      a0
#define EW_NAMES_1_1      a0, s0
#define EW_NAMES_1_2      a0, s0, s1
#define EW_NAMES_1_3      a0, s0, s1, s2
#define EW_NAMES_1_4      a0, s0, s1, s2, s3
#define EW_NAMES_2_0      a0, a1
#define EW_NAMES_2_1      a0, a1, s0
#define EW_NAMES_2_2      a0, a1, s0, s1
#define EW_NAMES_2_3      a0, a1, s0, s1, s2
#define EW_NAMES_2_4      a0, a1, s0, s1, s2, s3
#define EW_NAMES_3_0      a0, a1, a2
#define EW_NAMES_3_1      a0, a1, a2, s0
#define EW_NAMES_3_2      a0, a1, a2, s0, s1
#define EW_NAMES_3_3      a0, a1, a2, s0, s1, s2
#define EW_NAMES_3_4      a0, a1, a2, s0, s1, s2, s3
#define EW_NAMES_4_0      a0, a1, a2, a3
#define EW_NAMES_4_1      a0, a1, a2, a3, s0
#define EW_NAMES_4_2      a0, a1, a2, a3, s0, s1
#define EW_NAMES_4_3      a0, a1, a2, a3, s0, s1, s2
#define EW_NAMES_4_4      a0, a1, a2, a3, s0, s1, s2, s3
#define EW_TYPE_SAME(T)   T
#define EW_TYPE_BOOL(T)   uint8_t
#define EW_APPLY_(E, ...) E(__VA_ARGS__)
#define EW_APPLY(E, ...)  EW_APPLY_(E, __VA_ARGS__)

/* convert: from the expression's value to what is stored. One element goes straight through: the checks
 * around a vector loop would be half of such a call. */
#define CPU_EW_LOOP(fn, T, P, half, E, nt, ns, R, convert)                                 \
  static void fn(void *out, const void *const *in, const cpu_scalar *scalars, int64_t n) { \
    R *r = out;                                                                            \
    EW_IN_##nt(T) EW_SCALARS_##ns(T, half) if (n == 1) {                                   \
      const int64_t i = 0;                                                                 \
      EW_AT_##nt(T) r[i] = convert(EW_APPLY(E, T, P, EW_NAMES_##nt##_##ns));               \
      return;                                                                              \
    }                                                                                      \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                      \
      EW_AT_##nt(T) r[i] = convert(EW_APPLY(E, T, P, EW_NAMES_##nt##_##ns));               \
    }                                                                                      \
  }
/* The same, past the caches: groups of CPU_STREAM_GROUP elements, so that loads and such stores alternate
 * closely. A group stays in registers or the first cache. */
#define CPU_EW_STREAM(fn, T, P, half, E, nt, ns)                                             \
  static void fn(void *out, const void *const *in, const cpu_scalar *scalars, int64_t n) {   \
    T *r = out;                                                                              \
    EW_IN_##nt(T) EW_SCALARS_##ns(T, half) for (int64_t g = 0; g < n; g += CPU_STREAM_GROUP) { \
      T group[CPU_STREAM_GROUP] __attribute__((aligned(CPU_LINE)));                          \
      CPU_INDEPENDENT for (int64_t j = 0; j < CPU_STREAM_GROUP; ++j) {                       \
        const int64_t i = g + j;                                                             \
        EW_AT_##nt(T) group[j] = EW_APPLY(E, T, P, EW_NAMES_##nt##_##ns);                    \
      }                                                                                      \
      vec_stream_group(r + g, group, sizeof group);                                          \
    }                                                                                        \
  }
#define EW_AS_IS(x)   (x)
#define EW_AS_BOOL(x) ((uint8_t)((x) != 0))

#endif
