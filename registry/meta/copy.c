/* SPDX-License-Identifier: Apache-2.0
 *
 * clone and copy_. Casts and moves between devices are bodies over these two (bodies/copy.c).
 */
#include "registry/meta/rules.h"

TN_META(clone) {
  tni_desc_like(&meta->out[0], args[0].u.v, TN_DESC_LIKE_SELF);
  return tni_desc_format(&meta->out[0], &args[1], args[0].u.v);
}

/* No compute dtype: the kernel casts while it copies. */
TN_META(copy) {
  const tn_view *self = args[0].u.v, *src = args[1].u.v;
  TN_TRY(tn_shape_check_expand(src->ndim, src->sizes, self->ndim, self->sizes));
  tni_desc_like(&meta->out[0], self, TN_DESC_LIKE_SELF);
  return TN_OK;
}
