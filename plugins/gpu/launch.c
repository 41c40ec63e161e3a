/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments and grids of a launch, and the fault words.
 *
 * Note [Faults]
 * A kernel that meets an index outside its bounds cannot return a status: it is still waiting in a queue when the operator
 * returns. So it notes the index in three words of device memory (who comes first), writes a harmless value, and the next
 * wait for the device (a copy to the host, a synchronisation) reads the words and fails in their name. They are read only after
 * such a kernel was launched.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/gpu/gpu.h"

/* ------------------------------------------------------------------ arguments */

void gpu_arg_bytes(gpu_args *a, const void *bytes, size_t size) {
  a->list[a->n++] = (gpu_arg){.bytes = bytes, .size = size};
}

void gpu_arg_place(gpu_args *a, uint64_t mem, int64_t at) {
  a->list[a->n++] = (gpu_arg){.mem = mem};
  a->places[a->n] = at;
  gpu_arg_bytes(a, &a->places[a->n], sizeof at);
}

tn_status gpu_arg_view(gpu_args *a, const tn_view *v) {
  int64_t at = 0;
  if (v) TN_TRY(gpu_place(v, &at));
  gpu_arg_place(a, v ? v->mem : 0, at);
  return TN_OK;
}

/* ------------------------------------------------------------------ grids */

enum { ITEMS = 64 }; /* of one group where items are independent */

static tn_status launch(const tn_call *call, void *kernel, int64_t groups, uint32_t items,
                        const gpu_args *args) {
  const gpu_grid grid = {{(uint64_t)groups, 1, 1}, {items, 1, 1}};
  return gpu_now->launch(call->device.index, call->stream, kernel, &grid, args->list, args->n);
}

tn_status gpu_launch_items(const tn_call *call, void *kernel, int64_t n, const gpu_args *args) {
  gpu_caps caps;
  TN_TRY(gpu_caps_of(call, &caps));
  uint32_t items = caps.most_items < ITEMS ? caps.most_items : ITEMS;
  return launch(call, kernel, (n + items - 1) / items, items, args);
}

tn_status gpu_launch_groups(const tn_call *call, void *kernel, int64_t n, uint32_t items,
                            const gpu_args *args) {
  return items == 1 ? gpu_launch_items(call, kernel, n, args) : launch(call, kernel, n, items, args);
}

/* ------------------------------------------------------------------ faults */

enum { WORDS = 3 }; /* set, index, bound */

typedef struct fault {
  uint64_t mem;     /* 0: not made yet */
  const char *name; /* of the operator that may have set it last; NULL: nothing to read */
  void *stream;     /* where those operators ran, */
  bool streams;     /* if not on several */
} fault;

static struct {
  pthread_mutex_t lock;
  fault *list; /* by device */
  int32_t n;
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static tn_status fault_of(int32_t device, fault **out_fault) {
  if (device >= faults.n) {
    fault *list = realloc(faults.list, (size_t)(device + 1) * sizeof *list);
    if (!list) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: fault words of device %d", device);
    memset(list + faults.n, 0, (size_t)(device + 1 - faults.n) * sizeof *list);
    faults.list = list;
    faults.n = device + 1;
  }
  *out_fault = &faults.list[device];
  return TN_OK;
}

/* With the lock. */
static tn_status make_words(int32_t device, fault *f) {
  static const int64_t zeros[WORDS];
  const tn_backend_def *b = gpu_now->backend;
  tn_memory memory;
  TN_TRY(b->alloc(b->ctx, device, sizeof zeros, NULL, &memory));
  tn_status status = b->from_host(b->ctx, device, memory.mem, 0, zeros, sizeof zeros, NULL);
  if (status == TN_OK)
    f->mem = memory.mem;
  else
    b->free(b->ctx, device, &memory, NULL);
  return status;
}

tn_status gpu_fault_words(const tn_call *call, const char *name, uint64_t *out_mem) {
  fault *f = NULL;
  pthread_mutex_lock(&faults.lock);
  tn_status status = fault_of(call->device.index, &f);
  if (status == TN_OK && !f->mem) status = make_words(call->device.index, f);
  if (status == TN_OK) {
    f->streams = f->name && (f->streams || f->stream != call->stream);
    f->stream = call->stream;
    f->name = name;
    *out_mem = f->mem;
  }
  pthread_mutex_unlock(&faults.lock);
  return status;
}

/* What is to be read on the device, and whether anything may set it later. */
static fault take_fault(int32_t device, void *stream, bool whole_device) {
  fault f = {0};
  pthread_mutex_lock(&faults.lock);
  if (device < faults.n) {
    f = faults.list[device];
    if (whole_device || (!f.streams && f.stream == stream)) faults.list[device].name = NULL;
  }
  pthread_mutex_unlock(&faults.lock);
  return f;
}

tn_status gpu_check_faults(int32_t device, void *stream, bool whole_device) {
  static const int64_t zeros[WORDS];
  const tn_backend_def *b = gpu_now->backend;
  int64_t words[WORDS] = {0};
  const fault f = take_fault(device, stream, whole_device);
  if (!f.name) return TN_OK;
  TN_TRY(gpu_now->read(device, stream, f.mem, 0, words, sizeof words));
  if ((int32_t)words[0] == 0) return TN_OK;
  TN_TRY(b->from_host(b->ctx, device, f.mem, 0, zeros, sizeof zeros, stream));
  return TN_FAIL(
      TN_ERR_INVALID_ARGUMENT,
      "an earlier %s on device %s:%d met index %lld, expected 0 to %lld; what it computed is not to be used",
      f.name, b->device_name, device, (long long)words[1], (long long)words[2] - 1);
}
