/* SPDX-License-Identifier: Apache-2.0
 *
 * Float32 elementwise loops written in vectors, for the expressions whose functions have a form with tables in registers
 * (vector_math.h); sets without such tables have none, and everybody else's loops are plain C. A single element, a part of
 * a vector and a result past the caches (Note [Past the caches]) take the same steps, so they have the same bits.
 */
#include "plugins/backend-cpu/ew_index.h"
#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"
#include "plugins/backend-cpu/per-isa/vector_math.h"

#if defined(__AVX512F__)

#define READ_1(READ) READ(0)
#define READ_2(READ) READ(0), READ(1)
#define WHOLE(k)     vf_load((const float *)in[k] + i)
#define PART(k)      lanes_load_part((const float *)in[k] + i, n - i, 0)
#define CALL_(E, ...) E(float, vf, __VA_ARGS__)
#define CALL(E, ...)  CALL_(E, __VA_ARGS__)

/* One loop for ordinary stores and one past the caches, of the expression of operator id with that many tensors. */
#define VECTOR_LOOPS(id, n_tensors)                                                                           \
  static void f32_vector_##id(void *out, const void *const *in, const cpu_scalar *scalars, int64_t n) {       \
    float *r = out;                                                                                           \
    int64_t i = 0;                                                                                            \
    for (; i + F32_LANES <= n; i += F32_LANES)                                                                \
      vf_store(r + i, CALL(TN_EXPR_FLT_##id, READ_##n_tensors(WHOLE)));                                       \
    if (i < n) lanes_store_part(r + i, CALL(TN_EXPR_FLT_##id, READ_##n_tensors(PART)), n - i);                \
  }                                                                                                           \
  static void f32_vector_stream_##id(void *out, const void *const *in, const cpu_scalar *scalars, int64_t n) { \
    float *r = out;                                                                                           \
    for (int64_t i = 0; i < n; i += F32_LANES)                                                                \
      vec_stream(r + i, CALL(TN_EXPR_FLT_##id, READ_##n_tensors(WHOLE)));                                     \
  }
#define VECTOR_LIST(X) X(exp, 1) X(_gelu_erf, 1) X(_gelu_erf_backward, 2)
VECTOR_LIST(VECTOR_LOOPS)

cpu_ew_fn CPU_FN(cpu_elementwise_vector)(uint32_t op, bool stream) {
#define CASE(id, n_tensors) \
  if (op == CPU_EW_##id) return stream ? f32_vector_stream_##id : f32_vector_##id;
  VECTOR_LIST(CASE)
  return NULL;
}

#else

cpu_ew_fn CPU_FN(cpu_elementwise_vector)(uint32_t op, bool stream) {
  (void)op, (void)stream;
  return NULL;
}

#endif
