/* SPDX-License-Identifier: Apache-2.0
 *
 * Random streams: a Philox key (seed) and the next counter (offset) behind a lock. Kernels never see one; the
 * structured step draws a range of counters and passes two integers.
 */
#include "core/tensor/generator.h"

#include "core/load/load.h"

struct tn_generator {
  tn_generator_state state;
};

/* One lock for all of them: it is held for three stores, and a fork finds it (Note [Fork]). */
static tni_mutex mutex = TNI_MUTEX_INIT;
TNI_FORK_LOCK(generators, TNI_FORK_GENERATORS, mutex);

/* The seed that nobody chose: fixed, so that two runs agree unless told otherwise. */
static _Atomic uint64_t manual_seed = 67280421310721;

tn_status tn_generator_new(uint64_t seed, tn_generator **out_generator) {
  if (!out_generator) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_generator_new: 'out_generator' is NULL");
  tn_generator *g = tni_alloc_zero(sizeof *g);
  *out_generator = g;
  if (!g) return tni_oom(sizeof *g, "a generator");
  g->state.seed = seed;
  return TN_OK;
}

void tn_generator_release(tn_generator *generator) {
  tni_free(generator);
}

uint64_t tni_generator_seed(void) { return atomic_load(&manual_seed); }

tn_status tn_generator_draw(tn_generator *generator, uint64_t n, tn_generator_state *out_first) {
  if (!generator || !out_first) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_generator_draw: an argument is NULL");
  tni_mutex_lock(&mutex);
  *out_first = generator->state;
  generator->state.offset += n;
  tni_mutex_unlock(&mutex);
  return TN_OK;
}

tn_status tn_generator_get_state(tn_generator *generator, tn_generator_state *out_state) {
  if (!generator || !out_state) return tn_fail(TN_ERR_INVALID_ARGUMENT, "generator state: an argument is NULL");
  tni_mutex_lock(&mutex);
  *out_state = generator->state;
  tni_mutex_unlock(&mutex);
  return TN_OK;
}

tn_status tn_generator_set_state(tn_generator *generator, const tn_generator_state *state) {
  if (!generator || !state) return tn_fail(TN_ERR_INVALID_ARGUMENT, "generator state: an argument is NULL");
  tni_mutex_lock(&mutex);
  generator->state = *state;
  tni_mutex_unlock(&mutex);
  return TN_OK;
}

tn_status tn_generator_default(tn_device device, tn_generator **out_generator) {
  if (!out_generator) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_generator_default: 'out_generator' is NULL");
  *out_generator = NULL;
  TN_TRY(tni_load_init());
  const tni_backend *backend;
  TN_TRY(tni_backend_need(device, &backend));
  if (!backend->generators) return tn_fail(TN_ERR_DEVICE, "device %s has no random numbers", backend->name);
  *out_generator = backend->generators[device.index];
  return TN_OK;
}

tn_status tn_manual_seed(uint64_t seed) {
  TN_TRY(tni_load_init());
  atomic_store(&manual_seed, seed);
  const tn_generator_state state = {seed, 0};
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    const tni_backend *backend = tni_backend_get(id);
    for (int32_t i = 0; backend && backend->generators && i < backend->n_devices; ++i)
      TN_TRY(tn_generator_set_state(backend->generators[i], &state));
  }
  return TN_OK;
}
