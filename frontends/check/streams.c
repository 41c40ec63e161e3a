/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.order and events.order: the optional rows, called raw. A backend without them is skipped; the core then waits
 * for whole devices, which is right and slow.
 */
#include <stdlib.h>
#include <time.h>

#include "frontends/check/door.h"
#include "frontends/check/tools.h"

enum { BYTES = 1 << 20, ROUNDS = 8, N_STREAMS = 3, WAIT_S = 5 };

/* ------------------------------------------------------------------ streams.order */

static tn_status write_on(const tni_raw *d, const tn_memory *m, const void *bytes, void *stream) {
  return d->def->from_host(d->def->ctx, d->index, m->mem, 0, bytes, BYTES, stream);
}
static tn_status read_on(const tni_raw *d, const tn_memory *m, void *bytes, void *stream) {
  return d->def->to_host(d->def->ctx, d->index, m->mem, 0, bytes, BYTES, stream);
}

/* Writes and reads that follow each other on one stream: each read sees the last write. */
static const char *follow(const tni_raw *d, void *stream, unsigned char *given, unsigned char *back) {
  tn_memory m = {0};
  const char *wrong = NULL;
  if (d->def->alloc(d->def->ctx, d->index, BYTES, stream, &m) != TN_OK) return "alloc on the stream failed";
  for (uint32_t i = 0; i < ROUNDS && !wrong; i++) {
    tni_raw_fill(given, BYTES, i);
    memset(back, 0, BYTES);
    if (write_on(d, &m, given, stream) != TN_OK || read_on(d, &m, back, stream) != TN_OK)
      wrong = "a copy on the stream failed";
    else if (memcmp(given, back, BYTES))
      wrong = "a read did not see the write before it on the same stream";
  }
  d->def->free(d->def->ctx, d->index, &m, stream);
  if (!wrong && d->def->stream_synchronize(d->def->ctx, d->index, stream) != TN_OK)
    wrong = "stream_synchronize failed";
  return wrong;
}

static void use_streams(tni_check_report *r, const tni_raw *d, void **streams) {
  unsigned char *given = tni_check_alloc(BYTES), *back = tni_check_alloc(BYTES);
  char *item = tni_raw_item(d, "order on one stream");
  const char *wrong = follow(d, NULL, given, back);
  for (int i = 0; i < N_STREAMS && !wrong; i++) wrong = follow(d, streams[i], given, back);
  tni_check_that(r, !wrong, item, "%s", wrong);
  free(item);
  free(given);
  free(back);
}

static void visit_streams(tni_check_report *r, const tni_raw *d) {
  char *item = tni_raw_item(d, "streams");
  void *streams[N_STREAMS] = {0};
  int made = 0;
  tni_check_at(r, item);
  if (!d->def->stream_new || !d->def->stream_free || !d->def->stream_synchronize) {
    tni_check_skip(r, item, "the backend has one stream only");
    return free(item);
  }
  while (made < N_STREAMS && d->def->stream_new(d->def->ctx, d->index, &streams[made]) == TN_OK) made++;
  bool apart = made == N_STREAMS && streams[0] && streams[1] && streams[2] && streams[0] != streams[1] &&
               streams[1] != streams[2] && streams[0] != streams[2];
  if (tni_check_that(r, apart, item,
                     "%d of %d streams could be made, and each must be a handle of its own, not NULL", made,
                     N_STREAMS))
    use_streams(r, d, streams);
  while (made > 0) d->def->stream_free(d->def->ctx, d->index, streams[--made]);
  free(item);
}

static void run_streams(tni_check_report *r, const tni_check_context *c) {
  tni_door_devices(r, c, visit_streams);
}

const tni_check tni_check_streams_order = {
    .name = "streams.order",
    .about = "work given to one stream runs in the order in which it was given",
    .kinds = TNI_CHECK_BACKEND,
    .run = run_streams};

/* ------------------------------------------------------------------ events.order */

static tn_status record(const tni_raw *d, void *event) {
  return d->def->event_record(d->def->ctx, d->index, event, NULL);
}

/* Done at the latest after synchronize. */
static const char *becomes_done(const tni_raw *d, void *event) {
  bool done = false;
  if (d->def->synchronize && d->def->synchronize(d->def->ctx, d->index) != TN_OK) return "synchronize failed";
  for (double limit = tni_check_seconds() + WAIT_S; !done && tni_check_seconds() < limit;) {
    if (d->def->event_query(d->def->ctx, d->index, event, &done) != TN_OK) return "event_query failed";
    if (!done) nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  return done ? NULL : "it is not done after all work was waited for";
}

static const char *use_event(const tni_raw *d, void *event) {
  for (int i = 0; i < ROUNDS; i++) {
    if (record(d, event) != TN_OK) return "event_record failed";
    if (d->def->event_wait(d->def->ctx, d->index, event, NULL) != TN_OK) return "event_wait failed";
    const char *wrong = becomes_done(d, event);
    if (wrong) return wrong;
  }
  return NULL;
}

/* Time between two events with work in between. */
static const char *measure(const tni_raw *d, void *begin, void *end, uint64_t *out_ns) {
  tn_memory m;
  unsigned char *bytes = tni_check_alloc(BYTES);
  double start = tni_check_seconds();
  tn_status status = tni_raw_alloc(d, BYTES, &m);
  if (status == TN_OK) {
    status = record(d, begin);
    for (int i = 0; i < ROUNDS && status == TN_OK; i++) status = tni_raw_write(d, &m, 0, bytes, BYTES);
    if (status == TN_OK) status = record(d, end);
    if (status == TN_OK && becomes_done(d, end)) status = TN_ERR_INTERNAL;
    if (status == TN_OK) status = d->def->event_elapsed(d->def->ctx, d->index, begin, end, out_ns);
    tni_raw_free(d, &m);
  }
  free(bytes);
  if (status != TN_OK) return "event_elapsed failed";
  double seconds = tni_check_seconds() - start;
  return (double)*out_ns > 1e9 * (seconds + 1) ? "the time between the events is longer than the host waited"
                                               : NULL;
}

static void check_elapsed(tni_check_report *r, const tni_raw *d, void *begin, void *end) {
  if (!d->def->event_elapsed) return;
  char *item = tni_raw_item(d, "elapsed");
  uint64_t ns = 0;
  tni_check_at(r, item);
  const char *wrong = measure(d, begin, end, &ns);
  tni_check_that(r, !wrong, item, "%s (%llu ns)", wrong, (unsigned long long)ns);
  free(item);
}

static void visit_events(tni_check_report *r, const tni_raw *d) {
  char *item = tni_raw_item(d, "events");
  void *events[2] = {0};
  int made = 0;
  tni_check_at(r, item);
  if (!d->def->event_new || !d->def->event_free || !d->def->event_record || !d->def->event_query ||
      !d->def->event_wait) {
    tni_check_skip(r, item, "the backend has no events");
    return free(item);
  }
  while (made < 2 && d->def->event_new(d->def->ctx, d->index, &events[made]) == TN_OK) made++;
  const char *wrong = made == 2 ? use_event(d, events[0]) : "event_new failed";
  if (tni_check_that(r, !wrong, item, "%s", wrong)) check_elapsed(r, d, events[0], events[1]);
  while (made > 0) d->def->event_free(d->def->ctx, d->index, events[--made]);
  free(item);
}

static void run_events(tni_check_report *r, const tni_check_context *c) {
  tni_door_devices(r, c, visit_events);
}

const tni_check tni_check_events_order = {
    .name = "events.order",
    .about = "an event is done when the work before it is; time between two is true",
    .kinds = TNI_CHECK_BACKEND,
    .run = run_events};
