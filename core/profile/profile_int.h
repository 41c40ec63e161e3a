/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of core/profile share.
 */
#ifndef TENON_CORE_PROFILE_INT_H
#define TENON_CORE_PROFILE_INT_H

#include "core/profile/profile.h"

/* Whether calls from the top pass by the profiler; registry lock is taken inside. calls.c */
void tni_profile_calls(bool on);

/* device_time.c. One call's events; NULL where its backend has none, or when they cannot be had. */
typedef struct tni_stopwatch tni_stopwatch;
tni_stopwatch *tni_stopwatch_begin(tn_device device, void *stream);
/* consumed. Later, or here, tells how long it took. */
void tni_stopwatch_end(tni_stopwatch *watch, const tni_profile_span *span);
/* Waits until every call that ended is told of. */
void tni_stopwatches_drain(void);
/* Gives the events back to their backends (drained before), or forgets them in a forked child. */
void tni_stopwatches_free(void);

uint64_t tni_profile_now(void);

#endif
