/* SPDX-License-Identifier: Apache-2.0
 *
 * See place.h. The search root holds a link to the file, which so stays what it is. The system's loader takes $ORIGIN
 * from the path by which a file is opened, so a plugin that looks for libraries beside itself is given the root in a
 * mirror of the folders that it stands in: links to what is there, except other plugins. Plugins beside libtenon stay: every backend needs the CPU's. What the user's environment says about other
 * plugins, layers and policies does not count: a report means the same on every machine.
 */
#include "frontends/check/place.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/check/claims.h"
#include "frontends/check/image.h"
#include "frontends/check/tools.h"

static const char *const unset[] = {"TENON_PLUGINS",  "TENON_PROVIDERS",  "TENON_LAYERS",
                                    "TENON_FALLBACK", "TENON_SAFE_MODE",  "TENON_PROBE",
                                    "TENON_PROBE_MS", "TENON_PLUGIN_PINS"};

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

/* ------------------------------------------------------------------ the search root */

static bool looks_beside_itself(const tni_check_context *c) {
  tni_image image;
  uint64_t offset;
  char *words = tni_image_open(c->file, &image);
  free(words);
  if (words) return false;
  const char *path =
      tni_image_dynamic(&image, DT_RUNPATH, &offset) || tni_image_dynamic(&image, DT_RPATH, &offset)
          ? tni_image_string(&image, offset)
          : NULL;
  bool beside = path && strstr(path, "ORIGIN");
  tni_image_close(&image);
  return beside;
}

static bool is_plugin(const char *path) {
  size_t n = strlen(path);
  tni_image image;
  char *text = NULL, *words;
  if (n < 3 || strcmp(path + n - 3, ".so")) return false;
  words = tni_image_open(path, &image);
  free(words);
  if (words) return false;
  size_t notes = tni_image_notes(&image, &text);
  free(text);
  tni_image_close(&image);
  return notes > 0;
}

/* Links into `to` for what stands in `from`, except the entry `left_out` and plugins. Best effort: what is then missing
 * the system's loader names. */
static void mirror(const char *from, const char *to, const char *left_out) {
  DIR *dir = opendir(from);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, left_out)) continue;
    char *target = tni_check_text("%s/%s", from, e->d_name), *link = tni_check_text("%s/%s", to, e->d_name);
    if (!is_plugin(target) && symlink(target, link) != 0) errno = 0;
    free(target);
    free(link);
  }
  if (dir) closedir(dir);
}

/* The folder for the link: `root`, or one that stands in a mirror of three levels of the file's own, `root` then being a
 * link to it. Owned. */
static char *make_root(const tni_check_context *c) {
  char *root = tni_check_text("%s/root", c->folder), *from = tni_check_text("%s", c->file);
  if (!looks_beside_itself(c)) {
    free(from);
    if (mkdir(root, 0700) == 0) return root;
    free(root);
    return NULL;
  }
  char *names[3] = {0}, *to = tni_check_text("%s/mirror", c->folder);
  *strrchr(from, '/') = 0;
  for (int level = 0; level < 3 && strrchr(from, '/') > from; level++) {
    names[level] = tni_check_text("%s", strrchr(from, '/') + 1);
    *strrchr(from, '/') = 0;
  }
  bool made = mkdir(to, 0700) == 0;
  for (int level = 2; level >= 0 && made; level--) {
    if (!names[level]) continue;
    mirror(from, to, names[level]);
    char *next_from = tni_check_text("%s/%s", from, names[level]),
         *next_to = tni_check_text("%s/%s", to, names[level]);
    free(from), free(to);
    from = next_from, to = next_to;
    made = mkdir(to, 0700) == 0;
  }
  mirror(from, to, strrchr(c->file, '/') + 1);
  made = made && symlink(to, root) == 0;
  free(to), free(from), free(names[0]), free(names[1]), free(names[2]);
  if (made) return root;
  free(root);
  return NULL;
}

static char *fill_folder(const tni_check_context *c) {
  const char *name = strrchr(c->file, '/') + 1;
  char *root = make_root(c), *cache = tni_check_text("%s/cache", c->folder);
  char *to = root ? tni_check_text("%s/%s", root, name) : NULL, *words = NULL;
  if (!root || mkdir(cache, 0700) != 0 || symlink(c->file, to) != 0)
    words = tni_check_text("%s/root cannot be made: %s", c->folder, strerror(errno));
  free(to);
  free(cache);
  free(root);
  return words;
}

/* ------------------------------------------------------------------ the whole */

/* The folder's real path and the file's own name: a link keeps the name that it is installed under. Owned, NULL: errno. */
static char *resolve(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? tni_check_text("%.*s/", (int)(slash - path), path) : tni_check_text("./");
  char *real = realpath(folder, NULL);
  free(folder);
  if (!real) return NULL;
  char *file = tni_check_text("%s/%s", strcmp(real, "/") ? real : "", slash ? slash + 1 : path);
  free(real);
  if (access(file, R_OK) == 0) return file;
  free(file);
  return NULL;
}

char *tni_place_make(const char *path, tni_check_context *c) {
  size_t n = strlen(path);
  if (n < 4 || strcmp(path + n - 3, ".so")) return tni_check_text("%s: a plugin's file ends in .so", path);
  c->file = resolve(path);
  if (!c->file) return tni_check_text("%s: %s", path, strerror(errno));
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

void tni_place_remove(tni_check_context *c) {
  if (c->folder) nftw(c->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  tni_claims_free(c);
  free((void *)(uintptr_t)c->folder);
  free((void *)(uintptr_t)c->second);
  free((void *)(uintptr_t)c->file);
}
