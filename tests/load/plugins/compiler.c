/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiler as a plugin offers one: it makes capital letters of a source and does on request what compilers do.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/plugin_compiler.h>
#include <unistd.h>

TN_MANIFEST(TN_MANIFEST_HEADER("compiler", "1.0", "Apache-2.0") "interface acme.compiler 1\n"
                                                                "environment ACME_DIALECT\n")

static int is(const tn_compile_def *r, const char *word) {
  return r->source_bytes == strlen(word) && memcmp(r->source, word, r->source_bytes) == 0;
}

static tn_status misbehave(const tn_compile_def *r, tn_compiled *out) {
  tn_compiled other;
  if (is(r, "crash")) abort();
  if (is(r, "exit")) exit(0);
  if (is(r, "hang"))
    for (;;) pause();
  if (is(r, "nested")) return tn_kit_host()->compile(r, &other);
  if (is(r, "lie")) out->object_bytes = 5;
  if (!is(r, "error")) return TN_OK;
  out->log = strdup("source:1: error is no word");
  return TN_FAIL(TN_ERR_DATA, "%s has 1 error", r->name);
}

static tn_status compile(void *ctx, const tn_compile_def *r, tn_compiled *out) {
  (void)ctx;
  printf("a compiler talks to its terminal\n");
  const char *library = getenv("ACME_LIBRARY"); /* what a compiler of many parts finds by itself */
  if (library && !dlopen(library, RTLD_NOW)) return TN_FAIL(TN_ERR_UNAVAILABLE, "%s", dlerror());
  TN_TRY(misbehave(r, out));
  if (out->object_bytes) return TN_OK;
  char *object = malloc(r->source_bytes + 1), log[100];
  if (!object) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "no memory");
  for (uint64_t i = 0; i < r->source_bytes; i++) object[i] = (char)toupper(((const unsigned char *)r->source)[i]);
  snprintf(log, sizeof log, "%s: %llu letters (%s)", r->name, (unsigned long long)r->source_bytes, r->options);
  out->object = object;
  out->object_bytes = r->source_bytes;
  out->log = strdup(log);
  return TN_OK;
}

static void release(void *ctx, tn_compiled *compiled) {
  (void)ctx;
  free(compiled->object);
  free(compiled->log);
}

static const tn_compiler compiler = {.struct_size = sizeof compiler, .compile = compile, .release = release};

static tn_status init(const tn_host *host, tn_registration *reg) {
  return host->register_interface(reg, "acme.compiler", 1, &compiler);
}

TN_PLUGIN(.name = "compiler", .version = "1.0", .init = init)
