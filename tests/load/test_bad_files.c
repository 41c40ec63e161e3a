/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that look like plugins and are none, or are bad ones: each is listed with a reason of its own, none
 * runs at start, none disturbs the others or the CPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "tn_test.h"

/* One folder, one question; the answer must contain the words. */
static void expect(const folder *f, const char *settings, const char *commands, const char *words) {
  char *answer = probe(f->path, settings, commands);
  TN_CHECK_CONTAINS(answer, words);
  free(answer);
}

static void expect_one(const char *plugin, const char *commands, const char *words) {
  folder f = folder_make();
  folder_add(&f, plugin);
  expect(&f, "", commands, words);
  folder_remove(&f);
}

TN_TEST(load, not_an_elf_file) {
  folder f = folder_make();
  folder_add_bytes(&f, "text.so", "#!/bin/sh\n", 10);
  expect(&f, "", "plugins", "text.so [text.so] rejected: not an ELF file (begins with \"#!/b\")");
  folder_remove(&f);
}

TN_TEST(load, empty_file) {
  folder f = folder_make();
  folder_add_bytes(&f, "empty.so", "", 0);
  expect(&f, "", "plugins", "empty.so [empty.so] rejected: file is empty");
  folder_remove(&f);
}

TN_TEST(load, truncated_files) {
  folder f = folder_make();
  folder_add_copy(&f, "toy", "cut-in-header.so", 40, -1, 0);
  folder_add_copy(&f, "toy", "cut-in-segments.so", 100, -1, 0);
  folder_add_copy(&f, "toy", "cut-in-half.so", 6000, -1, 0);
  char *answer = probe(f.path, "", "plugins open toy");
  TN_CHECK_CONTAINS(answer,
                    "cut-in-header.so] rejected: truncated: an ELF header has 64 bytes, the file has 40");
  TN_CHECK_CONTAINS(answer, "cut-in-segments.so] rejected: truncated: program headers of ");
  TN_CHECK_CONTAINS(answer, "cut-in-half.so] rejected: truncated: segment ");
  TN_CHECK_CONTAINS(answer, ", the file has 6000");
  TN_CHECK_CONTAINS(answer, "no plugin offers a device toy");
  free(answer);
  folder_remove(&f);
}

/* Byte 18 of an ELF header is the machine, 4 the class, 5 the byte order, 16 the type. */
TN_TEST(load, other_machine_class_order_type) {
  folder f = folder_make();
  folder_add_copy(&f, "toy", "arm.so", 0, 18, 40);
  folder_add_copy(&f, "toy", "class.so", 0, 4, 1);
  folder_add_copy(&f, "toy", "order.so", 0, 5, 2);
  folder_add_copy(&f, "toy", "type.so", 0, 16, 2);
  char *answer = probe(f.path, "", "plugins");
  TN_CHECK_CONTAINS(answer, "[arm.so] rejected: built for machine 40 (ARM), this is ");
  TN_CHECK_CONTAINS(answer, "[class.so] rejected: ELF class 1, this process needs class 2 (64-bit)");
  TN_CHECK_CONTAINS(answer, "[order.so] rejected: ELF byte order 2, this process needs 1");
  TN_CHECK_CONTAINS(answer, "[type.so] rejected: ELF type 2, a shared object has type 3");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, no_manifest) {
  expect_one("no_manifest", "plugins", "rejected: no Tenon manifest note: not a Tenon plugin");
}

TN_TEST(load, abi_too_old) {
  expect_one("too_old", "plugins open old",
             "[too-old] rejected: ABI too old: built for 0.9, this host serves 1.0 to 1.");
}

TN_TEST(load, abi_too_new) {
  expect_one("too_new", "plugins", "rejected: ABI too new: built for 2.0, this host serves 1.0 to 1.");
  expect_one("needs_newer", "plugins",
             "[needs-newer] rejected: ABI too new: needs a host with 1.998 or later");
}

TN_TEST(load, unknown_symbol) {
  expect_one("unknown_symbol", "plugins", "[unknown-symbol] loadable: ");
  expect_one("unknown_symbol", "open symbol", "undefined symbol: acme_function_of_nobody");
}

TN_TEST(load, missing_library) {
  expect_one("missing_library", "open library plugins", "libacme_helper.so: cannot open shared object file");
}

TN_TEST(load, init_fails_half_way) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "half_init");
  char *answer = probe(f.path, "", "why add.Tensor toy open half add toy why add.Tensor toy plugins");
  TN_CHECK_CONTAINS(answer, "half: error 8: device half: plugin half-init (");
  TN_CHECK_CONTAINS(answer, "is failed: init failed: the driver answered 42");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "for float32: toy runs (priority 0");
  TN_CHECK_CONTAINS(answer, "why: half-init lists add.Tensor on toy and is failed: init failed");
  TN_CHECK_PTR_NULL(strstr(answer, "priority 10"));
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, manifest_contradicts_registration) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "unlisted");
  folder_add(&f, "omitted");
  char *answer = probe(f.path, "", "add toy why mul.Tensor toy plugins");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "for float32: toy runs (priority 0");
  TN_CHECK_CONTAINS(
      answer,
      "[unlisted] failed: manifest contradicts registration: it lists no kernel of sub.Tensor on toy");
  TN_CHECK_CONTAINS(
      answer, "[omitted] failed: manifest contradicts registration: it lists add.Tensor on toy for float64 "
              "(priority 5), init did not register that");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, constructor_that_aborts_is_listed_without_running) {
  expect_one("aborts", "plugins devices", "[aborts] loadable: ");
}

TN_TEST(load, init_may_not_dispatch) {
  expect_one("dispatches", "open calls", "init failed: a plugin's init may not dispatch or open devices");
}

TN_TEST(load, no_hardware) {
  folder f = folder_make();
  folder_add(&f, "no_hardware");
  char *answer = probe(f.path, "", "open ghost open ghost devices");
  TN_CHECK_CONTAINS(answer, "ghost: error 8: device ghost: plugin no-hardware (");
  TN_CHECK_CONTAINS(answer, "is no hardware: no ghost answered on the bus");
  TN_CHECK_CONTAINS(answer, "ghost [no-hardware] no hardware: no ghost answered on the bus");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, links_folders_and_other_things) {
  folder f = folder_make();
  char path[600];
  snprintf(path, sizeof path, "%s/dangling.so", f.path);
  TN_CHECK_INT(symlink("/nowhere/at-all", path), 0);
  snprintf(path, sizeof path, "%s/folder.so", f.path);
  TN_CHECK_INT(mkdir(path, 0700), 0);
  snprintf(path, sizeof path, "%s/pipe.so", f.path);
  TN_CHECK_INT(mkfifo(path, 0600), 0);
  folder_add_bytes(&f, "readme.txt", "no plugin", 9);
  char *answer = probe(f.path, "", "plugins");
  TN_CHECK_CONTAINS(answer,
                    "[dangling.so] rejected: dangling link to /nowhere/at-all (No such file or directory)");
  TN_CHECK_CONTAINS(answer, "[folder.so] rejected: is a folder, expected a file");
  TN_CHECK_CONTAINS(answer, "[pipe.so] rejected: is not a regular file");
  TN_CHECK_PTR_NULL(strstr(answer, "readme.txt"));
  free(answer);
  folder_remove(&f);
}

/* The reason of the line that holds `name`, up to the end of the line; owned. */
static char *reason_of(const char *answer, const char *name) {
  const char *line = strstr(answer, name);
  TN_CHECK_NOT_NULL(line);
  const char *at = strstr(line, ": ");
  return strndup(at + 2, strcspn(at + 2, "\n"));
}

TN_TEST(load, twelve_bad_files_have_twelve_reasons_and_leave_the_cpu_alone) {
  static const char *const names[] = {"not-elf.so",   "cut.so",     "machine.so",        "no_manifest.so",
                                      "too_old.so",   "too_new.so", "unknown_symbol.so", "missing_library.so",
                                      "half_init.so", "omitted.so", "segfaults.so",      "exits.so"};
  enum { N = sizeof names / sizeof *names };
  folder f = folder_make();
  folder_add_bytes(&f, "not-elf.so", "MZ??", 4);
  folder_add_copy(&f, "toy", "cut.so", 6000, -1, 0);
  folder_add_copy(&f, "toy", "machine.so", 0, 18, 40);
  for (int i = 3; i < N; ++i) {
    char plugin[64];
    snprintf(plugin, sizeof plugin, "%.*s", (int)(strlen(names[i]) - 3), names[i]);
    folder_add(&f, plugin);
  }
  folder_add(&f, "toy");
  char *answer = probe(f.path, "", "open-all add toy open cpu add cpu plugins");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "add cpu: 11 22 33");
  const char *list = strstr(answer, "add cpu");
  char *reasons[N];
  for (int i = 0; i < N; ++i) {
    reasons[i] = reason_of(list, names[i]);
    TN_CHECK(*reasons[i]);
    for (int k = 0; k < i; ++k) TN_CHECK(strcmp(reasons[i], reasons[k]) != 0);
  }
  for (int i = 0; i < N; ++i) free(reasons[i]);
  free(answer);
  folder_remove(&f);
}
