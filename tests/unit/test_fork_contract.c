/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forked child may do with devices: three backends open before the fork (safe, reinit, poisoned), one opened in
 * the child. A child that hangs is killed by its alarm and fails the test.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "core/load/load.h"
#include "ribbon.h"
#include "tn_test.h"

enum { DEADLINE_SECONDS = 20 };

static tn_device safe, again, poisoned;
static tn_tensor *on_safe, *on_again, *on_poisoned, *doomed;
static tn_stream *stream;

static tn_tensor *vector(tn_device device) {
  const float values[2] = {1, 2};
  const tn_dim size = 2;
  tn_tensor *t = NULL;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = device};
  return tn_tensor_from_host(values, &size, 1, &options, &t) == TN_OK ? t : NULL;
}

static bool adds(tn_tensor *t) {
  tn_tensor *y = NULL;
  float got[2] = {0};
  bool good = tn_add(t, t, tn_int(1), &y) == TN_OK && tn_tensor_to_host(y, got, sizeof got) == TN_OK && got[1] == 4;
  tn_tensor_release(y);
  return good;
}

static bool fails(tn_status status, const char *words) {
  bool good = status == TN_ERR_STATE && strstr(tn_error_message(), words);
  if (!good) fprintf(stderr, "status %d: %s\n", (int)status, tn_error_message());
  return good;
}

#define NEED(number, cond)        \
  do {                            \
    if (!(cond)) return (number); \
  } while (0)

static int poisoned_child(void) {
  static const char words[] = "cannot be used in a forked child";
  tn_tensor *y;
  float got[2];
  NEED(1, fails(tn_mul_(on_poisoned, on_poisoned), words));          /* a launch without memory of its own */
  NEED(2, fails(tn_add(on_poisoned, on_poisoned, tn_int(1), &y), words));
  NEED(3, fails(tn_tensor_to_host(on_poisoned, got, sizeof got), words));
  NEED(4, fails(tn_copy_(on_poisoned, on_safe, false), words));
  NEED(5, fails(tn_device_synchronize(poisoned), words));
  NEED(6, fails(tn_stream_new(poisoned, &stream), words));
  NEED(7, !vector(poisoned) && strstr(tn_error_message(), words));
  ribbon_log_clear();
  tn_tensor_release(doomed); /* dropped */
  NEED(8, !*ribbon_log());
  NEED(9, adds(on_safe));
  return 0;
}

static int reinit_child(void) {
  tn_tensor *y;
  float got[2];
  NEED(10, fails(tn_tensor_to_host(on_again, got, sizeof got), "before the fork and is gone"));
  NEED(11, ribbon_reinits() == 1);
  NEED(12, fails(tn_add(on_again, on_again, tn_int(1), &y), "before the fork and is gone"));
  tn_tensor *fresh = vector(again);
  NEED(13, fresh && adds(fresh));
  NEED(14, ribbon_reinits() == 1);
  NEED(15, fails(tn_stream_set(again, stream), "before the fork"));
  tn_tensor_release(on_again);
  tn_tensor_release(fresh);
  tn_shutdown();
  return 0;
}

static int failing_child(void) {
  ribbon_reinit_fails(true);
  NEED(20, !vector(again) && strstr(tn_error_message(), "the ribbon is torn"));
  NEED(21, !vector(again) && strstr(tn_error_message(), "could not be made usable in a forked child"));
  NEED(22, ribbon_reinits() == 1);
  NEED(23, adds(on_safe));
  return 0;
}

static int new_in_child(void) {
  tn_device fresh = ribbon_device("ribbon_new", TN_FORK_POISONED); /* opened here: usable here */
  tn_tensor *t = vector(fresh);
  NEED(30, t && adds(t));
  tn_tensor_release(t);
  NEED(31, adds(on_safe));
  tn_shutdown();
  return 0;
}

static int in_child(int (*fn)(void)) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(DEADLINE_SECONDS);
    _exit(fn());
  }
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TN_TEST(fork_contract, children_follow_what_each_backend_declares) {
#ifdef __SANITIZE_THREAD__
  return; /* TSan does not follow threads across fork */
#endif
  safe = ribbon_device("ribbon", TN_FORK_SAFE);
  again = ribbon_device("ribbon_again", TN_FORK_REINIT);
  poisoned = ribbon_device("ribbon_poisoned", TN_FORK_POISONED);
  on_safe = vector(safe);
  on_again = vector(again);
  on_poisoned = vector(poisoned);
  doomed = vector(poisoned);
  TN_CHECK(on_safe && on_again && on_poisoned && doomed);
  TN_CHECK_OK(tn_stream_new(again, &stream));
  TN_CHECK_OK(tn_stream_set(again, stream)); /* the child begins on the default one */
  TN_CHECK_INT(in_child(poisoned_child), 0);
  TN_CHECK_INT(in_child(reinit_child), 0);
  TN_CHECK_INT(in_child(failing_child), 0);
  TN_CHECK_INT(in_child(new_in_child), 0);
  TN_CHECK(tn_stream_get(again) == stream); /* the parent goes on */
  TN_CHECK(adds(on_safe) && adds(on_again) && adds(on_poisoned));
  TN_CHECK_INT(ribbon_reinits(), 0);
  TN_CHECK_OK(tn_stream_set(again, NULL));
  tn_stream_release(stream);
  tn_tensor *all[] = {on_safe, on_again, on_poisoned, doomed};
  for (int i = 0; i < 4; ++i) tn_tensor_release(all[i]);
}
