/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and cells: making, replacing, retiring. See Note [Rows are immutable]. Registry lock held throughout.
 */
#ifndef TENON_CORE_ROW_H
#define TENON_CORE_ROW_H

#include "core/dispatch/dispatch.h"

/* What every built-in operator starts with: every cell is tni_start. */
extern const tni_row tni_start_row;
/* The row of a new operator: every backend cell is tni_cell_build, the autograd cell is in place. */
tn_status tni_row_first(const tn_op *op, const tni_row **out_row);
/* After the kernels of (op, bit) changed: op's cell, and that of its in-place and out forms, is built anew at
 * its next call. */
tn_status tni_rows_reset(tn_op *op, uint8_t bit);
/* An operator that goes gets a constant row, which nothing covers; the old row is kept for calls that read it. */
void tni_row_retire(tn_op *op, const tni_row *row);
/* Over all operators once exit or tn_shutdown has begun; every cell answers in words. */
extern const tni_row tni_exit_row;
/* The cell of a backend's bit, built if no call has built it yet; opens the backend and its providers. */
tn_status tni_cell_get(const tn_op *op, uint8_t bit, const tni_cell **out_cell);
/* The operator goes: its rows too (nothing may have called it). */
void tni_row_drop(tn_op *op);
/* Publishes op's own row, and as the row of calls from the top what stands over all, if anything does. */
void tni_row_publish(tn_op *op, const tni_row *row);
/* Puts a row over those of all operators; NULL: takes it away. See Note [A row over all]. */
void tni_rows_cover(const tni_row *cover);

#endif
