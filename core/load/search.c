/* SPDX-License-Identifier: Apache-2.0
 *
 * Where plugins are looked for, and which files are candidates.
 *
 * Roots, in this order: TENON_PLUGIN_PATH (colon list of absolute paths; ignored under secure execution), then
 * `tenon/plugins` beside the real path of libtenon. The working directory is never one. A root and each folder
 * above it must belong to root or to the user and must not be writable by others unless sticky; so must each file, sticky
 * or not, and where a link leads. That guards against accidents and against other users, not against the root's owner.
 *
 * Nothing is skipped in silence: what has a plugin's name but cannot be one is listed with its reason.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/load/load_int.h"

typedef struct scan {
  tni_plugin_list *list;
  uint32_t root_order;
  bool beside; /* the root beside libtenon */
  /* Lists of pins that hold for the root: its own, and the user's. NULL: none. */
  const char *pins, *user_pins;
} scan;

static const char pins_name[] = "plugins.sha256";

/* ------------------------------------------------------------------ who may write a root */

tn_status tni_owner_check(const char *path, const struct stat *st) {
  if (st->st_uid != 0 && st->st_uid != geteuid())
    return TN_FAIL(TN_ERR_IO, "%s belongs to user %u, expected root or the user (%u)", path,
                   (unsigned)st->st_uid, (unsigned)geteuid());
  /* A group counts as others unless it is root's or the user's own. */
  bool group_is_other = st->st_gid != 0 && st->st_gid != getegid();
  bool by_others = (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && group_is_other);
  if (by_others && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX)))
    return TN_FAIL(TN_ERR_IO, "%s is writable by others (mode %o)", path, (unsigned)(st->st_mode & 07777));
  return TN_OK;
}

static tn_status check_folder(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return TN_FAIL(TN_ERR_IO, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(st.st_mode)) return TN_FAIL(TN_ERR_IO, "%s is not a folder", path);
  return tni_owner_check(path, &st);
}

/* real: an absolute path without links; is cut and mended on the way. */
static tn_status check_ancestors(char *real) {
  TN_TRY(check_folder("/"));
  for (char *slash = strchr(real + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    tn_status status = check_folder(real);
    *slash = '/';
    TN_TRY(status);
  }
  return check_folder(real);
}

/* ------------------------------------------------------------------ files of a root */

static int is_plugin_name(const struct dirent *entry) {
  size_t n = strlen(entry->d_name);
  return n > 3 && strcmp(entry->d_name + n - 3, ".so") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static tn_status fail_unreachable(const char *path, int error) {
  char target[PATH_MAX];
  ssize_t n = readlink(path, target, sizeof target - 1);
  if (n < 0) return TN_FAIL(TN_ERR_IO, "cannot be examined: %s", strerror(error));
  target[n] = 0;
  return TN_FAIL(TN_ERR_IO, "dangling link to %s (%s)", target, strerror(error));
}

/* A link is its maker's to change (its mode means nothing), and where it leads a folder's writers may put something else. */
static tn_status check_link(const char *path) {
  struct stat st;
  if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode)) return TN_OK;
  st.st_mode = S_IFLNK;
  TN_TRY(tni_owner_check(path, &st));
  char *real = realpath(path, NULL);
  if (!real) return TN_FAIL(TN_ERR_IO, "cannot be examined: %s", strerror(errno));
  char *slash = strrchr(real, '/');
  *slash = 0;
  tn_status status = slash == real ? check_folder("/") : check_ancestors(real);
  if (status != TN_OK) status = TN_WRAP(status, "is a link to %s/%s", real, slash + 1);
  free(real);
  return status;
}

/* Is it a regular file that can be read, and that nobody else can write? Fills the identity. */
static tn_status examine(tni_plugin *p) {
  struct stat st;
  if (stat(p->path, &st) != 0) return fail_unreachable(p->path, errno);
  if (S_ISDIR(st.st_mode)) return TN_FAIL(TN_ERR_IO, "is a folder, expected a file");
  if (!S_ISREG(st.st_mode)) return TN_FAIL(TN_ERR_IO, "is not a regular file");
  if (access(p->path, R_OK) != 0) return TN_FAIL(TN_ERR_IO, "cannot be read: %s", strerror(errno));
  TN_TRY(tni_owner_check(p->path, &st));
  TN_TRY(check_link(p->path));
  p->dev = st.st_dev;
  p->ino = st.st_ino;
  return TN_OK;
}

static const tni_plugin *same_file(const tni_plugin_list *list, const tni_plugin *p) {
  for (size_t i = 0; i + 1 < list->count; ++i) {
    const tni_plugin *q = list->items[i];
    if (q->ino == p->ino && q->dev == p->dev && q->ino != 0) return q;
  }
  return NULL;
}

static void drop_last(tni_plugin_list *list) {
  tni_plugin *p = list->items[--list->count];
  tni_free(p->path);
  tni_free(p);
}

/* The file must be in every list of pins that holds for its root. */
static tn_status take_pins(const scan *s, const char *root, tni_plugin *p) {
  tn_status status = TN_OK;
  p->beside = s->beside;
  if (s->pins) {
    char *path;
    if (asprintf(&path, "%s/%s", root, pins_name) < 0) return tni_oom(strlen(root), "a path");
    status = tni_pins_take(s->pins, path, p);
    free(path);
  }
  if (status == TN_OK && s->user_pins) {
    char *first = p->pin;
    p->pin = NULL;
    status = tni_pins_take(s->user_pins, secure_getenv("TENON_PLUGIN_PINS"), p);
    if (status == TN_OK && first && strcmp(first, p->pin) != 0)
      status = TN_FAIL(TN_ERR_IO, "%s and TENON_PLUGIN_PINS pin different contents", pins_name);
    tni_free(first);
  }
  if (status == TN_OK || status == TN_ERR_OUT_OF_MEMORY) return status;
  tni_plugin_set(p, TN_PLUGIN_REJECTED);
  return TN_OK;
}

static tn_status add_file(scan *s, const char *root, const char *name) {
  char *path;
  if (asprintf(&path, "%s/%s", root, name) < 0) return tni_oom(strlen(root) + strlen(name) + 2, "a path");
  tni_plugin *p;
  tn_status status = tni_list_add(s->list, path, s->root_order, &p);
  free(path);
  TN_TRY(status);
  if (examine(p) != TN_OK) {
    tni_plugin_set(p, TN_PLUGIN_REJECTED);
    return TN_OK;
  }
  const tni_plugin *twin = same_file(s->list, p);
  if (!twin) return take_pins(s, root, p);
  tn_log(TN_LOG_DEBUG, "%s is the same file as %s", p->path, twin->path);
  drop_last(s->list);
  return TN_OK;
}

static tn_status add_files(scan *s, const char *root) {
  struct dirent **entries;
  int n = scandir(root, &entries, is_plugin_name, by_name);
  if (n < 0)
    return errno == ENOMEM ? tni_oom(0, "a folder's entries")
                           : TN_FAIL(TN_ERR_IO, "%s: %s", root, strerror(errno));
  tn_status status = TN_OK;
  for (int i = 0; i < n; ++i) {
    if (status == TN_OK) status = add_file(s, root, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return status;
}

/* ------------------------------------------------------------------ roots */

static tn_status use_root(scan *s, const char *root) {
  if (!s->beside && tni_policy_safe())
    return TN_FAIL(TN_ERR_STATE, "TENON_SAFE_MODE uses the folder beside libtenon only");
  if (root[0] != '/')
    return TN_FAIL(TN_ERR_IO, "the path is relative; plugin folders are given as absolute paths");
  char *real = realpath(root, NULL);
  if (!real) return TN_FAIL(TN_ERR_IO, "%s", strerror(errno));
  tn_status status = check_ancestors(real);
  char *pins = NULL, *path = NULL;
  if (status == TN_OK && asprintf(&path, "%s/%s", real, pins_name) < 0) status = tni_oom(strlen(real), "a path");
  if (status == TN_OK) status = tni_pins_read(path, &pins);
  s->pins = pins;
  if (status == TN_OK) status = add_files(s, real);
  s->pins = NULL;
  tni_free(pins);
  free(path);
  free(real);
  return status;
}

/* A root that may not be used becomes an entry of its own. */
static tn_status add_root(scan *s, const char *root) {
  tn_status status = use_root(s, root);
  ++s->root_order;
  if (status == TN_OK || status == TN_ERR_OUT_OF_MEMORY) return status;
  tn_wrap(status, "search root skipped");
  tn_log(TN_LOG_WARN, "%s: %s", root, tn_error_message());
  tni_words words = tni_words_aside();
  tni_plugin *p;
  status = tni_list_add(s->list, root, s->root_order, &p);
  if (status != TN_OK) {
    tni_words_drop(words);
    return status;
  }
  tni_words_back(words);
  p->name = p->path;
  tni_plugin_set(p, TN_PLUGIN_REJECTED);
  return TN_OK;
}

static tn_status add_listed_roots(scan *s, const char *paths) {
  char *copy = tni_strdup(paths);
  if (!copy) return tni_oom(strlen(paths) + 1, "TENON_PLUGIN_PATH");
  tn_status status = TN_OK;
  for (char *root = copy; root && status == TN_OK;) {
    char *colon = strchr(root, ':');
    if (colon) *colon = 0;
    if (*root) status = add_root(s, root);
    root = colon ? colon + 1 : NULL;
  }
  tni_free(copy);
  return status;
}

/* The folder beside this library; inside a program that carries it, beside the program. */
static tn_status add_own_root(scan *s) {
  static const char tail[] = "/tenon/plugins";
  char *folder;
  TN_TRY(tni_own_folder(&folder));
  if (!folder) return TN_OK;
  size_t size = strlen(folder) + sizeof tail;
  char *root = tni_alloc(size);
  tn_status status = root ? TN_OK : tni_oom(size, "a path");
  s->beside = true;
  if (root) {
    snprintf(root, size, "%s%s", folder, tail);
    if (access(root, F_OK) == 0)
      status = add_root(s, root);
    else
      tn_log(TN_LOG_INFO, "no plugins are installed beside the library: %s does not exist", root);
  }
  tni_free(root);
  tni_free(folder);
  return status;
}

/* A list that the user names and that cannot be used lets nothing in: an empty list. */
static tn_status read_user_pins(char **out_pins) {
  const char *path = secure_getenv("TENON_PLUGIN_PINS");
  *out_pins = NULL;
  if (!path) return TN_OK;
  tn_status status = tni_pins_read(path, out_pins);
  if (status == TN_ERR_OUT_OF_MEMORY || *out_pins) return status;
  tn_log(TN_LOG_WARN, "TENON_PLUGIN_PINS: %s", status == TN_OK ? "there is no such file" : tn_error_message());
  *out_pins = tni_strdup("");
  return *out_pins ? TN_OK : tni_oom(1, "pins");
}

tn_status tni_search(tni_plugin_list *list) {
  scan s = {.list = list};
  const char *paths = secure_getenv("TENON_PLUGIN_PATH");
  char *pins = NULL;
  tn_status status = paths ? read_user_pins(&pins) : TN_OK;
  s.user_pins = pins;
  if (status == TN_OK && paths) status = add_listed_roots(&s, paths);
  s.user_pins = NULL;
  tni_free(pins);
  return status == TN_OK ? add_own_root(&s) : status;
}
