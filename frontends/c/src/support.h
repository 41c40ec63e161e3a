/* SPDX-License-Identifier: Apache-2.0
 *
 * What every file of libtenon_nn uses: memory with words, forwarding of failures, and the grad-mode guard.
 * This library stands on the public API, so it has no access to the core's allocator.
 */
#ifndef TENON_NN_SUPPORT_H
#define TENON_NN_SUPPORT_H

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define TN_TRY(expr)                                                         \
  do {                                                                       \
    tn_status tn_try_status_ = (expr);                                       \
    if (__builtin_expect(tn_try_status_ != TN_OK, 0)) return tn_try_status_; \
  } while (0)

/* Zeroed memory for count entries, stored at *out (a pointer to a pointer). TN_ERR_OUT_OF_MEMORY says for
 * what. */
tn_status tni_nn_alloc(size_t count, size_t size_bytes, const char *what, void *out);
/* Makes room for one more entry of size_bytes in *items (a pointer to a pointer). */
tn_status tni_nn_grow(void *items, size_t *capacity, size_t count, size_t size_bytes, const char *what);
/* An owned copy. */
tn_status tni_nn_strdup(const char *s, char **out_copy);
/* "[3, 4]" of a tensor's sizes, shortened with "..." where the buffer ends. Returns buffer. */
const char *tni_nn_shape(const tn_tensor *tensor, char *buffer, size_t size_bytes);
bool tni_nn_same_shape(const tn_tensor *a, const tn_tensor *b);
bool tni_nn_is_floating(const tn_tensor *tensor);
/* TN_ERR_INVALID_ARGUMENT with "WHAT is NULL" if p is. */
tn_status tni_nn_not_null(const void *p, const char *what);

#endif
