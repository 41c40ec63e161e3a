/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapping a plugin: RTLD_NOW so that a missing symbol is an error here and not a crash in a kernel, RTLD_LOCAL
 * so that two plugins never see each other's names, RTLD_NODELETE because tensors, nodes and threads may hold
 * addresses in its code until exit.
 *
 * The file is examined again right before, through a fresh descriptor: it may have been replaced or cut since
 * its manifest was judged, and mapping a truncated file would kill the process later.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/load/load_int.h"

static bool is_judged_file(const tni_plugin *p, const struct stat *st) {
  return st->st_dev == p->dev && st->st_ino == p->ino;
}

static tn_status examine_again(const tni_plugin *p) {
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return TN_FAIL(TN_ERR_IO, "cannot be opened: %s", strerror(errno));
  struct stat st;
  char *text = NULL;
  tn_status status = tni_elf_read(fd, &text);
  tni_free(text);
  if (status == TN_OK && (fstat(fd, &st) != 0 || !is_judged_file(p, &st)))
    status = TN_FAIL(TN_ERR_IO, "the file was replaced after its manifest was read");
  close(fd);
  return status;
}

tn_status tni_dl_open(tni_plugin *p) {
  if (p->handle) return TN_OK;
  TN_TRY(examine_again(p));
  void *handle = dlopen(p->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) return TN_FAIL(TN_ERR_PLUGIN, "the system's loader refused it: %s", dlerror());
  struct stat st;
  if (stat(p->path, &st) != 0 || !is_judged_file(p, &st)) {
    dlclose(handle);
    return TN_FAIL(TN_ERR_IO, "the file was replaced while it was opened");
  }
  p->handle = handle;
  return TN_OK;
}

tn_status tni_dl_symbol(tni_plugin *p, const char *name, void **out_address) {
  *out_address = dlsym(p->handle, name);
  if (!*out_address) return TN_FAIL(TN_ERR_PLUGIN, "does not export %s", name);
  return TN_OK;
}
