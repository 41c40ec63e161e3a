/* SPDX-License-Identifier: Apache-2.0
 *
 * The two memory orders of images: see images.h.
 */
#include "plugins/backend-cpu/images.h"

/* v with its dims in memory order. */
static void in_order(cpu_local *out, const tn_view *v, bool last) {
  if (last)
    cpu_local_last(out, v, 1);
  else
    cpu_local_copy(out, v);
}

bool cpu_channels_last(const tn_view *v) {
  cpu_local order;
  if (v->ndim < 3 || cpu_contiguous(v)) return false;
  in_order(&order, v, true);
  return cpu_contiguous(&order.view);
}

tn_status cpu_image_data(tn_call *call, const tn_view *v, tn_dtype dtype, bool last, const void **out_data) {
  cpu_local order;
  in_order(&order, v, last);
  return cpu_contiguous_data(call, &order.view, dtype, out_data);
}

tn_status cpu_image_begin(tn_call *call, const tn_value *out, tn_dtype dtype, bool last, cpu_image *image) {
  cpu_local order;
  image->view = cpu_view(out);
  image->data = NULL;
  image->last = last;
  if (!image->view) return TN_OK;
  in_order(&order, image->view, last);
  image->data = image->view->data;
  if (image->view->dtype == dtype && cpu_contiguous(&order.view)) return TN_OK;
  TN_TRY(cpu_scratch(call, (size_t)image->view->numel * tn_kit_dtype_size(dtype), &image->data));
  cpu_local_contiguous(&image->block, image->data, dtype, order.view.ndim, order.sizes);
  return TN_OK;
}

tn_status cpu_image_end(const cpu_image *image) {
  cpu_local order;
  if (!image->view || image->data == image->view->data) return TN_OK;
  in_order(&order, image->view, image->last);
  return cpu_copy(&order.view, &image->block.view);
}
