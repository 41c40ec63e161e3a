/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of memory that lie in a thread's front with the block of the tensor that had them: Note [Pairs] in
 * core/memory/memory.h. First on a device that keeps count, then with tensors that led all sorts of lives.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "core/tensor/tensor.h"
#include "memory_fake.h"
#include "tn_test.h"

enum { KIB = 1 << 10, BYTES = 4096, MANY = 200 };

/* A holder's block. */
static tni_memory_pair *holder(void) {
  tni_memory_pair *p = tni_block_alloc(TNI_MEMORY_PAIR_CLASS);
  TN_CHECK_NOT_NULL(p);
  return p;
}

static bool give(tni_memory_pair *pair, tni_memory_block *object) {
  return tni_memory_pair_give(pair, object) || tni_memory_pair_give_slow(pair, object);
}

/* A pool whose list of objects of BYTES has one pair. */
static tni_pool *pool_with_pair(fake *f, tni_memory_pair **out_pair, tni_memory_block **out_object) {
  fake_init(f, false, false);
  tni_pool *pool = fake_pool(f, true, true);
  *out_object = fake_take(pool, BYTES, NULL);
  *out_pair = holder();
  TN_CHECK(give(*out_pair, *out_object));
  return pool;
}

/* How many objects a snapshot says are in this state. */
static int count_state(tni_pool *pool, const char *state) {
  char *text = NULL, words[64];
  size_t n = 0;
  int count = 0;
  snprintf(words, sizeof words, "\"state\":\"%s\"", state);
  FILE *file = open_memstream(&text, &n);
  TN_CHECK_OK(tni_pool_snapshot(pool, file));
  fclose(file);
  for (const char *at = text; (at = strstr(at, words)) != NULL; ++at) ++count;
  free(text);
  return count;
}

TN_TEST(memory_pairs, a_pair_is_an_object_in_every_figure) {
  fake f;
  tni_memory_pair *pair;
  tni_memory_block *object;
  tni_pool *pool = pool_with_pair(&f, &pair, &object);
  tn_memory_stats given = fake_stats(pool);
  TN_CHECK_INT(given.current_bytes, 0);
  TN_CHECK_INT(given.n_frees, 1);
  TN_CHECK_INT(count_state(pool, "live"), 0);
  int cached = count_state(pool, "cached");

  TN_CHECK(tni_memory_pair_take(pool, BYTES - 1) == pair);
  TN_CHECK(pair->object == object);
  tn_memory_stats taken = fake_stats(pool);
  TN_CHECK_INT(taken.current_bytes, BYTES);
  TN_CHECK_INT(taken.n_allocs, given.n_allocs + 1);
  TN_CHECK_INT(taken.peak_bytes, BYTES);
  TN_CHECK_INT(count_state(pool, "live"), 1);
  TN_CHECK_INT(count_state(pool, "cached"), cached - 1);
  TN_CHECK_PTR_NULL(tni_memory_pair_take(pool, BYTES)); /* it was the only one */

  TN_CHECK(give(pair, object));
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  TN_CHECK_INT(fake_stats(pool).peak_bytes, BYTES);
  fake_end(&f, pool);
}

TN_TEST(memory_pairs, other_sizes_and_tagged_requests_take_none) {
  fake f;
  tni_memory_pair *pair;
  tni_memory_block *object;
  tni_pool *pool = pool_with_pair(&f, &pair, &object);
  TN_CHECK_PTR_NULL(tni_memory_pair_take(pool, BYTES + 1));
  TN_CHECK_PTR_NULL(tni_memory_pair_take(pool, BYTES / 2));
  TN_CHECK_PTR_NULL(tni_memory_pair_take(pool, 100 * KIB));
  TN_CHECK_OK(tni_memory_tag_number("pairs", &tni_tls.modes.memory_tag));
  TN_CHECK_PTR_NULL(tni_memory_pair_take(pool, BYTES));
  tni_tls.modes.memory_tag = 0;
  TN_CHECK(tni_memory_pair_take(pool, BYTES) == pair);
  TN_CHECK(give(pair, object));
  fake_end(&f, pool);
}

TN_TEST(memory_pairs, who_wants_the_object_alone_takes_a_pair_apart) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, true);
  tni_memory_block *first = fake_take(pool, BYTES, NULL); /* and half a list behind it */
  tni_memory_block *all[MANY];
  int n = 0;
  while (tni_front_at(pool)->lists[first->size_class].head) all[n++] = fake_take(pool, BYTES, NULL);
  TN_CHECK(give(holder(), first));
  TN_CHECK(fake_take(pool, BYTES, NULL) == first);
  TN_CHECK_INT(fake_stats(pool).n_raw_allocs, 1);
  TN_CHECK_INT(fake_stats(pool).current_bytes, (n + 1) * BYTES);
  tni_memory_free(first, NULL);
  while (n) tni_memory_free(all[--n], NULL);
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  fake_end(&f, pool);
}

TN_TEST(memory_pairs, a_full_list_refuses_and_a_purge_gives_all_back) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, true);
  tni_memory_block *all[MANY];
  uint32_t given = 0;
  for (int i = 0; i < MANY; ++i) all[i] = fake_take(pool, BYTES, NULL);
  uint32_t most = tni_front_at(pool)->lists[all[0]->size_class].most;
  uint32_t kept = tni_front_at(pool)->lists[all[0]->size_class].count;
  for (int i = 0; i < MANY; ++i) {
    tni_memory_pair *pair = holder();
    if (give(pair, all[i])) {
      ++given;
      continue;
    }
    tni_block_free(pair, TNI_MEMORY_PAIR_CLASS); /* spills half of the list, pairs too */
    tni_memory_free(all[i], NULL);
    TN_CHECK(given + kept >= most);
    TN_CHECK(tni_front_at(pool)->lists[all[0]->size_class].count <= most / 2 + 1);
  }
  TN_CHECK(given > most);
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  TN_CHECK_INT(fake_stats(pool).n_frees, MANY);
  tni_pool_purge(pool);
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, 0);
  TN_CHECK_PTR_NULL(tni_memory_pair_take(pool, BYTES));
  fake_end(&f, pool);
}

TN_TEST(memory_pairs, what_no_list_takes_is_refused) {
  fake f, g;
  fake_init(&f, false, false);
  fake_init(&g, true, false);
  tni_pool *pool = fake_pool(&f, true, true), *asynchronous = fake_pool(&g, true, false);
  tni_memory_pair *pair = holder();
  tni_memory_block *large = fake_take(pool, 200 * KIB, NULL), *tagged, *later = fake_take(asynchronous, BYTES, NULL);
  TN_CHECK_OK(tni_memory_tag_number("pairs", &tni_tls.modes.memory_tag));
  tagged = fake_take(pool, BYTES, NULL);
  tni_tls.modes.memory_tag = 0;
  TN_CHECK(!give(pair, large));
  TN_CHECK(!give(pair, tagged));
  TN_CHECK(!give(pair, later));
  tni_block_free(pair, TNI_MEMORY_PAIR_CLASS);
  tni_memory_free(large, NULL);
  tni_memory_free(tagged, NULL);
  tni_memory_free(later, NULL);
  fake_end(&f, pool);
  fake_end(&g, asynchronous);
}

TN_TEST(memory_pairs, a_front_that_is_not_the_first_serves_them_too) {
  fake f, g;
  tni_memory_pair *a, *b;
  tni_memory_block *of_a, *of_b;
  tni_pool *first = pool_with_pair(&f, &a, &of_a), *second = pool_with_pair(&g, &b, &of_b);
  for (int i = 0; i < 10; ++i) { /* in turn */
    TN_CHECK_PTR_NULL(tni_memory_pair_take(first, BYTES));
    TN_CHECK(tni_memory_pair_take_slow(first, BYTES) == a);
    TN_CHECK(tni_memory_pair_take_slow(second, BYTES) == b);
    TN_CHECK(!tni_memory_pair_give(a, of_a));
    TN_CHECK(tni_memory_pair_give_slow(a, of_a));
    TN_CHECK(tni_memory_pair_give_slow(b, of_b));
  }
  TN_CHECK_INT(fake_stats(first).n_frees, 11);
  TN_CHECK_INT(fake_stats(second).current_bytes, 0);
  fake_end(&f, first);
  fake_end(&g, second);
}

static void *give_and_end(void *ctx) {
  tni_memory_block **objects = ctx;
  for (int i = 0; i < 8; ++i) {
    tni_memory_pair *pair = tni_block_alloc(TNI_MEMORY_PAIR_CLASS);
    if (!pair || !tni_memory_pair_give(pair, objects[i])) {
      tni_block_free(pair, TNI_MEMORY_PAIR_CLASS);
      tni_memory_free(objects[i], NULL); /* the thread's first: it has no front yet */
    }
  }
  return NULL;
}

TN_TEST(memory_pairs, those_of_a_thread_that_ends_come_back) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, true);
  tni_memory_block *objects[8];
  pthread_t thread;
  for (int i = 0; i < 8; ++i) objects[i] = fake_take(pool, BYTES, NULL);
  TN_CHECK_INT(pthread_create(&thread, NULL, give_and_end, objects), 0);
  pthread_join(thread, NULL);
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  tni_pool_purge(pool);
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, 0);
  fake_end(&f, pool);
}

/* ------------------------------------------------------------------ tensors */

enum { N = 1000 }; /* elements: too many for the tensor's own block */

static tn_tensor *ones(void) {
  const int64_t n = N;
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_full(&n, 1, tn_float(1), TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  return t;
}

/* Nothing of an earlier life is left. */
static void check_new(tn_tensor *t) {
  const tn_view *v = &t->view;
  const tni_storage *s = tni_storage_of(t);
  TN_CHECK(s == &t->own_storage);
  TN_CHECK_INT(s->kind, TNI_STORAGE_ALLOCATED);
  TN_CHECK_INT(tni_storage_bytes(s), N * sizeof(float));
  TN_CHECK(v->data == s->address);
  TN_CHECK_INT(v->mem, s->mem);
  TN_CHECK_INT(tni_view_offset(v), 0);
  TN_CHECK_INT(v->dtype, TN_FLOAT32);
  TN_CHECK_INT(v->ndim, 1);
  TN_CHECK(v->sizes == t->dims);
  TN_CHECK_INT(v->sizes[0], N);
  TN_CHECK_INT(v->strides[0], 1);
  TN_CHECK_INT(v->numel, N);
  TN_CHECK_INT(v->flags, TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE);
  TN_CHECK_INT(t->keys, TNI_KEY(TN_BACKEND_CPU));
  TN_CHECK_INT(atomic_load(&t->counts), TNI_SOLE);
  TN_CHECK(t->version == &t->own_version);
  TN_CHECK_INT(tni_version_get(t), 0);
  TN_CHECK(!t->autograd && !t->parent && !t->base && !t->owner && !t->version_owner && !t->replay && !t->retired);
  TN_CHECK_INT(t->extras, TNI_EXTRA_MEMORY);
  TN_CHECK_INT(t->creation, TNI_CREATION_DEFAULT);
  TN_CHECK_INT(t->kept, 0);
  TN_CHECK_INT(t->block_class, TNI_MEMORY_PAIR_CLASS);
}

typedef void (*life_fn)(tn_tensor *t); /* ends with t's release */

static void short_life(tn_tensor *t) { tn_tensor_release(t); }

static void with_history(tn_tensor *t) {
  tn_tensor *doubled, *sum;
  TN_CHECK_OK(tn_set_requires_grad(t, true));
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &doubled));
  TN_CHECK_OK(tn_sum(doubled, TN_DTYPE_NONE, &sum));
  TN_CHECK_OK(tn_backward_run(sum, NULL));
  tn_tensor_release(sum);
  tn_tensor_release(doubled);
  tn_tensor_release(t);
}

static void made_smaller(tn_tensor *t) {
  TN_CHECK_OK(tn_resize_(t, (const int64_t[]){10, 20}, 2, TN_MEMORY_FORMAT_NONE));
  TN_CHECK_OK(tn_fill_(t, tn_float(3)));
  tn_tensor_release(t);
}

static void of_high_rank(tn_tensor *t) {
  TN_CHECK_OK(tn_resize_(t, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 2}, 8, TN_MEMORY_FORMAT_NONE));
  tn_tensor_release(t);
}

static void seen_by_others(tn_tensor *t) {
  tn_tensor *view, *same;
  const float last = ((float *)tn_tensor_data(t))[N - 1];
  TN_CHECK_OK(tn_slice(t, 0, &(int64_t){5}, NULL, 1, &view));
  TN_CHECK_OK(tn_detach(t, &same));
  tn_tensor_release(t);
  tn_tensor_release(view);
  TN_CHECK(memcmp(&((float *)tn_tensor_data(same))[N - 1], &last, sizeof last) == 0); /* it may be NaN */
  tn_tensor_release(same);
}

static void with_other_memory(tn_tensor *t) {
  tn_tensor *other = ones();
  TN_CHECK_OK(tn_set_(t, other));
  tn_tensor_release(other);
  tn_tensor_release(t);
}

/* The last to go is a neighbour of another size that is served from the same list. */
static void beside_a_shorter_one(tn_tensor *t) {
  tn_tensor *shorter;
  TN_CHECK_OK(tn_empty(&(int64_t){N - 10}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), TN_MEMORY_FORMAT_NONE, &shorter));
  TN_CHECK_INT(tni_storage_bytes(tni_storage_of(shorter)), (N - 10) * sizeof(float));
  tn_tensor_release(t);
  tn_tensor_release(shorter);
}

static void shared_handle(tn_tensor *t) {
  tn_tensor_release(tn_tensor_retain(t));
  tn_tensor_release(t);
}

static void of_inference(tn_tensor *t) {
  tn_tensor *inside;
  bool before = tn_inference_mode_set(true);
  TN_CHECK_OK(tn_add(t, t, tn_int(1), &inside));
  tn_tensor_release(t);
  tn_tensor_release(inside);
  tn_inference_mode_set(before);
}

TN_TEST(memory_pairs, a_tensor_in_the_block_of_another_is_new) {
  static const life_fn lives[] = {short_life,        with_history,         made_smaller,  of_high_rank, seen_by_others,
                                  with_other_memory, beside_a_shorter_one, shared_handle, of_inference};
  tn_tensor *a = ones(), *b = ones();
  for (size_t i = 0; i < sizeof lives / sizeof *lives; ++i) {
    tn_tensor *made, *empty;
    lives[i](ones());
    TN_CHECK_OK(tn_add(a, b, tn_int(1), &made)); /* by the short way */
    check_new(made);
    TN_CHECK_DOUBLE(((float *)tn_tensor_data(made))[N - 1], 2, 0);
    lives[i](made);
    TN_CHECK_OK(tn_empty(&(int64_t){N}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), TN_MEMORY_FORMAT_NONE, &empty));
    check_new(empty);
    lives[i](empty);
    TN_CHECK_OK(tni_tensor_new(TN_FLOAT32, 1, &(tn_dim){N}, NULL, (tn_device){.backend = TN_BACKEND_CPU}, &empty));
    check_new(empty);
    tn_tensor_release(empty);
  }
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(memory_pairs, the_next_tensor_of_a_size_takes_block_and_memory) {
  if (!tni_memory_cached()) return;
  tn_tensor *a = ones(), *first, *second;
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &first));
  const void *data = tn_tensor_data(first);
  tn_tensor_release(first);
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &second));
  TN_CHECK(second == first);
  TN_CHECK(tn_tensor_data(second) == data);
  tn_tensor_release(second);
  TN_CHECK_OK(tn_empty(&(int64_t){N}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), TN_MEMORY_FORMAT_NONE, &second));
  TN_CHECK(second == first);

  fake f; /* the same with another front in the first place */
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, true);
  tni_memory_free(fake_take(pool, BYTES, NULL), NULL);
  tn_tensor_release(second);
  TN_CHECK(tni_tls.front->lists[tni_memory_class(N * sizeof(float))].pairs == (tni_memory_pair *)(void *)first);
  tni_memory_free(fake_take(pool, BYTES, NULL), NULL);
  TN_CHECK_OK(tn_add(a, a, tn_int(1), &second));
  TN_CHECK(second == first);
  tn_tensor_release(second);
  tn_tensor_release(a);
  fake_end(&f, pool);
}
