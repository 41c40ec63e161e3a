/* SPDX-License-Identifier: Apache-2.0
 *
 * From code points to training data. See Note [Text data].
 */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/text.h"

enum { IGNORED = -100 }; /* cross_entropy_loss's default */

/* ------------------------------------------------------------------ vocabulary */

static tn_status make_tables(int64_t count, tni_vocabulary *v) {
  v->count = count;
  v->points = calloc((size_t)count, sizeof *v->points);
  v->entries = calloc(TNI_TEXT_POINTS, sizeof *v->entries);
  if (v->points && v->entries) return TN_OK;
  tni_vocabulary_free(v);
  return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a vocabulary of %" PRId64 " characters", count);
}

/* points[1..] are there. */
static void number_them(tni_vocabulary *v) {
  v->points[0] = TNI_TEXT_UNKNOWN;
  for (int64_t i = 1; i < v->count; i++) v->entries[v->points[i]] = (int32_t)i;
}

tn_status tni_vocabulary_of(const uint32_t *points, size_t n, tni_vocabulary *out_vocabulary) {
  *out_vocabulary = (tni_vocabulary){0};
  bool *seen = calloc(TNI_TEXT_POINTS, sizeof *seen);
  if (!seen) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: the characters of a text");
  int64_t count = 1, next = 1;
  for (size_t i = 0; i < n; i++) {
    count += !seen[points[i]] && points[i] != TNI_TEXT_UNKNOWN;
    seen[points[i]] = true;
  }
  tn_status status = make_tables(count, out_vocabulary);
  for (uint32_t p = 0; status == TN_OK && p < TNI_TEXT_POINTS; p++)
    if (seen[p] && p != TNI_TEXT_UNKNOWN) out_vocabulary->points[next++] = p;
  if (status == TN_OK) number_them(out_vocabulary);
  free(seen);
  return status;
}

tn_status tni_vocabulary_tensor(const tni_vocabulary *vocabulary, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  int64_t *wide = calloc((size_t)vocabulary->count, sizeof *wide);
  if (!wide) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a vocabulary");
  for (int64_t i = 0; i < vocabulary->count; i++) wide[i] = vocabulary->points[i];
  tn_status status = tn_tensor_from_host(wide, &vocabulary->count, 1,
                                         TN_OPTIONS(.dtype = TN_INT64, .has_device = true), out_tensor);
  free(wide);
  return status;
}

static tn_status check_points(const int64_t *points, int64_t count) {
  if (points[0] != TNI_TEXT_UNKNOWN)
    return tn_fail(TN_ERR_DATA, "the vocabulary's entry 0 is %" PRId64 "; U+FFFD was expected", points[0]);
  for (int64_t i = 1; i < count; i++) {
    bool scalar = points[i] >= 0 && points[i] < TNI_TEXT_POINTS && points[i] != TNI_TEXT_UNKNOWN &&
                  !(points[i] >= 0xD800 && points[i] < 0xE000);
    if (!scalar || (i > 1 && points[i] <= points[i - 1]))
      return tn_fail(TN_ERR_DATA,
                     "the vocabulary's entry %" PRId64 " is %" PRId64 "; code points that rise were expected",
                     i, points[i]);
  }
  return TN_OK;
}

tn_status tni_vocabulary_from(tn_tensor *tensor, tni_vocabulary *out_vocabulary) {
  *out_vocabulary = (tni_vocabulary){0};
  int64_t count = tn_tensor_numel(tensor);
  if (tn_tensor_dtype(tensor) != TN_INT64 || tn_tensor_ndim(tensor) != 1 || count < 1 ||
      count > TNI_TEXT_POINTS)
    return tn_fail(TN_ERR_DATA, "the vocabulary is no list of at most %d int64", TNI_TEXT_POINTS);
  int64_t *points = calloc((size_t)count, sizeof *points);
  if (!points) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a vocabulary");
  tn_status status = tn_tensor_to_host(tensor, points, (size_t)count * sizeof *points);
  if (status == TN_OK) status = check_points(points, count);
  if (status == TN_OK) status = make_tables(count, out_vocabulary);
  for (int64_t i = 0; status == TN_OK && i < count; i++) out_vocabulary->points[i] = (uint32_t)points[i];
  if (status == TN_OK) number_them(out_vocabulary);
  free(points);
  return status;
}

void tni_vocabulary_free(tni_vocabulary *vocabulary) {
  free(vocabulary->points);
  free(vocabulary->entries);
  *vocabulary = (tni_vocabulary){0};
}

static tn_status copy_vocabulary(const tni_vocabulary *from, tni_vocabulary *out_vocabulary) {
  TN_TRY(make_tables(from->count, out_vocabulary));
  memcpy(out_vocabulary->points, from->points, (size_t)from->count * sizeof *from->points);
  number_them(out_vocabulary);
  return TN_OK;
}

/* ------------------------------------------------------------------ windows */

/* The text as entries of the vocabulary; both sets share it. */
typedef struct sequence {
  _Atomic int refs;
  int64_t count;
  int32_t ids[];
} sequence;

/* Ids [first, last) of the sequence are to be predicted, `context` at a time, from `phase` on. */
typedef struct windows {
  sequence *all;
  int64_t first, last, context, phase;
} windows;

static void windows_free(void *ctx) {
  windows *w = ctx;
  if (atomic_fetch_sub_explicit(&w->all->refs, 1, memory_order_acq_rel) == 1) free(w->all);
  free(w);
}

static tn_status windows_get(void *ctx, const int64_t *indices, size_t n, tn_tensor **out_fields,
                             size_t n_fields) {
  const windows *w = ctx;
  const tn_dim sizes[] = {(tn_dim)n, w->context};
  const tn_options *options = TN_OPTIONS(.dtype = TN_INT64, .has_device = true);
  for (size_t f = 0; f < n_fields; f++)
    TN_TRY(tn_empty(sizes, 2, options, TN_MEMORY_FORMAT_NONE, &out_fields[f]));
  int64_t *input = tn_tensor_data(out_fields[0]), *target = tn_tensor_data(out_fields[1]);
  for (size_t i = 0; i < n; i++) {
    int64_t at = w->first + w->phase + indices[i] * w->context;
    for (int64_t j = 0; j < w->context; j++, at++) {
      bool inside = at < w->last;
      *input++ = inside ? w->all->ids[at - 1] : 0;
      *target++ = inside ? w->all->ids[at] : IGNORED;
    }
  }
  return TN_OK;
}

static const tn_dataset_def windows_def = {windows_get, windows_free};

static tn_status windows_new(sequence *all, int64_t first, int64_t last, int64_t context, int64_t count,
                             tn_dataset **out_set, windows **out_borrowed) {
  windows *w = malloc(sizeof *w);
  if (!w) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a dataset of text");
  atomic_fetch_add_explicit(&all->refs, 1, memory_order_relaxed);
  *w = (windows){all, first, last, context, 0};
  *out_borrowed = w;
  return tn_dataset_new(&windows_def, w, count, 2, out_set);
}

/* Side by side, with room for a phase below `context` where the text allows. */
static int64_t train_windows(int64_t n_train, int64_t context) {
  int64_t count = (n_train - context) / context;
  return count > 0 ? count : 1;
}

void tni_text_begin_epoch(tni_text_data *data, uint64_t seed, int64_t epoch) {
  windows *w = data->train_windows;
  int64_t spare = w->last - w->first - tn_dataset_length(data->train_set) * w->context;
  int64_t phases = spare + 1 < w->context ? spare + 1 : w->context;
  /* SplitMix64's mixing of one number made of both. */
  uint64_t x = seed * 0x9E3779B97F4A7C15u + (uint64_t)epoch;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  w->phase = (int64_t)((x ^ (x >> 31)) % (uint64_t)phases);
}

/* ------------------------------------------------------------------ bigram model */

/* Successors grouped by what they follow: those of id a are next[starts[a]..starts[a + 1]). */
typedef struct pairs {
  int64_t *starts;
  int32_t *next;
} pairs;

static tn_status group_pairs(const int32_t *ids, int64_t first, int64_t last, int64_t count, pairs *p) {
  p->starts = calloc((size_t)count + 2, sizeof *p->starts);
  p->next = calloc((size_t)(last - first) + 1, sizeof *p->next);
  if (!p->starts || !p->next) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: pairs of characters");
  for (int64_t i = first; i < last; i++) p->starts[ids[i - 1] + 2]++;
  for (int64_t a = 2; a < count + 2; a++) p->starts[a] += p->starts[a - 1];
  for (int64_t i = first; i < last; i++) p->next[p->starts[ids[i - 1] + 1]++] = ids[i];
  return TN_OK;
}

/* Mean of -ln((pairs (a, b) in train + 1) / (pairs (a, *) + count)) over the pairs (a, b) in test. counts: zeros. */
static double mean_loss(const pairs *train, const pairs *test, int64_t count, int64_t *counts,
                        int64_t n_test) {
  double sum = 0.0;
  for (int64_t a = 0; a < count; a++) {
    int64_t total = train->starts[a + 1] - train->starts[a];
    for (int64_t i = train->starts[a]; i < train->starts[a + 1]; i++) counts[train->next[i]]++;
    for (int64_t i = test->starts[a]; i < test->starts[a + 1]; i++)
      sum -= log((double)(counts[test->next[i]] + 1) / (double)(total + count));
    for (int64_t i = train->starts[a]; i < train->starts[a + 1]; i++) counts[train->next[i]] = 0;
  }
  return sum / (double)n_test;
}

static tn_status fit_bigram(const sequence *all, tni_text_data *d) {
  pairs train = {0}, test = {0};
  int64_t count = d->vocabulary.count;
  int64_t *counts = calloc((size_t)count, sizeof *counts);
  tn_status status = counts ? TN_OK : tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: counts of characters");
  if (status == TN_OK) status = group_pairs(all->ids, 1, d->n_train, count, &train);
  if (status == TN_OK) status = group_pairs(all->ids, d->n_train, all->count, count, &test);
  if (status == TN_OK) d->bigram_loss = mean_loss(&train, &test, count, counts, d->n_test);
  free(test.starts);
  free(test.next);
  free(train.starts);
  free(train.next);
  free(counts);
  return status;
}

/* ------------------------------------------------------------------ opening */

static tn_status make_sequence(const tni_text *text, tni_text_data *d, sequence **out_sequence) {
  sequence *s = text->count <= (SIZE_MAX - sizeof *s) / sizeof *s->ids
                    ? malloc(sizeof *s + text->count * sizeof *s->ids)
                    : NULL;
  if (!s) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu characters", text->count);
  atomic_init(&s->refs, 1);
  s->count = (int64_t)text->count;
  for (int64_t i = 0; i < s->count; i++) {
    s->ids[i] = d->vocabulary.entries[text->points[i]];
    d->n_unknown += i >= d->n_train && s->ids[i] == 0;
  }
  *out_sequence = s;
  return TN_OK;
}

static tn_status check_length(const char *path, const tni_text_data *d, int64_t context) {
  if (d->n_train > context && d->n_test > 0) return TN_OK;
  return tn_fail(TN_ERR_DATA,
                 "%s: the text has %" PRId64 " characters, of which the first %" PRId64
                 " train; a context of %" PRId64 " needs at least %" PRId64 " of them",
                 path, d->n_train + d->n_test, d->n_train, context, context + 1);
}

static tn_status make_sets(tni_text_data *d, sequence *all, int64_t context) {
  windows *test;
  TN_TRY(windows_new(all, 1, d->n_train, context, train_windows(d->n_train, context), &d->train_set,
                     &d->train_windows));
  int64_t count = d->n_test / context + (d->n_test % context != 0);
  TN_TRY(windows_new(all, d->n_train, all->count, context, count, &d->test_set, &test));
  return fit_bigram(all, d);
}

static tn_status open_text(const char *path, const tni_text *text, int64_t context,
                           const tni_vocabulary *known, tni_text_data *d) {
  sequence *all = NULL;
  int64_t n = (int64_t)text->count;
  d->n_train = n / 10 * 9 + n % 10 * 9 / 10;
  d->n_test = n - d->n_train;
  memcpy(d->sha256, text->sha256, sizeof d->sha256);
  TN_TRY(check_length(path, d, context));
  TN_TRY(known ? copy_vocabulary(known, &d->vocabulary)
               : tni_vocabulary_of(text->points, (size_t)d->n_train, &d->vocabulary));
  TN_TRY(make_sequence(text, d, &all));
  tn_status status = make_sets(d, all, context);
  if (atomic_fetch_sub_explicit(&all->refs, 1, memory_order_acq_rel) == 1) free(all);
  return status;
}

tn_status tni_text_open(const char *path, int64_t context, const tni_vocabulary *known,
                        tni_text_data *out_data) {
  tni_text text;
  *out_data = (tni_text_data){0};
  TN_TRY(tni_text_read(path, &text));
  tn_status status = open_text(path, &text, context, known, out_data);
  tni_text_free(&text);
  if (status != TN_OK) tni_text_close(out_data);
  return status;
}

void tni_text_close(tni_text_data *data) {
  tn_dataset_release(data->train_set);
  tn_dataset_release(data->test_set);
  tni_vocabulary_free(&data->vocabulary);
  *data = (tni_text_data){0};
}
