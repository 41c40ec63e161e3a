/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands and results of operators over images: brought to one of two memory orders (row-major, or with the
 * channels innermost) and to a dtype that computes. Nothing is copied that lies so already.
 */
#ifndef CPU_IMAGES_H
#define CPU_IMAGES_H

#include "plugins/backend-cpu/cpu.h"

/* Are the channels (dim 1) innermost and the rest row-major, and is it not row-major as well? */
bool cpu_channels_last(const tn_view *v);

/* v's elements in dtype and in the order asked for. */
tn_status cpu_image_data(tn_call *call, const tn_view *v, tn_dtype dtype, bool last, const void **out_data);

/* A result: its own memory where that fits, else scratch that cpu_image_end copies back. */
typedef struct cpu_image {
  const tn_view *view; /* NULL: not wanted */
  void *data;
  bool last;
  cpu_local block; /* the scratch, in the view's order of dims */
} cpu_image;

tn_status cpu_image_begin(tn_call *call, const tn_value *out, tn_dtype dtype, bool last, cpu_image *image);
tn_status cpu_image_end(const cpu_image *image);

#endif
