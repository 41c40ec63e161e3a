/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams as an application uses them: which one kernels, copies and memory get, events, backward on the stream of the
 * forward; copies between two devices of one backend; pinned memory.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "core/load/load.h"
#include "core/memory/memory.h"
#include "ribbon.h"
#include "tn_test.h"

static const float values[4] = {1, 2, 3, 4};

static tn_tensor *vector(tn_device device, tn_dim n) {
  tn_tensor *t = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1, &options, &t));
  return t;
}

static void check_values(tn_tensor *t, float a, float b) {
  float got[2];
  TN_CHECK_OK(tn_tensor_to_host(t, got, sizeof got));
  TN_CHECK_DOUBLE(got[0], a, 0);
  TN_CHECK_DOUBLE(got[1], b, 0);
}

/* A stream and its number in the log. */
static tn_stream *stream_of(tn_device device, int *out_number) {
  tn_stream *s;
  char *at;
  TN_CHECK_OK(tn_stream_new(device, &s));
  ribbon_log_clear();
  TN_CHECK_OK(tn_stream_synchronize(device, s));
  at = strchr(ribbon_log(), '@');
  TN_CHECK_NOT_NULL(at);
  *out_number = atoi(at + 1);
  ribbon_log_clear();
  return s;
}

static void check_log(const char *format, int number) {
  char expected[256];
  snprintf(expected, sizeof expected, format, number, number, number, number, number, number);
  TN_CHECK_CONTAINS(ribbon_log(), expected);
}

static void *log_from_another_thread(void *tensor) {
  tn_tensor *y;
  if (tn_add(tensor, tensor, tn_int(1), &y) == TN_OK) tn_tensor_release(y);
  return NULL;
}

TN_TEST(streams, kernels_and_copies_go_to_the_current_stream_of_their_device) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE), r1 = {.backend = r0.backend, .index = 1};
  int n;
  tn_stream *s = stream_of(r0, &n);
  tn_tensor *a = vector(r0, 2), *b = vector(r1, 2), *y;
  TN_CHECK_PTR_NULL(tn_stream_get(r0));
  TN_CHECK_OK(tn_stream_set(r0, s));
  TN_CHECK(tn_stream_get(r0) == s);
  TN_CHECK_PTR_NULL(tn_stream_get(r1));
  ribbon_log_clear();
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &y));
  check_log("add@%d", n);
  check_values(y, 2, 4);
  check_log("sync@%d to_host@%d", n);
  tn_tensor_release(y);
  ribbon_log_clear();
  TN_CHECK_OK(tn_mul(b, b, &y)); /* the other device is on its default stream */
  TN_CHECK_CONTAINS(ribbon_log(), "mul@0");
  tn_tensor_release(y);
  pthread_t thread;
  ribbon_log_clear();
  TN_CHECK_INT(pthread_create(&thread, NULL, log_from_another_thread, a), 0);
  pthread_join(thread, NULL);
  TN_CHECK_CONTAINS(ribbon_log(), "add@0");
  TN_CHECK_OK(tn_stream_set(r0, NULL));
  ribbon_log_clear();
  TN_CHECK_OK(tn_mul_(a, a));
  TN_CHECK_CONTAINS(ribbon_log(), "mul@0");
  tn_stream_release(s);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(streams, what_does_not_fit_is_refused_in_words) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE), r1 = {.backend = r0.backend, .index = 1}, cpu = {0};
  tn_stream *s, *none;
  tn_event *e;
  bool done = false;
  uint64_t ns;
  TN_CHECK_OK(tn_stream_new(r0, &s));
  TN_CHECK_FAILS(tn_stream_set(r1, s), TN_ERR_DEVICE, "ribbon:0, expected one of ribbon:1");
  TN_CHECK_FAILS(tn_stream_synchronize(r1, s), TN_ERR_DEVICE, "ribbon:1");
  tn_tensor *host = vector(cpu, 2);
  TN_CHECK_FAILS(tn_stream_new(cpu, &none), TN_ERR_UNSUPPORTED, "no streams but its default one");
  TN_CHECK_PTR_NULL(none);
  TN_CHECK_OK(tn_stream_synchronize(cpu, NULL));
  TN_CHECK_FAILS(tn_stream_new((tn_device){.backend = 22}, &none), TN_ERR_DEVICE, "not open");
  TN_CHECK_OK(tn_event_new(cpu, &e)); /* the cpu is done when a call returns */
  TN_CHECK_OK(tn_event_record(e, NULL));
  TN_CHECK_OK(tn_event_query(e, &done));
  TN_CHECK(done);
  TN_CHECK_FAILS(tn_event_elapsed(e, e, &ns), TN_ERR_UNSUPPORTED, "does not tell times");
  TN_CHECK_FAILS(tn_event_record(e, s), TN_ERR_DEVICE, "expected one of cpu");
  tn_event_release(e);
  tn_stream_release(s);
  tn_tensor_release(host);
}

TN_TEST(streams, a_released_stream_serves_the_next_owner) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE);
  int n, again;
  tn_stream *s = stream_of(r0, &n);
  tn_stream_release(s);
  s = stream_of(r0, &again);
  TN_CHECK_INT(again, n);
  tn_stream_release(s);
}

TN_TEST(streams, events_order_streams_and_tell_time) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE);
  int n;
  tn_stream *s = stream_of(r0, &n);
  tn_event *begin, *end;
  tn_tensor *a = vector(r0, 2), *y;
  bool done = true;
  uint64_t ns = 0;
  TN_CHECK_OK(tn_event_new(r0, &begin));
  TN_CHECK_OK(tn_event_new(r0, &end));
  TN_CHECK_FAILS(tn_event_elapsed(begin, end, &ns), TN_ERR_STATE, "recorded before");
  ribbon_events_done(false);
  TN_CHECK_OK(tn_event_record(begin, NULL));
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &y));
  TN_CHECK_OK(tn_event_record(end, NULL));
  TN_CHECK_OK(tn_event_query(end, &done));
  TN_CHECK(!done);
  ribbon_log_clear();
  TN_CHECK_OK(tn_event_wait(end, s));
  check_log("wait@%d", n);
  ribbon_events_done(true);
  TN_CHECK_OK(tn_event_synchronize(end));
  TN_CHECK_OK(tn_event_elapsed(begin, end, &ns));
  TN_CHECK_INT(ns, 100);
  tn_event_release(begin);
  tn_event_release(end);
  tn_stream_release(s);
  tn_tensor_release(y);
  tn_tensor_release(a);
}

TN_TEST(streams, memory_that_another_stream_uses_is_not_reused_before_it_is_done) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE);
  enum { N = 100000 };
  const tn_dim size = N;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = r0};
  int n;
  tn_stream *s = stream_of(r0, &n);
  tn_tensor *a, *y, *b;
  if (!tni_memory_cached()) { /* every block is a raw one in this build */
    tn_stream_release(s);
    return;
  }
  TN_CHECK_OK(tn_empty(&size, 1, &options, 0, &a));
  uint64_t place = tn_tensor_view(a)->mem;
  ribbon_events_done(false);
  TN_CHECK_OK(tn_stream_set(r0, s));
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &y)); /* on s, out of memory of the default stream */
  TN_CHECK_OK(tn_stream_set(r0, NULL));
  tn_tensor_release(a);
  TN_CHECK_OK(tn_empty(&size, 1, &options, 0, &b));
  TN_CHECK(tn_tensor_view(b)->mem != place);
  tn_tensor_release(b);
  ribbon_events_done(true);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_empty(&size, 1, &options, 0, &a));
  TN_CHECK_OK(tn_empty(&size, 1, &options, 0, &b));
  TN_CHECK(tn_tensor_view(a)->mem == place || tn_tensor_view(b)->mem == place);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_stream_release(s);
}

TN_TEST(streams, backward_runs_on_the_stream_of_the_forward) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE);
  int n;
  tn_stream *s = stream_of(r0, &n);
  tn_tensor *x = vector(r0, 2), *y, *z, *seed = vector(r0, 2);
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_mul(x, x, &y)); /* on the default stream */
  TN_CHECK_OK(tn_stream_set(r0, s));
  TN_CHECK_OK(tn_mul(y, x, &z));
  TN_CHECK_OK(tn_stream_set(r0, NULL));
  ribbon_log_clear();
  TN_CHECK_OK(tn_backward_run(z, seed));
  TN_CHECK_PTR_NULL(tn_stream_get(r0));
  char on[32], ordered[64];
  snprintf(on, sizeof on, "mul@%d", n);
  snprintf(ordered, sizeof ordered, "record@%d wait@0", n);
  const char *own = strstr(ribbon_log(), on), *back = strstr(ribbon_log(), "mul@0"), *order = strstr(ribbon_log(), ordered);
  TN_CHECK_CONTAINS(ribbon_log(), on);
  TN_CHECK_CONTAINS(ribbon_log(), "mul@0");
  TN_CHECK_CONTAINS(ribbon_log(), ordered);
  TN_CHECK(own < order && order < back); /* z's node first, its stream before the other's work */
  check_values(tn_grad(x), 3, 24); /* 3 x^2 times the seed */
  tn_stream_release(s);
  tn_tensor_release(seed);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ copies between devices of one backend */

TN_TEST(device_copies, bytes_pass_between_two_devices_without_the_host) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE), r1 = {.backend = r0.backend, .index = 1};
  tn_tensor *a = vector(r0, 4), *b = NULL, *half, *t;
  uint32_t version;
  ribbon_log_clear();
  TN_CHECK_OK(tn_to_device(a, r1, TN_FLOAT32, false, false, TN_PRESERVE_FORMAT, &b));
  TN_CHECK_CONTAINS(ribbon_log(), "copy:0>1@0");
  TN_CHECK(!strstr(ribbon_log(), "host"));
  float got[4];
  TN_CHECK_OK(tn_tensor_to_host(b, got, sizeof got));
  TN_CHECK_DOUBLE(got[3], 4, 0);
  tn_tensor_release(b);
  b = vector(r1, 4);
  const int64_t begin = 2;
  TN_CHECK_OK(tn_slice(a, 0, &begin, NULL, 1, &half));
  TN_CHECK_OK(tn_slice(b, 0, NULL, &begin, 1, &t));
  ribbon_log_clear();
  TN_CHECK_OK(tn_copy_(t, half, false));
  TN_CHECK_CONTAINS(ribbon_log(), "copy:0>1@0");
  TN_CHECK_OK(tn_tensor_version(b, &version));
  TN_CHECK_INT(version, 1);
  TN_CHECK_OK(tn_tensor_to_host(b, got, sizeof got));
  TN_CHECK_DOUBLE(got[0], 3, 0);
  TN_CHECK_DOUBLE(got[1], 4, 0);
  TN_CHECK_DOUBLE(got[2], 3, 0);
  tn_tensor_release(half);
  tn_tensor_release(t);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(device_copies, other_strides_and_dtypes_still_arrive) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE), r1 = {.backend = r0.backend, .index = 1};
  tn_tensor *a = NULL, *t, *b = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = r0};
  TN_CHECK_OK(tn_tensor_from_host(values, (const tn_dim[]){2, 2}, 2, &options, &a));
  TN_CHECK_OK(tn_t(a, &t));
  TN_CHECK_OK(tn_to_device(t, r1, TN_INT64, false, false, TN_CONTIGUOUS_FORMAT, &b));
  int64_t got[4];
  TN_CHECK_OK(tn_tensor_to_host(b, got, sizeof got));
  TN_CHECK_INT(got[1], 3);
  TN_CHECK_INT(got[2], 2);
  tn_tensor_release(a);
  tn_tensor_release(t);
  tn_tensor_release(b);
}

/* ------------------------------------------------------------------ pinned memory */

TN_TEST(pinned, factories_and_copies_make_pinned_host_tensors) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE), before = tn_default_device();
  tn_tensor *host = vector((tn_device){0}, 2), *pinned, *zeros;
  TN_CHECK(!tn_tensor_is_pinned(host));
  TN_CHECK_OK(tn_tensor_pin(host, r0, &pinned));
  TN_CHECK(tn_tensor_is_pinned(pinned));
  TN_CHECK_INT(tn_tensor_device(pinned).backend, TN_BACKEND_CPU);
  check_values(pinned, 1, 2);
  TN_CHECK(ribbon_pinned_blocks() > 0);
  const tn_dim size = 3;
  TN_CHECK_OK(tn_default_device_set(r0));
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .pin_memory = true};
  TN_CHECK_OK(tn_zeros(&size, 1, &options, &zeros));
  TN_CHECK(tn_tensor_is_pinned(zeros));
  check_values(pinned, 1, 2);
  tn_tensor *wrong;
  const tn_options on_device = {.has_device = true, .device = r0, .pin_memory = true};
  TN_CHECK_FAILS(tn_zeros(&size, 1, &on_device, &wrong), TN_ERR_INVALID_ARGUMENT, "pin_memory is for tensors on cpu");
  TN_CHECK_FAILS(tn_tensor_pin(host, (tn_device){0}, &wrong), TN_ERR_UNSUPPORTED, "no pinned host memory");
  TN_CHECK_OK(tn_default_device_set(before));
  tn_tensor_release(zeros);
  tn_tensor_release(pinned);
  tn_tensor_release(host);
  TN_CHECK_OK(tn_empty_cache());
}

TN_TEST(pinned, plugins_get_it_through_their_table) {
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE);
  tn_memory memory;
  TN_CHECK_FAILS(tni_host()->pinned_alloc((tn_device){0}, 100, &memory), TN_ERR_UNSUPPORTED, "no pinned host memory");
  TN_CHECK_OK(tni_host()->pinned_alloc(r0, 100000, &memory));
  TN_CHECK_NOT_NULL(memory.address);
  memset(memory.address, 1, 100000);
  tni_host()->pinned_free(r0, &memory);
  const uint64_t first = memory.mem;
  TN_CHECK_OK(tni_host()->pinned_alloc(r0, 100000, &memory));
  if (tni_memory_cached()) TN_CHECK_INT(memory.mem, first);
  tni_host()->pinned_free(r0, &memory);
}
