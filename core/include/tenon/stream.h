/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of a device, and host memory pinned for it. Work that is given to one stream runs in order; work
 * on different streams may overlap, and is ordered by events. docs/streams.md has the rules.
 *
 * Where a function takes a device and a stream, a NULL stream is that device's default one, which every device has.
 * Devices whose backend has no streams have only that. Any thread, unless it says otherwise.
 */
#ifndef TENON_STREAM_H
#define TENON_STREAM_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_stream tn_stream;
typedef struct tn_event tn_event;

/* A stream of an open device; owned. TN_ERR_UNSUPPORTED: its backend has the default stream only. A released stream may
 * be handed out again, so releasing one does not wait for its work. */
TN_EXPORT tn_status tn_stream_new(tn_device device, tn_stream **out_stream);
TN_EXPORT void tn_stream_release(tn_stream *stream); /* NULL is allowed */
TN_EXPORT tn_device tn_stream_device(const tn_stream *stream);
/* The calling thread's current stream of a device: operators, copies and allocations of this thread go to it. Borrowed;
 * NULL: the default one. Backward runs each operator on the stream of its forward, ordered by events, and this
 * thread's current streams wait for the gradients. */
TN_EXPORT tn_stream *tn_stream_get(tn_device device);
TN_EXPORT tn_status tn_stream_set(tn_device device, tn_stream *stream);
/* Waits on the host until all work given to the stream is done. */
TN_EXPORT tn_status tn_stream_synchronize(tn_device device, tn_stream *stream);

/* An event of an open device; owned. On a backend whose work is complete when a call returns, every event is done.
 * TN_ERR_UNSUPPORTED: a device that works on its own and has no events. One thread at a time an event. */
TN_EXPORT tn_status tn_event_new(tn_device device, tn_event **out_event);
TN_EXPORT void tn_event_release(tn_event *event); /* NULL is allowed */
/* The event stands for all work given to the stream so far; recording again replaces it. */
TN_EXPORT tn_status tn_event_record(tn_event *event, tn_stream *stream);
/* Later work of the stream waits for the event; the host does not. An event that was never recorded is done. */
TN_EXPORT tn_status tn_event_wait(tn_event *event, tn_stream *stream);
TN_EXPORT tn_status tn_event_query(tn_event *event, bool *out_done);
TN_EXPORT tn_status tn_event_synchronize(tn_event *event); /* waits on the host */
/* Nanoseconds between two recorded events of one device; waits for both. TN_ERR_UNSUPPORTED: the backend cannot tell. */
TN_EXPORT tn_status tn_event_elapsed(tn_event *begin, tn_event *end, uint64_t *out_ns);

/* A cpu tensor with the values of a cpu tensor, in memory that `device` copies from and to without staging.
 * TN_ERR_UNSUPPORTED: its backend has no such memory. Factories with pin_memory make one for the thread's default
 * device, or for the one kind of device that has such memory. */
TN_EXPORT tn_status tn_tensor_pin(tn_tensor *tensor, tn_device device, tn_tensor **out_tensor);
TN_EXPORT bool tn_tensor_is_pinned(const tn_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
