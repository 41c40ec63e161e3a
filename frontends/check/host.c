/* SPDX-License-Identifier: Apache-2.0
 *
 * See host.h.
 */
#include "frontends/check/host.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/check/tools.h"

static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool tni_host_find(tni_check_report *r, const tni_check_context *c, tn_plugin_report *out_report) {
  if (!tni_check_ok(r, tn_init(), "listed", "tn_init failed")) return false;
  for (size_t i = 0; i < tn_plugin_count(); i++)
    if (tn_plugin_get(i, out_report) == TN_OK && same_file(out_report->path, c->file)) return true;
  tni_check_fail(r, "listed", "the host does not list %s among its plugins", c->file);
  return false;
}

static void ignore_line(void *ctx, const char *words) { (void)ctx, (void)words; }

static tn_dtype any_dtype(tn_dtype_mask mask) {
  if (mask & TN_DTYPE_BIT(TN_FLOAT32)) return TN_FLOAT32;
  for (tn_dtype d = 1; d < TN_DTYPE_LIMIT; d++)
    if (mask & TN_DTYPE_BIT(d)) return d;
  return TN_FLOAT32;
}

static tn_status open_operator(const char *schema) {
  char *name = tni_check_text("%.*s", (int)strcspn(schema, "("), schema);
  const tn_op *op;
  tn_status status = tn_op_find(name, &op);
  free(name);
  return status;
}

static bool is_layer(const tni_check_context *c, const char *key) {
  for (size_t i = 0; i < c->n_layers; i++)
    if (!strcmp(c->layers[i].name, key)) return true;
  return false;
}

tn_status tni_host_open(const tni_check_context *c) {
  tn_status status = tn_init();
  tn_device device;
  for (size_t i = 0; status == TN_OK && i < c->n_devices; i++)
    status = tn_device_open(c->devices[i], &device);
  for (size_t i = 0; status == TN_OK && i < c->n_operators; i++) status = open_operator(c->operators[i]);
  for (size_t i = 0; status == TN_OK && i < c->n_layers; i++) {
    status = tn_layer_set(c->layers[i].name, true, NULL);
    if (status == TN_OK) status = tn_layer_set(c->layers[i].name, false, NULL);
  }
  for (size_t i = 0; status == TN_OK && !c->n_devices && i < c->n_kernels; i++) {
    const tni_claim_kernel *k = &c->kernels[i];
    bool star = !strcmp(k->op, "*");
    status = tn_op_why(star ? "add.Tensor" : k->op, is_layer(c, k->key) ? "cpu" : k->key,
                       any_dtype(k->dtypes), ignore_line, NULL);
    if (status == TN_ERR_NOT_FOUND) status = TN_OK; /* an operator that this host does not have */
  }
  return status;
}

bool tni_host_is_mapped(const tni_check_context *c) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  while (maps && !found && getline(&line, &room, maps) >= 0) {
    char *path = strchr(line, '/');
    if (path) path[strcspn(path, "\n")] = 0;
    found = path && same_file(path, c->file);
  }
  free(line);
  if (maps) fclose(maps);
  return found;
}

char *tni_host_second_root(const tni_check_context *c) {
  if (!c->second) return NULL;
  char *root = tni_check_text("%s/second", c->folder), *link = tni_check_text("%s/second.so", root);
  bool there =
      (mkdir(root, 0700) == 0 || errno == EEXIST) && (symlink(c->second, link) == 0 || errno == EEXIST);
  char *setting = there ? tni_check_text("TENON_PLUGIN_PATH=%s/root:%s", c->folder, root) : NULL;
  free(root);
  free(link);
  return setting;
}

void tni_host_values(float *values, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) values[i] = (float)((int)((i * 7 + seed * 13) % 31) - 15) / 8.0f;
}

tn_status tni_host_tensor(const float *values, const tn_dim *sizes, int32_t ndim, tn_device device,
                          tn_tensor **out_tensor) {
  return tn_tensor_from_host(
      values, sizes, ndim, TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true, .device = device), out_tensor);
}

tn_status tni_host_read(tn_tensor *tensor, float *values, size_t n) {
  return tn_tensor_to_host(tensor, values, n * sizeof *values);
}

bool tni_host_is_missing(tn_status status) {
  return status == TN_ERR_MISSING_KERNEL || status == TN_ERR_UNSUPPORTED || status == TN_ERR_DTYPE;
}
