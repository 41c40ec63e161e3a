/* SPDX-License-Identifier: Apache-2.0
 *
 * The meta backend: tensors with a shape and no data. It is the core's own, so that shapes can be computed in a
 * process that found no plugin at all. Its kernels are the operators' meta rules, which dispatch runs itself.
 */
#include "core/load/load_int.h"
#include "core/tensor/generator.h"

static tn_status meta_device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 1;
  return TN_OK;
}

static tn_status meta_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                            tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  *out_memory = (tn_memory){.size_bytes = size_bytes};
  return TN_OK;
}

static void meta_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)memory, (void)stream;
}

static tn_status meta_from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes,
                                const void *host, uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)mem, (void)offset_bytes, (void)host, (void)size_bytes, (void)stream;
  return TN_OK; /* what a meta tensor is given is forgotten, as in every operator */
}

static tn_status meta_to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                              uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)mem, (void)offset_bytes, (void)host, (void)stream;
  return TN_FAIL(TN_ERR_UNSUPPORTED, "a meta tensor has a shape and no data: %llu bytes cannot be read",
                 (unsigned long long)size_bytes);
}

static const char *meta_describe(void *ctx, int32_t index) {
  (void)ctx, (void)index;
  return "shapes only";
}

static const tn_backend_def meta_def = {.struct_size = sizeof meta_def,
                                        .device_name = "meta",
                                        .alignment_bytes = 64,
                                        .device_count = meta_device_count,
                                        .alloc = meta_alloc,
                                        .free = meta_free,
                                        .from_host = meta_from_host,
                                        .to_host = meta_to_host,
                                        .describe = meta_describe};

tn_status tni_meta_publish(void) {
  static struct tn_generator *generators[1];
  static tni_backend meta = {
      .id = TN_BACKEND_META, .n_devices = 1, .generators = generators, .def = &meta_def, .name = "meta"};
  if (tni_backend_get(TN_BACKEND_META)) return TN_OK;
  TN_TRY(tn_generator_new(tni_generator_seed(), &generators[0]));
  atomic_store_explicit(&tni_backends[TN_BACKEND_META], &meta, memory_order_release);
  return TN_OK;
}
