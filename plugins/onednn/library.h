/* SPDX-License-Identifier: Apache-2.0
 *
 * The oneDNN that this process has: its engine, which instruction set it generates code for, how it is held to the
 * calling thread, and primitives as the kernels here use them. The only place that knows the library's rules
 * beyond descriptors; what is computed and in which pieces stands in matmul.c, conv.c and table.c.
 */
#ifndef TENON_ONEDNN_LIBRARY_H
#define TENON_ONEDNN_LIBRARY_H

#include <dnnl.h>
#include <tenon/plugin.h>

#include "plugins/onednn/cache.h"

/* Instruction sets that table.c has figures for. Each has what those before it have. */
typedef enum od_isa { OD_AVX2 = 0, OD_AVX512, OD_AVX512_BF16 } od_isa;

/* In init, once. TN_ERR_UNAVAILABLE with words where this library or this processor is of no use. */
tn_status od_library_open(void);
/* Frees every primitive and the engine. */
void od_library_close(void);

od_isa od_library_isa(void);
/* "oneDNN 2.6.3, AVX-512 with bfloat16"; static. */
const char *od_library_words(void);

/* Around whatever calls the library, on each thread that does: it uses this thread alone in between. */
int od_single_begin(void);
void od_single_end(int before);

/* A status of the library as ours; what: what was tried. */
tn_status od_status(dnnl_status_t status, const char *what);

/* ------------------------------------------------------------------ primitives */

enum { OD_MDS = 5 };

/* A primitive and the layouts of its operands, in the order that its maker says. handle NULL: there is none. */
typedef struct od_primitive {
  dnnl_primitive_t handle;
  size_t scratch_bytes; /* rounded up to whole cache lines */
  dnnl_memory_desc_t scratch;
  dnnl_memory_desc_t mds[OD_MDS];
} od_primitive;

/* One operand of a run: DNNL_ARG_..., its layout, where it lies. */
typedef struct od_operand {
  int arg;
  const dnnl_memory_desc_t *md;
  void *data;
} od_operand;

/* What every primitive here is made with: scratch from the caller, float32 never lowered, result scaled by alpha
 * and added to beta times the old one (beta 0: not read). The caller destroys it. */
tn_status od_attributes(double alpha, double beta, dnnl_primitive_attr_t *out);

/* Makes a primitive of a descriptor. Leaves handle NULL, and is TN_OK, if the library has none or only its reference
 * code. mds are the caller's to fill; out_description, if not NULL, is the caller's to destroy. Calls of these two
 * stand between od_single_begin and od_single_end. */
tn_status od_primitive_make(const_dnnl_op_desc_t descriptor, dnnl_primitive_attr_t attributes,
                            const_dnnl_primitive_desc_t hint, od_primitive *out,
                            dnnl_primitive_desc_t *out_description);
/* mds[0] to mds[1]; handle NULL if they are equal. */
tn_status od_reorder_make(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, od_primitive *out);
void od_primitive_drop(od_primitive *primitive);

/* On the calling thread alone; scratch: scratch_bytes, 64-byte aligned. Any thread, also at one time. */
tn_status od_run(const od_primitive *primitive, uint32_t n, const od_operand *operands, void *scratch);
tn_status od_reorder(const od_primitive *reorder, const void *from, void *to, void *scratch);

/* The cache of this process; take and make run with the library held to one thread. */
tn_status od_take(const od_kind *kind, const void *key, const void **out_value);
void od_give(const void *value);
uint32_t od_cached(void);

#endif
