/* SPDX-License-Identifier: Apache-2.0
 *
 * host->compile: a compiler that works, talks, fails, crashes, ends and hangs in its own process; and what is remembered.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/plugin_compiler.h>
#include <unistd.h>

#include "core/load/load_int.h"
#include "tn_test.h"

static char cache[] = TN_LOAD_WORK_DIR "/compile-XXXXXX";

static void prepare(void) {
  static bool done;
  setenv("TENON_PLUGIN_PATH", TN_LOAD_PLUGIN_DIR, 1);
  if (!done && !mkdtemp(cache)) TN_CHECK(!"a folder for the cache");
  done = true;
  setenv("XDG_CACHE_HOME", cache, 1);
}

static tn_compile_def request(const char *source) {
  return (tn_compile_def){.struct_size = sizeof(tn_compile_def),
                          .compiler = "acme.compiler",
                          .options = "-O2",
                          .source = source,
                          .source_bytes = strlen(source)};
}

static void check_fails(const char *source, uint32_t timeout_ms, tn_status code, const char *words) {
  tn_compile_def def = request(source);
  tn_compiled out;
  def.timeout_ms = timeout_ms;
  TN_CHECK_FAILS(tni_host()->compile(&def, &out), code, words);
  tni_host()->compiled_free(&out);
}

static uint32_t check_works(const tn_compile_def *def, const char *object, const char *log) {
  tn_compiled out;
  TN_CHECK_OK(tni_host()->compile(def, &out));
  TN_CHECK_INT(out.object_bytes, strlen(object));
  TN_CHECK(memcmp(out.object, object, strlen(object)) == 0);
  TN_CHECK_STR(out.log, log);
  tni_host()->compiled_free(&out);
  return out.cached;
}

TN_TEST(compile, what_goes_in_decides_what_is_remembered) {
  prepare();
  tn_compile_def def = request("hello");
  TN_CHECK_INT(check_works(&def, "HELLO", "source: 5 letters (-O2)"), 0);
  TN_CHECK_INT(check_works(&def, "HELLO", "source: 5 letters (-O2)"), 1);
  setenv("ACME_DIALECT", "2", 1); /* declared by the compiler's plugin */
  TN_CHECK_INT(check_works(&def, "HELLO", "source: 5 letters (-O2)"), 0);
  unsetenv("ACME_DIALECT");
  TN_CHECK_INT(check_works(&def, "HELLO", "source: 5 letters (-O2)"), 1);
  def.options = NULL;
  TN_CHECK_INT(check_works(&def, "HELLO", "source: 5 letters ()"), 0);
  def.name = "greeting";
  TN_CHECK_INT(check_works(&def, "HELLO", "greeting: 5 letters ()"), 0);
  TN_CHECK_INT(check_works(&def, "HELLO", "greeting: 5 letters ()"), 1);
}

/* Another file in the place of path, with the same bytes. */
static void put_copy(const char *from, const char *path) {
  char bytes[4096], aside[420];
  size_t n;
  snprintf(aside, sizeof aside, "%s.new", path);
  FILE *in = fopen(from, "rb"), *out = fopen(aside, "wb");
  TN_CHECK(in && out);
  while ((n = fread(bytes, 1, sizeof bytes, in)) > 0) fwrite(bytes, 1, n, out);
  fclose(in);
  TN_CHECK_INT(fclose(out), 0);
  TN_CHECK_INT(rename(aside, path), 0);
}

/* A compiler is more than its plugin's file: an updated library below it makes other objects. */
TN_TEST(compile, a_library_below_the_compiler_decides_too) {
  prepare();
  char path[400];
  snprintf(path, sizeof path, "%s/libacme.so", cache);
  put_copy(TN_LOAD_PLUGIN_DIR "/toy.so", path);
  setenv("ACME_LIBRARY", path, 1);
  tn_compile_def def = request("below");
  TN_CHECK_INT(check_works(&def, "BELOW", "source: 5 letters (-O2)"), 0);
  TN_CHECK_INT(check_works(&def, "BELOW", "source: 5 letters (-O2)"), 1);
  put_copy(TN_LOAD_PLUGIN_DIR "/toy.so", path);
  TN_CHECK_INT(check_works(&def, "BELOW", "source: 5 letters (-O2)"), 0);
  TN_CHECK_INT(check_works(&def, "BELOW", "source: 5 letters (-O2)"), 1);
  TN_CHECK_INT(remove(path), 0);
  unsetenv("ACME_LIBRARY");
  TN_CHECK_INT(check_works(&def, "BELOW", "source: 5 letters (-O2)"), 0);
}

static void damage(void) {
  char folder[100], path[400];
  snprintf(folder, sizeof folder, "%s/tenon/compiled", cache);
  DIR *dir = opendir(folder);
  TN_CHECK(dir != NULL);
  for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r+");
    if (!file) continue;
    fseek(file, -1, SEEK_END);
    fputc('#', file);
    fclose(file);
  }
  if (dir) closedir(dir);
}

TN_TEST(compile, a_damaged_object_is_made_anew) {
  prepare();
  tn_compile_def def = request("damage");
  TN_CHECK_INT(check_works(&def, "DAMAGE", "source: 6 letters (-O2)"), 0);
  damage();
  TN_CHECK_INT(check_works(&def, "DAMAGE", "source: 6 letters (-O2)"), 0);
  TN_CHECK_INT(check_works(&def, "DAMAGE", "source: 6 letters (-O2)"), 1);
}

TN_TEST(compile, a_compiler_that_fails_crashes_ends_or_hangs_is_a_sentence) {
  prepare();
  check_fails("error", 0, TN_ERR_DATA, "compiler acme.compiler: source has 1 error\nsource:1: error is no word");
  check_fails("crash", 0, TN_ERR_PLUGIN, "compiler acme.compiler: crashed at compiling (Aborted)");
  check_fails("exit", 0, TN_ERR_PLUGIN, "compiler acme.compiler: tenon-cc ended at compiling without an answer");
  check_fails("hang", 500, TN_ERR_UNAVAILABLE, "not done after 500 ms, at compiling; it was stopped");
  check_fails("lie", 0, TN_ERR_PLUGIN, "success was answered without an object");
  check_fails("nested", 0, TN_ERR_STATE, "a compiler may not ask for another one");
}

TN_TEST(compile, a_request_is_checked_and_its_compiler_must_be_there) {
  prepare();
  tn_compile_def def = request("hello");
  tn_compiled out;
  TN_CHECK_FAILS(tni_host()->compile(NULL, &out), TN_ERR_INVALID_ARGUMENT, "the request is NULL");
  TN_CHECK_FAILS(tni_host()->compile(&def, NULL), TN_ERR_INVALID_ARGUMENT, "the result's place is NULL");
  def.compiler = "nobodys.compiler";
  TN_CHECK_FAILS(tni_host()->compile(&def, &out), TN_ERR_NOT_FOUND, "nobodys.compiler");
  def.compiler = NULL;
  TN_CHECK_FAILS(tni_host()->compile(&def, &out), TN_ERR_INVALID_ARGUMENT, "the compiler's name is NULL");
}

TN_TEST(compile, sources_and_objects_may_be_large) {
  prepare();
  size_t n = 9 << 20;
  char *source = malloc(n);
  TN_CHECK(source != NULL);
  memset(source, 'x', n);
  tn_compile_def def = request("");
  tn_compiled out;
  def.source = source;
  def.source_bytes = n;
  TN_CHECK_OK(tni_host()->compile(&def, &out));
  TN_CHECK_INT(out.object_bytes, n);
  TN_CHECK(((const char *)out.object)[n - 1] == 'X');
  tni_host()->compiled_free(&out);
  free(source);
}
