/* SPDX-License-Identifier: Apache-2.0
 *
 * Unloading: refused with counts while something would miss the plugin, complete otherwise, and open again afterwards.
 * Interfaces and lent memory, which hold a plugin.
 */
#include <pthread.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "core/load/load_int.h"
#include "tn_test.h"

static tn_tensor *make(const char *device, const float *values, tn_dim size) {
  tn_device d;
  tn_tensor *t = NULL;
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR ":" TN_TEST_PLUGIN_DIR, 1);
  TN_CHECK_OK(tn_device_open(device, &d));
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = d};
  TN_CHECK_OK(tn_tensor_from_host(values, &size, 1, &options, &t));
  return t;
}

static double first(tn_tensor *t) {
  float values[3] = {0};
  TN_CHECK_OK(tn_tensor_to_host(t, values, sizeof values));
  return (double)values[0];
}

static const char *reason(const char *plugin) { return tni_plugin_reason(tni_plugin_named(plugin)); }

static tn_status call(const char *op_name, const tn_value *args, size_t n, tn_tensor **out_tensor) {
  const tn_op *op;
  tn_value out = tn_value_none();
  tn_status status = tn_op_find(op_name, &op);
  if (status == TN_OK) status = tn_op_call(op, args, n, &out, 1);
  if (status == TN_OK) *out_tensor = out.u.t;
  return status;
}

static const float one_two_three[] = {1, 2, 3};

TN_TEST(unload, a_device_with_live_memory_stays) {
  tn_tensor *t = make("toy", one_two_three, 3), *sum = NULL;
  tn_status status = tn_plugin_unload("toy");
  TN_CHECK_INT(status, TN_ERR_STATE);
  TN_CHECK_CONTAINS(tn_error_message(), "plugin toy is in use and stays: 1 memory segment in use on toy:0 (");
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &sum));
  TN_CHECK_DOUBLE(first(sum), 2, 0);
  tn_tensor_release(t);
  TN_CHECK_INT(tn_plugin_unload("toy"), TN_ERR_STATE);
  tn_tensor_release(sum);
  TN_CHECK_OK(tn_plugin_unload("toy"));
}

static pthread_barrier_t turn;

/* Leaves small blocks with the thread, and lives on. */
static void *compute_and_wait(void *unused) {
  (void)unused;
  tn_tensor *t = make("toy", one_two_three, 3), *sum = NULL;
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &sum));
  tn_tensor_release(sum);
  tn_tensor_release(t);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  t = make("toy", one_two_three, 3);
  TN_CHECK_DOUBLE(first(t), 1, 0);
  tn_tensor_release(t);
  return NULL;
}

TN_TEST(unload, what_another_thread_keeps_for_later_is_no_use) {
  pthread_t thread;
  pthread_barrier_init(&turn, NULL, 2);
  TN_CHECK_INT(pthread_create(&thread, NULL, compute_and_wait, NULL), 0);
  pthread_barrier_wait(&turn);
  TN_CHECK_OK(tn_plugin_unload("toy"));
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&turn);
  TN_CHECK_OK(tn_plugin_unload("toy"));
}

TN_TEST(unload, what_is_left_answers_in_words_and_the_device_opens_again) {
  tn_tensor *empty = make("toy", NULL, 0), *out = NULL;
  tn_device toy;
  const tn_dim size = 2;
  TN_CHECK_OK(tn_device_open("toy", &toy));
  TN_CHECK_OK(tn_plugin_unload("toy"));
  TN_CHECK_OK(tn_plugin_unload("toy")); /* not open: nothing to do */
  TN_CHECK_CONTAINS(reason("toy"), "was unloaded");
  TN_CHECK_INT(tni_plugin_state(tni_plugin_named("toy")), TN_PLUGIN_LOADABLE);
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = toy};
  TN_CHECK_FAILS(tn_tensor_from_host(one_two_three, &size, 1, &options, &out), TN_ERR_STATE, "device toy was unloaded");
  TN_CHECK_FAILS(tn_mul(empty, empty, &out), TN_ERR_STATE, "device toy was unloaded");
  TN_CHECK_OK(tn_device_synchronize(toy));
  tn_tensor_release(empty);
  for (int i = 0; i < 3; ++i) {
    tn_tensor *t = make("toy", one_two_three, 3), *sum = NULL;
    TN_CHECK_OK(tn_add(t, t, tn_int(1), &sum));
    TN_CHECK_DOUBLE(first(sum), 2, 0);
    tn_tensor_release(t);
    tn_tensor_release(sum);
    TN_CHECK_STR(reason("toy"), "");
    TN_CHECK_OK(tn_plugin_unload("toy"));
  }
}

TN_TEST(unload, a_provider_leaves_its_chain_and_does_not_come_back_by_itself) {
  tn_tensor *t = make("toy", one_two_three, 3), *sum = NULL;
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &sum)); /* opens what lists add.Tensor on toy: operators, steps */
  tn_tensor_release(sum);
  TN_CHECK_INT(tni_plugin_state(tni_plugin_named("operators")), TN_PLUGIN_READY);
  const tn_op *twice;
  TN_CHECK_OK(tn_op_find("acme::twice", &twice));
  TN_CHECK_OK(tn_plugin_unload("operators"));
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &sum));
  TN_CHECK_DOUBLE(first(sum), 2, 0);
  tn_tensor_release(sum);
  for (const tni_kernel *k = tni_op_find("add.Tensor")->kernels; k; k = k->next)
    TN_CHECK(strcmp(k->plugin, "operators") != 0);
  TN_CHECK_INT(tni_plugin_state(tni_plugin_named("operators")), TN_PLUGIN_LOADABLE);
  tn_value arg = tn_value_tensor(t), out = tn_value_none();
  TN_CHECK_FAILS(tn_op_call(twice, &arg, 1, &out, 1), TN_ERR_STATE, "operator acme::twice is gone");
  TN_CHECK_FAILS(tn_op_find("acme::twice", &twice), TN_ERR_NOT_FOUND, "acme::twice");
  TN_CHECK_OK(tn_plugin_open("operators"));
  TN_CHECK_OK(call("acme::twice", &arg, 1, &sum));
  TN_CHECK_DOUBLE(first(sum), 2, 0);
  tn_tensor_release(sum);
  tn_tensor_release(t);
}

TN_TEST(unload, a_layer_is_met_no_more) {
  tn_tensor *t = make("toy", one_two_three, 3), *product = NULL;
  unsigned bit;
  TN_CHECK_OK(tni_layer_open("spy", &bit));
  tni_tls.modes.include |= TNI_KEY(bit);
  TN_CHECK_FAILS(tn_mul(t, t, &product), TN_ERR_UNSUPPORTED, "the spy saw mul.Tensor");
  TN_CHECK_OK(tn_plugin_unload("spy"));
  TN_CHECK_OK(tn_mul(t, t, &product));
  tn_tensor_release(product);
  TN_CHECK_OK(tni_layer_open("spy", &bit));
  TN_CHECK_FAILS(tn_mul(t, t, &product), TN_ERR_UNSUPPORTED, "the spy saw mul.Tensor");
  tni_tls.modes.include &= ~TNI_KEY(bit);
  tn_tensor_release(t);
}

TN_TEST(unload, lent_memory_holds_its_owner_and_its_device) {
  tn_tensor *t = make("toy", one_two_three, 3), *lent = NULL, *sum = NULL;
  tn_value arg = tn_value_tensor(t);
  TN_CHECK_OK(tn_plugin_open("clock"));
  TN_CHECK_OK(call("acme::lend", &arg, 1, &lent));
  TN_CHECK_DOUBLE(first(lent), 7, 0); /* one float behind the start */
  TN_CHECK_FAILS(tn_plugin_unload("clock"), TN_ERR_STATE, "1 storage over memory that it owns");
  TN_CHECK_OK(tn_add(lent, t, tn_int(1), &sum));
  TN_CHECK_DOUBLE(first(sum), 8, 0);
  tn_tensor_release(sum);
  tn_tensor_release(t);
  TN_CHECK_FAILS(tn_plugin_unload("toy"), TN_ERR_STATE, "plugin toy is in use and stays: 1 storage over memory");
  tn_tensor_release(lent);
  TN_CHECK_OK(tn_plugin_unload("toy"));
  TN_CHECK_OK(tn_plugin_unload("clock"));
}

TN_TEST(unload, nodes_of_its_operators_hold_it) {
  tn_tensor *x = make("cpu", one_two_three, 3), *y = NULL;
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  tn_value arg = tn_value_tensor(x);
  TN_CHECK_OK(tn_plugin_open("clock")); /* what was unloaded does not come back for its operators */
  TN_CHECK_OK(call("acme::tick", &arg, 1, &y));
  TN_CHECK_FAILS(tn_plugin_unload("clock"), TN_ERR_STATE, "1 autograd node of its operators");
  tn_tensor_release(y);
  TN_CHECK_OK(tn_plugin_unload("clock"));
  tn_tensor_release(x);
}

TN_TEST(unload, events_of_its_devices_hold_it) {
  tn_tensor *t = make("pulse", one_two_three, 3);
  const tn_device pulse = tn_tensor_device(t);
  tn_event *e, *of_another_life;
  TN_CHECK_OK(tn_event_new(pulse, &e));
  TN_CHECK_OK(tn_event_record(e, NULL));
  tn_tensor_release(t);
  TN_CHECK_FAILS(tn_plugin_unload("pulse"), TN_ERR_STATE, "plugin pulse is in use and stays: 1 event of its devices");
  TN_CHECK_OK(tn_event_synchronize(e));
  tn_event_release(e);
  TN_CHECK_OK(tn_plugin_unload("pulse"));
  TN_CHECK_FAILS(tn_event_new(pulse, &of_another_life), TN_ERR_STATE, "device pulse was unloaded");
}

static void note_time(void *ctx, const tn_profile_device_time *time) {
  *(uint64_t *)ctx += time->ns;
}

TN_TEST(unload, what_measures_its_device_ends_with_it) {
  uint64_t handle, ns = 0;
  const tn_profiler_def def = {.struct_size = sizeof def, .ctx = &ns, .device_time = note_time};
  tn_tensor_release(make("pulse", one_two_three, 3));
  TN_CHECK_OK(tn_profiler_attach(&def, &handle));
  for (uint64_t life = 1; life <= 2; ++life) {
    tn_tensor *t = make("pulse", one_two_three, 3), *sum = NULL;
    TN_CHECK_OK(tn_add(t, t, tn_int(1), &sum));
    tn_tensor_release(sum);
    tn_tensor_release(t);
    TN_CHECK_OK(tn_plugin_unload("pulse"));
    TN_CHECK_INT(ns, life); /* what was under way is told of first */
  }
  TN_CHECK_OK(tn_profiler_detach(handle));
}

static void count_begin(void *ctx, const tn_profile_event *event) {
  (void)event;
  ++*(int *)ctx;
}

/* The plugin's profiler goes with it, and nobody else's. */
TN_TEST(unload, profilers_that_it_left_are_detached) {
  int heard = 0;
  uint64_t handle;
  const tn_profiler_def def = {.struct_size = sizeof def, .ctx = &heard, .begin = count_begin};
  tn_tensor *x = make("cpu", one_two_three, 3), *y = NULL;
  tn_value arg = tn_value_tensor(x);
  TN_CHECK_OK(tn_plugin_open("listener"));
  for (int mine = 0; mine < 2; ++mine) {
    if (mine) TN_CHECK_OK(tn_profiler_attach(&def, &handle));
    for (int times = 0; times < 2; ++times) {
      TN_CHECK_OK(call("acme::listen", &arg, 1, &y));
      tn_tensor_release(y);
    }
    TN_CHECK_OK(tn_plugin_unload("listener"));
    heard = 0;
    TN_CHECK_OK(tn_add(x, x, tn_int(1), &y));
    TN_CHECK_INT(heard, mine);
    tn_tensor_release(y);
    TN_CHECK_OK(tn_plugin_open("listener"));
  }
  TN_CHECK_OK(tn_profiler_detach(handle));
  TN_CHECK_OK(tn_plugin_unload("listener"));
  tn_tensor_release(x);
}

static int n_deleted;
static void note_deleted(void *ctx) { n_deleted += *(int *)ctx; }

TN_TEST(unload, bad_foreign_memory_is_given_back_once) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  int by = 1;
  tn_dim sizes[2] = {2, 2}, strides[2] = {3, 1};
  tn_tensor *t = make("cpu", one_two_three, 3), *foreign = NULL;
  tn_device cpu;
  TN_CHECK_OK(tn_device_open("cpu", &cpu));
  tn_tensor_release(t);
  const tn_foreign_def good = {.struct_size = sizeof good,
                               .dtype = TN_FLOAT32,
                               .ndim = 2,
                               .device = cpu,
                               .mem = (uint64_t)(uintptr_t)memory,
                               .sizes = sizes,
                               .strides = strides,
                               .deleter = note_deleted,
                               .ctx = &by};
  n_deleted = 0;
  tn_foreign_def bad[6];
  for (int i = 0; i < 6; ++i) bad[i] = good;
  bad[0].dtype = 99;
  bad[1].ndim = 65;
  bad[2].sizes = NULL;
  bad[3].device.backend = 17;
  bad[4].mem = 0;
  bad[5].offset_bytes = -4;
  for (int i = 0; i < 6; ++i) {
    TN_CHECK(tni_host()->tensor_from_memory(&bad[i], &foreign) != TN_OK);
    TN_CHECK_CONTAINS(tn_error_message(), "tensor_from_memory: ");
    TN_CHECK_PTR_NULL(foreign);
    TN_CHECK_INT(n_deleted, i + 1);
  }
  TN_CHECK_OK(tni_host()->tensor_from_memory(&good, &foreign));
  float values[4];
  TN_CHECK_OK(tn_tensor_to_host(foreign, values, sizeof values));
  TN_CHECK_DOUBLE(values[3], 5, 0);
  tn_tensor_release(foreign);
  TN_CHECK_INT(n_deleted, 7);
}

/* A table that was given is never taken back: what comes after this in the process has the clock open. */
TN_TEST(unload_interfaces, plugins_find_each_other_by_name_and_version) {
  tn_tensor *t = make("cpu", one_two_three, 3), *sum = NULL;
  tn_value args[2] = {tn_value_tensor(t), tn_value_int(2)};
  const void *table;
  TN_CHECK_OK(call("acme::read_clock", args, 2, &sum));
  tn_tensor_release(sum);
  args[1] = tn_value_int(3);
  TN_CHECK_FAILS(call("acme::read_clock", args, 2, &sum), TN_ERR_NOT_FOUND,
                 "no plugin offers interface acme.clock 3: plugin clock has version 1, plugin clock has version 2");
  TN_CHECK_FAILS(tni_host()->find_interface("acme.nobody", 1, &table), TN_ERR_NOT_FOUND, "none has that name");
  TN_CHECK_OK(tni_host()->find_interface("acme.reader", 7, &table));
  TN_CHECK_NOT_NULL(table);
  TN_CHECK_FAILS(tn_plugin_unload("clock"), TN_ERR_STATE, "1 interface given to other plugins");
  TN_CHECK_FAILS(tn_plugin_unload("nobody"), TN_ERR_NOT_FOUND, "there is no usable plugin nobody");
  tn_tensor_release(t);
}
