/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend with everything that is optional: streams, events that tell time, pinned memory, copies between its two
 * devices, a fork contract. Its work is done when a call returns, but it keeps a log of what went to which stream, its
 * clock moves by 100 ns a kernel, and events are done only when a test lets them. Streams are numbered from 1; 0 is the
 * default one. Kernels: add.Tensor and mul.Tensor, float32.
 */
#ifndef TN_TESTS_UNIT_RIBBON_H
#define TN_TESTS_UNIT_RIBBON_H

#include <tenon/plugin_backend.h>

/* The device 0 of the ribbon called `name`, published at the first call. fork: TN_FORK_... */
tn_device ribbon_device(const char *name, uint32_t fork);

/* What was done since ribbon_log_clear, by all ribbons: "add@1 record@1 wait@2 ...". */
const char *ribbon_log(void);
void ribbon_log_clear(void);
/* Events recorded from now on are done (true, as at first) or not. */
void ribbon_events_done(bool done);
int ribbon_pinned_blocks(void); /* raw ones */
int ribbon_events(void);        /* that exist */
void ribbon_reinit_fails(bool fails);
int ribbon_reinits(void);

#endif
