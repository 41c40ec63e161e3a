/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/plugin, kit/register and kit/manifest: negotiation with hosts of other versions, the full-size table
 * over a short one, registration in order, the manifest's first lines. The program's own table is put back
 * each time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

#include "tn_test.h"

static char words[256];
static tn_status keep_words(tn_status code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  return code;
}

static const char *registered[4];
static int n_registered;
static tn_status take_kernel(tn_registration *reg, const tn_kernel_def *def) {
  (void)reg;
  if (strcmp(def->op, "bad") == 0) return keep_words(TN_ERR_PLUGIN, "no operator %s", def->op);
  registered[n_registered++] = def->op;
  return TN_OK;
}

static tn_status kernel(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_OK;
}

static const tn_host *host_in_init;
static tn_status demo_init(const tn_host *host, tn_registration *reg) {
  static const tn_kernel_def kernels[] = {
      TN_KERNEL("demo", "add.Tensor", kernel, TN_DTYPES_ALL),
      TN_KERNEL("demo", "mm", kernel, TN_DTYPE_BIT(TN_FLOAT32), .priority = 3, .max_rank = 2),
  };
  TN_CHECK_INT(kernels[1].struct_size, sizeof(tn_kernel_def));
  TN_CHECK_INT(kernels[1].priority, 3);
  TN_CHECK(kernels[1].line > 0 && strstr(kernels[1].file, "test_kit_plugin.c"));
  host_in_init = host;
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}
static void demo_shutdown(void) {}

TN_PLUGIN(.name = "demo", .version = "1.2", .init = demo_init, .shutdown = demo_shutdown)

static tn_query query_of(uint32_t major, uint32_t minor, uint32_t minor_min) {
  tn_query q = {
      .struct_size = sizeof q, .host_major = major, .host_minor = minor, .host_minor_min = minor_min};
  return q;
}

TN_TEST(kit_plugin, negotiation) {
  tn_query q = query_of(TN_ABI_MAJOR, TN_ABI_MINOR, 0);
  TN_CHECK_INT(tenon_plugin_query(&q), TN_OK);
  TN_CHECK_INT(q.plugin_major, TN_ABI_MAJOR);
  TN_CHECK_INT(q.sanitizer, TN_SANITIZER_HERE);
  TN_CHECK_STR(q.name, "demo");
  TN_CHECK_STR(q.version, "1.2");
  TN_CHECK(q.init && q.shutdown == demo_shutdown);
  q = query_of(TN_ABI_MAJOR + 1, 0, 0);
  TN_CHECK_INT(tenon_plugin_query(&q), TN_ERR_VERSION);
  TN_CHECK_INT(q.plugin_major, TN_ABI_MAJOR);
  TN_CHECK_PTR_NULL(q.name);
  q = query_of(TN_ABI_MAJOR, TN_ABI_MINOR + 5, TN_ABI_MINOR + 1); /* the host has dropped us */
  TN_CHECK_INT(tenon_plugin_query(&q), TN_ERR_VERSION);
  q = query_of(TN_ABI_MAJOR, TN_ABI_MINOR, 0);
  q.struct_size = 12;
  TN_CHECK_INT(tenon_plugin_query(&q), TN_ERR_VERSION);
  TN_CHECK_INT(q.plugin_major, 0);
  TN_CHECK_INT(tenon_plugin_query(NULL), TN_ERR_VERSION);
}

TN_TEST(kit_plugin, a_plugin_that_needs_a_newer_host) {
  const tn_plugin_info info = {
      .name = "demo", .version = "1", .init = demo_init, .needs_minor = TN_ABI_MINOR + 1};
  tn_query q = query_of(TN_ABI_MAJOR, TN_ABI_MINOR, 0);
  TN_CHECK_INT(tn_kit_answer(&q, &info, TN_SANITIZER_NONE, demo_init), TN_ERR_VERSION);
  TN_CHECK_INT(q.needs_minor, TN_ABI_MINOR + 1);
  q = query_of(TN_ABI_MAJOR, TN_ABI_MINOR + 1, 0);
  TN_CHECK_INT(tn_kit_answer(&q, &info, TN_SANITIZER_NONE, demo_init), TN_OK);
}

/* A failed check leaves at once, so what is checked under the other table is collected first. */
TN_TEST(kit_plugin, init_gets_a_table_without_holes) {
  const tn_host *before = tn_kit_host_table;
  tn_host old = {.struct_size = offsetof(tn_host, register_backend),
                 .abi_major = TN_ABI_MAJOR,
                 .fail = keep_words,
                 .register_kernel = take_kernel};
  old.register_backend =
      (tn_status(*)(tn_registration *, const struct tn_backend_def *))(void *)&old; /* not read */
  tn_query q = query_of(TN_ABI_MAJOR, TN_ABI_MINOR, 0);
  n_registered = 0;
  tn_status query_status = tenon_plugin_query(&q), init_status = q.init(&old, NULL);
  const tn_host *full = tn_kit_host_table;
  tn_status missing = full->register_backend(NULL, NULL);
  int threads = full->num_threads();
  static const tn_kernel_def bad[] = {TN_KERNEL("demo", "bad", kernel, 0),
                                      TN_KERNEL("demo", "mul", kernel, 0)};
  char missing_words[sizeof words];
  strcpy(missing_words, words);
  tn_status bad_status = tn_register_kernels(NULL, bad, TN_COUNT(bad));
  tn_kit_host_table = before;

  TN_CHECK_INT(query_status, TN_OK);
  TN_CHECK_INT(init_status, TN_OK);
  TN_CHECK(full != &old && host_in_init == full);
  TN_CHECK_INT(full->struct_size, sizeof(tn_host));
  TN_CHECK_INT(missing, TN_ERR_UNSUPPORTED);
  TN_CHECK_STR(missing_words, "host 1.0 lacks row register_backend, needs 1.0");
  TN_CHECK_INT(threads, 1);
  TN_CHECK_INT(n_registered, 2);
  TN_CHECK_STR(registered[1], "mm");
  TN_CHECK_INT(bad_status, TN_ERR_PLUGIN);
}

TN_TEST(kit_plugin, tables_that_are_no_host) {
  const tn_host *before = tn_kit_host_table;
  tn_host host = {.struct_size = sizeof host, .abi_major = TN_ABI_MAJOR + 1};
  tn_status other_major = tn_kit_attach(&host);
  host.abi_major = TN_ABI_MAJOR;
  host.struct_size = 16;
  tn_status too_short = tn_kit_attach(&host), none = tn_kit_attach(NULL);
  const tn_host *after = tn_kit_host_table;
  tn_kit_host_table = before;
  TN_CHECK_INT(other_major, TN_ERR_VERSION);
  TN_CHECK_INT(too_short, TN_ERR_VERSION);
  TN_CHECK_INT(none, TN_ERR_VERSION);
  TN_CHECK(after == before);
}

TN_TEST(kit_plugin, manifest_header) {
  const char *text = TN_MANIFEST_HEADER("demo", "1.2", "MIT") "device demo\n";
  TN_CHECK_STR(text,
               "tenon 1\nname demo\nversion 1.2\nabi 1 " TN_MANIFEST_QUOTE(TN_ABI_MINOR) " 0\nlicense MIT\n" TN_SANITIZER_LINE "device demo\n");
}
