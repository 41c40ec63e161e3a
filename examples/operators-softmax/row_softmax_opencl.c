/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels for OpenCL devices. The device and its memory are the OpenCL plugin's; compiling our text and queueing it is
 * what we ask of that plugin, through its interface opencl.kernels (tenon/gpu_kernels.h). Nothing here knows OpenCL's API.
 *
 * One text serves forward and backward, all floating dtypes, and two kinds of devices: where a group's items run side by
 * side, a group shares a row and folds in local memory; on a device that is a CPU an item has a row to itself. Halves are
 * computed in float and rounded once.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/gpu_kernels.h>

#include "row_softmax.h"

/* In front of it stand BACKWARD, GROUP (items that share a row), DTYPE, and HAS_DOUBLE. Parameters are pairs: a buffer,
 * and where in it, in elements. */
static const char text[] =
    "#if HAS_DOUBLE\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "#if DTYPE == 16\n" /* float16 */
    "#define MEM half\n"
    "#define T float\n"
    "#define READ(p, i) vload_half(i, p)\n"
    "#define STORE(p, i, x) vstore_half_rte(x, i, p)\n"
    "#elif DTYPE == 17\n" /* bfloat16 */
    "#define MEM ushort\n"
    "#define T float\n"
    "#define READ(p, i) as_float((uint)(p)[i] << 16)\n"
    "#define STORE(p, i, x) (p)[i] = rounded(x)\n"
    "ushort rounded(float x) {\n"
    "  const uint u = as_uint(x);\n"
    "  return (ushort)((isnan(x) ? u | 0x400000u : u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n"
    "}\n"
    "#else\n"
    "#if DTYPE == 32\n"
    "#define T float\n"
    "#else\n"
    "#define T double\n"
    "#endif\n"
    "#define MEM T\n"
    "#define READ(p, i) (p)[i]\n"
    "#define STORE(p, i, x) (p)[i] = (x)\n"
    "#endif\n"
    "\n"
    "#if GROUP == 1 && HAS_DOUBLE\n" /* one sum of a whole row; those of a group's items are short */
    "#define SUM double\n"
    "#else\n"
    "#define SUM T\n"
    "#endif\n"
    "#if GROUP > 1\n"
    "#define LARGER(a, b) ((a) > (b) ? (a) : (b))\n"
    "#define ADD(a, b) ((a) + (b))\n"
    "#define FOLD(value, WITH)                                     \\\n"
    "  lanes[me] = value;                                          \\\n"
    "  for (int step = GROUP / 2; step > 0; step /= 2) {           \\\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);                             \\\n"
    "    if (me < step) lanes[me] = WITH(lanes[me], lanes[me + step]); \\\n"
    "  }                                                           \\\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);                               \\\n"
    "  value = lanes[0];                                           \\\n"
    "  barrier(CLK_LOCAL_MEM_FENCE)\n"
    "#else\n"
    "#define FOLD(value, WITH)\n"
    "#endif\n"
    "\n"
    "__kernel void rows(__global MEM *to, long at_to, __global const MEM *x, long at_x,\n"
    "                   __global const MEM *y, long at_y, long n_rows, long n) {\n"
    "#if GROUP > 1\n"
    "  __local T lanes[GROUP];\n"
    "  const int me = (int)get_local_id(0);\n"
    "  const long row = (long)get_group_id(0);\n"
    "#else\n"
    "  const int me = 0;\n"
    "  const long row = (long)get_global_id(0);\n"
    "  if (row >= n_rows) return;\n"
    "#endif\n"
    "  to += at_to + row * n;\n"
    "  x += at_x + row * n;\n"
    "  SUM sum = 0;\n"
    "#if BACKWARD\n" /* x: the incoming gradient */
    "  y += at_y + row * n;\n"
    "  for (long i = me; i < n; i += GROUP) sum += READ(x, i) * READ(y, i);\n"
    "  FOLD(sum, ADD);\n"
    "  for (long i = me; i < n; i += GROUP) STORE(to, i, (READ(x, i) - (T)sum) * READ(y, i));\n"
    "#else\n"
    "  T most = -INFINITY;\n"
    "  for (long i = me; i < n; i += GROUP) most = READ(x, i) > most ? READ(x, i) : most;\n"
    "  FOLD(most, LARGER);\n"
    "  for (long i = me; i < n; i += GROUP) sum += exp(READ(x, i) - most);\n"
    "  FOLD(sum, ADD);\n"
    "  for (long i = me; i < n; i += GROUP) STORE(to, i, exp(READ(x, i) - most) / (T)sum);\n"
    "#endif\n"
    "}\n";

/* ------------------------------------------------------------------ built kernels */

/* What a text is built for. */
typedef struct variant {
  int32_t device;
  tn_dtype dtype;
  bool backward;
  uint32_t group;
} variant;

/* Built once, kept for the life of the process, like what the OpenCL plugin made for it. */
typedef struct built {
  struct built *next;
  variant of;
  tn_gpu_kernel *kernel;
} built;

static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(built *) all_built; /* grows at its head, so that readers need no lock */

static tn_gpu_kernel *find(const variant *v) {
  for (const built *b = atomic_load_explicit(&all_built, memory_order_acquire); b; b = b->next)
    if (b->of.device == v->device && b->of.dtype == v->dtype && b->of.backward == v->backward &&
        b->of.group == v->group)
      return b->kernel;
  return NULL;
}

/* The lock is held. */
static tn_status build(const tn_gpu_kernels *gpu, const tn_gpu_facts *facts, const variant *v) {
  static const char *const names[] = {
      [TN_FLOAT16] = "16", [TN_BFLOAT16] = "17", [TN_FLOAT32] = "32", [TN_FLOAT64] = "64"};
  char defines[128];
  built *b = malloc(sizeof *b);
  if (!b) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: a kernel of row-softmax");
  snprintf(defines, sizeof defines,
           "#define BACKWARD %d\n#define GROUP %u\n#define DTYPE %s\n#define HAS_DOUBLE %d\n", v->backward,
           v->group, names[v->dtype], (facts->flags & TN_GPU_HAS_DOUBLE) != 0);
  const char *const texts[] = {defines, text};
  const tn_status status = gpu->build(v->device, texts, 2, "rows", &b->kernel);
  if (status != TN_OK) {
    free(b);
    return status;
  }
  b->of = *v;
  b->next = atomic_load_explicit(&all_built, memory_order_relaxed);
  atomic_store_explicit(&all_built, b, memory_order_release);
  return TN_OK;
}

static tn_status get(const tn_gpu_kernels *gpu, const tn_gpu_facts *facts, const variant *v,
                     tn_gpu_kernel **out_kernel) {
  tn_status status = TN_OK;
  *out_kernel = find(v);
  if (*out_kernel) return TN_OK;
  pthread_mutex_lock(&building);
  if (!find(v)) status = build(gpu, facts, v); /* else another thread was faster */
  pthread_mutex_unlock(&building);
  *out_kernel = find(v);
  return status;
}

/* ------------------------------------------------------------------ launch */

enum { GROUP = 128, ITEMS = 64 };

/* The interface, or why there is none: an OpenCL plugin that has no such version serves its own kernels, and our body. */
static tn_status ask(const tn_gpu_kernels **out_gpu) {
  static _Atomic(const tn_gpu_kernels *) kept;
  const void *table = NULL;
  *out_gpu = atomic_load_explicit(&kept, memory_order_acquire);
  if (*out_gpu) return TN_OK;
  const tn_host *host = tn_kit_host();
  if (host->find_interface("opencl.kernels", TN_GPU_KERNELS_VERSION, &table) != TN_OK) {
    host->log(TN_LOG_DEBUG, "row-softmax declines: %s", host->error_message());
    return TN_DECLINED;
  }
  *out_gpu = table;
  atomic_store_explicit(&kept, *out_gpu, memory_order_release);
  return TN_OK;
}

/* A buffer and the place of a view in it, as the text's parameters. Memory that begins inside an element (a file's, say) is
 * not for us. */
static tn_status give(tn_gpu_arg *args, int64_t *places, int k, const tn_view *v) {
  if (v->offset_bytes % v->itemsize) return TN_DECLINED;
  places[k] = v->offset_bytes / v->itemsize;
  args[2 * k] = (tn_gpu_arg){.mem = v->mem};
  args[2 * k + 1] = (tn_gpu_arg){.bytes = &places[k], .size = sizeof places[k]};
  return TN_OK;
}

/* All contiguous (TN_KERNEL_CONTIGUOUS). y: NULL in forward. */
static tn_status run(const tn_call *call, const tn_view *x, const tn_view *y, const tn_view *to) {
  const tn_gpu_kernels *gpu;
  tn_gpu_facts facts = {.struct_size = sizeof facts};
  tn_gpu_kernel *kernel;
  tn_gpu_arg args[8];
  int64_t places[3];
  if (!to->numel) return TN_OK;
  TN_TRY(ask(&gpu));
  TN_TRY(gpu->facts(call->device.index, &facts));
  if (to->dtype == TN_FLOAT64 && !(facts.flags & TN_GPU_HAS_DOUBLE)) return TN_DECLINED;
  const int64_t n = to->sizes[to->ndim - 1], rows = to->numel / n;
  const bool alone = (facts.flags & TN_GPU_IS_CPU) || facts.most_items < GROUP;
  const variant v = {call->device.index, to->dtype, y != NULL, alone ? 1 : GROUP};
  TN_TRY(give(args, places, 0, to));
  TN_TRY(give(args, places, 1, x));
  TN_TRY(give(args, places, 2, y ? y : x));
  TN_TRY(get(gpu, &facts, &v, &kernel));
  args[6] = (tn_gpu_arg){.bytes = &rows, .size = sizeof rows};
  args[7] = (tn_gpu_arg){.bytes = &n, .size = sizeof n};
  const uint32_t items = !alone ? GROUP : facts.most_items < ITEMS ? facts.most_items : ITEMS;
  const uint64_t groups = alone ? ((uint64_t)rows + items - 1) / items : (uint64_t)rows;
  return gpu->launch(kernel, call->stream, &(tn_gpu_grid){{groups, 1, 1}, {items, 1, 1}}, args, 8);
}

tn_status opencl_softmax(tn_call *call, const tn_value *args, tn_value *out) {
  return run(call, args[0].u.v, NULL, out[0].u.v);
}

tn_status opencl_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return run(call, args[0].u.v, args[1].u.v, out[0].u.v);
}
