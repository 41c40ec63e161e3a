/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens where a backend has no kernel: the policy, the round trip through the CPU, its counters.
 * docs/fallback.md is the whole story.
 */
#ifndef TENON_CORE_FALLBACK_H
#define TENON_CORE_FALLBACK_H

#include <tenon/fallback.h>

#include "core/dispatch/dispatch.h"

/* ------------------------------------------------------------------ the policy (fallback_policy.c) */

typedef struct tni_fallback_choice {
  uint8_t policy;   /* TN_FALLBACK_ERROR, _WARN or _ALLOW */
  bool whole;       /* where the CPU has a kernel, it goes before the operator's body on the device */
  bool by_word;     /* somebody said so; else it is what holds without words */
  const char *said; /* who said so: static words */
} tni_fallback_choice;

/* For the functional entry of op on an opened backend; never fails. Any thread. */
tni_fallback_choice tni_fallback_choose(const tn_op *op, uint8_t backend);
/* Reads TENON_FALLBACK; called once, when the manifests are known. Words that it does not understand are logged.
 * TN_ERR_OUT_OF_MEMORY leaves no rule. */
tn_status tni_fallback_read(void);
/* op, device: NULL for all; op is the functional entry's name. Copies both. DEFAULT takes the rule away. */
tn_status tni_fallback_rule(const char *op, const char *device, tn_fallback_policy policy);
/* "allow"; NULL if unknown. */
const char *tni_fallback_word(tn_fallback_policy policy);

/* ------------------------------------------------------------------ the counters (fallback_count.c) */

/* What ran on the CPU for one (operator, backend). Lives until exit. */
typedef struct tni_fallback_count {
  const tn_op *op; /* functional */
  uint8_t backend;
  _Atomic uint64_t calls, to_host, from_host; /* bytes */
  _Atomic bool warned;
  struct tni_fallback_count *next; /* of the operator */
} tni_fallback_count;

/* The counters of a functional entry, made at the first request. */
tn_status tni_fallback_counter(const tn_op *op, uint8_t backend, tni_fallback_count **out_count);
void tni_fallback_note(tni_fallback_count *c, uint64_t to_host,
                       uint64_t from_host); /* one call, and its bytes */
/* Every record in the order of its making. */
size_t tni_fallback_counters(void);
tni_fallback_count *tni_fallback_counter_at(size_t i);

/* ------------------------------------------------------------------ cells (fallback.c) */

/* Cells of backends without a provider: the body, the CPU, or the refusal. */
tn_status tni_bodyless(tn_call *call, const tn_value *args, tn_value *out);
tn_status tni_body_or_whole(tn_call *call, const tn_value *args, tn_value *out);
/* "no kernel": names operator, device, dtype, and how to allow the CPU. chain: providers that did not take it. */
tn_status tni_fallback_refuse(const tn_op *op, uint8_t backend, tn_dtype dtype,
                              const tni_kernel *const *chain, uint32_t n_chain) TN_COLD;

#endif
