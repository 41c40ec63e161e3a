/* SPDX-License-Identifier: Apache-2.0
 *
 * Does an operator do what it declares? For operators of plugins above all, but any operator can be asked: `tenon check op
 * NAME`, and ops.opcheck for each operator that a plugin adds.
 */
#ifndef TENON_CHECK_OPCHECK_H
#define TENON_CHECK_OPCHECK_H

#include "frontends/check/ops.h"

/* Holds an operator to its schema on a device. Items are "NAME DTYPE SAMPLE: ASPECT", with the aspects
 *   arguments  written exactly where the schema says (x!): bytes, and versions, by 1
 *   aliases    results share memory with the arguments that the schema names, and with nothing else
 *   defaults   left out and given, the defaults are the same call
 *   meta       the meta device describes the real results
 *   forms      in-place and out forms agree with the functional one
 *   history    with an argument that requires grad: results do, or the operator says that they never will, or backward
 *              raises; a gradient is never lost in silence
 *   gradient, second gradient  against differences, in float64
 *   reference  values, where the float64 reference knows the operator
 * and "NAME samples": whether anybody gave some. device_name: as the user wrote it. */
void tni_opcheck(tni_check_report *r, const tni_check_context *c, const char *name, const char *device_name);

/* Arguments made from the schema, where nobody gave any: tensors of [2, 3], numbers and lists that are small. One sample,
 * of static memory until the next call; NULL: an argument is of a type for which nothing can be made up. */
const tn_sample *tni_opcheck_make_sample(const tni_ops_op *op);

/* Single aspects that the operator checks share: each reports on t->item. */
void tni_ops_try_meta(tni_ops_try *t);
void tni_ops_try_forms(tni_ops_try *t);
void tni_ops_try_forward(tni_ops_try *t);

/* Mutation, aliasing and defaults of one sample (opcheck_schema.c), and what backward says (opcheck_history.c). */
typedef void (*tni_opcheck_aspect)(tni_ops_try *t);
void tni_opcheck_arguments(tni_ops_try *t);
void tni_opcheck_aliases(tni_ops_try *t);
void tni_opcheck_defaults(tni_ops_try *t);
void tni_opcheck_history(tni_ops_try *t);
void tni_opcheck_gradient(tni_ops_try *t);
void tni_opcheck_second_gradient(tni_ops_try *t);

#endif
