/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of the user's cache, $XDG_CACHE_HOME/tenon/PART or ~/.cache/tenon/PART: private to their owner, written aside
 * and renamed. Whatever is wrong with one (no home, no right, a full disk, others may write it) means that nothing is
 * remembered, with a debug line, and never a failure.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/load/load_int.h"

/* From the first slash at `from` on: who has no home has a path in its place that is not ours to make. */
static bool make_folders(char *path, size_t from) {
  for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
    char kept = *slash;
    *slash = 0;
    bool good = mkdir(path, 0700) == 0 || errno == EEXIST;
    *slash = kept;
    if (!good) return false;
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool is_private(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022);
}

int tni_cache_open(const char *part, bool make) {
  const char *base = secure_getenv("XDG_CACHE_HOME"), *middle = "";
  bool home = !base || base[0] != '/';
  if (home) {
    base = secure_getenv("HOME");
    middle = "/.cache";
  }
  if (!base || base[0] != '/') return -1;
  char *path;
  if (asprintf(&path, "%s%s/tenon/%s", base, middle, part) < 0) return -1;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && make && make_folders(path, strlen(base) + home))
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && make) tn_log(TN_LOG_DEBUG, "%s: nothing is remembered there: %s", path, strerror(errno));
  if (fd >= 0 && !is_private(fd)) {
    tn_log(TN_LOG_DEBUG, "%s: nothing is remembered there, because others may write it", path);
    close(fd);
    fd = -1;
  }
  free(path);
  return fd;
}

DIR *tni_cache_list(int folder) {
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir && fd >= 0) close(fd);
  return dir;
}

bool tni_pread_all(int fd, void *bytes, size_t n, off_t at) {
  for (size_t done = 0; done < n;) {
    ssize_t now = pread(fd, (char *)bytes + done, n - done, at + (off_t)done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    done += (size_t)now;
  }
  return true;
}

char *tni_cache_read(int folder, const char *name, size_t most, size_t *out_bytes) {
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat st;
  char *bytes = NULL;
  if (fd < 0) return NULL;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size < most)
    bytes = malloc((size_t)st.st_size + 1);
  if (bytes && !tni_pread_all(fd, bytes, (size_t)st.st_size, 0)) {
    free(bytes);
    bytes = NULL;
  }
  if (bytes) {
    bytes[st.st_size] = 0;
    if (out_bytes) *out_bytes = (size_t)st.st_size;
  }
  close(fd);
  return bytes;
}

static bool write_all(int fd, const char *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t now = write(fd, bytes + done, n - done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    done += (size_t)now;
  }
  return true;
}

/* Passing the process's limit of file sizes is a deadly signal. */
static bool is_allowed(const tni_piece *pieces, size_t n) {
  struct rlimit limit;
  uint64_t bytes = 0;
  for (size_t i = 0; i < n; ++i) bytes += pieces[i].n;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

/* A name that nobody else has: threads write the same file, and so do processes of other machines with the same number. */
static int open_aside(int folder, const char *name, char *aside, size_t size) {
  static _Atomic unsigned last;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(aside, size, "%.80s.%lx.%x.%llx.new", name, (unsigned long)getpid(), atomic_fetch_add(&last, 1),
           (unsigned long long)now.tv_sec * 1000000000 + (unsigned long)now.tv_nsec);
  return openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

void tni_cache_write(int folder, const char *name, const tni_piece *pieces, size_t n) {
  char aside[160];
  int fd = is_allowed(pieces, n) ? open_aside(folder, name, aside, sizeof aside) : -1;
  if (fd < 0) return;
  bool good = true;
  for (size_t i = 0; i < n && good; ++i) good = write_all(fd, pieces[i].bytes, pieces[i].n);
  if (close(fd) != 0) good = false;
  if (!good || renameat(folder, aside, folder, name) != 0) unlinkat(folder, aside, 0);
}
