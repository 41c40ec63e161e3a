/* SPDX-License-Identifier: Apache-2.0
 *
 * See place.h. The search root holds a link to the file, which so stays what it is (its folder's $ORIGIN, its size and
 * times). Plugins beside libtenon stay: every backend needs the CPU's. What the user's environment says about other
 * plugins, layers and policies does not count: a report means the same on every machine.
 */
#include "frontends/check/place.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/check/claims.h"
#include "frontends/check/tools.h"

static const char *const unset[] = {"TENON_PLUGINS",    "TENON_PROVIDERS", "TENON_LAYERS",
                                    "TENON_FALLBACK",   "TENON_SAFE_MODE", "TENON_TRUST",
                                    "TENON_PLUGIN_PINS"};

/* The second backend stands beside this program. */
static char *find_second(const char *self) {
  const char *slash = strrchr(self, '/');
  char *path = tni_check_text("%.*s/tenon-check-second.so", (int)(slash - self), self);
  if (access(path, R_OK) == 0) return path;
  free(path);
  return NULL;
}

static char *make_folder(void) {
  const char *base = secure_getenv("TMPDIR");
  char *path = tni_check_text("%s/tenon-check-XXXXXX", base && *base == '/' ? base : "/tmp");
  if (mkdtemp(path)) return path;
  free(path);
  return NULL;
}

static void set_environment(const tni_check_context *c) {
  for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
  char *root = tni_check_text("%s/root", c->folder), *cache = tni_check_text("%s/cache", c->folder);
  setenv("TENON_PLUGIN_PATH", root, 1);
  setenv("XDG_CACHE_HOME", cache, 1); /* what earlier runs knew about the file does not count */
  setenv("TENON_PRIVATEUSE1", c->plugin, 1);
  free(root);
  free(cache);
  /* A request that cannot be met is an answer, not the end of the process. */
  setenv("ASAN_OPTIONS",
         "allocator_may_return_null=1:intercept_tls_get_addr=0:detect_stack_use_after_return=0", 0);
  setenv("TSAN_OPTIONS", "halt_on_error=1:allocator_may_return_null=1", 0);
}

/* The search root, with the link. */
static char *fill_folder(const tni_check_context *c) {
  const char *name = strrchr(c->file, '/') + 1;
  char *root = tni_check_text("%s/root", c->folder), *cache = tni_check_text("%s/cache", c->folder);
  char *to = tni_check_text("%s/%s", root, name), *words = NULL;
  if (mkdir(root, 0700) != 0 || mkdir(cache, 0700) != 0 || symlink(c->file, to) != 0)
    words = tni_check_text("%s cannot be made: %s", to, strerror(errno));
  free(to);
  free(cache);
  free(root);
  return words;
}

char *tni_place_make(const char *path, tni_check_context *c) {
  c->file = realpath(path, NULL);
  if (!c->file) return tni_check_text("%s: %s", path, strerror(errno));
  size_t n = strlen(c->file);
  if (n < 3 || strcmp(c->file + n - 3, ".so")) return tni_check_text("%s: a plugin's file ends in .so", path);
  c->self = tni_check_self();
  c->second = find_second(c->self);
  tni_claims_read(c);
  c->folder = make_folder();
  if (!c->folder) return tni_check_text("no folder for temporary files can be made: %s", strerror(errno));
  set_environment(c);
  return fill_folder(c);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
  (void)st, (void)kind, (void)where;
  return remove(path);
}

void tni_place_remove(const tni_check_context *c) {
  if (c->folder) nftw(c->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
