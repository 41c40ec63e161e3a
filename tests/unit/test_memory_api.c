/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/memory.h on the CPU, and tensors on a device whose memory is an opaque handle: parts of one handle are told
 * apart by offsets alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "core/memory/memory.h"
#include "core/tensor/tensor.h"
#include "tn_stress.h"
#include "tn_test.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static tn_device cpu(void) {
  tn_device device;
  TN_CHECK_OK(tn_device_open("cpu", &device));
  return device;
}

static tn_memory_stats stats(void) {
  tn_memory_stats s;
  TN_CHECK_OK(tn_memory_get_stats(cpu(), &s));
  return s;
}

static tn_tensor *bytes_of(tn_dim n) {
  tn_tensor *t;
  TN_CHECK_OK(tn_empty(&n, 1, TN_OPTIONS(.dtype = TN_UINT8), TN_MEMORY_FORMAT_NONE, &t));
  return t;
}

TN_TEST(memory_api, tensors_are_counted_while_they_live) {
  uint64_t before = stats().current_bytes, allocs = stats().n_allocs;
  tn_tensor *small = bytes_of(100), *a = bytes_of(4 * KIB), *b = bytes_of(3 * MIB), *view;
  TN_CHECK_INT(stats().current_bytes - before, 4 * KIB + 3 * MIB); /* small data lives in the tensor */
  TN_CHECK_INT(stats().n_allocs - allocs, 2);
  TN_CHECK_OK(tn_slice(b, 0, NULL, &(int64_t){5}, 1, &view));
  tn_tensor_release(b);
  TN_CHECK_INT(stats().current_bytes - before, 4 * KIB + 3 * MIB);
  tn_tensor_release(view);
  tn_tensor_release(a);
  tn_tensor_release(small);
  TN_CHECK_INT(stats().current_bytes, before);
}

TN_TEST(memory_api, an_empty_cache_holds_only_what_lives) {
  tn_tensor *a = bytes_of(40 * MIB);
  tn_tensor_release(a);
  if (tni_memory_cached()) TN_CHECK(stats().reserved_bytes >= 40 * MIB);
  TN_CHECK_OK(tn_empty_cache());
  tn_memory_stats s = stats();
  TN_CHECK(s.reserved_bytes < s.current_bytes + 40 * MIB);
  TN_CHECK_INT(s.n_raw_allocs - s.n_raw_frees, s.n_segments);
}

TN_TEST(memory_api, beyond_the_limit_a_call_fails_and_work_goes_on) {
  tn_tensor *a = bytes_of(3 * MIB), *b = NULL;
  const tn_dim size = 64 * MIB;
  TN_CHECK_OK(tn_empty_cache());
  TN_CHECK_OK(tn_memory_set_limit(cpu(), stats().reserved_bytes + 8 * MIB));
  TN_CHECK_FAILS(tn_zeros(&size, 1, NULL, &b), TN_ERR_OUT_OF_MEMORY, "would pass its limit of");
  TN_CHECK_PTR_NULL(b);
  TN_CHECK_OK(tn_zeros_like(a, NULL, TN_MEMORY_FORMAT_NONE, &b));
  TN_CHECK_OK(tn_memory_set_limit(cpu(), 1));
  tn_tensor_release(a);
  tn_tensor_release(b);
  TN_CHECK_OK(tn_memory_set_limit(cpu(), 0));
  TN_CHECK_OK(tn_zeros(&size, 1, TN_OPTIONS(.dtype = TN_UINT8), &b));
  tn_tensor_release(b);
  TN_CHECK_OK(tn_empty_cache());
}

TN_TEST(memory_api, tags_name_who_holds_memory) {
  const char *before = "?";
  tn_memory_tag_stats t = {0};
  TN_CHECK_OK(tn_memory_set_tag("test", &before));
  TN_CHECK_PTR_NULL(before);
  tn_tensor *a = bytes_of(100 * KIB);
  TN_CHECK_OK(tn_memory_set_tag(NULL, &before));
  TN_CHECK_STR(before, "test");
  tn_tensor *b = bytes_of(100 * KIB);
  for (size_t i = 0; i < tn_memory_tag_count(); ++i) {
    TN_CHECK_OK(tn_memory_get_tag_stats(cpu(), i, &t));
    if (strcmp(t.name, "test") == 0) break;
  }
  TN_CHECK_STR(t.name, "test");
  TN_CHECK_INT(t.current_bytes, 100 * KIB);
  TN_CHECK_FAILS(tn_memory_get_tag_stats(cpu(), 999, &t), TN_ERR_INVALID_ARGUMENT, "memory tag 999");
  TN_CHECK_FAILS(tn_memory_set_tag("", NULL), TN_ERR_INVALID_ARGUMENT, "1 to 63");
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(memory_api, bad_arguments_are_refused) {
  tn_memory_stats s;
  tn_device meta;
  TN_CHECK_OK(tn_device_open("meta", &meta));
  TN_CHECK_FAILS(tn_memory_get_stats(meta, &s), TN_ERR_DEVICE, "meta has no memory");
  TN_CHECK_FAILS(tn_memory_get_stats((tn_device){.index = 7}, &s), TN_ERR_DEVICE, "cpu:7 is not open");
  TN_CHECK_FAILS(tn_memory_set_limit((tn_device){.backend = 21}, 0), TN_ERR_DEVICE, "not open");
  TN_CHECK_FAILS(tn_memory_get_stats(cpu(), NULL), TN_ERR_INVALID_ARGUMENT, "out_stats is NULL");
  TN_CHECK_FAILS(tn_memory_snapshot(cpu(), NULL), TN_ERR_INVALID_ARGUMENT, "file is NULL");
  TN_CHECK_FAILS(tn_memory_get_tag_stats(cpu(), 0, NULL), TN_ERR_INVALID_ARGUMENT, "out_stats is NULL");
}

TN_TEST(memory_api, a_snapshot_to_a_full_disk_fails_in_words) {
  FILE *file = fopen("/dev/full", "w");
  TN_CHECK_NOT_NULL(file);
  TN_CHECK_FAILS(tn_memory_snapshot(cpu(), file), TN_ERR_IO, "No space left");
  fclose(file);
}

/* ------------------------------------------------------------------ an opaque device */

enum { OPAQUE_ID = 19, HANDLES = 64 };
static char *handles[HANDLES];

static tn_status opaque_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                              tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  for (uint64_t i = 1; i < HANDLES; ++i) {
    if (handles[i]) continue;
    handles[i] = malloc(size_bytes);
    if (!handles[i]) break;
    *out_memory = (tn_memory){i, NULL, size_bytes};
    return TN_OK;
  }
  return tn_fail(TN_ERR_OUT_OF_MEMORY, "opaque: full");
}
static void opaque_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free(handles[memory->mem]);
  handles[memory->mem] = NULL;
}
static tn_status opaque_from(void *ctx, int32_t index, uint64_t mem, int64_t offset, const void *host,
                             uint64_t bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(handles[mem] + offset, host, bytes);
  return TN_OK;
}
static tn_status opaque_to(void *ctx, int32_t index, uint64_t mem, int64_t offset, void *host, uint64_t bytes,
                           void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(host, handles[mem] + offset, bytes);
  return TN_OK;
}
static tn_status opaque_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 1;
  return TN_OK;
}
static const tn_backend_def opaque_def = {.struct_size = sizeof opaque_def,
                                          .device_name = "opaque",
                                          .alignment_bytes = 64,
                                          .device_count = opaque_count,
                                          .alloc = opaque_alloc,
                                          .free = opaque_free,
                                          .from_host = opaque_from,
                                          .to_host = opaque_to};

TN_TEST(memory_api, tensors_share_an_opaque_handle) {
  static tni_pool *pools[1];
  static tni_backend backend = {
      .id = OPAQUE_ID, .n_devices = 1, .pools = pools, .def = &opaque_def, .name = "opaque"};
  TN_CHECK_OK(tn_init());
  TN_CHECK_OK(tni_pool_new(&(tni_pool_options){.def = &opaque_def, .name = "opaque", .cached = true}, pools));
  atomic_store(&tni_backends[OPAQUE_ID], &backend);
  const tn_options *on = TN_OPTIONS(.has_device = true, .device = {.backend = OPAQUE_ID});
  float rows[4] = {0, 1, 2, 3}, back[4];
  tn_tensor *t[3], *row, *strided;
  for (int i = 0; i < 3; ++i) {
    rows[0] = (float)i;
    TN_CHECK_OK(tn_tensor_from_host(rows, (const tn_dim[]){2, 2}, 2, on, &t[i]));
  }
  TN_CHECK_INT(tn_tensor_view(t[0])->mem, tn_tensor_view(t[2])->mem);
  for (int i = 0; i < 3; ++i) {
    TN_CHECK_OK(tn_tensor_to_host(t[i], back, sizeof back));
    TN_CHECK_DOUBLE(back[0], i, 0);
    TN_CHECK_INT(tn_tensor_storage_offset(t[i]), 0);
  }
  TN_CHECK_OK(tn_select(t[2], 0, 1, &row));
  TN_CHECK_INT(tn_tensor_storage_offset(row), 2);
  TN_CHECK_OK(tn_tensor_to_host(row, back, 2 * sizeof *back));
  TN_CHECK_DOUBLE(back[1], 3, 0);
  TN_CHECK_OK(tn_as_strided(row, (const int64_t[]){2}, 1, (const int64_t[]){1}, 1, &(int64_t){1}, &strided));
  TN_CHECK_OK(tn_tensor_to_host(strided, back, 2 * sizeof *back));
  TN_CHECK_DOUBLE(back[0], 1, 0);
  tn_tensor_release(strided);
  TN_CHECK_FAILS(
      tn_as_strided(row, (const int64_t[]){3}, 1, (const int64_t[]){1}, 1, &(int64_t){2}, &strided),
      TN_ERR_INVALID_ARGUMENT, "holds 4 elements");
  tn_tensor_release(row);
  for (int i = 0; i < 3; ++i) tn_tensor_release(t[i]);
  atomic_store(&tni_backends[OPAQUE_ID], NULL);
  tni_pool_free(pools[0]);
  for (int i = 0; i < HANDLES; ++i) TN_CHECK_PTR_NULL(handles[i]);
}
