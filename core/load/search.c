/* SPDX-License-Identifier: Apache-2.0
 *
 * Where plugins are looked for, and which files are candidates.
 *
 * Roots, in this order: TENON_PLUGIN_PATH (colon list of absolute paths; ignored under secure execution), then
 * `tenon/plugins` beside the real path of libtenon. The working directory is never one. A root and each folder
 * above it must belong to root or to the user and must not be writable by others unless sticky. That guards
 * against accidents and against other users, not against the root's owner.
 *
 * Nothing is skipped in silence: what has a plugin's name but cannot be one is listed with its reason.
 */
#include <dirent.h>
#include <dlfcn.h>
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
} scan;

/* ------------------------------------------------------------------ who may write a root */

static tn_status check_folder(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return TN_FAIL(TN_ERR_IO, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(st.st_mode)) return TN_FAIL(TN_ERR_IO, "%s is not a folder", path);
  if (st.st_uid != 0 && st.st_uid != geteuid())
    return TN_FAIL(TN_ERR_IO, "%s belongs to user %u, expected root or the user (%u)", path,
                   (unsigned)st.st_uid, (unsigned)geteuid());
  /* A group counts as others unless it is root's or the user's own. */
  bool group_is_other = st.st_gid != 0 && st.st_gid != getegid();
  bool by_others = (st.st_mode & S_IWOTH) || ((st.st_mode & S_IWGRP) && group_is_other);
  if (by_others && !(st.st_mode & S_ISVTX))
    return TN_FAIL(TN_ERR_IO, "%s is writable by others (mode %o)", path, (unsigned)(st.st_mode & 07777));
  return TN_OK;
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

/* Is it a regular file that can be read? Fills the identity. */
static tn_status examine(tni_plugin *p) {
  struct stat st;
  if (stat(p->path, &st) != 0) return fail_unreachable(p->path, errno);
  if (S_ISDIR(st.st_mode)) return TN_FAIL(TN_ERR_IO, "is a folder, expected a file");
  if (!S_ISREG(st.st_mode)) return TN_FAIL(TN_ERR_IO, "is not a regular file");
  if (access(p->path, R_OK) != 0) return TN_FAIL(TN_ERR_IO, "cannot be read: %s", strerror(errno));
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
  if (!twin) return TN_OK;
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
  if (root[0] != '/')
    return TN_FAIL(TN_ERR_IO, "the path is relative; plugin folders are given as absolute paths");
  char *real = realpath(root, NULL);
  if (!real) return TN_FAIL(TN_ERR_IO, "%s", strerror(errno));
  tn_status status = check_ancestors(real);
  if (status == TN_OK) status = add_files(s, real);
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
  char *words = tni_error_take();
  tni_plugin *p;
  status = tni_list_add(s->list, root, s->root_order, &p);
  if (status != TN_OK) {
    free(words);
    return status;
  }
  tni_error_give(words);
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

/* The folder beside this library; inside a program that links it statically, beside the program. */
static tn_status add_own_root(scan *s) {
  static const char tail[] = "/tenon/plugins";
  Dl_info info;
  if (!dladdr((const void *)&tni_search, &info) || !info.dli_fname) return TN_OK;
  char *real = realpath(info.dli_fname, NULL);
  if (!real) return TN_OK;
  char *slash = strrchr(real, '/');
  *slash = 0;
  size_t size = strlen(real) + sizeof tail;
  char *root = tni_alloc(size);
  tn_status status = root ? TN_OK : tni_oom(size, "a path");
  if (root) {
    snprintf(root, size, "%s%s", real, tail);
    if (access(root, F_OK) == 0)
      status = add_root(s, root);
    else
      tn_log(TN_LOG_INFO, "no plugins are installed beside the library: %s does not exist", root);
  }
  tni_free(root);
  free(real);
  return status;
}

tn_status tni_search(tni_plugin_list *list) {
  scan s = {.list = list};
  const char *paths = secure_getenv("TENON_PLUGIN_PATH");
  if (paths) TN_TRY(add_listed_roots(&s, paths));
  return add_own_root(&s);
}
