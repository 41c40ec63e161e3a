/* SPDX-License-Identifier: Apache-2.0
 *
 * abi.exports: the file as the system's loader will meet it. Nothing of it runs. Each item is a way in which plugins are
 * known to hurt each other or their host: names that collide, drivers that must be there before anyone asks, memory that
 * can be written and run.
 */
#include <elf.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <tenon/kit/sanitizer.h>

#include "frontends/check/check.h"
#include "frontends/check/image.h"
#include "frontends/check/tools.h"

/* A growing list of names, for a sentence. */
typedef struct names {
  char *text;
  size_t count;
} names;

static void add_name(names *list, const char *name) {
  char *text = list->count < 8
                   ? tni_check_text("%s%s%s", list->text ? list->text : "", list->count ? ", " : "", name)
                   : tni_check_text("%s", list->text);
  free(list->text);
  list->text = text;
  list->count++;
}

/* ------------------------------------------------------------------ symbols */

typedef struct symbols {
  names extra, core;
  bool door;
} symbols;

static bool is_linkers(const char *name) {
  static const char *const known[] = {"_init",       "_fini",  "_edata",     "_end",
                                      "__bss_start", "_start", "__odr_asan*"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (fnmatch(known[i], name, 0) == 0) return true;
  return false;
}

static void visit(void *ctx, const char *name, const ElfW(Sym) * symbol) {
  symbols *s = ctx;
  unsigned bind = ELF64_ST_BIND(symbol->st_info), visibility = ELF64_ST_VISIBILITY(symbol->st_other);
  if (symbol->st_shndx == SHN_UNDEF) {
    if (!strncmp(name, "tn_", 3) || !strncmp(name, "tni_", 4) || !strncmp(name, "tns_", 4))
      add_name(&s->core, name);
    return;
  }
  if (bind == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL ||
      symbol->st_shndx == SHN_ABS)
    return;
  if (!strcmp(name, TN_PLUGIN_SYMBOL))
    s->door = true;
  else if (!is_linkers(name))
    add_name(&s->extra, name);
}

static void check_symbols(tni_check_report *r, const tni_image *image) {
  symbols s = {0};
  tni_image_symbols(image, visit, &s);
  tni_check_that(r, s.door, "door", "it does not export " TN_PLUGIN_SYMBOL);
  tni_check_that(r, !s.extra.count, "one symbol",
                 "it exports %zu names more than " TN_PLUGIN_SYMBOL
                 " (%s): two plugins with the same name would share it",
                 s.extra.count, s.extra.text);
  tni_check_that(r, !s.core.count, "no core imports",
                 "it asks for %s of the core; a plugin reaches the core through the host's table only",
                 s.core.text);
  free(s.extra.text);
  free(s.core.text);
}

/* ------------------------------------------------------------------ needed libraries */

static bool matches_any(const char *name, const char *const *patterns) {
  for (; *patterns; patterns++)
    if (fnmatch(*patterns, name, 0) == 0) return true;
  return false;
}

static const char *const core_libraries[] = {"libtenon*.so*", NULL};
static const char *const drivers[] = {"libcuda.so*",
                                      "libnvidia-*.so*",
                                      "libamdhip64.so*",
                                      "libhsa-runtime64.so*",
                                      "libOpenCL.so*",
                                      "libze_loader.so*",
                                      "libvulkan.so*",
                                      "libascendcl.so*",
                                      "libroc*.so*",
                                      "libcudart.so*",
                                      NULL};
static const char *const thread_runtimes[] = {"libgomp.so*", "libomp.so*", "libiomp5.so*", NULL};

static bool manifest_has(const tni_image *image, const char *line) {
  char *text = NULL;
  tni_image_notes(image, &text);
  bool has = text && strstr(text, line);
  free(text);
  return has;
}

static void check_needed(tni_check_report *r, const tni_image *image) {
  names core = {0}, driver = {0}, runtime = {0};
  for (size_t i = 0; i < image->n_dynamic && image->dynamic[i].d_tag != DT_NULL; i++) {
    if (image->dynamic[i].d_tag != DT_NEEDED) continue;
    const char *name = tni_image_string(image, image->dynamic[i].d_un.d_val);
    if (!name) continue;
    if (matches_any(name, core_libraries)) add_name(&core, name);
    if (matches_any(name, drivers)) add_name(&driver, name);
    if (matches_any(name, thread_runtimes)) add_name(&runtime, name);
  }
  tni_check_that(r, !core.count, "no core library", "it needs %s; a plugin links nothing of the core",
                 core.text);
  tni_check_that(r, !driver.count, "no driver library",
                 "it needs %s: where the driver is missing the file cannot be opened at all, and the reason "
                 "is the system "
                 "loader's; open the driver with dlopen when init runs",
                 driver.text);
  tni_check_that(r, !runtime.count || manifest_has(image, "\nthread-runtime "), "thread runtime declared",
                 "it needs %s and its manifest has no `thread-runtime` line (docs/manifest.md)",
                 runtime.text);
  free(core.text);
  free(driver.text);
  free(runtime.text);
}

/* ------------------------------------------------------------------ hardening */

static const ElfW(Phdr) * segment(const tni_image *image, uint32_t type) {
  for (size_t i = 0; i < image->n_segments; i++)
    if (image->segments[i].p_type == type) return &image->segments[i];
  return NULL;
}

static void check_memory(tni_check_report *r, const tni_image *image) {
  const ElfW(Phdr) *stack = segment(image, PT_GNU_STACK);
  uint64_t value = 0, flags = 0, flags_1 = 0;
  tni_check_that(r, stack && !(stack->p_flags & PF_X), "stack not executable",
                 "opening it makes the stack of every thread of the process executable");
  tni_image_dynamic(image, DT_FLAGS, &flags);
  tni_image_dynamic(image, DT_FLAGS_1, &flags_1);
  bool text_relocations = tni_image_dynamic(image, DT_TEXTREL, &value) || (flags & DF_TEXTREL);
  tni_check_that(r, !text_relocations, "no text relocations",
                 "its code is changed when it is opened: build it with -fPIC");
  bool now = tni_image_dynamic(image, DT_BIND_NOW, &value) || (flags & DF_BIND_NOW) || (flags_1 & DF_1_NOW);
  tni_check_that(r, segment(image, PT_GNU_RELRO) && now, "relro and now",
                 "its function tables stay writable: link it with -Wl,-z,relro -Wl,-z,now");
  bool writable_code = false;
  for (size_t i = 0; i < image->n_segments; i++) {
    uint32_t f = image->segments[i].p_flags;
    writable_code = writable_code || (image->segments[i].p_type == PT_LOAD && (f & PF_W) && (f & PF_X));
  }
  tni_check_that(r, !writable_code, "no writable code", "a segment is both writable and executable");
}

/* One entry of a search path: where another user or a moved folder could put a library. NULL: it is fine. */
static const char *judge_path(const char *entry) {
  if (!*entry) return "an empty entry, which is the working directory";
  if (!strncmp(entry, "$ORIGIN", 7) || !strncmp(entry, "${ORIGIN}", 9)) return NULL;
  if (*entry != '/') return "a relative entry";
  if (!strncmp(entry, "/home/", 6) || !strncmp(entry, "/root/", 6)) return "somebody's home folder";
  if (!strncmp(entry, "/tmp", 4) || !strncmp(entry, "/var/tmp", 8)) return "a folder that all may write";
  return NULL;
}

static void check_path(tni_check_report *r, const tni_image *image) {
  uint64_t offset;
  const char *path =
      tni_image_dynamic(image, DT_RUNPATH, &offset) || tni_image_dynamic(image, DT_RPATH, &offset)
          ? tni_image_string(image, offset)
          : NULL;
  const char *why = NULL;
  char *copy = tni_check_text("%s", path ? path : ""), *rest = copy;
  for (char *entry; path && !why && (entry = strsep(&rest, ":"));) why = judge_path(entry);
  tni_check_that(r, !why, "library search path", "RUNPATH \"%s\" has %s", path, why);
  free(copy);
}

/* Code that runs by being opened, before anyone asked: gcc's own start-up is one entry. */
static void note_constructors(tni_check_report *r, const tni_image *image) {
  uint64_t bytes = 0;
  tni_image_dynamic(image, DT_INIT_ARRAYSZ, &bytes);
  size_t n = (size_t)(bytes / sizeof(void *));
  if (n > 1 && TN_SANITIZER_HERE == TN_SANITIZER_NONE)
    tni_check_note(r, "constructors", "%zu of its own run when the file is opened; work belongs into init",
                   n - 1);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  tni_image image;
  char *words = tni_image_open(c->file, &image);
  if (!tni_check_that(r, !words, "file", "it %s", words)) return free(words);
  char *text = NULL;
  size_t n = tni_image_notes(&image, &text);
  tni_check_that(r, n == 1, "one manifest", "%zu Tenon notes; a plugin has one", n);
  free(text);
  check_symbols(r, &image);
  check_needed(r, &image);
  check_memory(r, &image);
  check_path(r, &image);
  note_constructors(r, &image);
  tni_image_close(&image);
}

const tni_check tni_check_abi_exports = {
    .name = "abi.exports",
    .about = "one exported name, no imports of the core or a driver, hardened",
    .run = run};
