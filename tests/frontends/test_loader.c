/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader: order, batches, what the thread's failures look like, and ending in the middle of an epoch.
 */
#include <tenon/data.h>

#include "tools.h"

/* A dataset whose sample i is the number i; index `bad` fails. */
typedef struct counting {
  int64_t bad;
} counting;

static tn_status counting_get(void *ctx, const int64_t *indices, size_t n, tn_tensor **out_fields,
                              size_t n_fields) {
  const counting *c = ctx;
  const tn_dim size = (tn_dim)n;
  for (size_t i = 0; i < n; i++)
    if (indices[i] == c->bad) return tn_fail(TN_ERR_DATA, "sample %lld is damaged", (long long)indices[i]);
  return tn_tensor_from_host(indices, &size, 1, TN_OPTIONS(.dtype = TN_INT64), &out_fields[0]);
}

static tn_loader *make_loader(int64_t length, int64_t bad, tn_loader_options options) {
  static const tn_dataset_def def = {counting_get, free};
  tn_dataset *d = NULL;
  tn_loader *l = NULL;
  counting *c = malloc(sizeof *c);
  TN_CHECK(c != NULL);
  c->bad = bad;
  TN_CHECK_OK(tn_dataset_new(&def, c, length, 1, &d));
  TN_CHECK_OK(tn_loader_new(d, &options, &l));
  tn_dataset_release(d);
  return l;
}

/* Reads an epoch into order; the number of samples. */
static size_t read_epoch(tn_loader *l, uint64_t epoch, int64_t *order) {
  size_t n = 0;
  TN_CHECK_OK(tn_loader_begin(l, epoch));
  for (;;) {
    tn_tensor *batch = NULL;
    TN_CHECK_OK(tn_loader_next(l, &batch, 1));
    if (!batch) return n;
    size_t rows = (size_t)tn_tensor_numel(batch);
    TN_CHECK_OK(tn_tensor_to_host(batch, order + n, rows * sizeof *order));
    n += rows;
    tn_tensor_release(batch);
  }
}

TN_TEST(frontends_loader, without_shuffling_it_is_in_order) {
  tn_loader *l = make_loader(10, -1, (tn_loader_options){.batch_size = 4});
  int64_t order[10];
  TN_CHECK_INT(tn_loader_batches(l), 3);
  TN_CHECK_INT(read_epoch(l, 0, order), 10);
  for (int64_t i = 0; i < 10; i++) TN_CHECK_INT(order[i], i);
  tn_loader_release(l);
  l = make_loader(10, -1, (tn_loader_options){.batch_size = 4, .drop_last = true, .prefetch = 2});
  TN_CHECK_INT(tn_loader_batches(l), 2);
  TN_CHECK_INT(read_epoch(l, 0, order), 8);
  tn_loader_release(l);
}

TN_TEST(frontends_loader, the_order_depends_on_seed_and_epoch_only) {
  enum { N = 101 };
  int64_t a[N], b[N], seen[N] = {0};
  tn_loader *slow = make_loader(N, -1, (tn_loader_options){.batch_size = 7, .shuffle = true, .seed = 5});
  tn_loader *ahead =
      make_loader(N, -1, (tn_loader_options){.batch_size = 10, .shuffle = true, .seed = 5, .prefetch = 3});
  TN_CHECK_INT(read_epoch(slow, 4, a), N);
  read_epoch(ahead, 9, b);
  TN_CHECK(memcmp(a, b, sizeof a) != 0);
  read_epoch(ahead, 4, b);
  TN_CHECK(memcmp(a, b, sizeof a) == 0);
  TN_CHECK_OK(tn_shuffle(6, 4, b, N));
  TN_CHECK(memcmp(a, b, sizeof a) != 0);
  for (int i = 0; i < N; i++) seen[a[i]]++;
  for (int i = 0; i < N; i++) TN_CHECK_INT(seen[i], 1);
  tn_loader_release(ahead);
  tn_loader_release(slow);
}

TN_TEST(frontends_loader, shuffling_is_uniform) {
  int counts[5][5] = {{0}};
  int64_t order[5];
  for (uint64_t epoch = 0; epoch < 5000; epoch++) {
    TN_CHECK_OK(tn_shuffle(1, epoch, order, 5));
    for (int i = 0; i < 5; i++) counts[i][order[i]]++;
  }
  for (int i = 0; i < 25; i++)
    TN_CHECK(counts[i / 5][i % 5] > 850 && counts[i / 5][i % 5] < 1150); /* 5 sigma */
}

TN_TEST(frontends_loader, an_error_of_the_thread_comes_out_of_next) {
  for (int32_t prefetch = 0; prefetch < 3; prefetch++) {
    tn_loader *l = make_loader(10, 5, (tn_loader_options){.batch_size = 2, .prefetch = prefetch});
    tn_tensor *batch = NULL;
    TN_CHECK_OK(tn_loader_begin(l, 0));
    for (int i = 0; i < 2; i++) {
      TN_CHECK_OK(tn_loader_next(l, &batch, 1));
      TN_CHECK_NOT_NULL(batch);
      tn_tensor_release(batch);
    }
    TN_CHECK_FAILS(tn_loader_next(l, &batch, 1), TN_ERR_DATA, "sample 5 is damaged");
    TN_CHECK_PTR_NULL(batch);
    TN_CHECK_OK(tn_loader_next(l, &batch, 1)); /* the epoch is over */
    TN_CHECK_PTR_NULL(batch);
    tn_loader_release(l);
  }
}

TN_TEST(frontends_loader, ends_in_the_middle_of_an_epoch) {
  for (int taken = 0; taken < 4; taken++) {
    tn_loader *l = make_loader(100, -1, (tn_loader_options){.batch_size = 5, .prefetch = 4});
    tn_tensor *batch = NULL;
    TN_CHECK_OK(tn_loader_begin(l, 0));
    for (int i = 0; i < taken; i++) {
      TN_CHECK_OK(tn_loader_next(l, &batch, 1));
      tn_tensor_release(batch);
    }
    if (taken == 2) TN_CHECK_OK(tn_loader_begin(l, 1));
    tn_loader_release(l);
  }
}

TN_TEST(frontends_loader, misuse) {
  tn_loader *l = make_loader(4, -1, (tn_loader_options){.batch_size = 2});
  tn_tensor *batch[2] = {0};
  TN_CHECK_FAILS(tn_loader_next(l, batch, 1), TN_ERR_STATE, "tn_loader_begin first");
  TN_CHECK_FAILS(tn_loader_next(l, batch, 2), TN_ERR_INVALID_ARGUMENT, "1 fields, room for 2");
  tn_loader_release(l);
  tn_tensor *t = TT_VECTOR(1);
  tn_dataset *d = NULL;
  TN_CHECK_OK(tn_tensor_dataset_new(&t, 1, &d));
  TN_CHECK_FAILS(tn_loader_new(d, &(tn_loader_options){.batch_size = 0}, &l), TN_ERR_INVALID_ARGUMENT,
                 "not 0 and 0");
  TN_CHECK_PTR_NULL(l);
  tn_dataset_release(d);
  tn_tensor_release(t);
}

TN_TEST(frontends_loader, an_empty_dataset_has_no_batch) {
  tn_loader *l = make_loader(0, -1, (tn_loader_options){.batch_size = 2, .shuffle = true, .prefetch = 1});
  int64_t order[1];
  TN_CHECK_INT(tn_loader_batches(l), 0);
  TN_CHECK_INT(read_epoch(l, 0, order), 0);
  tn_loader_release(l);
}

TN_TEST(frontends_loader, scoped_batches_belong_to_the_scope) {
  tn_loader *l = make_loader(4, -1, (tn_loader_options){.batch_size = 2, .prefetch = 1});
  int batches = 0;
  TN_CHECK_OK(tn_loader_begin(l, 0));
  for (bool more = true; more;) {
    tn_tensor *batch = NULL;
    tn_scope *scope = NULL;
    TN_CHECK_OK(tn_scope_begin(&scope));
    more = tns_loader_next(l, &batch, 1);
    batches += more;
    TN_CHECK_OK(tn_scope_end(scope));
  }
  TN_CHECK_INT(batches, 2);
  tn_loader_release(l);
}
