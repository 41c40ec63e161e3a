/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor as text: nested brackets, long dims shortened in the middle, dtype and device behind.
 */
#include <inttypes.h>

#include <tenon/kit/dtype.h>

#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"

/* Dims longer than 2 * EDGE show EDGE entries at either end, once the tensor has more than FULL elements. */
enum { EDGE = 3, FULL = 1000 };

typedef struct printer {
  FILE *file;
  const tn_view *view; /* contiguous, on the host */
  bool shorten;
  tn_status status;
} printer;

static void print_number(printer *p, const char *at) {
  tn_scalar s;
  p->status = tni_scalar_load(p->view->dtype, at, &s);
  if (p->status != TN_OK) return;
  if (s.kind == TN_VAL_BOOL)
    fputs(s.u.i ? "true" : "false", p->file);
  else if (s.kind == TN_VAL_INT)
    fprintf(p->file, "%" PRId64, s.u.i);
  else
    fprintf(p->file, "%.*g", p->view->dtype == TN_FLOAT64 ? 8 : 5, s.u.f);
}

/* Depth is at most TN_MAX_RANK. */
static void print_dim(printer *p, unsigned dim, const char *at) {
  const tn_view *v = p->view;
  if (dim == v->ndim) {
    print_number(p, at);
    return;
  }
  fputc('[', p->file);
  for (tn_dim i = 0; i < v->sizes[dim] && p->status == TN_OK; ++i) {
    if (p->shorten && v->sizes[dim] > 2 * EDGE && i == EDGE) {
      fputs(", ...", p->file);
      i = v->sizes[dim] - EDGE;
    }
    if (i && dim + 1u == v->ndim) fputs(", ", p->file);
    if (i && dim + 1u < v->ndim) fprintf(p->file, ",\n%*s", (int)dim + 1, "");
    print_dim(p, dim + 1, at + i * v->strides[dim] * v->itemsize);
  }
  fputc(']', p->file);
}

static tn_status host_copy(tn_tensor *t, tn_tensor **out) {
  tn_device cpu = {TN_BACKEND_CPU, 0, 0};
  return tni_cast_copy(t, t->view.dtype, cpu, out);
}

tn_status tn_tensor_print(tn_tensor *tensor, FILE *file) {
  char device[80];
  if (!tensor || !file) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_print: an argument is NULL");
  tn_tensor *plain = NULL;
  printer p = {file, NULL, tensor->view.numel > FULL, TN_OK};
  if (tensor->view.backend == TN_BACKEND_META) {
    fputs("...", file);
  } else {
    TN_TRY(host_copy(tensor, &plain));
    p.view = &plain->view;
    print_dim(&p, 0, plain->view.data);
  }
  fprintf(file, " (%s, %s)\n", tn_dtype_name(tensor->view.dtype),
          tn_device_name(tn_view_device(&tensor->view), device, sizeof device));
  tn_tensor_release(plain);
  if (p.status == TN_OK && ferror(file)) return tn_fail(TN_ERR_IO, "tn_tensor_print: the file cannot be written");
  return p.status;
}
