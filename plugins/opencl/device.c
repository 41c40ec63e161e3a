/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices there are. Platforms are asked once; a machine where nothing is usable gives the reason each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/opencl/opencl.h"

static struct {
  pthread_mutex_t lock;
  bool asked; /* list is complete */
  ocl_device *list;
  int32_t n;
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ facts */

/* Facts of a device; what it does not answer stays 0. */
static uint64_t number_of(cl_device_id id, cl_device_info what, size_t size) {
  uint64_t value = 0; /* little-endian: a shorter answer lies in front */
  return ocl.clGetDeviceInfo(id, what, size, &value, NULL) == CL_SUCCESS ? value : 0;
}

/* Owned; NULL if there is no memory, or no answer. */
static char *text_of(cl_device_id id, cl_device_info what) {
  size_t size = 0;
  if (ocl.clGetDeviceInfo(id, what, 0, NULL, &size) != CL_SUCCESS || size == 0) return NULL;
  char *text = calloc(1, size + 1);
  if (text && ocl.clGetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS) text[0] = 0;
  return text;
}

static char *words_of(const ocl_device *d) {
  char *name = text_of(d->id, CL_DEVICE_NAME), *words = NULL;
  const unsigned units = (unsigned)number_of(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
  const char *format = "%s, %u unit%s, %llu MiB%s";
  if (name) {
    const char *wide = d->caps.has_double ? "" : ", no float64";
    const unsigned long long mib = d->total_bytes >> 20;
    const int size = snprintf(NULL, 0, format, name, units, units == 1 ? "" : "s", mib, wide) + 1;
    words = malloc((size_t)size);
    if (words) snprintf(words, (size_t)size, format, name, units, units == 1 ? "" : "s", mib, wide);
  }
  free(name);
  return words;
}

/* TENON_OPENCL_AS_GPU=1: a device that is a CPU gets the kernels that a GPU gets, so that those are run by tests on machines
 * without one. */
static bool as_gpu(void) {
  const char *value = secure_getenv("TENON_OPENCL_AS_GPU");
  return value && strcmp(value, "1") == 0;
}

static void read_facts(ocl_device *d) {
  const cl_device_fp_config single =
      number_of(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config));
  const size_t items = (size_t)number_of(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
  const cl_device_type type = number_of(d->id, CL_DEVICE_TYPE, sizeof(cl_device_type));
  d->caps.has_double = number_of(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_device_fp_config)) != 0;
  d->caps.is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0 && !as_gpu();
  d->caps.most_items = 1;
  while (d->caps.most_items < 1024 && 2 * (size_t)d->caps.most_items <= items) d->caps.most_items *= 2;
  d->exact_division = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  d->total_bytes = number_of(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
}

/* Text is compiled on the device's machine, and elements are read with the host's order of bytes. */
static bool usable(cl_device_id id) {
  return number_of(id, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) &&
         number_of(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)) &&
         number_of(id, CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool));
}

/* ------------------------------------------------------------------ finding */

static tn_status oom(void) {
  return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: a list of OpenCL devices");
}

static tn_status add_device(cl_device_id id) {
  ocl_device *list = realloc(devices.list, (size_t)(devices.n + 1) * sizeof *list);
  if (!list) return oom();
  devices.list = list;
  ocl_device *d = &list[devices.n];
  memset(d, 0, sizeof *d);
  d->id = id;
  read_facts(d);
  d->words = words_of(d);
  if (!d->words) return oom();
  ++devices.n;
  return TN_OK;
}

static tn_status add_platform(cl_platform_id platform) {
  cl_uint n = 0;
  if (ocl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n) != CL_SUCCESS || n == 0) return TN_OK;
  cl_device_id *ids = calloc(n, sizeof *ids);
  if (!ids) return oom();
  tn_status status = TN_OK;
  if (ocl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, ids, NULL) == CL_SUCCESS)
    for (cl_uint i = 0; i < n && status == TN_OK; ++i)
      if (usable(ids[i])) status = add_device(ids[i]);
  free(ids);
  return status;
}

static tn_status add_platforms(cl_uint n) {
  cl_platform_id *platforms = calloc(n, sizeof *platforms);
  if (!platforms) return oom();
  tn_status status = TN_OK;
  if (ocl.clGetPlatformIDs(n, platforms, NULL) != CL_SUCCESS) n = 0;
  for (cl_uint i = 0; i < n && status == TN_OK; ++i) status = add_platform(platforms[i]);
  free(platforms);
  return status;
}

static tn_status find_devices(void) {
  cl_uint n = 0;
  if (devices.asked) return TN_OK;
  TN_TRY(ocl_library_open());
  const cl_int code = ocl.clGetPlatformIDs(0, NULL, &n);
  if (code != CL_SUCCESS || n == 0)
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "OpenCL is installed, but no driver for it (clGetPlatformIDs gave %d, %u platforms)",
                   (int)code, n);
  TN_TRY(add_platforms(n));
  if (devices.n == 0)
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "%u OpenCL platform%s, but no device that is available and has a compiler", n,
                   n == 1 ? "" : "s");
  for (int32_t i = 0; i < devices.n; ++i) pthread_mutex_init(&devices.list[i].lock, NULL);
  devices.asked = true;
  return TN_OK;
}

static void forget_devices(void) {
  for (int32_t i = 0; i < devices.n; ++i) free(devices.list[i].words);
  free(devices.list);
  devices.list = NULL;
  devices.n = 0;
}

tn_status ocl_devices_count(void *ctx, int32_t *out_count) {
  pthread_mutex_lock(&devices.lock);
  tn_status status = find_devices();
  if (status != TN_OK && !devices.asked) forget_devices();
  *out_count = devices.n;
  pthread_mutex_unlock(&devices.lock);
  return status;
}

const char *ocl_device_describe(void *ctx, int32_t index) { return devices.list[index].words; }

/* ------------------------------------------------------------------ use */

/* With the device's lock. */
static tn_status make_ready(int32_t index, ocl_device *d) {
  cl_int code;
  if (d->queue) return TN_OK;
  if (!d->context) {
    cl_context context = ocl.clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    OCL_TRY(code, "a context on opencl:%d", index);
    d->context = context;
  }
  cl_command_queue queue = ocl.clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
  OCL_TRY(code, "a queue on opencl:%d", index);
  d->queue = queue;
  return TN_OK;
}

tn_status ocl_device_get(int32_t index, ocl_device **out_device) {
  ocl_device *d = &devices.list[index];
  pthread_mutex_lock(&d->lock);
  tn_status status = make_ready(index, d);
  pthread_mutex_unlock(&d->lock);
  *out_device = d;
  return status;
}

tn_status ocl_queue_get(int32_t index, void *stream, ocl_device **out_device, cl_command_queue *out_queue) {
  TN_TRY(ocl_device_get(index, out_device));
  *out_queue = stream ? (cl_command_queue)stream : (*out_device)->queue;
  return TN_OK;
}

tn_status ocl_caps(int32_t device, gpu_caps *out_caps) {
  *out_caps = devices.list[device].caps;
  return TN_OK;
}
