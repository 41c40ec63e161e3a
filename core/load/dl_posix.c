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

static tn_status examine_open(tni_plugin *p, int fd) {
  char *text = NULL;
  tni_file_id id;
  tn_status status = tni_elf_read(fd, &text);
  tni_free(text);
  TN_TRY(status);
  if (!tni_file_id_of(fd, &id) || id.dev != p->dev || id.ino != p->ino)
    return TN_FAIL(TN_ERR_IO, "the file was replaced after its manifest was read");
  TN_TRY(tni_pins_check(p, fd));
  if (!p->examined && !(p->examined = tni_alloc(sizeof id))) return tni_oom(sizeof id, "a file's identity");
  *p->examined = id;
  return TN_OK;
}

tn_status tni_dl_examine(tni_plugin *p) {
  if (p->handle) return TN_OK;
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return TN_FAIL(TN_ERR_IO, "cannot be opened: %s", strerror(errno));
  tn_status status = examine_open(p, fd);
  close(fd);
  return status;
}

bool tni_dl_is_examined(const tni_plugin *p) {
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  tni_file_id id;
  bool same = fd >= 0 && tni_file_id_of(fd, &id) && tni_file_id_same(&id, p->examined);
  if (fd >= 0) close(fd);
  return same;
}

tn_status tni_dl_open(tni_plugin *p) {
  if (p->handle) return TN_OK;
  void *handle = dlopen(p->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) return TN_FAIL(TN_ERR_PLUGIN, "the system's loader refused it: %s", dlerror());
  if (!tni_dl_is_examined(p)) {
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
