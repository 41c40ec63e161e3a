/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers. `mem` is a cl_mem, which has no address: places in it are offsets. OpenCL does not say how much of a device's memory is
 * free, and may take its pages only when they are first written; so the plugin counts what it gave, and refuses what would be
 * more than the device has.
 */
#include "plugins/opencl/opencl.h"

static cl_mem buffer_of(uint64_t mem) { return (cl_mem)(uintptr_t)mem; }

/* Takes the bytes from what the device has. */
static tn_status reserve(ocl_device *d, int32_t index, uint64_t size_bytes) {
  pthread_mutex_lock(&d->lock);
  const uint64_t used = d->used_bytes;
  const bool fits = size_bytes <= d->total_bytes && used <= d->total_bytes - size_bytes;
  if (fits) d->used_bytes += size_bytes;
  pthread_mutex_unlock(&d->lock);
  return fits ? TN_OK
              : TN_FAIL(TN_ERR_OUT_OF_MEMORY,
                        "out of memory: %llu bytes on opencl:%d, which has %llu, %llu in use",
                        (unsigned long long)size_bytes, index, (unsigned long long)d->total_bytes,
                        (unsigned long long)used);
}

static void give_back(ocl_device *d, uint64_t size_bytes) {
  pthread_mutex_lock(&d->lock);
  d->used_bytes -= size_bytes;
  pthread_mutex_unlock(&d->lock);
}

tn_status ocl_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  ocl_device *d;
  cl_int code;
  TN_TRY(ocl_device_get(index, &d));
  TN_TRY(reserve(d, index, size_bytes));
  cl_mem buffer = ocl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, size_bytes, NULL, &code);
  if (code != CL_SUCCESS) {
    give_back(d, size_bytes);
    return ocl_fail(code, "%llu bytes on opencl:%d", (unsigned long long)size_bytes, index);
  }
  *out_memory = (tn_memory){(uint64_t)(uintptr_t)buffer, NULL, size_bytes};
  return TN_OK;
}

/* OpenCL itself waits for work that uses the buffer. */
void ocl_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  ocl_device *d;
  ocl.clReleaseMemObject(buffer_of(memory->mem));
  if (ocl_device_get(index, &d) == TN_OK) give_back(d, memory->size_bytes);
}

tn_status ocl_from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                        uint64_t size_bytes, void *stream) {
  ocl_device *d;
  cl_command_queue queue;
  if (size_bytes == 0) return TN_OK;
  TN_TRY(ocl_queue_get(index, stream, &d, &queue));
  OCL_TRY(ocl.clEnqueueWriteBuffer(queue, buffer_of(mem), CL_TRUE, (size_t)offset_bytes, size_bytes, host, 0,
                                   NULL, NULL),
          "a copy of %llu bytes to opencl:%d", (unsigned long long)size_bytes, index);
  return TN_OK;
}

tn_status ocl_read(int32_t index, void *stream, uint64_t mem, int64_t offset_bytes, void *host,
                   uint64_t size_bytes) {
  ocl_device *d;
  cl_command_queue queue;
  TN_TRY(ocl_queue_get(index, stream, &d, &queue));
  OCL_TRY(ocl.clEnqueueReadBuffer(queue, buffer_of(mem), CL_TRUE, (size_t)offset_bytes, size_bytes, host, 0,
                                  NULL, NULL),
          "a copy of %llu bytes from opencl:%d", (unsigned long long)size_bytes, index);
  return TN_OK;
}

tn_status ocl_to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                      uint64_t size_bytes, void *stream) {
  if (size_bytes == 0) return TN_OK;
  TN_TRY(ocl_read(index, stream, mem, offset_bytes, host, size_bytes));
  return gpu_check_faults(index, stream, false);
}

tn_status ocl_memory_info(void *ctx, int32_t index, tn_memory_info *out_info) {
  ocl_device *d;
  TN_TRY(ocl_device_get(index, &d));
  pthread_mutex_lock(&d->lock);
  out_info->total_bytes = d->total_bytes;
  out_info->free_bytes = d->total_bytes - d->used_bytes;
  pthread_mutex_unlock(&d->lock);
  return TN_OK;
}

/* ------------------------------------------------------------------ pinned */

/* A buffer of the driver's host memory that stays mapped until it is freed. */
tn_status ocl_host_alloc(void *ctx, int32_t index, uint64_t size_bytes, tn_memory *out_memory) {
  ocl_device *d;
  cl_int code;
  TN_TRY(ocl_device_get(index, &d));
  cl_mem buffer =
      ocl.clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size_bytes, NULL, &code);
  OCL_TRY(code, "%llu bytes of pinned host memory", (unsigned long long)size_bytes);
  void *address = ocl.clEnqueueMapBuffer(d->queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size_bytes,
                                         0, NULL, NULL, &code);
  if (code != CL_SUCCESS) {
    ocl.clReleaseMemObject(buffer);
    return ocl_fail(code, "mapping %llu bytes of pinned host memory", (unsigned long long)size_bytes);
  }
  *out_memory = (tn_memory){(uint64_t)(uintptr_t)buffer, address, size_bytes};
  return TN_OK;
}

void ocl_host_free(void *ctx, int32_t index, const tn_memory *memory) {
  ocl_device *d;
  if (ocl_device_get(index, &d) == TN_OK) {
    ocl.clEnqueueUnmapMemObject(d->queue, buffer_of(memory->mem), memory->address, 0, NULL, NULL);
    ocl.clFinish(d->queue);
  }
  ocl.clReleaseMemObject(buffer_of(memory->mem));
}

/* ------------------------------------------------------------------ on the device */

/* Contexts are one a device, so bytes between two pass through the source's memory as the host sees it. */
static tn_status copy_across(int32_t to_index, cl_command_queue queue, uint64_t to_mem,
                             int64_t to_offset_bytes, int32_t from_index, uint64_t from_mem,
                             int64_t from_offset_bytes, uint64_t size_bytes) {
  ocl_device *from;
  cl_int code;
  TN_TRY(ocl_device_get(from_index, &from));
  TN_TRY(ocl_synchronize(NULL, from_index));
  void *bytes = ocl.clEnqueueMapBuffer(from->queue, buffer_of(from_mem), CL_TRUE, CL_MAP_READ,
                                       (size_t)from_offset_bytes, size_bytes, 0, NULL, NULL, &code);
  OCL_TRY(code, "mapping %llu bytes of opencl:%d", (unsigned long long)size_bytes, from_index);
  code = ocl.clEnqueueWriteBuffer(queue, buffer_of(to_mem), CL_TRUE, (size_t)to_offset_bytes, size_bytes,
                                  bytes, 0, NULL, NULL);
  ocl.clEnqueueUnmapMemObject(from->queue, buffer_of(from_mem), bytes, 0, NULL, NULL);
  OCL_TRY(code, "a copy of %llu bytes from opencl:%d to opencl:%d", (unsigned long long)size_bytes,
          from_index, to_index);
  return TN_OK;
}

tn_status ocl_copy(void *ctx, int32_t to_index, uint64_t to_mem, int64_t to_offset_bytes, int32_t from_index,
                   uint64_t from_mem, int64_t from_offset_bytes, uint64_t size_bytes, void *stream) {
  ocl_device *d;
  cl_command_queue queue;
  if (size_bytes == 0) return TN_OK;
  TN_TRY(ocl_queue_get(to_index, stream, &d, &queue));
  if (to_index != from_index)
    return copy_across(to_index, queue, to_mem, to_offset_bytes, from_index, from_mem, from_offset_bytes,
                       size_bytes);
  OCL_TRY(ocl.clEnqueueCopyBuffer(queue, buffer_of(from_mem), buffer_of(to_mem), (size_t)from_offset_bytes,
                                  (size_t)to_offset_bytes, size_bytes, 0, NULL, NULL),
          "a copy of %llu bytes on opencl:%d", (unsigned long long)size_bytes, to_index);
  return TN_OK;
}

tn_status ocl_fill(int32_t device, void *stream, uint64_t mem, int64_t offset_bytes, uint64_t size_bytes,
                   const void *pattern, size_t pattern_bytes) {
  ocl_device *d;
  cl_command_queue queue;
  TN_TRY(ocl_queue_get(device, stream, &d, &queue));
  OCL_TRY(ocl.clEnqueueFillBuffer(queue, buffer_of(mem), pattern, pattern_bytes, (size_t)offset_bytes,
                                  size_bytes, 0, NULL, NULL),
          "filling %llu bytes on opencl:%d", (unsigned long long)size_bytes, device);
  return TN_OK;
}
