/* SPDX-License-Identifier: Apache-2.0
 *
 * serial.round: tensors of the device go into a file and come back, whatever their dtype and strides.
 */
#include <stdlib.h>
#include <tenon/files.h>
#include <unistd.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { ROWS = 13, COLS = 7, BYTES = ROWS * COLS * 8 };
static const tn_dtype dtypes[] = {TN_BOOL,    TN_UINT8,    TN_INT16,   TN_INT64,
                                  TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};

static tn_status write_file(const char *path, tn_tensor *plain, tn_tensor *turned) {
  tn_state_dict *dict = NULL;
  tn_status status = tn_state_dict_new(&dict);
  if (status == TN_OK) status = tn_state_dict_put(dict, "plain", plain);
  if (status == TN_OK) status = tn_state_dict_put(dict, "turned", turned);
  if (status == TN_OK) status = tn_safetensors_write(path, dict, NULL, 0);
  tn_state_dict_release(dict);
  return status;
}

/* Back to the device, then to bytes. */
static tn_status read_back(const tn_state_dict *dict, const char *name, tn_device device, void *bytes,
                           size_t n) {
  tn_tensor *moved = NULL, *read = tn_state_dict_get(dict, name);
  if (!read) return tn_fail(TN_ERR_NOT_FOUND, "%s is not in the file", name);
  tn_status status = tn_to(read, TN_OPTIONS(.has_device = true, .device = device), false, false,
                           TN_MEMORY_FORMAT_NONE, &moved);
  if (status == TN_OK) status = tn_tensor_to_host(moved, bytes, n);
  tn_tensor_release(moved);
  return status;
}

static tn_status round_trip(const char *path, tn_device device, tn_dtype dtype, const unsigned char *given,
                            unsigned char *plain_back, unsigned char *turned_back) {
  const tn_dim sizes[] = {ROWS, COLS};
  size_t n = ROWS * COLS * tn_dtype_size(dtype);
  tn_tensor *plain = NULL, *turned = NULL;
  tn_state_dict *dict = NULL;
  tn_status status = tn_tensor_from_host(
      given, sizes, 2, TN_OPTIONS(.dtype = dtype, .has_device = true, .device = device), &plain);
  if (status == TN_OK) status = tn_t(plain, &turned);
  if (status == TN_OK) status = write_file(path, plain, turned);
  if (status == TN_OK) status = tn_safetensors_read(path, &dict);
  if (status == TN_OK) status = read_back(dict, "plain", device, plain_back, n);
  if (status == TN_OK) status = read_back(dict, "turned", device, turned_back, n);
  tn_state_dict_release(dict);
  tn_tensor_release(plain);
  tn_tensor_release(turned);
  return status;
}

static bool is_turned(const unsigned char *a, const unsigned char *b, size_t itemsize) {
  for (size_t i = 0; i < ROWS; i++)
    for (size_t k = 0; k < COLS; k++)
      if (memcmp(a + (i * COLS + k) * itemsize, b + (k * ROWS + i) * itemsize, itemsize)) return false;
  return true;
}

static void check_dtype(tni_check_report *r, const tni_check_context *c, const char *name, tn_device device,
                        tn_dtype dtype) {
  unsigned char given[BYTES], plain[BYTES], turned[BYTES];
  char *path = tni_check_text("%s/round.safetensors", c->folder);
  char *item = tni_check_text("%s %s", name, tn_dtype_name(dtype));
  size_t itemsize = tn_dtype_size(dtype), n = ROWS * COLS * itemsize;
  for (size_t i = 0; i < BYTES; i++) given[i] = dtype == TN_BOOL ? i % 3 == 0 : (unsigned char)(i * 37 % 113);
  tni_check_at(r, item);
  if (tni_check_ok(r, round_trip(path, device, dtype, given, plain, turned), item, "the round trip failed"))
    tni_check_that(r, !memcmp(given, plain, n) && is_turned(given, turned, itemsize), item,
                   "other values came back from the file");
  unlink(path);
  free(path);
  free(item);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  for (size_t i = 0; i < c->n_devices; i++) {
    tn_device device;
    if (!tni_check_device(r, c->devices[i], &device)) continue;
    for (size_t k = 0; k < sizeof dtypes; k++) check_dtype(r, c, c->devices[i], device, dtypes[k]);
  }
}

const tni_check tni_check_serial_round = {.name = "serial.round",
                                          .about = "tensors of the device survive a file",
                                          .kinds = TNI_CHECK_BACKEND,
                                          .run = run};
