/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this plugin share: its devices, and the rows that they give to the host and to plugins/gpu.
 *
 * A device is one OpenCL device of any platform, in the order in which the platforms list them, with a context of its own.
 * Contexts and queues are made when a device is first used.
 */
#ifndef OCL_OPENCL_H
#define OCL_OPENCL_H

#include <pthread.h>

#include "plugins/gpu/driver.h"
#include "plugins/opencl/library.h"

typedef struct ocl_device {
  cl_device_id id;
  char *words; /* for `tenon devices` */
  gpu_caps caps;
  bool exact_division;    /* the compiler has -cl-fp32-correctly-rounded-divide-sqrt */
  uint64_t total_bytes;   /* of memory */
  pthread_mutex_t lock;   /* of all below */
  cl_context context;     /* NULL: not used yet */
  cl_command_queue queue; /* the default stream */
  cl_command_queue *streams;
  size_t n_streams;
  uint64_t used_bytes; /* of buffers that alloc gave */
} ocl_device;

/* The usable devices, found once. TN_ERR_UNAVAILABLE says what there is not. */
tn_status ocl_devices_count(void *ctx, int32_t *out_count);
const char *ocl_device_describe(void *ctx, int32_t index);
/* A device that is ready for work. */
tn_status ocl_device_get(int32_t index, ocl_device **out_device);
/* The queue of a stream (NULL: the default one). */
tn_status ocl_queue_get(int32_t index, void *stream, ocl_device **out_device, cl_command_queue *out_queue);

/* memory.c: rows of the backend */
tn_status ocl_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory);
void ocl_free(void *ctx, int32_t index, const tn_memory *memory, void *stream);
tn_status ocl_from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                        uint64_t size_bytes, void *stream);
tn_status ocl_to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                      uint64_t size_bytes, void *stream);
tn_status ocl_memory_info(void *ctx, int32_t index, tn_memory_info *out_info);
tn_status ocl_host_alloc(void *ctx, int32_t index, uint64_t size_bytes, tn_memory *out_memory);
void ocl_host_free(void *ctx, int32_t index, const tn_memory *memory);
tn_status ocl_copy(void *ctx, int32_t to_index, uint64_t to_mem, int64_t to_offset_bytes, int32_t from_index,
                   uint64_t from_mem, int64_t from_offset_bytes, uint64_t size_bytes, void *stream);
tn_status ocl_fill(int32_t device, void *stream, uint64_t mem, int64_t offset_bytes, uint64_t size_bytes,
                   const void *pattern, size_t pattern_bytes);
tn_status ocl_read(int32_t device, void *stream, uint64_t mem, int64_t offset_bytes, void *host,
                   uint64_t size_bytes);

/* stream.c: rows of the backend */
tn_status ocl_stream_new(void *ctx, int32_t index, void **out_stream);
void ocl_stream_free(void *ctx, int32_t index, void *stream);
tn_status ocl_stream_synchronize(void *ctx, int32_t index, void *stream);
tn_status ocl_synchronize(void *ctx, int32_t index);
tn_status ocl_event_new(void *ctx, int32_t index, void **out_event);
void ocl_event_free(void *ctx, int32_t index, void *event);
tn_status ocl_event_record(void *ctx, int32_t index, void *event, void *stream);
tn_status ocl_event_query(void *ctx, int32_t index, void *event, bool *out_done);
tn_status ocl_event_wait(void *ctx, int32_t index, void *event, void *stream);
tn_status ocl_event_elapsed(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns);

/* program.c: rows of the driver */
tn_status ocl_caps(int32_t device, gpu_caps *out_caps);
tn_status ocl_build(int32_t device, const char *const *texts, uint32_t n, const char *name,
                    void **out_kernel);
void ocl_release(void *kernel);
tn_status ocl_launch(int32_t device, void *stream, void *kernel, const gpu_grid *grid, const gpu_arg *args,
                     uint32_t n);

#endif
