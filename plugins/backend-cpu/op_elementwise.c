/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs every operator that the registry has an expression for. One driver: contiguous operands of a full-
 * width dtype go to the loop of the instruction set at once; anything else (strides, broadcasts, halves)
 * is brought through blocks on the stack, so that there is one loop per operator and type and not one per
 * layout.
 *
 * Note [Bits do not depend on layout]
 * The loops hold no sums across elements and are compiled without contraction, so an element's bits are the
 * same in a vector body, in its tail, in a block and on any thread.
 */
#include <stdatomic.h>

#include "plugins/backend-cpu/cpu.h"
#include "plugins/backend-cpu/ew_index.h"

typedef struct ew_job {
  cpu_ew_fn fn;
  uint32_t n_inputs;
  tn_dtype compute; /* the loop's input type */
  tn_dtype result;  /* what the loop stores */
  tn_dtype out;     /* what out[0] holds */
  tn_dtype in[CPU_EW_INPUTS];
  cpu_scalar scalars[CPU_EW_SCALARS];
  bool stream;       /* the result is stored past the caches (stream.c), */
  cpu_ew_fn grouped; /* by this loop, or NULL */
} ew_job;

typedef uint64_t ew_block[CPU_BLOCK] __attribute__((aligned(64)));

/* Block of input k from element i on: its own memory where that fits the loop, else the block filled. A
 * repeated element is filled in once, for the first (and longest) block. */
static const void *block_of(const ew_job *job, uint32_t k, const char *data, int64_t stride, int64_t i,
                            int64_t m, void *block) {
  if (job->in[k] == job->compute && stride == (int64_t)tn_kit_dtype_size(job->compute))
    return data + i * stride;
  if (stride != 0 || i == 0) cpu_read(block, job->compute, data + i * stride, job->in[k], stride, m);
  return block;
}

/* Flat operands, the result past the caches: in groups where there is such a loop, else in blocks that stay
 * in the first cache. */
static void run_streamed(const ew_job *job, char *out, const void **in, int64_t n) {
  ew_block block;
  const int64_t size = (int64_t)tn_kit_dtype_size(job->result),
                from = (int64_t)tn_kit_dtype_size(job->compute);
  const cpu_groups g = job->grouped ? cpu_groups_of(out, size, n) : (cpu_groups){0, 0};
  const int64_t most = (int64_t)sizeof block / TN_DIM_MAX(size, from);
  for (int64_t i = 0, m; i < n; i += m) {
    if (i < g.before) {
      m = g.before;
      job->fn(out, in, job->scalars, m);
    } else if (i < g.before + g.grouped) {
      m = g.grouped;
      job->grouped(out + i * size, in, job->scalars, m);
    } else {
      m = TN_DIM_MIN(n - i, most);
      job->fn(block, in, job->scalars, m);
      cpu_now->move->stream(out + i * size, block, m * size);
    }
    for (uint32_t k = 0; k < job->n_inputs; ++k) in[k] = (const char *)in[k] + m * from;
  }
}

static void run_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const ew_job *job = ctx;
  ew_block blocks[1 + CPU_EW_INPUTS];
  const void *in[CPU_EW_INPUTS];
  int64_t size = (int64_t)tn_kit_dtype_size(job->result);
  bool direct = job->out == job->result && strides[0] == size, flat = direct;
  for (uint32_t k = 0; k < job->n_inputs; ++k) {
    in[k] = data[1 + k];
    flat = flat && job->in[k] == job->compute && strides[1 + k] == (int64_t)tn_kit_dtype_size(job->compute);
  }
  bool stream = job->stream && direct;
  if (flat) {
    if (stream)
      run_streamed(job, data[0], in, n);
    else
      job->fn(data[0], in, job->scalars, n);
    return;
  }
  for (int64_t i = 0; i < n; i += CPU_BLOCK) {
    int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
    for (uint32_t k = 0; k < job->n_inputs; ++k)
      in[k] = block_of(job, k, data[1 + k], strides[1 + k], i, m, blocks[1 + k]);
    void *out = direct && !stream ? data[0] + i * size : (char *)blocks[0];
    job->fn(out, in, job->scalars, m);
    if (stream)
      cpu_now->move->stream(data[0] + i * size, out, m * size);
    else if (!direct)
      cpu_write(data[0] + i * strides[0], job->out, strides[0], out, job->result, m);
  }
}

/* Operands, output first, and numbers, wherever they stand among the arguments. */
static void collect(const cpu_ew *ew, const tn_value *args, tn_value *out, const tn_view **operands,
                    cpu_scalar *scalars) {
  uint32_t tensors = 0, numbers = 0;
  operands[0] = out[0].u.v;
  for (const tn_value *a = args; tensors < ew->n_tensors || numbers < ew->n_scalars; ++a) {
    if (a->kind == TN_VAL_TENSOR)
      operands[1 + tensors++] = a->u.v;
    else
      scalars[numbers++] = cpu_scalar_of(a);
  }
}

static __attribute__((noinline)) tn_status run_any(const cpu_ew *ew, const tn_value *args, tn_value *out) {
  const tn_view *operands[1 + CPU_EW_INPUTS];
  ew_job job = {.n_inputs = ew->n_tensors};
  collect(ew, args, out, operands, job.scalars);
  tn_dtype dtype = operands[1]->dtype;
  job.fn = ew->fns[dtype];
  if (!job.fn) return TN_FAIL(TN_ERR_DTYPE, "%s is not defined for %s", ew->name, tn_kit_dtype_name(dtype));
  job.compute = cpu_wide(dtype);
  job.result = ew->to_bool ? TN_BOOL : job.compute;
  job.out = operands[0]->dtype;
  for (uint32_t k = 0; k < job.n_inputs; ++k) job.in[k] = operands[1 + k]->dtype;
  job.stream = cpu_streams(1 + job.n_inputs, operands);
  if (job.stream) {
    job.grouped = cpu_now->elementwise_stream(ew->op, job.compute);
    return cpu_each_streamed(1 + job.n_inputs, operands, ew->grain, run_row, &job);
  }
  return tn_iter_each(1, 1 + job.n_inputs, operands, ew->grain, run_row, &job);
}

/* Both halves of a number without a call. A float beyond int64 has no integer half that anyone may use. */
static inline cpu_scalar scalar_of(const tn_value *v) {
  if (v->kind != TN_VAL_FLOAT) return (cpu_scalar){(double)v->u.i, v->u.i};
  return (cpu_scalar){v->u.f, v->u.f > -0x1p63 && v->u.f < 0x1p63 ? (int64_t)v->u.f : 0};
}

/* What the core has checked (TN_CALL_FLAT) and is small goes to the loop at once: a one-element call is what
 * dispatch is measured by. n and n_scalars are constants at each use, so the loops unroll; everything else is
 * behind a call, so that nothing has to be kept over one. */
static inline __attribute__((always_inline)) tn_status
run(const tn_call *call, uint32_t n, uint32_t n_scalars, const tn_value *args, tn_value *out) {
  const cpu_ew *ew = call->user;
  const tn_view *o = out[0].u.v;
  const void *in[CPU_EW_INPUTS];
  cpu_scalar scalars[CPU_EW_SCALARS];
  const int64_t numel = o->numel;
  if (__builtin_expect(!(call->flags & TN_CALL_FLAT) || numel > CPU_GRAIN_HEAVY, 0))
    return run_any(ew, args, out);
  const tn_dtype dtype = args[0].u.v->dtype; /* a flat call begins with a tensor */
  if (__builtin_expect(!ew->flat[dtype], 0)) return run_any(ew, args, out);
  if (n_scalars == 0) scalars[0] = (cpu_scalar){0, 0}; /* never read, but not garbage */
  for (uint32_t k = 0; k < n; ++k) in[k] = args[k].u.v->data;
  for (uint32_t k = 0; k < n_scalars; ++k) scalars[k] = scalar_of(&args[n + k]);
  ew->fns[dtype](o->data, in, scalars, numel);
  return TN_OK;
}

#define RUN(n, n_scalars)                                                                      \
  static tn_status run_##n##_##n_scalars(tn_call *call, const tn_value *args, tn_value *out) { \
    return run(call, n, n_scalars, args, out);                                                 \
  }
#define RUNS(n) RUN(n, 0) RUN(n, 1) RUN(n, 2) RUN(n, 3) RUN(n, 4)
RUNS(1)
RUNS(2)
RUNS(3)
RUNS(4)

/* ------------------------------------------------------------------ integers divided by 0 */

typedef struct divisors {
  tn_dtype dtype, compute;
  _Atomic bool has_zero;
} divisors;

#define ZERO_AMONG(T)                                                  \
  static bool zero_among_##T(const void *data, int64_t n) {            \
    const T *p = data;                                                 \
    int found = 0;                                                     \
    for (int64_t i = 0; i < n; ++i) found |= p[i] == 0;                \
    return found;                                                      \
  }
ZERO_AMONG(uint8_t)
ZERO_AMONG(uint16_t)
ZERO_AMONG(uint32_t)
ZERO_AMONG(uint64_t)

static bool zero_among(tn_dtype dtype, const void *data, int64_t n) {
  switch (tn_kit_dtype_size(dtype)) {
    case 1: return zero_among_uint8_t(data, n);
    case 2: return zero_among_uint16_t(data, n);
    case 4: return zero_among_uint32_t(data, n);
    default: return zero_among_uint64_t(data, n);
  }
}

static void look_for_zero(void *ctx, char **data, const int64_t *strides, int64_t n) {
  divisors *d = ctx;
  const int64_t size = (int64_t)tn_kit_dtype_size(d->compute), stride = strides[0];
  const bool direct = d->dtype == d->compute && stride == size;
  if (stride == 0) n = 1;
  bool found = false;
  for (int64_t i = 0, m; i < n && !found; i += m) {
    ew_block block;
    m = TN_DIM_MIN(n - i, CPU_BLOCK);
    if (!direct) cpu_read(block, d->compute, data[0] + i * stride, d->dtype, stride, m);
    found = zero_among(d->compute, direct ? data[0] + i * stride : (const char *)block, m);
  }
  if (found) atomic_store_explicit(&d->has_zero, true, memory_order_relaxed);
}

/* Divisors are looked at before the first result is written, so a refused call in place leaves everything as it was; beside
 * the division this costs little, and the loops need no test that would go through them. */
static tn_status check_divisor(const cpu_ew *ew, const tn_value *args, tn_value *out) {
  const tn_view *operands[1 + CPU_EW_INPUTS];
  cpu_scalar scalars[CPU_EW_SCALARS];
  const uint32_t k = ew->divisor - 1u;
  collect(ew, args, out, operands, scalars);
  divisors d = {.compute = operands[1]->dtype};
  if (!tn_kit_dtype_is_int(d.compute) || operands[0]->numel == 0) return TN_OK;
  if (k < ew->n_tensors) {
    d.dtype = operands[1 + k]->dtype;
    TN_TRY(tn_iter_each(0, 1, &operands[1 + k], CPU_GRAIN, look_for_zero, &d));
  } else {
    uint64_t number[1];
    cpu_put_scalar(number, d.compute, &scalars[k - ew->n_tensors]);
    d.has_zero = zero_among(d.compute, number, 1);
  }
  if (!d.has_zero) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected no 0 among the divisors, since %s has no infinity",
                 tn_kit_dtype_name(d.compute));
}

/* ------------------------------------------------------------------ registration */

#define EW_BOOL_SAME false
#define EW_BOOL_BOOL true
#define EW_RECORD(id, op_name, nt, ns, mask, result, words) \
  [CPU_EW_##id] = {.name = op_name,                         \
                   .op = CPU_EW_##id,                       \
                   .dtypes = (mask),                        \
                   .n_tensors = nt,                         \
                   .n_scalars = ns,                         \
                   .to_bool = EW_BOOL_##result},
static cpu_ew records[CPU_EW_COUNT] = {TN_EW_LIST(EW_RECORD)}; /* fns: filled once, in init */

#define EW_FITS(id, op_name, nt, ns, mask, result, words)                      \
  _Static_assert((nt) >= 1 && (nt) <= CPU_EW_INPUTS && (ns) <= CPU_EW_SCALARS, \
                 op_name " has too many arguments");
TN_EW_LIST(EW_FITS)

/* Expressions of several dozen instructions an element: worth a thread earlier. */
static bool is_heavy(const char *name) {
  static const char *const parts[] = {"exp", "log",  "pow",  "sin",       "cos",  "tanh",        "sigmoid",
                                      "erf", "gelu", "silu", "remainder", "fmod", "floor_divide"};
  for (size_t i = 0; i < TN_COUNT(parts); ++i)
    if (strstr(name, parts[i])) return !strstr(name, "logical");
  return false;
}

static void fill_record(cpu_ew *ew) {
  for (tn_dtype dtype = TN_BOOL; dtype < CPU_DTYPES; ++dtype) {
    if (!(ew->dtypes & TN_DTYPE_BIT(dtype))) continue;
    ew->fns[dtype] = cpu_now->elementwise(ew->op, cpu_wide(dtype));
    if (cpu_wide(dtype) == dtype) ew->flat[dtype] = ew->to_bool ? TN_BOOL : dtype;
  }
  ew->grain = is_heavy(ew->name) ? CPU_GRAIN_HEAVY : CPU_GRAIN;
}

#define EW_DIVISOR(id, operand) records[CPU_EW_##id].divisor = 1 + (operand);

#define ROW(n) \
  { run_##n##_0, run_##n##_1, run_##n##_2, run_##n##_3, run_##n##_4 }
static const tn_kernel_fn entries[CPU_EW_INPUTS][CPU_EW_SCALARS + 1] = {ROW(1), ROW(2), ROW(3), ROW(4)};

static tn_status run_division(tn_call *call, const tn_value *args, tn_value *out) {
  const cpu_ew *ew = call->user;
  TN_TRY(check_divisor(ew, args, out));
  return entries[ew->n_tensors - 1][ew->n_scalars](call, args, out);
}

tn_status cpu_register_elementwise(tn_registration *reg) {
  TN_EW_DIVISORS(EW_DIVISOR)
  for (uint32_t i = 0; i < CPU_EW_COUNT; ++i) {
    cpu_ew *ew = &records[i];
    fill_record(ew);
    const tn_kernel_fn fn = ew->divisor ? run_division : entries[ew->n_tensors - 1][ew->n_scalars];
    tn_kernel_def def = TN_KERNEL("cpu", ew->name, fn, ew->dtypes, .user = ew);
    TN_TRY(tn_kit_host()->register_kernel(reg, &def));
  }
  return TN_OK;
}
