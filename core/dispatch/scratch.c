/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a kernel asks for and that ends with it (host->scratch). From the backend's own allocator, so a
 * device kernel gets device memory.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"

struct tni_scratch {
  struct tni_scratch *next;
  const tni_backend *backend;
  int16_t index;
  tn_memory memory;
};

tn_status tni_call_scratch(tn_call *call, size_t size_bytes, tn_memory *out_memory) {
  const tni_backend *backend = tni_backend_get(call->device.backend);
  tni_step *step = tni_call_step(call);
  *out_memory = (tn_memory){0};
  if (!backend) return tn_fail(TN_ERR_PLUGIN, "scratch memory exists only inside a kernel");
  struct tni_scratch *s = tni_alloc(sizeof *s);
  if (!s) return tni_oom(sizeof *s, "scratch memory");
  s->backend = backend;
  s->index = call->device.index;
  const tn_backend_def *def = backend->def;
  uint64_t bytes = size_bytes ? size_bytes : 1;
  tn_status status = tni_should_fail() ? tni_oom(size_bytes, "scratch memory")
                                       : def->alloc(def->ctx, s->index, bytes, call->stream, &s->memory);
  if (status != TN_OK) {
    tni_free(s);
    return tn_wrap(status, "%zu bytes of scratch memory", size_bytes);
  }
  if (step) {
    s->next = step->scratch;
    step->scratch = s;
  } else {
    s->next = (struct tni_scratch *)((uintptr_t)call->core & ~(uintptr_t)1);
    call->core = (void *)((uintptr_t)s | 1);
  }
  *out_memory = s->memory;
  return TN_OK;
}

void tni_scratch_release(struct tni_scratch **list) {
  while (*list) {
    struct tni_scratch *s = *list;
    *list = s->next;
    s->backend->def->free(s->backend->def->ctx, s->index, &s->memory, NULL);
    tni_free(s);
  }
}

void tni_scratch_release_fast(tn_call *call) {
  struct tni_scratch *list = (struct tni_scratch *)((uintptr_t)call->core & ~(uintptr_t)1);
  call->core = NULL;
  tni_scratch_release(&list);
}
