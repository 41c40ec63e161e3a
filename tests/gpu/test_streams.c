/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events through the rows of the backend, as the host uses them.
 */
#include <string.h>

#include "core/load/load.h"
#include "devices.h"

enum { BYTES = 1 << 24 };

/* Copies are queued, not waited for. Some drivers order whatever uses one buffer by themselves; the second stream's own event
 * shows that it waits for the first's even so. */
TN_TEST(gpu_streams, an_event_orders_two_streams) {
  GPU_NEEDS("opencl", device);
  const tn_backend_def *b = tni_backend_get(device.backend)->def;
  void *one, *two, *event, *after;
  bool done = false;
  tn_memory first, middle, last;
  static char bytes[BYTES];
  TN_CHECK_OK(b->stream_new(b->ctx, 0, &one));
  TN_CHECK_OK(b->stream_new(b->ctx, 0, &two));
  TN_CHECK_OK(b->event_new(b->ctx, 0, &event));
  TN_CHECK_OK(b->event_new(b->ctx, 0, &after));
  TN_CHECK_OK(b->alloc(b->ctx, 0, BYTES, one, &first));
  TN_CHECK_OK(b->alloc(b->ctx, 0, BYTES, one, &middle));
  TN_CHECK_OK(b->alloc(b->ctx, 0, BYTES, two, &last));
  for (int round = 1; round <= 20; ++round) {
    memset(bytes, round, BYTES);
    TN_CHECK_OK(b->from_host(b->ctx, 0, first.mem, 0, bytes, BYTES, one));
    for (int k = 0; k < 4; ++k) TN_CHECK_OK(b->copy(b->ctx, 0, middle.mem, 0, 0, first.mem, 0, BYTES, one));
    TN_CHECK_OK(b->event_record(b->ctx, 0, event, one));
    TN_CHECK_OK(b->event_wait(b->ctx, 0, event, two));
    TN_CHECK_OK(b->event_record(b->ctx, 0, after, two));
    for (done = false; !done;) TN_CHECK_OK(b->event_query(b->ctx, 0, after, &done));
    TN_CHECK_OK(b->event_query(b->ctx, 0, event, &done));
    TN_CHECK(done);
    TN_CHECK_OK(b->copy(b->ctx, 0, last.mem, 0, 0, middle.mem, 0, BYTES, two));
    TN_CHECK_OK(b->to_host(b->ctx, 0, last.mem, 0, bytes, BYTES, two));
    TN_CHECK_INT(bytes[0], round);
    TN_CHECK_INT(bytes[BYTES - 1], round);
  }
  TN_CHECK_OK(b->stream_synchronize(b->ctx, 0, one));
  b->free(b->ctx, 0, &first, one);
  b->free(b->ctx, 0, &middle, one);
  b->free(b->ctx, 0, &last, two);
  b->event_free(b->ctx, 0, event);
  b->event_free(b->ctx, 0, after);
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
  TN_CHECK_OK(b->alloc(b->ctx, 0, 4 * BYTES, NULL, &from));
  TN_CHECK_OK(b->alloc(b->ctx, 0, 4 * BYTES, NULL, &to));
  TN_CHECK_OK(b->event_record(b->ctx, 0, begin, NULL));
  TN_CHECK_OK(b->copy(b->ctx, 0, to.mem, 0, 0, from.mem, 0, 4 * BYTES, NULL));
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
