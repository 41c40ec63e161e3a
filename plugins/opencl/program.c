/* SPDX-License-Identifier: Apache-2.0
 *
 * Compilation and launch. A kernel object holds its arguments, so setting them and queueing it is one step under the
 * kernel's lock. Drivers cache compiled programs on disk themselves (PoCL: POCL_CACHE_DIR).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/opencl/opencl.h"

typedef struct kernel {
  pthread_mutex_t lock;
  cl_kernel object;
  cl_uint n_args;
} kernel;

/* The compiler's words, in front of which stands what was compiled. */
static tn_status fail_with_log(cl_program program, const ocl_device *d, cl_int code) {
  size_t size = 0;
  char *log = NULL;
  ocl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  if (size > 1) log = calloc(1, size + 1);
  if (log) ocl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  tn_status status = code == CL_BUILD_PROGRAM_FAILURE ? TN_FAIL(TN_ERR_INTERNAL, "%s refused the text:\n%s",
                                                                d->words, log ? log : "(no log)")
                                                      : ocl_fail(code, "compiling for %s", d->words);
  free(log);
  return status;
}

static tn_status build_program(const ocl_device *d, const char *const *texts, uint32_t n,
                               cl_program *out_program) {
  cl_int code;
  cl_program program =
      ocl.clCreateProgramWithSource(d->context, n, (const char **)(uintptr_t)texts, NULL, &code);
  OCL_TRY(code, "taking in the text of a kernel");
  /* -w: some drivers print to stderr how many warnings there were. */
  const char *options =
      d->exact_division ? "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-w -cl-std=CL1.2";
  code = ocl.clBuildProgram(program, 1, &d->id, options, NULL, NULL);
  if (code == CL_SUCCESS) {
    *out_program = program;
    return TN_OK;
  }
  tn_status status = fail_with_log(program, d, code);
  ocl.clReleaseProgram(program);
  return status;
}

/* TENON_OPENCL_TEXTS=FOLDER: every text that is compiled goes into a file there, for reading and for other compilers. */
static void keep_text(const char *const *texts, uint32_t n, const char *name) {
  static atomic_uint number;
  const char *folder = secure_getenv("TENON_OPENCL_TEXTS");
  char path[4096];
  if (!folder) return;
  const int size = snprintf(path, sizeof path, "%s/%s-%u.cl", folder, name, atomic_fetch_add(&number, 1));
  FILE *file = size > 0 && (size_t)size < sizeof path ? fopen(path, "we") : NULL;
  if (!file) {
    tn_kit_host()->log(TN_LOG_WARN, "TENON_OPENCL_TEXTS: %s/%s cannot be written", folder, name);
    return;
  }
  for (uint32_t i = 0; i < n; ++i) fputs(texts[i], file);
  fclose(file);
}

tn_status ocl_build(int32_t device, const char *const *texts, uint32_t n, const char *name,
                    void **out_kernel) {
  ocl_device *d;
  cl_program program = NULL;
  cl_int code;
  TN_TRY(ocl_device_get(device, &d));
  keep_text(texts, n, name);
  kernel *k = calloc(1, sizeof *k);
  if (!k) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: a kernel on opencl:%d", device);
  tn_status status = build_program(d, texts, n, &program);
  if (status == TN_OK) {
    k->object = ocl.clCreateKernel(program, name, &code);
    ocl.clReleaseProgram(program); /* the kernel keeps it */
    if (code == CL_SUCCESS)
      code = ocl.clGetKernelInfo(k->object, CL_KERNEL_NUM_ARGS, sizeof k->n_args, &k->n_args, NULL);
    if (code != CL_SUCCESS) status = ocl_fail(code, "finding kernel %s in its text", name);
  }
  if (status != TN_OK) {
    if (k->object) ocl.clReleaseKernel(k->object);
    free(k);
    return status;
  }
  pthread_mutex_init(&k->lock, NULL);
  *out_kernel = k;
  return TN_OK;
}

void ocl_release(void *kernel_) {
  kernel *k = kernel_;
  ocl.clReleaseKernel(k->object); /* queued runs hold it */
  pthread_mutex_destroy(&k->lock);
  free(k);
}

/* With the kernel's lock. */
static cl_int set_and_queue(const kernel *k, cl_command_queue queue, const gpu_grid *grid,
                            const gpu_arg *args, uint32_t n) {
  size_t global[3], local[3];
  for (int d = 0; d < 3; ++d) {
    local[d] = grid->items[d];
    global[d] = grid->groups[d] * grid->items[d];
  }
  for (uint32_t i = 0; i < n; ++i) {
    const cl_mem buffer = (cl_mem)(uintptr_t)args[i].mem;
    const cl_int code = args[i].bytes
                            ? ocl.clSetKernelArg(k->object, i, args[i].size, args[i].bytes)
                            : ocl.clSetKernelArg(k->object, i, sizeof buffer, buffer ? &buffer : NULL);
    if (code != CL_SUCCESS) return code;
  }
  return ocl.clEnqueueNDRangeKernel(queue, k->object, 3, NULL, global, local, 0, NULL, NULL);
}

tn_status ocl_launch(int32_t device, void *stream, void *kernel_, const gpu_grid *grid, const gpu_arg *args,
                     uint32_t n) {
  kernel *k = kernel_;
  ocl_device *d;
  cl_command_queue queue;
  TN_TRY(ocl_queue_get(device, stream, &d, &queue));
  /* The object would keep those of an earlier launch. */
  if (n != k->n_args)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "launching a kernel on opencl:%d: it has %u parameters, got %u arguments", device,
                   (unsigned)k->n_args, n);
  pthread_mutex_lock(&k->lock);
  const cl_int code = set_and_queue(k, queue, grid, args, n);
  pthread_mutex_unlock(&k->lock);
  OCL_TRY(code, "launching a kernel on opencl:%d", device);
  return TN_OK;
}
