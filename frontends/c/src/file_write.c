/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole: written beside their place, synced, renamed. A reader sees the old file or the new one,
 * also after a crash; a process that is killed while it writes leaves the old file and the sibling.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <tenon/files.h>
#include <unistd.h>

#include "frontends/c/src/file_int.h"

static tn_status failed(const tni_file_out *out, const char *what) {
  int code = errno;
  return tn_fail(code == ENOMEM ? TN_ERR_OUT_OF_MEMORY : TN_ERR_IO, "%s: cannot be %s: %s", out->path, what,
                 strerror(code));
}

/* Where the file really is: through links, so that a link stays one. Something else than a file is refused. */
static tn_status find_place(tni_file_out *out, const char *path, mode_t *out_mode) {
  struct stat about;
  *out_mode = 0;
  if (!*path) return tn_fail(TN_ERR_INVALID_ARGUMENT, "a file cannot be written to an empty path");
  out->path = realpath(path, NULL);
  if (!out->path) return tni_nn_strdup(path, &out->path);
  if (stat(out->path, &about)) return failed(out, "written");
  if (!S_ISREG(about.st_mode))
    return tn_fail(TN_ERR_IO, "%s: cannot be written: it is there and not a regular file", path);
  *out_mode = about.st_mode & 07777;
  return TN_OK;
}

static tn_status create_sibling(tni_file_out *out, mode_t mode) {
  static _Atomic unsigned count;
  size_t size = strlen(out->path) + 64;
  TN_TRY(tni_nn_alloc(size, 1, "a path", &out->temporary));
  do {
    unsigned number = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    snprintf(out->temporary, size, "%s.tmp-%ld-%u", out->path, (long)getpid(), number);
    out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (out->fd < 0 && errno == EEXIST);
  if (out->fd < 0) {
    tn_status status = failed(out, "written");
    free(out->temporary);
    out->temporary = NULL;
    return status;
  }
  if (mode && fchmod(out->fd, mode)) return failed(out, "given its old permissions");
  return TN_OK;
}

tn_status tni_file_out_begin(tni_file_out *out, const char *path) {
  mode_t mode;
  *out = (tni_file_out){.fd = -1};
  TN_TRY(tni_nn_not_null(path, "the path"));
  tn_status status = find_place(out, path, &mode);
  if (status == TN_OK) status = create_sibling(out, mode);
  return status == TN_OK ? TN_OK : tni_file_out_end(out, status);
}

tn_status tni_file_out_add(tni_file_out *out, const void *data, size_t size_bytes) {
  const char *from = data;
  while (size_bytes > 0) {
    size_t most = (size_t)1 << 30;
    ssize_t n = write(out->fd, from, size_bytes < most ? size_bytes : most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(out, "written");
    from += n;
    size_bytes -= (size_t)n;
  }
  return TN_OK;
}

tn_status tni_file_out_tensor(tni_file_out *out, tn_tensor *tensor) {
  size_t itemsize = tn_dtype_size(tn_tensor_dtype(tensor));
  size_t size = (size_t)tn_tensor_numel(tensor) * itemsize;
  if (size == 0) return TN_OK;
  if (!TNI_BIG_ENDIAN && tn_tensor_is_contiguous(tensor) && tn_tensor_data(tensor)) {
    TN_TRY(tn_device_synchronize(tn_tensor_device(tensor)));
    return tni_file_out_add(out, tn_tensor_data(tensor), size);
  }
  unsigned char *host = NULL;
  TN_TRY(tni_nn_alloc(size, 1, "a tensor to write", &host));
  tn_status status = tn_tensor_to_host(tensor, host, size);
  if (status == TN_OK && TNI_BIG_ENDIAN) tni_file_swap(host, size, itemsize);
  if (status == TN_OK) status = tni_file_out_add(out, host, size);
  free(host);
  return status;
}

/* So that the new name survives a crash. Not every file system syncs folders. */
static tn_status sync_folder(const tni_file_out *out) {
  char *folder = NULL;
  TN_TRY(tni_nn_strdup(out->path, &folder));
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tn_status status = TN_OK;
  if (fd >= 0 && fsync(fd) && errno != EINVAL) status = failed(out, "kept: its folder cannot be synced");
  if (fd >= 0) close(fd);
  free(folder);
  return status;
}

tn_status tni_file_out_end(tni_file_out *out, tn_status status) {
  if (status == TN_OK && fsync(out->fd)) status = failed(out, "written");
  if (out->fd >= 0 && close(out->fd) && status == TN_OK) status = failed(out, "written");
  if (status == TN_OK && rename(out->temporary, out->path)) status = failed(out, "replaced");
  if (status == TN_OK)
    status = sync_folder(out);
  else if (out->temporary)
    unlink(out->temporary);
  free(out->temporary);
  free(out->path);
  *out = (tni_file_out){.fd = -1};
  return status;
}

/* The file beside it is made and removed as a writer would: only that tells of read-only and foreign file systems, of long
 * names and of rights that access(2) does not know. */
tn_status tn_file_check_place(const char *path) {
  tni_file_out out;
  TN_TRY(tni_file_out_begin(&out, path));
  (void)tni_file_out_end(&out, TN_ERR_INTERRUPTED);
  return TN_OK;
}
