/* SPDX-License-Identifier: Apache-2.0
 *
 * Results that are stored past the caches: which, and the walk over them.
 *
 * Note [Past the caches]
 * An ordinary store of a line reads it first. A result that no cache will hold anyway is stored past them
 * (streaming stores): a copy of 64 MiB then moves two thirds of the bytes. A result that fits would be lost
 * to the next operator. So the sizes decide: streaming begins where all that an operator reads and writes is
 * more than the last cache, as the processor describes it (isa.c), and for one thread at three quarters of it: one
 * alone gains earlier than two do. Measured on 2 cores with 32 MiB in common
 * (2026-11-29), float32, GB/s ordinary / streaming on 1 thread and on 2: add of 2M elements (24 MiB in all)
 * 93 / 116, 203 / 125; copy of 4M (32 MiB) 72 / 81, 139 / 84; add of 4M (48 MiB) 69 / 80, 91 / 98; copy of
 * 16M 44 / 58, 51 / 63; add of 16M 44 / 60, 51 / 65. On 1 thread of a slower machine (2026-11-30): copy of 4M
 * 41 / 52, relu of 4M 36 / 52, cast of 4M to half the bytes (24 MiB) 41 / 56. The bits are the same either way.
 *
 * Loads and streaming stores have to alternate closely: in blocks of 512 elements a core waits for the one,
 * then for the other (42 instead of 61 in the last case). So the loops exist once more
 * (per-isa/elementwise_stream.c) for groups of 64 elements; where they do not, blocks of one page are the
 * best compromise.
 */
#include "plugins/backend-cpu/cpu.h"

int64_t cpu_stream_bytes = INT64_MAX;

bool cpu_streams(uint32_t n, const tn_view *const *operands) {
  const tn_view *result = operands[0];
  int64_t element = 0; /* bytes */
  if ((uintptr_t)result->data % result->itemsize) return false;
  for (uint32_t k = 0; k < n; ++k) {
    if (k > 0 && operands[k]->data == result->data) return false;
    if (operands[k]->numel == result->numel) element += operands[k]->itemsize;
  }
  int64_t least = cpu_stream_bytes;
  if (tn_kit_host()->num_threads() == 1) least = least / 4 * 3 - 1; /* three quarters exactly count */
  return result->numel > least / element;
}

typedef struct streamed {
  const tn_iter *it;
  tn_loop_fn fn;
  void *ctx;
} streamed;

static tn_status walk_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const streamed *s = ctx;
  tn_iter_walk(s->it, NULL, begin, end, s->fn, s->ctx);
  cpu_stream_end();
  return TN_OK;
}

tn_status cpu_each_streamed(uint32_t n, const tn_view *const *operands, int64_t grain, tn_loop_fn fn,
                            void *ctx) {
  tn_iter it;
  TN_TRY(tn_iter_init(&it, operands[0]->ndim, operands[0]->sizes, 1, n, operands, 0));
  streamed s = {&it, fn, ctx};
  return tn_kit_host()->parallel_for(it.numel, grain, walk_chunk, &s);
}
