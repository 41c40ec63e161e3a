/* SPDX-License-Identifier: Apache-2.0
 *
 * The models that the command line knows, made of the modules of tenon/nn.h: a perceptron and a convnet for 28 x 28
 * images, and a character-level transformer (pre-norm, learned places, untied head without bias).
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

enum { SIDE = 28, INPUTS = SIDE * SIDE, HIDDEN = 128, CLASSES = 10 };

/* Takes over the modules, made or NULL, with the status of their making. */
static tn_status join(tn_status status, tn_module *const *parts, size_t n, tn_module **out_model) {
  if (status == TN_OK) return tn_sequential_new(parts, n, out_model);
  for (size_t i = 0; i < n; i++) tn_module_release(parts[i]);
  return status;
}

/* ------------------------------------------------------------------ mlp, cnn */

static tn_status make_mlp(const tni_shape *shape, const tni_vocabulary *vocabulary, tn_module **out_model) {
  tn_module *parts[4] = {NULL};
  tn_status status = tn_flatten_new(1, -1, &parts[0]);
  if (status == TN_OK) status = tn_linear_new(INPUTS, HIDDEN, true, NULL, &parts[1]);
  if (status == TN_OK) status = tn_relu_new(&parts[2]);
  if (status == TN_OK) status = tn_linear_new(HIDDEN, CLASSES, true, NULL, &parts[3]);
  return join(status, parts, 4, out_model);
}

/* Two convolutions of 3 x 3 without padding leave 24 x 24, the pool 12 x 12. */
static tn_status make_cnn(const tni_shape *shape, const tni_vocabulary *vocabulary, tn_module **out_model) {
  static const int64_t kernel[] = {3, 3}, half[] = {2, 2};
  enum { FIRST = 32, SECOND = 64, POOLED = 12 };
  tn_module *parts[7] = {NULL};
  tn_status status = tn_conv2d_new(1, FIRST, kernel, NULL, NULL, &parts[0]);
  if (status == TN_OK) status = tn_relu_new(&parts[1]);
  if (status == TN_OK) status = tn_conv2d_new(FIRST, SECOND, kernel, NULL, NULL, &parts[2]);
  if (status == TN_OK) status = tn_relu_new(&parts[3]);
  if (status == TN_OK) status = tn_max_pool2d_new(half, NULL, &parts[4]);
  if (status == TN_OK) status = tn_flatten_new(1, -1, &parts[5]);
  if (status == TN_OK) status = tn_linear_new(SECOND * POOLED * POOLED, CLASSES, true, NULL, &parts[6]);
  TN_TRY(join(status, parts, 7, out_model));
  return tn_module_to_format(*out_model, TN_CHANNELS_LAST);
}

/* ------------------------------------------------------------------ transformer */

/* Children by position. The buffer "vocabulary" says which code point an entry is: it travels with the weights. */
enum { CHARACTERS, PLACES, DROPOUT, LAYERS, NORM, HEAD };

/* Input [n, length] of entries, length at most the context; result [n, length, vocabulary]. */
static tn_status transformer_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                     tn_tensor **out_result) {
  const int64_t *context = ctx;
  tn_module *layers = tn_module_child_at(self, LAYERS);
  tn_scope *scope = NULL;
  if (n_in != 1 || tn_tensor_ndim(in[0]) != 2 || tn_tensor_sizes(in[0])[1] > *context)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "one input [n, length] with length <= %lld was expected",
                   (long long)*context);
  TN_TRY(tn_scope_begin(&scope));
  tn_tensor *places =
      tns_arange(tn_int(tn_tensor_sizes(in[0])[1]),
                 TN_OPTIONS(.dtype = TN_INT64, .has_device = true, .device = tn_tensor_device(in[0])));
  tn_tensor *x = tns_add(tns_module_forward(tn_module_child_at(self, CHARACTERS), in[0]),
                         tns_module_forward(tn_module_child_at(self, PLACES), places), tn_int(1));
  x = tns_module_forward(tn_module_child_at(self, DROPOUT), x);
  for (size_t i = 0; i < tn_module_child_count(layers); i++)
    x = tns_module_forward(tn_module_child_at(layers, i), x);
  x = tns_module_forward(tn_module_child_at(self, HEAD),
                         tns_module_forward(tn_module_child_at(self, NORM), x));
  *out_result = tn_scope_keep(x);
  tn_status status = tn_scope_end(scope);
  if (status == TN_OK) return TN_OK;
  tn_tensor_release(*out_result);
  *out_result = NULL;
  return status;
}

/* child is consumed. */
static tn_status add(tn_module *m, const char *name, tn_status status, tn_module *child) {
  if (status == TN_OK) status = tn_module_add_child(m, name, child);
  tn_module_release(child);
  return status;
}

/* Rows from N(0, 0.02): with rows of length 1 a head would begin far from even chances. */
static tn_status make_embedding(int64_t count, int64_t width, tn_module **out_module) {
  TN_TRY(tn_embedding_new(count, width, -1, NULL, out_module));
  tn_status status = tn_init_normal(tn_module_tensor(*out_module, "weight"), 0.0, 0.02, NULL);
  if (status == TN_OK) return TN_OK;
  tn_module_release(*out_module);
  *out_module = NULL;
  return status;
}

static tn_status make_layers(const tni_shape *shape, tn_module **out_list) {
  tn_attention_options attention = tn_attention_defaults();
  attention.dropout = shape->dropout;
  attention.causal = true;
  TN_TRY(tn_module_list_new(NULL, 0, out_list));
  tn_status status = TN_OK;
  for (int64_t i = 0; status == TN_OK && i < shape->layers; i++) {
    tn_module *layer = NULL;
    status = tn_transformer_layer_new(shape->width, shape->heads, 4 * shape->width, &attention, NULL, &layer);
    if (status == TN_OK) status = tn_module_list_append(*out_list, layer);
  }
  if (status == TN_OK) return TN_OK;
  tn_module_release(*out_list);
  *out_list = NULL;
  return status;
}

static tn_status fill_transformer(tn_module *m, const tni_shape *shape, const tni_vocabulary *vocabulary) {
  tn_module *c = NULL;
  tn_tensor *points = NULL;
  tn_status status = make_embedding(vocabulary->count, shape->width, &c);
  TN_TRY(add(m, "characters", status, c));
  status = make_embedding(shape->context, shape->width, &c);
  TN_TRY(add(m, "places", status, c));
  status = tn_dropout_new(shape->dropout, &c);
  TN_TRY(add(m, "dropout", status, c));
  status = make_layers(shape, &c);
  TN_TRY(add(m, "layers", status, c));
  status = tn_layer_norm_new(&shape->width, 1, 1e-5, true, NULL, &c);
  TN_TRY(add(m, "norm", status, c));
  status = tn_linear_new(shape->width, vocabulary->count, false, NULL, &c);
  TN_TRY(add(m, "head", status, c));
  TN_TRY(tni_vocabulary_tensor(vocabulary, &points));
  status = tn_module_add_buffer(m, "vocabulary", points, true);
  tn_tensor_release(points);
  return status;
}

static tn_status make_transformer(const tni_shape *shape, const tni_vocabulary *vocabulary,
                                  tn_module **out_model) {
  static const tn_module_def def = {"Transformer", transformer_forward, free};
  if (shape->width % shape->heads)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "--heads %lld do not divide --width %lld",
                   (long long)shape->heads, (long long)shape->width);
  int64_t *context = malloc(sizeof *context);
  if (!context) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a model");
  *context = shape->context;
  TN_TRY(tn_module_new(&def, context, out_model));
  tn_status status = fill_transformer(*out_model, shape, vocabulary);
  if (status == TN_OK) return TN_OK;
  tn_module_release(*out_model);
  *out_model = NULL;
  return status;
}

/* ------------------------------------------------------------------ the table */

static const tni_model models[] = {
    {"mlp", "fashion-mnist", TN_MEMORY_FORMAT_NONE, false, 64, 0, 0.0, make_mlp},
    {"cnn", "fashion-mnist", TN_CHANNELS_LAST, false, 64, 0, 0.0, make_cnn},
    {"transformer", "text", TN_MEMORY_FORMAT_NONE, true, 16, 100, 1.0, make_transformer},
};
enum { N_MODELS = sizeof models / sizeof *models };

const tni_model *tni_model_find(const char *name) {
  for (int i = 0; i < N_MODELS; i++)
    if (!strcmp(models[i].name, name)) return &models[i];
  return NULL;
}

const char *tni_model_names(void) { return "mlp, cnn, transformer"; }

bool tni_model_reads_text(const tni_model *model) { return !strcmp(model->dataset, "text"); }

tn_status tni_model_make(const tni_model *model, const tni_shape *shape, const tni_vocabulary *vocabulary,
                         uint64_t seed, tn_device device, tn_module **out_model) {
  *out_model = NULL;
  TN_TRY(tn_manual_seed(seed));
  tn_status status = model->make(shape, vocabulary, out_model);
  if (status == TN_OK) status = tn_module_to(*out_model, device, TN_DTYPE_NONE);
  if (status == TN_OK) return TN_OK;
  tn_module_release(*out_model);
  *out_model = NULL;
  return status;
}

tn_tensor *tni_on_device(tn_tensor *tensor, tn_device device) {
  return tns_to_device(tensor, device, tn_tensor_dtype(tensor), false, false, TN_MEMORY_FORMAT_NONE);
}

tn_tensor *tni_model_input(const tni_model *model, tn_tensor *input, tn_device device) {
  tn_tensor *there = tni_on_device(input, device);
  return model->format == TN_MEMORY_FORMAT_NONE ? there : tns_contiguous(there, model->format);
}
