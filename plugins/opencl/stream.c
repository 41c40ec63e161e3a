/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams are in-order command queues; an event is the marker of its last record. Queues are flushed where somebody may wait
 * on another thread or queue: an OpenCL driver need not begin what is only queued.
 */
#include <stdlib.h>

#include "plugins/opencl/opencl.h"

/* ------------------------------------------------------------------ streams */

/* With the device's lock. */
static tn_status keep_stream(ocl_device *d, cl_command_queue queue) {
  cl_command_queue *streams = realloc(d->streams, (d->n_streams + 1) * sizeof *streams);
  if (!streams) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: a list of OpenCL queues");
  d->streams = streams;
  streams[d->n_streams++] = queue;
  return TN_OK;
}

tn_status ocl_stream_new(void *ctx, int32_t index, void **out_stream) {
  ocl_device *d;
  cl_int code;
  TN_TRY(ocl_device_get(index, &d));
  cl_command_queue queue = ocl.clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
  OCL_TRY(code, "a stream on opencl:%d", index);
  pthread_mutex_lock(&d->lock);
  tn_status status = keep_stream(d, queue);
  pthread_mutex_unlock(&d->lock);
  if (status != TN_OK)
    ocl.clReleaseCommandQueue(queue);
  else
    *out_stream = queue;
  return status;
}

void ocl_stream_free(void *ctx, int32_t index, void *stream) {
  ocl_device *d;
  if (ocl_device_get(index, &d) != TN_OK) return;
  pthread_mutex_lock(&d->lock);
  for (size_t i = 0; i < d->n_streams; ++i)
    if (d->streams[i] == stream) d->streams[i--] = d->streams[--d->n_streams];
  pthread_mutex_unlock(&d->lock);
  ocl.clFinish(stream);
  ocl.clReleaseCommandQueue(stream);
}

tn_status ocl_stream_synchronize(void *ctx, int32_t index, void *stream) {
  ocl_device *d;
  cl_command_queue queue;
  TN_TRY(ocl_queue_get(index, stream, &d, &queue));
  OCL_TRY(ocl.clFinish(queue), "waiting for a stream of opencl:%d", index);
  return gpu_check_faults(index, stream, false);
}

/* The lock is held while waiting: a stream that is being waited for must not be freed. Work needs no lock to end. */
static cl_int finish_all(ocl_device *d) {
  pthread_mutex_lock(&d->lock);
  cl_int code = ocl.clFinish(d->queue);
  for (size_t i = 0; i < d->n_streams; ++i) {
    const cl_int next = ocl.clFinish(d->streams[i]);
    if (code == CL_SUCCESS) code = next;
  }
  pthread_mutex_unlock(&d->lock);
  return code;
}

tn_status ocl_synchronize(void *ctx, int32_t index) {
  ocl_device *d;
  TN_TRY(ocl_device_get(index, &d));
  OCL_TRY(finish_all(d), "waiting for opencl:%d", index);
  return gpu_check_faults(index, NULL, true);
}

/* ------------------------------------------------------------------ events */

typedef struct event {
  pthread_mutex_t lock;
  cl_event marker; /* of the last record; NULL: never recorded, which counts as done */
} event;

tn_status ocl_event_new(void *ctx, int32_t index, void **out_event) {
  event *e = calloc(1, sizeof *e);
  if (!e) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: an event on opencl:%d", index);
  pthread_mutex_init(&e->lock, NULL);
  *out_event = e;
  return TN_OK;
}

void ocl_event_free(void *ctx, int32_t index, void *event_) {
  event *e = event_;
  if (e->marker) ocl.clReleaseEvent(e->marker);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

tn_status ocl_event_record(void *ctx, int32_t index, void *event_, void *stream) {
  event *e = event_;
  ocl_device *d;
  cl_command_queue queue;
  cl_event marker;
  TN_TRY(ocl_queue_get(index, stream, &d, &queue));
  OCL_TRY(ocl.clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker), "recording an event on opencl:%d", index);
  OCL_TRY(ocl.clFlush(queue), "recording an event on opencl:%d", index);
  pthread_mutex_lock(&e->lock);
  cl_event old = e->marker;
  e->marker = marker;
  pthread_mutex_unlock(&e->lock);
  if (old) ocl.clReleaseEvent(old);
  return TN_OK;
}

/* Retained, or NULL: another thread may record again. */
static cl_event marker_of(event *e) {
  pthread_mutex_lock(&e->lock);
  cl_event marker = e->marker;
  if (marker) ocl.clRetainEvent(marker);
  pthread_mutex_unlock(&e->lock);
  return marker;
}

tn_status ocl_event_query(void *ctx, int32_t index, void *event_, bool *out_done) {
  cl_event marker = marker_of(event_);
  cl_int state = CL_COMPLETE, code = CL_SUCCESS;
  if (marker) {
    code = ocl.clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    ocl.clReleaseEvent(marker);
  }
  OCL_TRY(code, "asking for an event of opencl:%d", index);
  OCL_TRY(state < 0 ? state : CL_SUCCESS, "work before an event of opencl:%d", index);
  *out_done = state == CL_COMPLETE;
  return TN_OK;
}

tn_status ocl_event_wait(void *ctx, int32_t index, void *event_, void *stream) {
  ocl_device *d;
  cl_command_queue queue;
  TN_TRY(ocl_queue_get(index, stream, &d, &queue));
  cl_event marker = marker_of(event_);
  if (!marker) return TN_OK;
  const cl_int code = ocl.clEnqueueBarrierWithWaitList(queue, 1, &marker, NULL);
  ocl.clReleaseEvent(marker);
  OCL_TRY(code, "waiting for an event on opencl:%d", index);
  return TN_OK;
}

/* The moment when a marker was reached, on the device's clock. */
static tn_status time_of(int32_t index, event *e, cl_ulong *out_ns) {
  cl_event marker = marker_of(e);
  if (!marker)
    return TN_FAIL(TN_ERR_STATE, "an event of opencl:%d has no time: it was never recorded", index);
  const cl_int code =
      ocl.clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof *out_ns, out_ns, NULL);
  ocl.clReleaseEvent(marker);
  if (code == CL_PROFILING_INFO_NOT_AVAILABLE)
    return TN_FAIL(TN_ERR_STATE, "an event of opencl:%d has no time: what stands before it is not done",
                   index);
  OCL_TRY(code, "asking for the time of an event of opencl:%d", index);
  return TN_OK;
}

tn_status ocl_event_elapsed(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns) {
  cl_ulong from, to;
  TN_TRY(time_of(index, begin, &from));
  TN_TRY(time_of(index, end, &to));
  *out_ns = to > from ? to - from : 0;
  return TN_OK;
}
