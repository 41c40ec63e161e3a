/* SPDX-License-Identifier: Apache-2.0
 *
 * See ops_direct.h: the host that kernels of the direct checks see, and memory with a pattern around it.
 */
#include "frontends/check/ops_direct.h"

#include <stdlib.h>

#include "frontends/check/tools.h"

enum { MOST_SCRATCH = 64, SCRATCH_GUARD = 256, SCRATCH_BYTE = 0x5a, WORKERS = 3 };

static tni_direct *current;
static tni_direct_block scratch[MOST_SCRATCH];
static size_t n_scratch;

/* ------------------------------------------------------------------ memory */

static tn_status host_block(uint64_t size_bytes, const unsigned char *image, tn_memory *out) {
  void *p = aligned_alloc(64, (size_bytes + 64) / 64 * 64);
  if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "no %llu bytes for a check", (unsigned long long)size_bytes);
  memcpy(p, image, size_bytes);
  *out = (tn_memory){(uintptr_t)p, p, size_bytes};
  return TN_OK;
}

/* Consumes image. */
tn_status tni_direct_block_new(const tni_direct *d, uint64_t size_bytes, unsigned char *image, tni_direct_block *out_block) {
  *out_block = (tni_direct_block){.image = image, .size_bytes = size_bytes};
  if (!d->raw.def) return host_block(size_bytes, image, &out_block->memory);
  TN_TRY(tni_raw_alloc(&d->raw, size_bytes ? size_bytes : 1, &out_block->memory));
  return size_bytes ? tni_raw_write(&d->raw, &out_block->memory, 0, image, size_bytes) : TN_OK;
}

void tni_direct_block_free(const tni_direct *d, tni_direct_block *block) {
  if (block->memory.size_bytes || block->memory.mem) {
    if (d->raw.def) tni_raw_free(&d->raw, &block->memory);
    else free(block->memory.address);
  }
  free(block->image);
  *block = (tni_direct_block){0};
}

unsigned char *tni_direct_bytes(const tni_direct_call *call, const tni_direct_block *block) {
  unsigned char *bytes = tni_check_alloc(block->size_bytes + 1);
  if (!call->d->raw.def) {
    memcpy(bytes, block->memory.address, block->size_bytes);
    return bytes;
  }
  tn_status status = call->d->raw.def->synchronize ? call->d->raw.def->synchronize(call->d->raw.def->ctx, call->d->raw.index) : TN_OK;
  if (status == TN_OK && block->size_bytes)
    status = tni_raw_read(&call->d->raw, &block->memory, 0, bytes, block->size_bytes);
  if (tni_check_ok(call->d->r, status, call->item, "memory cannot be read back")) return bytes;
  free(bytes);
  return NULL;
}

/* ------------------------------------------------------------------ rows */

static tn_status row_register_kernel(tn_registration *reg, const tn_kernel_def *def) {
  tn_kernel_def k = {0};
  memcpy(&k, def, def->struct_size < sizeof k ? def->struct_size : sizeof k);
  tn_status status = tni_door_host()->register_kernel(reg, def);
  if (status != TN_OK || !k.op || !k.key || !k.fn || k.flags & TN_KERNEL_LAYER_FALLBACK) return status;
  k.op = tni_check_text("%s", k.op);
  k.key = tni_check_text("%s", k.key);
  tni_check_grow(&current->kernels, current->n_kernels, sizeof *current->kernels);
  current->kernels[current->n_kernels++] = k;
  return TN_OK;
}

/* Several chunks, one after the other: borders are met, and a finding repeats. */
static tn_status row_parallel_for(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx) {
  int64_t chunk = (n + WORKERS - 1) / WORKERS;
  if (chunk < grain) chunk = grain;
  if (chunk < 1) chunk = 1;
  for (int64_t begin = 0, worker = 0; begin < n; begin += chunk, worker++)
    TN_TRY(fn(begin, begin + chunk < n ? begin + chunk : n, (int32_t)worker, ctx));
  return TN_OK;
}
static int32_t row_num_threads(void) { return WORKERS; }

static tn_status row_scratch(tn_call *call, size_t size_bytes, tn_memory *out_memory) {
  (void)call;
  if (n_scratch == MOST_SCRATCH) return tn_fail(TN_ERR_OUT_OF_MEMORY, "a check gives scratch memory %d times", MOST_SCRATCH);
  unsigned char *image = tni_check_alloc(size_bytes + SCRATCH_GUARD);
  memset(image, SCRATCH_BYTE, size_bytes + SCRATCH_GUARD);
  tni_direct_block *block = &scratch[n_scratch++];
  TN_TRY(tni_direct_block_new(current, size_bytes + SCRATCH_GUARD, image, block));
  *out_memory = block->memory;
  out_memory->size_bytes = size_bytes;
  return TN_OK;
}

bool tni_direct_scratch_end(tni_direct *d) {
  bool good = true;
  const tni_direct_call reader = {.d = d, .item = "scratch"};
  while (n_scratch) {
    tni_direct_block *block = &scratch[--n_scratch];
    unsigned char *bytes = tni_direct_bytes(&reader, block);
    for (size_t i = 1; bytes && i <= SCRATCH_GUARD; i++) good &= bytes[block->size_bytes - i] == SCRATCH_BYTE;
    free(bytes);
    tni_direct_block_free(d, block);
  }
  return good;
}

static const char *row_op_name(const tn_op *op) {
  tn_op_report report;
  return op && tn_op_describe(op, &report) == TN_OK ? report.name : "?";
}
static const char *row_op_schema(const tn_op *op) {
  tn_op_report report;
  return op && tn_op_describe(op, &report) == TN_OK ? report.schema : "";
}
static const char *row_backend_name(uint8_t backend) {
  return backend == TN_BACKEND_CPU ? "cpu" : current->raw.def ? current->raw.def->device_name : "?";
}

const tn_host *tni_direct_host(tni_direct *direct) {
  static tn_host host;
  host = *tni_door_host();
  host.register_kernel = row_register_kernel;
  host.parallel_for = row_parallel_for;
  host.num_threads = row_num_threads;
  host.scratch = row_scratch;
  host.op_name = row_op_name;
  host.op_schema = row_op_schema;
  host.backend_name = row_backend_name;
  current = direct;
  return &host;
}
