/* SPDX-License-Identifier: Apache-2.0
 *
 * libOpenCL.so.1, opened when a device is first asked for. The plugin needs its headers to build and nothing of it to load: a
 * machine without OpenCL shows a sentence in `tenon plugins`.
 */
#ifndef OCL_LIBRARY_H
#define OCL_LIBRARY_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <tenon/kit/status.h>

#define OCL_FUNCTIONS(X)          \
  X(clGetPlatformIDs)             \
  X(clGetPlatformInfo)            \
  X(clGetDeviceIDs)               \
  X(clGetDeviceInfo)              \
  X(clCreateContext)              \
  X(clCreateCommandQueue)         \
  X(clReleaseCommandQueue)        \
  X(clCreateBuffer)               \
  X(clReleaseMemObject)           \
  X(clCreateProgramWithSource)    \
  X(clBuildProgram)               \
  X(clGetProgramBuildInfo)        \
  X(clReleaseProgram)             \
  X(clCreateKernel)               \
  X(clReleaseKernel)              \
  X(clGetKernelInfo)              \
  X(clSetKernelArg)               \
  X(clEnqueueNDRangeKernel)       \
  X(clEnqueueReadBuffer)          \
  X(clEnqueueWriteBuffer)         \
  X(clEnqueueCopyBuffer)          \
  X(clEnqueueFillBuffer)          \
  X(clEnqueueMapBuffer)           \
  X(clEnqueueUnmapMemObject)      \
  X(clEnqueueMarkerWithWaitList)  \
  X(clEnqueueBarrierWithWaitList) \
  X(clGetEventInfo)               \
  X(clGetEventProfilingInfo)      \
  X(clRetainEvent)                \
  X(clReleaseEvent)               \
  X(clFlush)                      \
  X(clFinish)

typedef struct ocl_functions {
#define OCL_POINTER(name) __typeof__(&name) name;
  OCL_FUNCTIONS(OCL_POINTER)
#undef OCL_POINTER
} ocl_functions;

/* Filled by ocl_library_open. */
extern ocl_functions ocl;

/* Once; later calls give the first answer. TN_ERR_UNAVAILABLE if there is no such library. Caller holds a lock. */
tn_status ocl_library_open(void);
/* A failure in words: what was tried, OpenCL's code and its name. Memory codes become TN_ERR_OUT_OF_MEMORY. */
tn_status ocl_fail(cl_int code, const char *format, ...) TN_PRINTF(2, 3);

/* Forwards a failure of an OpenCL call. */
#define OCL_TRY(expr, ...)                                                        \
  do {                                                                            \
    const cl_int ocl_try_code_ = (expr);                                          \
    if (ocl_try_code_ != CL_SUCCESS) return ocl_fail(ocl_try_code_, __VA_ARGS__); \
  } while (0)

#endif
