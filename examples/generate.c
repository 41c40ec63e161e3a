/* SPDX-License-Identifier: Apache-2.0
 *
 * A tiny language model: it reads a sentence over and over, then goes on from its first word. An embedding of the
 * characters, two causal transformer layers, and scores for the character that comes next; `tenon train --model
 * transformer` and `tenon generate` are the same at full size. The argument is the number of steps.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/optim.h>

enum { CHARACTERS = 128, WIDTH = 32 };
static const char sentence[] = "the quick brown fox jumps over the lazy dog.";

static tn_status make_model(tn_module **out_model) {
  tn_attention_options attention = tn_attention_defaults();
  attention.causal = true; /* a character sees those before it */
  tn_module *m[4] = {NULL};
  tn_status status = tn_embedding_new(CHARACTERS, WIDTH, -1, NULL, &m[0]);
  if (!status) status = tn_transformer_layer_new(WIDTH, 4, 4 * WIDTH, &attention, NULL, &m[1]);
  if (!status) status = tn_transformer_layer_new(WIDTH, 4, 4 * WIDTH, &attention, NULL, &m[2]);
  if (!status) status = tn_linear_new(WIDTH, CHARACTERS, true, NULL, &m[3]);
  if (!status) return tn_sequential_new(m, 4, out_model);
  for (int i = 0; i < 4; i++) tn_module_release(m[i]);
  return status;
}

/* Characters as int64 [1, n]; the thread's scope owns the tensor. */
static tn_tensor *to_tensor(const char *text, tn_dim n) {
  int64_t codes[sizeof sentence];
  tn_tensor *t = NULL;
  for (tn_dim i = 0; i < n; i++) codes[i] = text[i];
  tn_scope_note(tn_tensor_from_host(codes, (const tn_dim[]){1, n}, 2, TN_OPTIONS(.dtype = TN_INT64), &t));
  return t ? tn_scope_add(t) : NULL;
}

/* Every character but the last predicts the one behind it. */
static tn_status step(tn_module *model, tn_optimizer *optimizer) {
  tn_scope *scope = NULL;
  tn_status status = tn_scope_begin(&scope);
  if (status) return status;
  tn_dim n = (tn_dim)strlen(sentence) - 1;
  tn_tensor *scores = tns_flatten(tns_module_forward(model, to_tensor(sentence, n)), 0, 1);
  tn_tensor *loss =
      tns_cross_entropy_loss(scores, tns_flatten(to_tensor(sentence + 1, n), 0, 1), NULL, 1, -100, 0.0);
  tn_scope_note(tn_optimizer_zero_grad(optimizer));
  if (loss && !tn_scope_note(tn_backward_run(loss, NULL))) tn_scope_note(tn_optimizer_step(optimizer));
  return tn_scope_end(scope);
}

/* Writes the likeliest next character behind the n that are there. */
static tn_status add_character(tn_module *model, char *text, tn_dim n) {
  tn_scope *scope = NULL;
  tn_status status = tn_scope_begin(&scope);
  if (status) return status;
  int64_t best = 0;
  tn_tensor *scores = tns_module_forward(model, to_tensor(text, n));
  tn_tensor *found = tns_argmax(tns_select(tns_select(scores, 0, 0), 0, -1), NULL, false);
  if (found) tn_scope_note(tn_tensor_item_int(found, &best));
  text[n] = (char)best;
  return tn_scope_end(scope);
}

int main(int argc, char **argv) {
  long steps = argc > 1 ? atol(argv[1]) : 150;
  char text[sizeof sentence] = "the ";
  tn_module *model = NULL;
  tn_optimizer *adam = NULL;
  tn_tensor *const *parameters = NULL;
  size_t n = 0;
  tn_adam_options options = tn_adamw_defaults();
  options.lr = 3e-3;
  tn_status status = make_model(&model);
  if (!status) status = tn_module_parameters(model, &parameters, &n);
  if (!status) status = tn_adamw_new(parameters, n, &options, &adam);
  for (long i = 0; i < steps && !status; i++) status = step(model, adam);
  for (tn_dim i = 4; i + 1 < (tn_dim)sizeof text && !status; i++) status = add_character(model, text, i);
  if (status) fprintf(stderr, "%s\n", tn_error_message());
  printf("%s\n", text);
  tn_optimizer_release(adam);
  tn_module_release(model);
  return status != 0;
}
