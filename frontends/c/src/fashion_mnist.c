/* SPDX-License-Identifier: Apache-2.0
 *
 * Fashion-MNIST: two IDX files checked against each other, kept as bytes, and turned into floats batch by
 * batch (a table of 256 quotients: 47 MB in memory instead of 188).
 */
#include <tenon/data.h>

#include "frontends/c/src/support.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

typedef struct fashion {
  tn_tensor *images, *labels;
  float unit[256]; /* i / 255 */
} fashion;

static void fashion_free(void *ctx) {
  fashion *f = ctx;
  tn_tensor_release(f->images);
  tn_tensor_release(f->labels);
  free(f);
}

static tn_status fashion_get(void *ctx, const int64_t *indices, size_t n, tn_tensor **out_fields,
                             size_t n_fields) {
  const fashion *f = ctx;
  const tn_dim sizes[] = {(tn_dim)n, 1, SIDE, SIDE};
  TN_TRY(tn_empty(sizes, 4, TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true), TN_MEMORY_FORMAT_NONE,
                  &out_fields[0]));
  TN_TRY(tn_empty(sizes, 1, TN_OPTIONS(.dtype = TN_INT64, .has_device = true), TN_MEMORY_FORMAT_NONE,
                  &out_fields[1]));
  float *image = tn_tensor_data(out_fields[0]);
  int64_t *label = tn_tensor_data(out_fields[1]);
  const uint8_t *bytes = tn_tensor_data(f->images), *classes = tn_tensor_data(f->labels);
  for (size_t i = 0; i < n; i++, image += PIXELS) {
    const uint8_t *source = bytes + (size_t)indices[i] * PIXELS;
    for (int p = 0; p < PIXELS; p++) image[p] = f->unit[source[p]];
    label[i] = classes[indices[i]];
  }
  return TN_OK;
}

/* folder/name; the caller frees. */
static tn_status join(const char *folder, const char *name, char **out_path) {
  size_t size = strlen(folder) + strlen(name) + 2;
  TN_TRY(tni_nn_alloc(size, 1, "a path", out_path));
  snprintf(*out_path, size, "%s/%s", folder, name);
  return TN_OK;
}

static tn_status read_file(const char *folder, const char *name, int32_t ndim, const tn_dim *expected,
                           tn_tensor **out_tensor) {
  char *path = NULL, found[160];
  TN_TRY(join(folder, name, &path));
  tn_status status = tn_idx_read(path, out_tensor);
  bool fits =
      status == TN_OK && tn_tensor_dtype(*out_tensor) == TN_UINT8 && tn_tensor_ndim(*out_tensor) == ndim;
  for (int32_t d = 0; fits && d < ndim; d++)
    fits = expected[d] < 0 || tn_tensor_sizes(*out_tensor)[d] == expected[d];
  if (status == TN_OK && !fits)
    status =
        tn_fail(TN_ERR_DATA, "%s: unsigned bytes of shape %s were expected, %s %s are there", path,
                ndim == 3 ? "[N, 28, 28]" : "[N], one for each image,",
                tn_dtype_name(tn_tensor_dtype(*out_tensor)), tni_nn_shape(*out_tensor, found, sizeof found));
  free(path);
  return status;
}

static tn_status check_labels(const char *folder, const fashion *f) {
  const uint8_t *label = tn_tensor_data(f->labels);
  for (int64_t i = 0; i < tn_tensor_numel(f->labels); i++)
    if (label[i] >= CLASSES)
      return tn_fail(TN_ERR_DATA, "%s: label %lld is %u; 0 to 9 were expected", folder, (long long)i,
                     label[i]);
  return TN_OK;
}

static tn_status fill(fashion *f, const char *folder, bool train) {
  tn_dim image_sizes[] = {-1, SIDE, SIDE};
  for (int i = 0; i < 256; i++) f->unit[i] = (float)i / 255.0f;
  TN_TRY(read_file(folder, train ? "train-images-idx3-ubyte.gz" : "t10k-images-idx3-ubyte.gz", 3, image_sizes,
                   &f->images));
  TN_TRY(read_file(folder, train ? "train-labels-idx1-ubyte.gz" : "t10k-labels-idx1-ubyte.gz", 1,
                   tn_tensor_sizes(f->images), &f->labels));
  return check_labels(folder, f);
}

tn_status tn_fashion_mnist_new(const char *folder, bool train, tn_dataset **out_dataset) {
  static const tn_dataset_def def = {fashion_get, fashion_free};
  *out_dataset = NULL;
  fashion *f = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *f, "Fashion-MNIST", &f));
  tn_status status = fill(f, folder ? folder : TN_FASHION_MNIST_FOLDER, train);
  if (status != TN_OK) {
    fashion_free(f);
    return tn_wrap(status, "Fashion-MNIST");
  }
  return tn_dataset_new(&def, f, tn_tensor_numel(f->labels), 2, out_dataset);
}
