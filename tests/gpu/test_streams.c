/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events through the rows of the backend, as the host uses them.
 */
#include <string.h>

#include "core/load/load.h"
#include "devices.h"

enum { BYTES = 1 << 22 };

TN_TEST(gpu_streams, an_event_orders_two_streams) {
  GPU_NEEDS("opencl", device);
  const tn_backend_def *b = tni_backend_get(device.backend)->def;
  void *one, *two, *event;
  tn_memory memory, copy;
  static char bytes[BYTES];
  TN_CHECK_OK(b->stream_new(b->ctx, 0, &one));
  TN_CHECK_OK(b->stream_new(b->ctx, 0, &two));
  TN_CHECK_OK(b->event_new(b->ctx, 0, &event));
  TN_CHECK_OK(b->alloc(b->ctx, 0, BYTES, one, &memory));
  TN_CHECK_OK(b->alloc(b->ctx, 0, BYTES, two, &copy));
  for (int round = 1; round <= 20; ++round) {
    memset(bytes, round, BYTES);
    TN_CHECK_OK(b->from_host(b->ctx, 0, memory.mem, 0, bytes, BYTES, one));
    TN_CHECK_OK(b->event_record(b->ctx, 0, event, one));
    TN_CHECK_OK(b->event_wait(b->ctx, 0, event, two));
    TN_CHECK_OK(b->copy(b->ctx, 0, copy.mem, 0, 0, memory.mem, 0, BYTES, two));
    TN_CHECK_OK(b->event_record(b->ctx, 0, event, two));
    TN_CHECK_OK(b->event_wait(b->ctx, 0, event, one)); /* the next round writes what this one reads */
    TN_CHECK_OK(b->to_host(b->ctx, 0, copy.mem, 0, bytes, BYTES, two));
    TN_CHECK_INT(bytes[0], round);
    TN_CHECK_INT(bytes[BYTES - 1], round);
  }
  TN_CHECK_OK(b->stream_synchronize(b->ctx, 0, one));
  b->free(b->ctx, 0, &memory, one);
  b->free(b->ctx, 0, &copy, two);
  b->event_free(b->ctx, 0, event);
  b->stream_free(b->ctx, 0, one);
  b->stream_free(b->ctx, 0, two);
}

TN_TEST(gpu_streams, events_know_when_they_are_done_and_how_long_it_took) {
  GPU_NEEDS("opencl", device);
  const tn_backend_def *b = tni_backend_get(device.backend)->def;
  void *begin, *end;
  tn_memory from, to;
  uint64_t ns = 0;
  bool done = false;
  TN_CHECK_OK(b->event_new(b->ctx, 0, &begin));
  TN_CHECK_OK(b->event_new(b->ctx, 0, &end));
  TN_CHECK_OK(b->event_query(b->ctx, 0, begin, &done));
  TN_CHECK(done); /* never recorded */
  TN_CHECK_FAILS(b->event_elapsed(b->ctx, 0, begin, end, &ns), TN_ERR_STATE, "never recorded");
  TN_CHECK_OK(b->alloc(b->ctx, 0, 16 * BYTES, NULL, &from));
  TN_CHECK_OK(b->alloc(b->ctx, 0, 16 * BYTES, NULL, &to));
  TN_CHECK_OK(b->event_record(b->ctx, 0, begin, NULL));
  TN_CHECK_OK(b->copy(b->ctx, 0, to.mem, 0, 0, from.mem, 0, 16 * BYTES, NULL));
  TN_CHECK_OK(b->event_record(b->ctx, 0, end, NULL));
  TN_CHECK_OK(b->synchronize(b->ctx, 0));
  TN_CHECK_OK(b->event_query(b->ctx, 0, end, &done));
  TN_CHECK(done);
  TN_CHECK_OK(b->event_elapsed(b->ctx, 0, begin, end, &ns));
  TN_CHECK(ns > 1000 && ns < (uint64_t)60e9); /* 64 MiB take more than a microsecond */
  b->free(b->ctx, 0, &from, NULL);
  b->free(b->ctx, 0, &to, NULL);
  b->event_free(b->ctx, 0, begin);
  b->event_free(b->ctx, 0, end);
}
