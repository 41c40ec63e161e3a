/* SPDX-License-Identifier: Apache-2.0
 *
 * What probes have said, on disk: $XDG_CACHE_HOME/tenon/probe, else ~/.cache/tenon/probe, a folder that only its owner
 * may enter. Two kinds of small text files:
 *
 *   i-DEVICE-INODE   size, times and SHA-256 of a file, so that a file that nobody touched is not read again
 *   SHA-256          the answer about that content, with everything it depended on: the host's version, the
 *                    libraries that were mapped with it (by place, size and time), declared environment variables
 *
 * An answer whose surroundings have changed, or that is older than EXPIRE_..., counts as none. Files are written
 * aside and renamed, so that processes may meet here. Nothing here is trusted further than "this was seen to open":
 * pins are checked against the file itself. No folder, no right to write, a damaged file: nothing is remembered.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tenon/kit/sha256.h>
#include <time.h>
#include <unistd.h>

#include "core/load/load_int.h"

enum { DAY = 86400, EXPIRE_READY = 30 * DAY, EXPIRE_QUARANTINED = 7 * DAY, RECORD_MOST = 1 << 20 };

static int open_folder(bool make) { return tni_cache_open("probe", make); }
static char *read_text(int folder, const char *name) { return tni_cache_read(folder, name, RECORD_MOST, NULL); }
static void write_text(int folder, const char *name, const char *text, size_t n) {
  tni_cache_write(folder, name, &(tni_piece){text, n}, 1);
}

/* ------------------------------------------------------------------ content of a file */

static void index_name(const tni_file_id *id, char name[64]) {
  snprintf(name, 64, "i-%" PRIx64 "-%" PRIx64, id->dev, id->ino);
}

/* folder: -1 if there is none. */
static tn_status hash_known(int folder, int fd, char out_hex[65]) {
  tni_file_id id, was = {0};
  char name[64], line[256];
  if (!tni_file_id_of(fd, &id)) return TN_FAIL(TN_ERR_IO, "cannot be examined: %s", strerror(errno));
  index_name(&id, name);
  char *text = folder < 0 ? NULL : read_text(folder, name);
  bool same = text && sscanf(text, "%" SCNu64 " %" SCNd64 " %" SCNd64 " %64[0-9a-f]", &was.size, &was.modified_ns,
                             &was.changed_ns, out_hex) == 4;
  free(text);
  was.dev = id.dev;
  was.ino = id.ino;
  if (same && tni_file_id_same(&id, &was) && strlen(out_hex) == 64) return TN_OK;
  TN_TRY(tni_file_hash(fd, out_hex));
  int n = snprintf(line, sizeof line, "%" PRIu64 " %" PRId64 " %" PRId64 " %s\n", id.size, id.modified_ns,
                   id.changed_ns, out_hex);
  if (folder >= 0 && n > 0) write_text(folder, name, line, (size_t)n);
  return TN_OK;
}

static tn_status hash_plugin(int folder, const tni_plugin *p, char out_hex[65]) {
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return TN_FAIL(TN_ERR_IO, "cannot be opened: %s", strerror(errno));
  tn_status status = hash_known(folder, fd, out_hex);
  close(fd);
  return status;
}

tn_status tni_cache_hash(const tni_plugin *p, char out_hex[65]) {
  int folder = open_folder(true);
  tn_status status = hash_plugin(folder, p, out_hex);
  if (folder >= 0) close(folder);
  return status;
}

/* ------------------------------------------------------------------ what an answer depends on */

void tni_cache_environment(const tni_plugin *p, char out_hex[65]) {
  tn_sha256 sha;
  tn_sha256_init(&sha);
  for (size_t i = 0; i < p->manifest->environment.count; ++i) {
    const char *name = p->manifest->environment.items[i], *value = getenv(name);
    tn_sha256_add(&sha, name, strlen(name) + 1);
    tn_sha256_add(&sha, value ? value : "", value ? strlen(value) + 1 : 0);
  }
  tn_sha256_end(&sha, out_hex);
}

/* ------------------------------------------------------------------ records */

static const char *host_line(void) { return TN_VERSION_TEXT; }

static void write_record(FILE *to, const tni_plugin *p, const tni_probe *probe) {
  char environment[65];
  tni_cache_environment(p, environment);
  fprintf(to, "tenon-probe 1\nhost %s %d.%d\n", host_line(), TN_ABI_MAJOR, TN_ABI_MINOR);
  fprintf(to, "plugin %s\nfile %s\nwhen %" PRId64 "\ntook %u\n", p->name, p->file, probe->when, probe->took_ms);
  fprintf(to, "verdict %s\n", probe->verdict == TNI_PROBE_READY ? "ready" : "quarantined");
  fprintf(to, "words %s\ndevices %s\nenvironment %s\n", probe->words, probe->devices, environment);
  tni_libraries_write(to, p, probe->libraries);
  fprintf(to, "end\n");
}

static bool is_record(const char *name) { return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64; }
static bool is_ours(const char *name) { return is_record(name) || strncmp(name, "i-", 2) == 0 || strstr(name, ".new"); }

/* Files that nobody renewed for as long as any answer holds: of plugins that are gone. */
static void sweep(int folder) {
  DIR *dir = tni_cache_list(folder);
  time_t oldest = time(NULL) - EXPIRE_READY;
  for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
    struct stat st;
    if (is_ours(entry->d_name) && fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime < oldest)
      unlinkat(folder, entry->d_name, 0);
  }
  if (dir) closedir(dir);
}

tn_status tni_cache_store(const tni_plugin *p, const tni_probe *probe) {
  char sha[65];
  int folder = open_folder(true);
  if (folder < 0) return TN_OK;
  char *text = NULL;
  size_t size = 0;
  tn_status status = hash_plugin(folder, p, sha);
  /* Another file may stand there since it was probed. */
  FILE *to = status == TN_OK && tni_dl_is_examined(p) ? open_memstream(&text, &size) : NULL;
  if (to) {
    write_record(to, p, probe);
    if (fclose(to) == 0) write_text(folder, sha, text, size);
  }
  free(text);
  sweep(folder);
  close(folder);
  return status == TN_ERR_OUT_OF_MEMORY ? status : TN_OK;
}

static const char *value_of(const char *line, const char *key) {
  size_t n = strlen(key);
  return strncmp(line, key, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

static tn_status keep(char **out_copy, const char *text) {
  if (*out_copy) return TN_OK;
  *out_copy = tni_strdup(text);
  return *out_copy ? TN_OK : tni_oom(strlen(text) + 1, "a probe's words");
}

/* One line into the probe. *out_holds becomes false if what it tells of has changed. */
static tn_status take_line(const tni_plugin *p, const char *line, tni_probe *probe, bool *out_holds) {
  const char *value;
  char now[128];
  if ((value = value_of(line, "host")) != NULL) {
    snprintf(now, sizeof now, "%s %d.%d", host_line(), TN_ABI_MAJOR, TN_ABI_MINOR);
    *out_holds &= strcmp(value, now) == 0;
  } else if ((value = value_of(line, "when")) != NULL) {
    probe->when = strtoll(value, NULL, 10);
  } else if ((value = value_of(line, "took")) != NULL) {
    probe->took_ms = (uint32_t)strtoul(value, NULL, 10);
  } else if ((value = value_of(line, "verdict")) != NULL) {
    probe->verdict = strcmp(value, "ready") == 0         ? TNI_PROBE_READY
                     : strcmp(value, "quarantined") == 0 ? TNI_PROBE_QUARANTINED
                                                         : 0;
  } else if ((value = value_of(line, "environment")) != NULL) {
    tni_cache_environment(p, now);
    *out_holds &= strcmp(value, now) == 0;
  } else if ((value = value_of(line, "library")) != NULL) {
    *out_holds &= tni_library_is_same(value);
  } else if ((value = value_of(line, "words")) != NULL) {
    return keep(&probe->words, value);
  } else if ((value = value_of(line, "devices")) != NULL) {
    return keep(&probe->devices, value);
  }
  return TN_OK;
}

static bool is_fresh(const tni_probe *probe) {
  int64_t age = (int64_t)time(NULL) - probe->when;
  return age >= 0 && age < (probe->verdict == TNI_PROBE_READY ? EXPIRE_READY : EXPIRE_QUARANTINED);
}

static tn_status parse_record(const tni_plugin *p, char *text, tni_probe **out_probe) {
  tni_probe *probe = tni_alloc_zero(sizeof *probe);
  if (!probe) return tni_oom(sizeof *probe, "a probe");
  bool holds = strncmp(text, "tenon-probe 1\n", 14) == 0, ended = false;
  tn_status status = TN_OK;
  for (char *line = text, *end; status == TN_OK && holds && (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = 0;
    ended |= strcmp(line, "end") == 0;
    status = take_line(p, line, probe, &holds);
  }
  if (status == TN_OK && holds && ended && probe->verdict && probe->words && probe->devices && is_fresh(probe))
    *out_probe = probe;
  else
    tni_probe_free(probe);
  return status;
}

tn_status tni_cache_find(const tni_plugin *p, tni_probe **out_probe) {
  char sha[65];
  *out_probe = NULL;
  int folder = open_folder(false);
  if (folder < 0) return TN_OK;
  tn_status status = hash_plugin(folder, p, sha);
  char *text = status == TN_OK ? read_text(folder, sha) : NULL;
  close(folder);
  if (text) status = parse_record(p, text, out_probe);
  free(text);
  return status == TN_ERR_OUT_OF_MEMORY ? status : TN_OK;
}

/* ------------------------------------------------------------------ clearing */

/* Does the record tell of that plugin, by its name or its file's? */
static bool tells_of(int folder, const char *record, const char *plugin) {
  char *text = read_text(folder, record), *rest = text, *line;
  bool found = false;
  while (text && !found && (line = strsep(&rest, "\n")) != NULL) {
    const char *name = value_of(line, "plugin");
    if (!name) name = value_of(line, "file");
    found = name && strcmp(name, plugin) == 0;
  }
  free(text);
  return found;
}

tn_status tni_cache_clear(const char *plugin, size_t *out_count) {
  *out_count = 0;
  int folder = open_folder(false);
  if (folder < 0) return TN_OK;
  DIR *dir = tni_cache_list(folder);
  tn_status status = dir ? TN_OK : TN_FAIL(TN_ERR_IO, "the cache of probes cannot be read: %s", strerror(errno));
  for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
    const char *name = entry->d_name;
    bool record = is_record(name);
    if (!is_ours(name) || (plugin && !(record && tells_of(folder, name, plugin)))) continue;
    if (unlinkat(folder, name, 0) == 0)
      *out_count += record;
    else if (errno != ENOENT)
      status = TN_FAIL(TN_ERR_IO, "the cache of probes: %s cannot be removed: %s", name, strerror(errno));
  }
  if (dir) closedir(dir);
  close(folder);
  return status;
}
