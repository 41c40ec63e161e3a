/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operator on a backend without a kernel, whose memory the host cannot see and which lets the CPU stand in:
 * the same bits, strides, dtypes, written arguments and refusals as on the CPU itself.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/shape.h>
#include <tenon/tenon.h>

#include "case.h"
#include "tests/unit/private_backend.h"

static tn_device vault(void) { return private_backend("vault", TN_BACKEND_CPU_FALLBACK); }

/* The same values with the same strides on the device, those of dims of size 1 included: they say channels last. */
static tn_tensor *moved(const tn_tensor *t) {
  const tn_view *v = tn_tensor_view(t);
  int64_t begin = 0, end = 0;
  tn_view_byte_range(v, &begin, &end);
  tn_tensor *flat = NULL, *there = NULL;
  tn_dim n = v->numel ? (end - begin) / v->itemsize : 0;
  const tn_options options = {.dtype = v->dtype, .has_device = true, .device = vault()};
  TN_CHECK_OK(tn_tensor_from_host((char *)v->data + begin, &n, 1, &options, &flat));
  TN_CHECK_OK(tni_tensor_alias(flat, v->ndim, v->sizes, v->strides, -begin / v->itemsize, true, &there));
  tn_tensor_release(flat);
  return there;
}

/* The case's tensors, where they stand among the arguments, become others on the device. */
static void move_case(op_case *c) {
  for (size_t k = 0; k < c->n_tensors; k++) {
    tn_tensor *old = c->tensors[k];
    if (!old) continue;
    c->tensors[k] = moved(old);
    for (uint32_t i = 0; i < c->n_args; i++) {
      if (c->args[i].kind == TN_VAL_TENSOR && c->args[i].u.t == old)
        c->args[i] = tn_value_tensor(c->tensors[k]);
      for (int e = 0; e < CASE_LIST; e++)
        if (c->lists[i][e] == old) c->lists[i][e] = c->tensors[k];
    }
    tn_tensor_release(old);
  }
  if (c->op->device_arg != 255) c->args[c->op->device_arg] = tn_value_device(vault());
}

static void *bytes_of(tn_tensor *t, size_t *out_size) {
  *out_size = (size_t)(tn_tensor_numel(t) * tn_tensor_view(t)->itemsize);
  void *bytes = malloc(*out_size + 1);
  TN_CHECK_NOT_NULL(bytes);
  TN_CHECK_OK(tn_tensor_to_host(t, bytes, *out_size));
  return bytes;
}

static bool same_geometry(const tn_view *a, const tn_view *b) {
  if (a->dtype != b->dtype || a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->sizes[d] != b->sizes[d] || (a->numel && a->sizes[d] > 1 && a->strides[d] != b->strides[d]))
      return false;
  return true;
}

static void compare_tensors(const op_case *c, const char *what, uint32_t i, tn_tensor *here,
                            tn_tensor *there) {
  if (!here || !there) {
    if (here || there) finding(c, "%s %u is absent on one device only", what, i);
    return;
  }
  if (tn_tensor_device(there).backend != vault().backend) finding(c, "%s %u left the device", what, i);
  if (!same_geometry(tn_tensor_view(here), tn_tensor_view(there))) {
    finding(c, "%s %u has another dtype, shape or strides than on the CPU", what, i);
    return;
  }
  size_t size;
  void *a = bytes_of(here, &size), *b = bytes_of(there, &size);
  if (memcmp(a, b, size) != 0) finding(c, "%s %u has other bits than on the CPU", what, i);
  free(a);
  free(b);
}

static void compare_versions(const op_case *c, const tn_tensor *here, const tn_tensor *there, uint32_t i) {
  if (here && tni_version_get(here) != tni_version_get(there))
    finding(c, "tensor %u was counted %u times, on the CPU %u", i, tni_version_get(there),
            tni_version_get(here));
}

static void check_on_device(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  op_case here, there;
  op_results a, b;
  case_build(&here, op, sample, dtype, CASE_CPU);
  case_build(&there, op, sample, dtype, CASE_CPU);
  move_case(&there);
  tn_status expected = case_call(&here, op, &a);
  tn_status status = case_call(&there, op, &b);
  if (expected == TN_OK && status == TN_OK) {
    for (uint32_t i = 0; i < a.n && i < b.n; i++) compare_tensors(&here, "result", i, a.t[i], b.t[i]);
    if (a.n != b.n) finding(&here, "%u results, on the CPU %u", b.n, a.n);
  } else if (expected != status) {
    finding(&here, "status %d, on the CPU %d; last words: %s", (int)status, (int)expected,
            tn_error_message());
  }
  for (uint32_t i = 0; i < here.n_tensors; i++) {
    compare_tensors(&here, "argument", i, here.tensors[i], there.tensors[i]);
    compare_versions(&here, here.tensors[i], there.tensors[i], i);
  }
  if (expected == TN_OK) results_release(&a);
  if (status == TN_OK) results_release(&b);
  case_release(&here);
  case_release(&there);
}

#define FAMILY(family) \
  TN_TEST(fallback_##family, every_operator_gives_what_the_cpu_gives) { each_case(#family, check_on_device); }
FAMILY(create)
FAMILY(random)
FAMILY(view)
FAMILY(copy)
FAMILY(elementwise)
FAMILY(compare)
FAMILY(reduce)
FAMILY(linalg)
FAMILY(factor)
FAMILY(nn)
FAMILY(index)
FAMILY(optim)
FAMILY(attention)
FAMILY(sort)
FAMILY(norm)
FAMILY(loss)
FAMILY(activation)
FAMILY(pool)
FAMILY(conv)
