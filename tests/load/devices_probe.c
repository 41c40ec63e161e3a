/* SPDX-License-Identifier: Apache-2.0
 *
 * Several devices in one process of its own: opened in the order of the arguments, computed on, copied between, saved
 * from and loaded onto, traced. Arguments are commands, run in order; each prints lines.
 *
 *   open DEVICE | add DEVICE | pairs: every opened device with every other | trace FILE: from here to the end |
 *   carry FROM FILE TO: tensors of one device, saved and loaded onto another
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/files.h>
#include <tenon/tenon.h>
#include <tenon/trace.h>

static void say_failure(const char *what, tn_status status) {
  printf("%s: error %d: %s\n", what, (int)status, tn_error_message());
}

static void open_device(const char *name) {
  tn_device device;
  tn_status status = tn_device_open(name, &device);
  char words[64];
  if (status != TN_OK) return say_failure(name, status);
  printf("%s: open as %s\n", name, tn_device_name(device, words, sizeof words));
}

/* [1,2,3] + [10,20,30] */
static tn_status compute(const char *name, float result[3]) {
  const float left[3] = {1, 2, 3}, right[3] = {10, 20, 30};
  const tn_dim size = 3;
  tn_device device;
  tn_tensor *a = NULL, *b = NULL, *c = NULL;
  tn_status status = tn_device_open(name, &device);
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  if (status == TN_OK) status = tn_tensor_from_host(left, &size, 1, &options, &a);
  if (status == TN_OK) status = tn_tensor_from_host(right, &size, 1, &options, &b);
  if (status == TN_OK) status = tn_add(a, b, tn_int(1), &c);
  if (status == TN_OK) status = tn_tensor_to_host(c, result, 3 * sizeof *result);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(c);
  return status;
}

static void add(const char *device) {
  float r[3];
  tn_status status = compute(device, r);
  if (status != TN_OK) return say_failure(device, status);
  printf("add %s: %g %g %g\n", device, (double)r[0], (double)r[1], (double)r[2]);
}

/* ------------------------------------------------------------------ every device with every other */

enum { MOST_DEVICES = 16 };

static tn_status copy_pair(tn_device from, tn_device to, float result[3]) {
  const float values[3] = {4, 5, 6};
  const tn_dim size = 3;
  tn_tensor *a = NULL, *b = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = from};
  tn_status status = tn_tensor_from_host(values, &size, 1, &options, &a);
  if (status == TN_OK) status = tn_to_device(a, to, TN_FLOAT32, false, true, TN_PRESERVE_FORMAT, &b);
  if (status == TN_OK) status = tn_tensor_to_host(b, result, 3 * sizeof *result);
  tn_tensor_release(a);
  tn_tensor_release(b);
  return status;
}

static int by_name(const void *a, const void *b) {
  const char *x = a, *y = b;
  return strncmp(x, "cpu", 3) == 0 ? -1 : strncmp(y, "cpu", 3) == 0 ? 1 : strcmp(x, y);
}

static void run_pairs(void) {
  char names[MOST_DEVICES][64];
  tn_device devices[MOST_DEVICES];
  size_t n = 0;
  int copies = 0, sums = 0;
  float r[3];
  for (size_t i = 0; i < tn_device_count() && n < MOST_DEVICES; ++i) {
    tn_device_report report;
    if (tn_device_get(i, &report) != TN_OK || report.state != TN_PLUGIN_READY) continue;
    if (strcmp(report.name, "meta") == 0) continue;
    snprintf(names[n++], sizeof names[0], "%s", report.name);
  }
  qsort(names, n, sizeof *names, by_name);
  for (size_t i = 0; i < n; ++i) {
    tn_status status = tn_device_open(names[i], &devices[i]);
    if (status == TN_OK) status = compute(names[i], r);
    if (status != TN_OK) return say_failure(names[i], status);
    sums += r[0] == 11 && r[1] == 22 && r[2] == 33;
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k) {
      tn_status status = copy_pair(devices[i], devices[k], r);
      if (status != TN_OK) return say_failure(names[i], status);
      copies += r[0] == 4 && r[1] == 5 && r[2] == 6;
    }
  printf("pairs: %d copies, %d sums\n", copies, sums);
  for (size_t i = 0; i < n; ++i) printf("%s%s", i ? " " : "", names[i]);
  printf("\n");
}

/* ------------------------------------------------------------------ files */

/* A matrix and its transpose, which lies in gaps. */
static tn_status save_from(tn_device device, const char *path) {
  const float values[6] = {1, 2, 3, 4, 5, 6};
  tn_tensor *a = NULL, *t = NULL;
  tn_state_dict *dict = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  tn_status status = tn_tensor_from_host(values, (const tn_dim[]){2, 3}, 2, &options, &a);
  if (status == TN_OK) status = tn_t(a, &t);
  if (status == TN_OK) status = tn_state_dict_new(&dict);
  if (status == TN_OK) status = tn_state_dict_put(dict, "a", a);
  if (status == TN_OK) status = tn_state_dict_put(dict, "t", t);
  if (status == TN_OK) status = tn_safetensors_write(path, dict, NULL, 0);
  tn_state_dict_release(dict);
  tn_tensor_release(t);
  tn_tensor_release(a);
  return status;
}

static tn_status load_onto(tn_device device, const char *path, float result[6]) {
  tn_state_dict *dict = NULL;
  tn_tensor *here = NULL;
  tn_status status = tn_safetensors_read(path, &dict);
  if (status == TN_OK)
    status = tn_to_device(tn_state_dict_get(dict, "t"), device, TN_FLOAT32, false, true, TN_PRESERVE_FORMAT, &here);
  if (status == TN_OK) status = tn_tensor_to_host(here, result, 6 * sizeof *result);
  tn_tensor_release(here);
  tn_state_dict_release(dict);
  return status;
}

static void carry(const char *from, const char *path, const char *to) {
  tn_device a, b;
  float r[6] = {0};
  tn_status status = tn_device_open(from, &a);
  if (status == TN_OK) status = tn_device_open(to, &b);
  if (status == TN_OK) status = save_from(a, path);
  if (status == TN_OK) status = load_onto(b, path, r);
  if (status != TN_OK) return say_failure("carry", status);
  printf("carry %s %s: %g %g %g %g %g %g\n", from, to, (double)r[0], (double)r[1], (double)r[2], (double)r[3],
         (double)r[4], (double)r[5]);
}

int main(int argc, char **argv) {
  tn_trace *trace = NULL;
  for (int i = 1; i < argc; ++i) {
    const char *command = argv[i];
    if (strcmp(command, "pairs") == 0)
      run_pairs();
    else if (strcmp(command, "open") == 0 && i + 1 < argc)
      open_device(argv[++i]);
    else if (strcmp(command, "add") == 0 && i + 1 < argc)
      add(argv[++i]);
    else if (strcmp(command, "carry") == 0 && i + 3 < argc)
      carry(argv[i + 1], argv[i + 2], argv[i + 3]), i += 3;
    else if (strcmp(command, "trace") == 0 && i + 1 < argc && tn_trace_open(argv[++i], &trace) == TN_OK)
      continue;
    else
      return 2;
  }
  if (tn_trace_close(trace) != TN_OK) say_failure("trace", TN_ERR_IO);
  return 0;
}
