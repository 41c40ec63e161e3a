/* SPDX-License-Identifier: Apache-2.0
 *
 * Note [Ready blocks]: most of a fresh tensor is what the last one left in its block. Whatever a tensor went through, the
 * next one in its block is like one in new memory. In builds without free lists the block is another, and all of this
 * holds anyway.
 */
#include <tenon/tenon.h>

#include "core/tensor/tensor.h"
#include "tn_test.h"

/* What happens to a tensor before it dies: the last handle is released here. */
typedef tn_status (*fate)(tn_tensor *t);

static tn_status resized_beyond_the_block(tn_tensor *t) {
  static const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  TN_TRY(tn_resize_(t, ones, 8, TN_MEMORY_FORMAT_NONE));
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status moved(tn_tensor *t) {
  TN_TRY(tni_tensor_set_geometry(t, 1, &(tn_dim){1}, NULL, 1));
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status set_to_its_own_tail(tn_tensor *t) {
  tn_tensor *tail;
  TN_TRY(tn_slice(t, 0, &(int64_t){1}, NULL, 1, &tail));
  TN_TRY(tn_set_(t, tail));
  tn_tensor_release(tail);
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status outlived_by_its_memory(tn_tensor *t) {
  tn_tensor *alias;
  TN_TRY(tn_detach(t, &alias));
  tn_tensor_release(t);
  tn_tensor_release(alias);
  return TN_OK;
}

static tn_status outlived_by_a_view(tn_tensor *t) {
  tn_tensor *view;
  TN_TRY(tn_unsqueeze(t, 0, &view));
  tn_tensor_release(t);
  tn_tensor_release(view);
  return TN_OK;
}

static tn_status a_leaf_that_was_saved(tn_tensor *t) {
  tn_tensor *y;
  TN_TRY(tn_set_requires_grad(t, true));
  TN_TRY(tn_mul(t, t, &y));
  tn_tensor_release(y);
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status saved_for_another(tn_tensor *t) {
  tn_tensor *w, *y;
  TN_TRY(tn_ones(&(int64_t){4}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &w));
  TN_TRY(tn_set_requires_grad(w, true));
  TN_TRY(tn_mul(t, w, &y));
  tn_tensor_release(y);
  tn_tensor_release(w);
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status written(tn_tensor *t) {
  TN_TRY(tn_add_(t, t, tn_int(1)));
  tn_tensor_release(t);
  return TN_OK;
}

/* A view that dies by the long way: a gradient's slot, an extra. */
static tn_status seen_by_views_with_history(tn_tensor *t) {
  tn_tensor *w, *view;
  TN_TRY(tn_unsqueeze(t, 0, &view));
  TN_TRY(tn_ones(&(int64_t){4}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &w));
  TN_TRY(tn_set_requires_grad(w, true));
  TN_TRY(tn_add_(view, w, tn_int(1)));
  tn_tensor_release(w);
  tn_tensor_release(view);
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status seen_in_many_dims(tn_tensor *t) {
  const int64_t sizes[9] = {4, 1, 1, 1, 1, 1, 1, 1, 1};
  tn_tensor *view;
  TN_TRY(tn_view_op(t, sizes, 9, &view));
  tn_tensor_release(view);
  tn_tensor_release(t);
  return TN_OK;
}

static const fate fates[] = {resized_beyond_the_block, moved,           set_to_its_own_tail,        outlived_by_its_memory,
                             outlived_by_a_view,       written,         a_leaf_that_was_saved,      saved_for_another,
                             seen_in_many_dims,        seen_by_views_with_history};
enum { FATES = sizeof fates / sizeof *fates };

static void check_plain(const tn_tensor *t, int64_t n) {
  const tn_view *v = &t->view;
  TN_CHECK_INT(v->ndim, 1);
  TN_CHECK_INT(v->sizes[0], n);
  TN_CHECK_INT(v->strides[0], 1);
  TN_CHECK_INT(v->numel, n);
  TN_CHECK(v->sizes == t->dims);
  TN_CHECK_INT(tni_view_offset(v), 0);
  TN_CHECK(v->storage == &t->own_storage);
  TN_CHECK_INT(v->flags, TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE);
  TN_CHECK_INT(t->counts, TNI_SOLE);
  TN_CHECK(t->keys == TNI_KEY(TN_BACKEND_CPU));
  TN_CHECK(!t->autograd && !t->parent && !t->base && !t->owner && !t->version_owner && !t->replay && !t->retired);
  TN_CHECK_INT(t->creation + t->kept + t->level, 0);
  TN_CHECK_INT(tni_version_get(t), 0);
}

/* A result and what a factory makes come to their block by different ways. */
static void next_is_plain(fate f, int64_t n, bool result) {
  tn_tensor *x, *t, *next;
  const tn_options *options = TN_OPTIONS(.dtype = TN_FLOAT32);
  TN_CHECK_OK(tn_full(&n, 1, tn_float(1), options, &x));
  TN_CHECK_OK(tn_full(&n, 1, tn_float(1), options, &t));
  TN_CHECK_OK(f(t));
  TN_CHECK_OK(result ? tn_add(x, x, tn_int(1), &next) : tn_empty(&n, 1, options, TN_MEMORY_FORMAT_NONE, &next));
  check_plain(next, n);
  const bool here = (char *)next->view.data == (char *)next + TNI_DATA_OFFSET;
  TN_CHECK_INT(here, (size_t)n * 4 <= TNI_INLINE_BYTES);
  if (here) TN_CHECK(next->view.mem == (uint64_t)(uintptr_t)next->view.data);
  TN_CHECK_INT(next->extras, here ? 0 : TNI_EXTRA_MEMORY);
  tn_tensor_release(next);
  tn_tensor_release(x);
}

TN_TEST(tensor_ready, a_small_tensor_owes_nothing_to_the_last_one_in_its_block) {
  for (int i = 0; i < FATES; ++i) next_is_plain(fates[i], 4, false);
  for (int i = 0; i < FATES; ++i) next_is_plain(fates[i], 4, true);
}

TN_TEST(tensor_ready, nor_does_one_that_takes_memory_with_its_block) {
  static const fate fits[] = {moved, set_to_its_own_tail, outlived_by_its_memory, outlived_by_a_view, written};
  for (size_t i = 0; i < sizeof fits / sizeof *fits; ++i) next_is_plain(fits[i], 1024, true);
}

TN_TEST(tensor_ready, a_view_owes_nothing_to_the_last_one_in_its_block) {
  tn_tensor *x, *view;
  const int64_t n = 4, sizes[2] = {2, 2};
  TN_CHECK_OK(tn_full(&n, 1, tn_float(1), TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  for (int i = 0; i < FATES; ++i) {
    tn_tensor *t;
    TN_CHECK_OK(tn_full(&n, 1, tn_float(1), TN_OPTIONS(.dtype = TN_FLOAT32), &t));
    TN_CHECK_OK(fates[i](t));
    TN_CHECK_OK(tn_view_op(x, sizes, 2, &view));
    TN_CHECK(view->view.sizes == view->dims && view->view.strides == view->dims + TNI_INLINE_RANK);
    TN_CHECK_INT(view->counts, TNI_SOLE);
    TN_CHECK(!view->autograd && !view->owner && !view->version_owner && !view->retired);
    TN_CHECK(view->parent == x && view->base == x);
    TN_CHECK_INT(view->extras + view->kept + view->creation, 0);
    TN_CHECK_INT(view->replay->args[0].kind, TN_VAL_NONE);
    TN_CHECK_INT(view->replay->args[1].u.ints[1], 2);
    tn_tensor_release(view);
  }
  tn_tensor_release(x);
}
