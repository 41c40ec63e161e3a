/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole backend with every optional row, and, compiled with DEFECT=..., the same backend with exactly one thing wrong.
 * Without DEFECT it is the reference on which no check may find anything. defects.h numbers the defects; the tests'
 * table (test_defects.c) says which check is to catch each.
 *
 * Device "acme", two of them, memory on the host behind an address; float32 kernels on contiguous operands. FORK says what
 * it declares for forked children; unless that is TN_FORK_SAFE, its rows and kernels work in the process that ran init, or
 * reinit, and nowhere else.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/philox.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>
#include <time.h>
#include <unistd.h>

#include "defects.h"

/* Does this build have the defect? A constant: the other branch is compiled, too. */
#define HAS(defect) (DEFECT == (defect))

#define F32             TN_DTYPE_BIT(TN_FLOAT32)
#define KERNEL_LINE(op) "kernel acme " op " float32 0\n"

#if DEFECT == DEFECT_MANIFEST_OMITS
#define MUL_LINE ""
#elif DEFECT == DEFECT_MANIFEST_DTYPE
#define MUL_LINE "kernel acme mul.Tensor float32,float64 0\n"
#else
#define MUL_LINE KERNEL_LINE("mul.Tensor")
#endif
#if DEFECT == DEFECT_UNKNOWN_CPU
#define NEEDS_LINE "needs-cpu telepathy\n"
#else
#define NEEDS_LINE ""
#endif
#if DEFECT == DEFECT_COPY_STRIDES || DEFECT == DEFECT_COPY_DTYPE
#define COPY_LINE "kernel acme copy_ all 0\n"
#else
#define COPY_LINE ""
#endif
#if DEFECT == DEFECT_MISSING_UNNAMED
#define ERF_LINE KERNEL_LINE("erf")
#else
#define ERF_LINE ""
#endif

TN_MANIFEST(TN_MANIFEST_HEADER("acme", "1.0", "Apache-2.0") NEEDS_LINE
            "device acme\n" KERNEL_LINE("add.Tensor") KERNEL_LINE("sub.Tensor")
                MUL_LINE KERNEL_LINE("mul.Scalar") KERNEL_LINE("relu") KERNEL_LINE("threshold_backward")
                    KERNEL_LINE("mm") KERNEL_LINE("sum") KERNEL_LINE("fill_.Scalar") KERNEL_LINE("zero_")
                        KERNEL_LINE("uniform_") COPY_LINE ERF_LINE)

#ifndef FORK
#define FORK TN_FORK_SAFE
#endif

static pid_t home; /* the process that ran init, or reinit */
static atomic_int n_live;
static void *volatile lost; /* what leaks; only the last stays reachable */

/* Is the device this process's? A poisoned one is never asked in a child: the core answers in its place. */
static tn_status at_home(void) {
  if (FORK == TN_FORK_SAFE || getpid() == home) return TN_OK;
  if (FORK == TN_FORK_POISONED) abort();
  return TN_FAIL(TN_ERR_STATE, "acme: the device is process %d's, this is %d", (int)home, (int)getpid());
}

static tn_status reinit(void *ctx) {
  (void)ctx;
  if (!HAS(DEFECT_REINIT_FORGETS)) home = getpid();
  return TN_OK;
}

/* ------------------------------------------------------------------ memory */

static tn_status device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  if (HAS(DEFECT_COUNT_FAILS)) return TN_FAIL(TN_ERR_INTERNAL, "acme: the devices cannot be counted");
  *out_count = 2;
  return TN_OK;
}

/* Every second block of the same memory. */
static void *overlap(uint64_t size) {
  static char *last;
  static uint64_t last_size;
  char *bytes = last && last_size >= size ? last : NULL;
  last = bytes ? NULL : aligned_alloc(64, (size + 63) / 64 * 64);
  last_size = size;
  return bytes ? bytes : last;
}

static void *take(uint64_t size) {
  if (size > (uint64_t)1 << 48) return NULL;
  if (HAS(DEFECT_OVERLAPPING) && size < 1 << 16) return overlap(size);
  char *bytes = aligned_alloc(64, (size + 127) / 64 * 64);
  return bytes && HAS(DEFECT_MISALIGNED) ? bytes + 8 : bytes;
}

static tn_status acme_alloc(void *ctx, int32_t index, uint64_t size, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  while (HAS(DEFECT_FORK_HANGS) && getpid() != home) pause();
  TN_TRY(at_home());
  if (HAS(DEFECT_CRASHES)) raise(SIGSEGV);
  if (HAS(DEFECT_EXITS)) exit(0);
  void *bytes = take(size);
  if (!bytes)
    return TN_FAIL(HAS(DEFECT_OOM_CODE) ? TN_ERR_INTERNAL : TN_ERR_OUT_OF_MEMORY, "acme: no %llu bytes",
                   (unsigned long long)size);
  if (HAS(DEFECT_ALLOC_LEAKS)) lost = malloc(40);
  atomic_fetch_add(&n_live, 1);
  *out_memory = (tn_memory){(uintptr_t)bytes, bytes, size};
  return TN_OK;
}

static void acme_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  if (at_home() != TN_OK) abort(); /* the memory of before is gone, and not asked for */
  atomic_fetch_sub(&n_live, 1);
  if (HAS(DEFECT_OVERLAPPING)) return;
  free((char *)(uintptr_t)memory->mem - (HAS(DEFECT_MISALIGNED) ? 8 : 0));
}

/* A write that waits for the stream to be synchronised. */
static struct {
  char *to, *bytes;
  uint64_t size;
} pending;

static void flush_pending(void) {
  if (pending.bytes) memcpy(pending.to, pending.bytes, pending.size);
  free(pending.bytes);
  pending.bytes = NULL;
}

static tn_status put_off(char *to, const void *host, uint64_t size) {
  flush_pending();
  pending.bytes = malloc(size);
  if (!pending.bytes) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "acme: no %llu bytes", (unsigned long long)size);
  memcpy(pending.bytes, host, size);
  pending.to = to;
  pending.size = size;
  return TN_OK;
}

/* Through one buffer for all threads. */
static void through_buffer(char *to, const void *host, uint64_t size) {
  static char buffer[4096];
  for (uint64_t at = 0; at < size; at += sizeof buffer) {
    uint64_t n = size - at < sizeof buffer ? size - at : sizeof buffer;
    memcpy(buffer, (const char *)host + at, n);
    sched_yield();
    memcpy(to + at, buffer, n);
  }
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset, const void *host,
                           uint64_t size, void *stream) {
  (void)ctx, (void)index;
  char *to = (char *)(uintptr_t)mem + offset;
  TN_TRY(at_home());
  if (HAS(DEFECT_STREAM_ORDER) && stream) return put_off(to, host, size);
  if (HAS(DEFECT_SHARED_BUFFER)) return through_buffer(to, host, size), TN_OK;
  if (HAS(DEFECT_COPY_ROUNDS) && size > 4) {
    memcpy(to, host, size / 4 * 4);
    memset(to + size / 4 * 4, 0, (size + 3) / 4 * 4 - size / 4 * 4);
    return TN_OK;
  }
  memcpy(to, host, size);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset, void *host, uint64_t size,
                         void *stream) {
  (void)ctx, (void)index, (void)stream;
  TN_TRY(at_home());
  memcpy(host, (const char *)(uintptr_t)mem + offset, size);
  return TN_OK;
}

static tn_status acme_copy(void *ctx, int32_t to_index, uint64_t to_mem, int64_t to_offset,
                           int32_t from_index, uint64_t from_mem, int64_t from_offset, uint64_t size,
                           void *stream) {
  (void)ctx, (void)to_index, (void)from_index, (void)stream;
  TN_TRY(at_home());
  memcpy((char *)(uintptr_t)to_mem + to_offset, (const char *)(uintptr_t)from_mem + from_offset, size);
  return TN_OK;
}

static tn_status memory_info(void *ctx, int32_t index, tn_memory_info *out_info) {
  (void)ctx, (void)index;
  out_info->total_bytes = (uint64_t)8 << 30;
  out_info->free_bytes = (uint64_t)4 << 30;
  return TN_OK;
}

static tn_status host_alloc(void *ctx, int32_t index, uint64_t size, tn_memory *out_memory) {
  (void)ctx, (void)index;
  void *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
  if (!bytes)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "acme: no %llu bytes of host memory", (unsigned long long)size);
  *out_memory = (tn_memory){(uintptr_t)bytes, bytes, size};
  return TN_OK;
}

static void host_free(void *ctx, int32_t index, const tn_memory *memory) {
  (void)ctx, (void)index;
  free((void *)(uintptr_t)memory->mem);
}

/* ------------------------------------------------------------------ streams and events */

static tn_status synchronize(void *ctx, int32_t index) {
  (void)ctx, (void)index;
  TN_TRY(at_home());
  flush_pending();
  return TN_OK;
}

static tn_status stream_new(void *ctx, int32_t index, void **out_stream) {
  (void)ctx, (void)index;
  TN_TRY(at_home());
  *out_stream = malloc(1);
  return *out_stream ? TN_OK : TN_FAIL(TN_ERR_OUT_OF_MEMORY, "acme: no stream");
}

static void stream_free(void *ctx, int32_t index, void *stream) {
  (void)ctx, (void)index;
  free(stream);
}

static tn_status stream_synchronize(void *ctx, int32_t index, void *stream) {
  (void)stream;
  return synchronize(ctx, index);
}

typedef struct event {
  uint64_t ns;
  bool recorded;
} event;

static tn_status event_new(void *ctx, int32_t index, void **out_event) {
  (void)ctx, (void)index;
  *out_event = calloc(1, sizeof(event));
  return *out_event ? TN_OK : TN_FAIL(TN_ERR_OUT_OF_MEMORY, "acme: no event");
}

static void event_free(void *ctx, int32_t index, void *e) {
  (void)ctx, (void)index;
  free(e);
}

static tn_status event_record(void *ctx, int32_t index, void *e, void *stream) {
  (void)ctx, (void)index, (void)stream;
  struct timespec t;
  TN_TRY(at_home());
  clock_gettime(CLOCK_MONOTONIC, &t);
  *(event *)e = (event){(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, true};
  return TN_OK;
}

static tn_status event_query(void *ctx, int32_t index, void *e, bool *out_done) {
  (void)ctx, (void)index;
  *out_done = ((event *)e)->recorded && !HAS(DEFECT_EVENT_NEVER);
  return TN_OK;
}

static tn_status event_wait(void *ctx, int32_t index, void *e, void *stream) {
  (void)ctx, (void)index, (void)e, (void)stream;
  return TN_OK;
}

static tn_status event_elapsed(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns) {
  (void)ctx, (void)index;
  const event *a = HAS(DEFECT_ELAPSED_NEGATIVE) ? end : begin,
              *b = HAS(DEFECT_ELAPSED_NEGATIVE) ? begin : end;
  *out_ns = b->ns - a->ns;
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "acme",
                                       .alignment_bytes = HAS(DEFECT_ALIGNMENT) ? 48 : 64,
                                       .fork = FORK,
                                       .reinit = FORK == TN_FORK_REINIT && !HAS(DEFECT_REINIT_MISSING) ? reinit : NULL,
                                       .device_count = device_count,
                                       .alloc = acme_alloc,
                                       .free = acme_free,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .memory_info = memory_info,
                                       .synchronize = synchronize,
                                       .event_new = event_new,
                                       .event_free = event_free,
                                       .event_record = event_record,
                                       .event_query = event_query,
                                       .event_wait = event_wait,
                                       .stream_new = stream_new,
                                       .stream_free = HAS(DEFECT_HALF_STREAMS) ? NULL : stream_free,
                                       .stream_synchronize = stream_synchronize,
                                       .event_elapsed = event_elapsed,
                                       .host_alloc = host_alloc,
                                       .host_free = host_free,
                                       .copy = acme_copy};

/* ------------------------------------------------------------------ kernels */

static float *floats(const tn_value *v) { return v->u.v->data; }
static float number(const tn_value *v) { return v->kind == TN_VAL_FLOAT ? (float)v->u.f : (float)v->u.i; }

/* Element i of the result's row-major order, of an operand that may be broadcast to it: dims are aligned at the end. */
static float at(const tn_value *operand, const tn_value *out, int64_t i) {
  const tn_view *v = operand->u.v, *to = out->u.v;
  int64_t place = 0;
  for (int d = to->ndim - 1, k = v->ndim - 1; d >= 0; d--, k--) {
    if (k >= 0 && v->sizes[k] != 1) place += i % to->sizes[d] * v->strides[k];
    i /= to->sizes[d];
  }
  return floats(operand)[place];
}

/* out = a + factor * b */
static tn_status add_scaled(const tn_value *args, tn_value *out, float factor) {
  TN_TRY(at_home());
  for (int64_t i = 0; i < out->u.v->numel; i++)
    floats(out)[i] = at(&args[0], out, i) + factor * at(&args[1], out, i);
  return TN_OK;
}

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  if (HAS(DEFECT_FIRST_ID) && call->device.backend != 1)
    return TN_FAIL(TN_ERR_INTERNAL, "acme: backend %d is not mine", call->device.backend);
  if (HAS(DEFECT_KERNEL_LEAKS)) lost = malloc(200);
  return add_scaled(args, out, number(&args[2]));
}

static tn_status sub(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  return add_scaled(args, out, -number(&args[2]));
}

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < out->u.v->numel; i++) floats(out)[i] = at(&args[0], out, i) * at(&args[1], out, i);
  return TN_OK;
}

static tn_status mul_number(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  float factor = number(&args[1]);
  for (int64_t i = 0; i < out->u.v->numel; i++) floats(out)[i] = floats(&args[0])[i] * factor;
  return TN_OK;
}

static tn_status relu(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < out->u.v->numel; i++) {
    float x = floats(&args[0])[i];
    floats(out)[i] = x < 0 ? 0 : x;
  }
  return TN_OK;
}

/* threshold_backward(grad_output, self, threshold) */
static tn_status threshold_backward(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  float threshold = HAS(DEFECT_GRADIENT) ? -1 : number(&args[2]);
  for (int64_t i = 0; i < out->u.v->numel; i++)
    floats(out)[i] = at(&args[1], out, i) <= threshold ? 0 : at(&args[0], out, i);
  return TN_OK;
}

static tn_status mm(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_dim *sizes = out->u.v->sizes;
  int64_t inner = args[0].u.v->sizes[1];
  for (int64_t i = 0; i < sizes[0]; i++)
    for (int64_t k = 0; k < sizes[1]; k++) {
      float sum = 0;
      for (int64_t j = 0; j < inner; j++)
        sum += floats(&args[0])[i * inner + j] * floats(&args[1])[j * sizes[1] + k];
      floats(out)[i * sizes[1] + k] = sum;
    }
  return TN_OK;
}

static tn_status sum(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  double all = 0;
  for (int64_t i = 0; i < args[0].u.v->numel; i++) all += floats(&args[0])[i];
  floats(out)[0] = (float)all;
  return TN_OK;
}

static tn_status fill(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < out->u.v->numel; i++) floats(out)[i] = number(&args[1]);
  return TN_OK;
}

static tn_status zero(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args;
  if (out->u.v->numel) memset(floats(out), 0, (size_t)out->u.v->numel * sizeof(float));
  return TN_OK;
}

static tn_status uniform(tn_call *call, const tn_value *args, tn_value *out) {
  float from = number(&args[1]), to = number(&args[2]);
  uint64_t offset = call->rng_offset + (HAS(DEFECT_RNG_OFFSET) ? 1 : 0);
  for (int64_t i = 0; i < out->u.v->numel; i++)
    floats(out)[i] =
        from + (to - from) * tn_philox_float(tn_philox_draw(call->rng_seed, offset + (uint64_t)i, 0));
  return TN_OK;
}

/* copy_(self, src): as if every operand were contiguous, or every element four bytes. */
static tn_status copy_wrong(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *from = args[1].u.v, *to = out->u.v;
  if (from->dtype != to->dtype || from->backend != to->backend || from->numel != to->numel)
    return TN_DECLINED;
  size_t itemsize = HAS(DEFECT_COPY_DTYPE) ? 4 : to->itemsize;
  if (HAS(DEFECT_COPY_DTYPE) && to->itemsize <= 4) return TN_DECLINED;
  memcpy(to->data, from->data, (size_t)to->numel * itemsize);
  return TN_OK;
}

static tn_status erf_missing(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_FAIL(TN_ERR_MISSING_KERNEL, "sorry");
}

#define K(op, fn) TN_KERNEL("acme", op, fn, F32, .flags = TN_KERNEL_CONTIGUOUS)
static const tn_kernel_def kernels[] = {K("add.Tensor", add),
                                        K("sub.Tensor", sub),
                                        K("mul.Tensor", mul),
                                        K("mul.Scalar", mul_number),
                                        K("relu", relu),
                                        K("threshold_backward", threshold_backward),
                                        K("mm", mm),
                                        K("sum", sum),
                                        K("fill_.Scalar", fill),
                                        K("zero_", zero),
                                        K("uniform_", uniform)};
static const tn_kernel_def copy_kernel = TN_KERNEL("acme", "copy_", copy_wrong, TN_DTYPES_ALL);
static const tn_kernel_def erf_kernel = K("erf", erf_missing);

/* ------------------------------------------------------------------ the door */

static tn_status init(const tn_host *host, tn_registration *reg) {
  home = getpid();
  TN_TRY(host->register_backend(reg, &backend));
  TN_TRY(tn_register_kernels(reg, kernels, TN_COUNT(kernels)));
  if (HAS(DEFECT_COPY_STRIDES) || HAS(DEFECT_COPY_DTYPE)) TN_TRY(host->register_kernel(reg, &copy_kernel));
  if (HAS(DEFECT_MISSING_UNNAMED)) TN_TRY(host->register_kernel(reg, &erf_kernel));
  return TN_OK;
}

__attribute__((destructor)) static void leave(void) {
  if (HAS(DEFECT_EXIT_ABORTS) && atomic_load(&n_live) > 0) abort();
}

/* Called by unload and by tn_shutdown. */
static void shut_down(void) {
  if (HAS(DEFECT_UNLOAD_ABORTS)) abort();
}

#if DEFECT == DEFECT_ANY_MAJOR || DEFECT == DEFECT_TABLE_END
static const tn_plugin_info info = {.name = "acme", .version = "1.0", .init = init, .shutdown = shut_down};
/* With the defect it uses the host's own table, whose end it does not know. */
static tn_status wrapped(const tn_host *host, tn_registration *reg) {
  TN_TRY(tn_kit_attach(host));
  if (HAS(DEFECT_TABLE_END) && host->range_begin) host->range_begin("init");
  return init(tn_kit_host(), reg);
}
TN_EXPORT tn_status tenon_plugin_query(tn_query *query);
TN_EXPORT tn_status tenon_plugin_query(tn_query *query) {
  if (HAS(DEFECT_ANY_MAJOR)) query->host_major = TN_ABI_MAJOR;
  return tn_kit_answer(query, &info, TN_SANITIZER_HERE, wrapped);
}
#else
TN_PLUGIN(.name = "acme", .version = "1.0", .init = init, .shutdown = shut_down)
#endif

/* A second name, for the defect of the file that shows it: every other build's linker hides it. */
TN_EXPORT int acme_helper(void);
TN_EXPORT int acme_helper(void) { return atomic_load(&n_live); }
