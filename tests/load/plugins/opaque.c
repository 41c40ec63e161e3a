/* SPDX-License-Identifier: Apache-2.0
 *
 * Two backends, glass and slate, with two devices each, whose memory the host never sees: a handle is a number in
 * a table, an address is NULL, and every byte goes through from_host and to_host, which check handle, device and
 * range. The kernels look memory up by handle and refuse views of another device. No copy_ kernel: copies are the
 * core's business.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

#define KERNELS(device)                                                              \
  "kernel " device " add.Tensor float32 0\nkernel " device " mul.Tensor float32 0\n" \
  "kernel " device " fill_.Scalar float32 0\nkernel " device " uniform_ float32 0\n"

TN_MANIFEST(TN_MANIFEST_HEADER("opaque", "1.0", "Apache-2.0") "device glass\ndevice slate\n" KERNELS("glass")
                KERNELS("slate"))

/* ------------------------------------------------------------------ memory */

typedef struct block {
  char *bytes; /* NULL: free */
  uint64_t size;
  int32_t device;
} block;

typedef struct memory {
  const char *name;
  pthread_mutex_t mutex;
  block *blocks;
  size_t capacity;
} memory;

static memory glass = {.name = "glass", .mutex = PTHREAD_MUTEX_INITIALIZER};
static memory slate = {.name = "slate", .mutex = PTHREAD_MUTEX_INITIALIZER};

static tn_status device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 2;
  return TN_OK;
}

/* A free place; handles begin with 1. Mutex held. */
static block *place_find(memory *m, uint64_t *out_mem) {
  size_t i = 0;
  while (i < m->capacity && m->blocks[i].bytes) ++i;
  if (i == m->capacity) {
    size_t more = m->capacity ? 2 * m->capacity : 16;
    block *blocks = realloc(m->blocks, more * sizeof *blocks);
    if (!blocks) return NULL;
    memset(blocks + m->capacity, 0, (more - m->capacity) * sizeof *blocks);
    m->blocks = blocks;
    m->capacity = more;
  }
  *out_mem = i + 1;
  return &m->blocks[i];
}

static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                              tn_memory *out_memory) {
  memory *m = ctx;
  uint64_t mem = 0;
  (void)stream;
  pthread_mutex_lock(&m->mutex);
  block *b = place_find(m, &mem);
  char *bytes = b ? malloc(size_bytes) : NULL;
  if (bytes) *b = (block){bytes, size_bytes, index};
  pthread_mutex_unlock(&m->mutex);
  if (!bytes)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "%s: no %llu bytes", m->name, (unsigned long long)size_bytes);
  memset(bytes, 0x7f, size_bytes);
  *out_memory = (tn_memory){mem, NULL, size_bytes};
  return TN_OK;
}

static void memory_free(void *ctx, int32_t index, const tn_memory *freed, void *stream) {
  memory *m = ctx;
  (void)index, (void)stream;
  pthread_mutex_lock(&m->mutex);
  free(m->blocks[freed->mem - 1].bytes);
  m->blocks[freed->mem - 1].bytes = NULL;
  pthread_mutex_unlock(&m->mutex);
}

/* The bytes [offset, offset + size) of a handle, or a failure. */
static tn_status find(memory *m, int32_t device, uint64_t mem, int64_t offset, uint64_t size,
                      char **out_bytes) {
  pthread_mutex_lock(&m->mutex);
  block b = mem && mem <= m->capacity ? m->blocks[mem - 1] : (block){NULL, 0, 0};
  pthread_mutex_unlock(&m->mutex);
  if (!b.bytes || b.device != device)
    return TN_FAIL(TN_ERR_DEVICE, "%s:%d has no memory %llu", m->name, device, (unsigned long long)mem);
  if (offset < 0 || (uint64_t)offset > b.size || size > b.size - (uint64_t)offset)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: bytes %lld to %lld of %llu", m->name, (long long)offset,
                   (long long)(offset + (int64_t)size), (unsigned long long)b.size);
  *out_bytes = b.bytes + offset;
  return TN_OK;
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  char *bytes;
  (void)stream;
  TN_TRY(find(ctx, index, mem, offset_bytes, size_bytes, &bytes));
  memcpy(bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  char *bytes;
  (void)stream;
  TN_TRY(find(ctx, index, mem, offset_bytes, size_bytes, &bytes));
  memcpy(host, bytes, size_bytes);
  return TN_OK;
}

#define BACKEND(name, place)                                                                          \
  {                                                                                                   \
    .struct_size = sizeof(tn_backend_def), .device_name = name, .alignment_bytes = 64, .ctx = place,  \
    .device_count = device_count, .alloc = memory_alloc, .free = memory_free, .from_host = from_host, \
    .to_host = to_host                                                                                \
  }
static const tn_backend_def backends[] = {BACKEND("glass", &glass), BACKEND("slate", &slate)};

/* ------------------------------------------------------------------ kernels: contiguous float32 */

/* The values of an argument or result; the core may not have given an address. */
static tn_status floats(tn_call *call, const tn_value *v, float **out_floats) {
  char *bytes;
  if (v->u.v->data) return TN_FAIL(TN_ERR_INTERNAL, "opaque memory came with an address");
  TN_TRY(find(call->user, call->device.index, v->u.v->mem, v->u.v->offset_bytes,
              (uint64_t)v->u.v->numel * sizeof(float), &bytes));
  *out_floats = (float *)(void *)bytes;
  return TN_OK;
}

static bool is_flat(const tn_value *v, const tn_value *out) {
  return v->u.v->numel == out->u.v->numel && (v->u.v->flags & TN_VIEW_CONTIGUOUS);
}

static tn_status two_operands(tn_call *call, const tn_value *args, const tn_value *out, float **a, float **b,
                              float **to) {
  if (!is_flat(&args[0], out) || !is_flat(&args[1], out) || !is_flat(&out[0], out)) return TN_DECLINED;
  TN_TRY(floats(call, &args[0], a));
  TN_TRY(floats(call, &args[1], b));
  return floats(call, &out[0], to);
}

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  float *a, *b, *to, alpha = args[2].kind == TN_VAL_FLOAT ? (float)args[2].u.f : (float)args[2].u.i;
  if (!out[0].u.v->numel) return TN_OK;
  TN_TRY(two_operands(call, args, out, &a, &b, &to));
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) to[i] = a[i] + alpha * b[i];
  return TN_OK;
}

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  float *a, *b, *to;
  if (!out[0].u.v->numel) return TN_OK;
  TN_TRY(two_operands(call, args, out, &a, &b, &to));
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) to[i] = a[i] * b[i];
  return TN_OK;
}

static tn_status fill(tn_call *call, const tn_value *args, tn_value *out) {
  float *to, value = args[1].kind == TN_VAL_FLOAT ? (float)args[1].u.f : (float)args[1].u.i;
  if (!out[0].u.v->numel) return TN_OK;
  TN_TRY(floats(call, &out[0], &to));
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) to[i] = value;
  return TN_OK;
}

/* Not random: the counters that the core drew, so that a test sees them. */
static tn_status uniform(tn_call *call, const tn_value *args, tn_value *out) {
  float *to;
  (void)args;
  if (!out[0].u.v->numel) return TN_OK;
  TN_TRY(floats(call, &out[0], &to));
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) to[i] = (float)(call->rng_offset + (uint64_t)i);
  return TN_OK;
}

#define F32        TN_DTYPE_BIT(TN_FLOAT32)
#define CONTIGUOUS .flags = TN_KERNEL_CONTIGUOUS
#define ALL(device, place)                                                     \
  TN_KERNEL(device, "add.Tensor", add, F32, .user = place, CONTIGUOUS),        \
      TN_KERNEL(device, "mul.Tensor", mul, F32, .user = place),                \
      TN_KERNEL(device, "fill_.Scalar", fill, F32, .user = place, CONTIGUOUS), \
      TN_KERNEL(device, "uniform_", uniform, F32, .user = place, CONTIGUOUS)
static const tn_kernel_def kernels[] = {ALL("glass", &glass), ALL("slate", &slate)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  for (size_t i = 0; i < TN_COUNT(backends); ++i) TN_TRY(host->register_backend(reg, &backends[i]));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "opaque", .version = "1.0", .init = init)
