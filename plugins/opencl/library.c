/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening libOpenCL, and its codes in words.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "plugins/opencl/library.h"

ocl_functions ocl;

static const char library_name[] = "libOpenCL.so.1";

static const struct {
  const char *name;
  void **pointer;
} functions[] = {
#define OCL_ROW(name) {#name, (void **)(void *)&ocl.name},
    OCL_FUNCTIONS(OCL_ROW)};

/* Never closed: drivers leave threads behind. */
tn_status ocl_library_open(void) {
  static void *library;
  if (library) return TN_OK;
  void *opened = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!opened) return TN_FAIL(TN_ERR_UNAVAILABLE, "no OpenCL on this machine: %s", dlerror());
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    *functions[i].pointer = dlsym(opened, functions[i].name);
    if (!*functions[i].pointer)
      return TN_FAIL(TN_ERR_UNAVAILABLE, "%s has no %s; OpenCL 1.2 is needed", library_name,
                     functions[i].name);
  }
  library = opened;
  return TN_OK;
}

static const char *code_name(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_FOUND: return "device not found";
    case CL_DEVICE_NOT_AVAILABLE: return "device not available";
    case CL_COMPILER_NOT_AVAILABLE: return "compiler not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "memory object allocation failure";
    case CL_OUT_OF_RESOURCES: return "out of resources";
    case CL_OUT_OF_HOST_MEMORY: return "out of host memory";
    case CL_PROFILING_INFO_NOT_AVAILABLE: return "profiling info not available";
    case CL_MEM_COPY_OVERLAP: return "copied ranges overlap";
    case CL_BUILD_PROGRAM_FAILURE: return "build program failure";
    case CL_INVALID_VALUE: return "invalid value";
    case CL_INVALID_MEM_OBJECT: return "invalid memory object";
    case CL_INVALID_KERNEL_NAME: return "invalid kernel name";
    case CL_INVALID_KERNEL_ARGS: return "invalid kernel arguments";
    case CL_INVALID_ARG_INDEX: return "invalid argument index";
    case CL_INVALID_ARG_SIZE: return "invalid argument size";
    case CL_INVALID_WORK_GROUP_SIZE: return "invalid work group size";
    case CL_INVALID_BUFFER_SIZE: return "invalid buffer size";
    default: return "see CL/cl.h";
  }
}

tn_status ocl_fail(cl_int code, const char *format, ...) {
  char words[256];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
                      code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  return TN_FAIL(memory ? TN_ERR_OUT_OF_MEMORY : TN_ERR_INTERNAL, "%s: OpenCL answered %d (%s)", words,
                 (int)code, code_name(code));
}
