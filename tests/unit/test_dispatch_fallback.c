/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a backend has no kernel: whose word holds, what is counted, what is refused before anything happens, and memory
 * that the host sees itself. What the round trip computes is tests/ops/test_fallback.c.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "core/dispatch/fallback.h"
#include "private_backend.h"
#include "tn_stress.h"

static tn_device barn(void) { return private_backend("barn", 0); } /* declares nothing */
static tn_device loft(void) { return private_backend("loft", TN_BACKEND_CPU_FALLBACK); } /* opaque memory */
static tn_device porch(void) {
  return private_backend("porch", TN_BACKEND_CPU_FALLBACK | TN_BACKEND_HOST_MEMORY);
}

static tn_tensor *vector(tn_device device, tn_dim n) {
  static const float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1,
                                  TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true, .device = device), &t));
  return t;
}

static void check_policy(const char *op, const char *device, tn_fallback_policy expected) {
  tn_fallback_policy policy;
  TN_CHECK_OK(tn_fallback_get(op, device, &policy));
  TN_CHECK_INT(policy, expected);
}

TN_TEST(fallback_policy, the_most_specific_word_holds) {
  barn();
  loft();
  check_policy(NULL, "barn", TN_FALLBACK_ERROR);
  check_policy("exp", "loft", TN_FALLBACK_WHOLE); /* declared, and nobody has a kernel for it */
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_WARN));
  TN_CHECK_OK(tn_fallback_set(NULL, "loft", TN_FALLBACK_ERROR));
  TN_CHECK_OK(tn_fallback_set("exp_", NULL, TN_FALLBACK_WHOLE)); /* a form speaks for its operator */
  TN_CHECK_OK(tn_fallback_set("exp", "loft", TN_FALLBACK_ERROR));
  check_policy(NULL, "loft", TN_FALLBACK_ERROR);
  check_policy("log", "loft", TN_FALLBACK_ERROR);
  check_policy("log", "barn", TN_FALLBACK_WARN);
  check_policy("exp", "barn", TN_FALLBACK_WHOLE);
  check_policy("exp.out", "loft", TN_FALLBACK_ERROR);
  TN_CHECK_OK(tn_fallback_set("exp", "loft", TN_FALLBACK_DEFAULT));
  check_policy("exp", "loft", TN_FALLBACK_WHOLE); /* the operator goes before the device */
  TN_CHECK_OK(tn_fallback_set("exp", NULL, TN_FALLBACK_DEFAULT));
  TN_CHECK_OK(tn_fallback_set(NULL, "loft", TN_FALLBACK_DEFAULT));
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_DEFAULT));
  check_policy("exp", "barn", TN_FALLBACK_ERROR);
}

TN_TEST(fallback_policy, refuses_what_nobody_offers) {
  tn_fallback_policy policy;
  TN_CHECK_OK(tn_init());
  TN_CHECK_FAILS(tn_fallback_set("nonsense", NULL, TN_FALLBACK_WARN), TN_ERR_NOT_FOUND, "nonsense");
  TN_CHECK_FAILS(tn_fallback_set(NULL, "nowhere", TN_FALLBACK_WARN), TN_ERR_NOT_FOUND, "nowhere");
  TN_CHECK_FAILS(tn_fallback_set(NULL, NULL, (tn_fallback_policy)9), TN_ERR_INVALID_ARGUMENT, "9");
  TN_CHECK_FAILS(tn_fallback_get(NULL, "nowhere", &policy), TN_ERR_NOT_FOUND, "nowhere");
  TN_CHECK_FAILS(tn_fallback_get(NULL, NULL, &policy), TN_ERR_INVALID_ARGUMENT, "device");
  TN_CHECK_FAILS(tn_fallback_report_get(tn_fallback_count(), NULL), TN_ERR_INVALID_ARGUMENT, "out_report");
}

TN_TEST(fallback_policy, an_error_changes_nothing) {
  tn_tensor *x = vector(barn(), 4), *target = vector(barn(), 2);
  uint32_t before, after;
  TN_CHECK_OK(tn_tensor_version(target, &before));
  TN_CHECK_FAILS(tn_exp_out(x, target), TN_ERR_MISSING_KERNEL, "no kernel for barn serves exp of float32");
  TN_CHECK_INT(tn_tensor_numel(target), 2); /* not resized */
  TN_CHECK_OK(tn_tensor_version(target, &after));
  TN_CHECK_INT(after, before);
  TN_CHECK_FAILS(tn_exp_(x), TN_ERR_MISSING_KERNEL, "TENON_FALLBACK=exp@barn=allow");
  tn_tensor_release(target);
  tn_tensor_release(x);
}

static tn_fallback_report report_of(const char *op, const char *device) {
  tn_fallback_report r = {0};
  for (size_t i = 0; i < tn_fallback_count(); i++) {
    TN_CHECK_OK(tn_fallback_report_get(i, &r));
    if (strcmp(r.op, op) == 0 && strcmp(r.device, device) == 0) return r;
  }
  return (tn_fallback_report){0};
}

TN_TEST(fallback_counts, match_what_the_backend_moved) {
  tn_tensor *x = vector(loft(), 8), *y = vector(loft(), 8), *every = NULL, *r = NULL;
  private_backend_traffic moved = private_backend_moved();
  tn_fallback_reset();
  TN_CHECK_OK(tn_mul(x, y, &r));
  TN_CHECK_OK(tn_mul_(x, x)); /* one tensor, read once */
  int64_t step = 2;
  TN_CHECK_OK(tn_slice(y, 0, NULL, NULL, step, &every));
  TN_CHECK_OK(tn_exp_(every)); /* with its gaps: 7 of 8 elements each way */
  private_backend_traffic now = private_backend_moved();
  tn_fallback_report mul = report_of("mul.Tensor", "loft"), exp = report_of("exp", "loft");
  TN_CHECK_INT(mul.calls, 2);
  TN_CHECK_INT(exp.calls, 1);
  TN_CHECK_INT(mul.bytes_to_host, 96);
  TN_CHECK_INT(mul.bytes_from_host, 64);
  TN_CHECK_INT(exp.bytes_to_host, 28);
  TN_CHECK_INT(mul.bytes_to_host + exp.bytes_to_host, now.to_host - moved.to_host);
  TN_CHECK_INT(mul.bytes_from_host + exp.bytes_from_host, now.from_host - moved.from_host);
  tn_fallback_reset();
  TN_CHECK_INT(report_of("mul.Tensor", "loft").calls, 0);
  tn_tensor *all[] = {r, every, y, x};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tn_tensor_release(all[i]);
}

TN_TEST(fallback_counts, nothing_moves_where_the_host_sees_the_memory) {
  tn_tensor *x = vector(porch(), 4), *r = NULL;
  float got[4];
  tn_fallback_reset();
  TN_CHECK_OK(tn_mul(x, x, &r));
  TN_CHECK_INT(tn_tensor_device(r).backend, porch().backend);
  TN_CHECK_INT(report_of("mul.Tensor", "porch").calls, 1);
  TN_CHECK_INT(report_of("mul.Tensor", "porch").bytes_to_host, 0);
  TN_CHECK_OK(tn_tensor_to_host(r, got, sizeof got));
  TN_CHECK_DOUBLE(got[3], 9, 0);
  tn_tensor_release(r);
  tn_tensor_release(x);
}

/* A copy within a device that no kernel makes goes through the host: counted, and forbidden by a word alone. */
TN_TEST(fallback_counts, copies_within_a_device) {
  tn_tensor *x = vector(barn(), 4), *y = vector(barn(), 4);
  tn_fallback_reset();
  TN_CHECK_OK(tn_copy_(x, y, false));
  TN_CHECK_INT(report_of("copy_", "barn").calls, 1);
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_ERROR));
  TN_CHECK_FAILS(tn_copy_(x, y, false), TN_ERR_MISSING_KERNEL, "copy_");
  tn_tensor *there = NULL;
  TN_CHECK_OK(tn_to_device(x, loft(), TN_FLOAT32, false, true, TN_PRESERVE_FORMAT,
                           &there)); /* between two: a transfer */
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_DEFAULT));
  tn_tensor_release(there);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ warnings */

typedef struct lines {
  int n;
  int32_t level;
  char last[256];
} lines;

static void keep_line(void *ctx, int32_t level, const char *words) {
  lines *l = ctx;
  l->n++;
  l->level = level;
  snprintf(l->last, sizeof l->last, "%s", words);
}

/* Once for an operator and device, in all its forms; another operator, and the same on another device, are said again. */
TN_TEST(fallback_warnings, are_said_once_for_each_operator_and_device) {
  tn_tensor *x = vector(loft(), 4), *y = vector(porch(), 4), *r = NULL;
  lines said = {0};
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_WARN));
  tn_log_set(keep_line, &said);
  for (int round = 0; round < 3; round++) {
    TN_CHECK_OK(tn_cos(x, &r));
    tn_tensor_release(r);
    TN_CHECK_OK(tn_cos_(x));
  }
  TN_CHECK_INT(said.n, 1);
  TN_CHECK_INT(said.level, TN_LOG_WARN);
  TN_CHECK_STR(said.last, "loft has no kernel for cos: it runs on the CPU, with copies both ways (said once)");
  TN_CHECK_OK(tn_sin_(x));
  TN_CHECK_INT(said.n, 2);
  TN_CHECK_OK(tn_cos_(y));
  TN_CHECK_INT(said.n, 3);
  TN_CHECK_CONTAINS(said.last, "porch has no kernel for cos");
  tn_fallback_reset();
  TN_CHECK_OK(tn_cos_(x));
  TN_CHECK_OK(tn_cos_(x));
  TN_CHECK_INT(said.n, 4);
  tn_log_set(NULL, NULL);
  TN_CHECK_OK(tn_fallback_set(NULL, NULL, TN_FALLBACK_DEFAULT));
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ rules of targets, and failures */

TN_TEST(fallback_rules, overlap_is_refused_without_addresses) {
  tn_tensor *x = vector(loft(), 8), *head, *near;
  TN_CHECK_OK(tn_slice(x, 0, NULL, &(int64_t){4}, 1, &head));
  TN_CHECK_OK(tn_slice(x, 0, &(int64_t){2}, &(int64_t){6}, 1, &near));
  TN_CHECK_FAILS(tn_mul_(head, near), TN_ERR_OVERLAP, "shares part of its memory");
  tn_tensor_release(near);
  tn_tensor_release(head);
  tn_tensor_release(x);
}

static tn_status do_add(void *ctx) {
  tn_tensor **t = ctx;
  return tn_add_(t[0], t[1], tn_int(1));
}
static void after_add(void *ctx, tn_status status) {
  tn_tensor **t = ctx;
  uint32_t version;
  TN_CHECK_OK(tn_tensor_version(t[0], &version));
  if (status != TN_OK) TN_CHECK_INT(version, 0);
}

TN_TEST(fallback_rules, missing_memory_leaves_the_target) {
  tn_tensor *t[2] = {vector(loft(), 8), vector(loft(), 8)};
  tn_stress_run(do_add, after_add, t);
  tn_tensor_release(t[0]);
  tn_tensor_release(t[1]);
}
