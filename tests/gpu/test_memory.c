/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of devices: copies between each pair, any geometry, pinned host memory, running out, and machines where there is
 * nothing to run on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/load.h>
#include <tenon/memory.h>

#include "core/load/load.h"
#include "devices.h"

static const float counting[24] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

static void check_values(tn_tensor *t, const float *expected, size_t n) {
  float got[24];
  TN_CHECK_OK(tn_tensor_to_host(t, got, n * sizeof *got));
  for (size_t i = 0; i < n; ++i) TN_CHECK_DOUBLE(got[i], expected[i], 0);
}

TN_TEST(gpu_memory, copies_between_every_pair_of_devices) {
  static const char *const names[] = {"cpu", "opencl", "opencl:1", "opencl:2"};
  tn_device places[4];
  int n = 1;
  TN_CHECK_OK(tn_device_open("cpu", &places[0]));
  GPU_NEEDS("opencl", first);
  places[n++] = first;
  while (n < 4 && tn_device_open(names[n], &places[n]) == TN_OK) ++n;
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k) {
      tn_tensor *a = gpu_floats(counting, (const tn_dim[]){4, 6}, 2, places[i]), *b = NULL, *t = NULL,
                *c = NULL;
      TN_CHECK_OK(tn_to_device(a, places[k], TN_FLOAT32, false, true, TN_PRESERVE_FORMAT, &b));
      check_values(b, counting, 24);
      TN_CHECK_INT(tn_tensor_device(b).index, places[k].index);
      TN_CHECK_OK(tn_t(a, &t));
      TN_CHECK_OK(tn_to_device(t, places[k], TN_FLOAT64, false, true, TN_CONTIGUOUS_FORMAT, &c));
      double wide[24];
      TN_CHECK_OK(tn_tensor_to_host(c, wide, sizeof wide));
      for (int e = 0; e < 24; ++e) TN_CHECK_DOUBLE(wide[e], counting[e % 4 * 6 + e / 4], 0);
      tn_tensor_release(a);
      tn_tensor_release(b);
      tn_tensor_release(c);
      tn_tensor_release(t);
    }
}

TN_TEST(gpu_memory, the_backend_copies_between_its_devices) {
  GPU_NEEDS("opencl:1", second);
  (void)second;
  const tn_backend_def *b = tni_backend_get(second.backend)->def;
  tn_memory from, to;
  char bytes[64] = "from one device to another", back[64] = "";
  TN_CHECK_OK(b->alloc(b->ctx, 0, 64, NULL, &from));
  TN_CHECK_OK(b->alloc(b->ctx, 1, 96, NULL, &to));
  TN_CHECK_OK(b->from_host(b->ctx, 0, from.mem, 0, bytes, 64, NULL));
  TN_CHECK_OK(b->copy(b->ctx, 1, to.mem, 32, 0, from.mem, 0, 64, NULL));
  TN_CHECK_OK(b->to_host(b->ctx, 1, to.mem, 32, back, 64, NULL));
  TN_CHECK_STR(back, bytes);
  b->free(b->ctx, 0, &from, NULL);
  b->free(b->ctx, 1, &to, NULL);
}

TN_TEST(gpu_memory, pinned_memory_is_read_and_written_by_both) {
  GPU_NEEDS("opencl", device);
  const tn_backend_def *b = tni_backend_get(device.backend)->def;
  tn_memory pinned, memory;
  TN_CHECK_OK(b->host_alloc(b->ctx, 0, 1 << 16, &pinned));
  TN_CHECK_OK(b->alloc(b->ctx, 0, 1 << 16, NULL, &memory));
  memset(pinned.address, 42, 1 << 16);
  TN_CHECK_OK(b->from_host(b->ctx, 0, memory.mem, 0, pinned.address, 1 << 16, NULL));
  memset(pinned.address, 0, 1 << 16);
  TN_CHECK_OK(b->to_host(b->ctx, 0, memory.mem, 0, pinned.address, 1 << 16, NULL));
  TN_CHECK_INT(((const char *)pinned.address)[65535], 42);
  b->free(b->ctx, 0, &memory, NULL);
  b->host_free(b->ctx, 0, &pinned);
}

TN_TEST(gpu_memory, more_than_the_device_has_is_a_status) {
  GPU_NEEDS("opencl", device);
  const tn_backend_def *b = tni_backend_get(device.backend)->def;
  tn_memory_info info = {.struct_size = sizeof info}, after = info;
  tn_tensor *t = NULL;
  TN_CHECK_OK(b->memory_info(b->ctx, 0, &info));
  const tn_dim n = (tn_dim)(info.total_bytes / sizeof(float)) + 1;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  TN_CHECK_FAILS(tn_empty(&n, 1, &options, TN_MEMORY_FORMAT_NONE, &t), TN_ERR_OUT_OF_MEMORY, "opencl:0");
  TN_CHECK_OK(b->memory_info(b->ctx, 0, &after));
  TN_CHECK_INT(after.free_bytes, info.free_bytes);
}

/* Runs the command line in a process of its own; what it printed is compared. */
static void cli_says(const char *environment, const char *arguments, const char *words) {
  char line[4096], text[8192] = "";
  snprintf(line, sizeof line, "%s '%s' %s 2>&1", environment, TN_TEST_CLI, arguments);
  FILE *pipe = popen(line, "r");
  TN_CHECK_NOT_NULL(pipe);
  size_t n = fread(text, 1, sizeof text - 1, pipe);
  text[n] = 0;
  pclose(pipe);
  TN_CHECK_CONTAINS(text, words);
}

TN_TEST(gpu_memory, a_machine_without_a_driver_says_so) {
  tn_device cpu;
  GPU_NEEDS("opencl", device);
  (void)device;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  cli_says("OCL_ICD_VENDORS=/nowhere", "devices --open", "no driver for it");
  cli_says("OCL_ICD_VENDORS=/nowhere", "train --device opencl --epochs 1", "no driver for it");
}

TN_TEST(gpu_memory, a_small_device_runs_out_in_words) {
  GPU_NEEDS("opencl", device);
  (void)device;
  cli_says("POCL_MEMORY_LIMIT=1", "devices --open", "of 1.0 GiB free");
}
