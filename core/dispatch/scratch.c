/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a kernel asks for and that ends with it (host->scratch). From the device's pool, so a device
 * kernel gets device memory.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "core/memory/memory.h"

struct tni_scratch {
  struct tni_scratch *next;
  tni_memory_block *block;
  void *stream;
};
enum { SCRATCH_CLASS = 0 }; /* 64-byte blocks */
_Static_assert(sizeof(struct tni_scratch) <= 64, "the record fits its block");

/* tn_memory has no offset, so a part of an opaque segment will not do. */
static tn_status scratch_alloc(tni_pool *pool, size_t size_bytes, void *stream,
                               tni_memory_block **out_block) {
  TN_TRY(tni_memory_alloc(pool, size_bytes, stream, out_block));
  if (TNI_LIKELY(!(*out_block)->base_bytes)) return TN_OK;
  tni_memory_free(*out_block, stream);
  return tni_memory_alloc_slow(pool, size_bytes, stream, true, out_block);
}

tn_status tni_call_scratch(tn_call *call, size_t size_bytes, tn_memory *out_memory) {
  const tni_backend *backend = tni_backend_get(call->device.backend);
  tni_step *step = tni_call_step(call);
  *out_memory = (tn_memory){0};
  bool freed = step || ((uintptr_t)call->core & 1) || (call->flags & TN_CALL_FLAT);
  if (!backend || !freed) /* nobody would free a layer's or a body's */
    return tn_fail(TN_ERR_PLUGIN, "scratch memory exists only inside a backend's kernel");
  struct tni_scratch *s = tni_block_alloc(SCRATCH_CLASS);
  if (!s) return tni_oom(sizeof *s, "scratch memory");
  s->stream = call->stream;
  tn_status status = tni_should_fail() ? tni_oom(size_bytes, "scratch memory")
                                       : scratch_alloc(backend->pools[call->device.index], size_bytes,
                                                       call->stream, &s->block);
  if (status != TN_OK) {
    tni_block_free(s, SCRATCH_CLASS);
    return tn_wrap(status, "%zu bytes of scratch memory", size_bytes);
  }
  if (step) {
    s->next = step->scratch;
    step->scratch = s;
  } else {
    s->next = (struct tni_scratch *)((uintptr_t)call->core & ~(uintptr_t)1);
    call->core = (void *)((uintptr_t)s | 1);
  }
  *out_memory = (tn_memory){s->block->mem, s->block->address, size_bytes};
  return TN_OK;
}

void tni_scratch_release(struct tni_scratch **list) {
  while (*list) {
    struct tni_scratch *s = *list;
    *list = s->next;
    tni_memory_free(s->block, s->stream);
    tni_block_free(s, SCRATCH_CLASS);
  }
}

void tni_scratch_release_fast(tn_call *call) {
  struct tni_scratch *list = (struct tni_scratch *)((uintptr_t)call->core & ~(uintptr_t)1);
  call->core = NULL;
  tni_scratch_release(&list);
}
