/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon generate`: text from a saved transformer, a character at a time. Each comes from the scores of the last place
 * of the window: divided by the temperature, all but the best top-k left out, and drawn with one number of the CPU's
 * generator, so that the same file, prompt, options and threads give the same text.
 */
#include <inttypes.h>
#include <math.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"
#include "frontends/cli/train.h"

typedef struct generate {
  tn_device device;
  const char *load, *prompt;
  int64_t length, top_k, seed;
  double temperature;
  bool json;
  /* while it runs */
  tni_saved saved;
  tn_module *model;
  int64_t *ids; /* prompt and what was drawn */
  int64_t count;
  double *weights; /* of the vocabulary's entries */
  double *sorted;  /* the same, for top-k */
  char *text;      /* UTF-8 of ids */
  size_t size_bytes;
} generate;

/* ------------------------------------------------------------------ prompt */

static void append(generate *g, int64_t id) {
  g->ids[g->count++] = id;
  g->size_bytes += tni_utf8_encode(g->saved.vocabulary.points[id], g->text + g->size_bytes);
}

/* A prompt is a few words that somebody typed: what the model cannot read is an error here. */
static tn_status read_prompt(generate *g) {
  const unsigned char *s = (const unsigned char *)g->prompt;
  size_t size = strlen(g->prompt);
  for (size_t i = 0, n; i < size; i += n) {
    uint32_t point = 0;
    n = tni_utf8_decode(s + i, size - i, &point);
    if (n == 0)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "the prompt is not UTF-8 at byte %zu (0x%02X)", i, s[i]);
    if (!g->saved.vocabulary.entries[point])
      return tn_fail(TN_ERR_INVALID_ARGUMENT,
                     "the prompt's character at byte %zu (U+%04X) is none of the %" PRId64
                     " that the model was trained on",
                     i, point, g->saved.vocabulary.count - 1);
    append(g, g->saved.vocabulary.entries[point]);
  }
  return TN_OK;
}

/* Without a prompt a line begins: what follows a line feed, or else the first character known. */
static tn_status begin(generate *g) {
  size_t most = strlen(g->prompt) + 1 + (size_t)g->length;
  int64_t n = g->saved.vocabulary.count;
  if (n < 2) return tn_fail(TN_ERR_DATA, "%s: its vocabulary has no characters", g->load);
  g->ids = calloc(most, sizeof *g->ids);
  g->text = calloc(most, 4);
  g->weights = calloc((size_t)n, sizeof *g->weights);
  g->sorted = calloc((size_t)n, sizeof *g->sorted);
  if (!g->ids || !g->text || !g->weights || !g->sorted)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu characters", most);
  if (*g->prompt) return read_prompt(g);
  int64_t line = g->saved.vocabulary.entries['\n'];
  append(g, line ? line : 1);
  return TN_OK;
}

/* ------------------------------------------------------------------ one character */

static int falling(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Scores to weights of a draw. U+FFFD, which stands for what was never seen, is never drawn. Equal scores at the edge
 * of the best top-k all stay. */
static tn_status weigh(generate *g) {
  int64_t n = g->saved.vocabulary.count;
  double *w = g->weights, most = -INFINITY, least = -INFINITY;
  for (int64_t i = 1; i < n; i++) {
    if (isnan(w[i]) || w[i] == INFINITY)
      return tn_fail(TN_ERR_DATA, "%s: the model's scores are no numbers", g->load);
    most = w[i] > most ? w[i] : most;
  }
  if (most == -INFINITY) return tn_fail(TN_ERR_DATA, "%s: the model's scores are no numbers", g->load);
  int64_t k = g->temperature == 0.0 ? 1 : g->top_k;
  if (k > 0 && k < n - 1) {
    memcpy(g->sorted, w + 1, (size_t)(n - 1) * sizeof *w);
    qsort(g->sorted, (size_t)(n - 1), sizeof *w, falling);
    least = g->sorted[k - 1];
  }
  w[0] = 0.0;
  for (int64_t i = 1; i < n; i++)
    w[i] = w[i] < least ? 0.0 : exp((w[i] - most) / (g->temperature > 0.0 ? g->temperature : 1.0));
  return TN_OK;
}

/* uniform in [0, 1). At temperature 0 the first of the best. */
static int64_t pick(const generate *g, double uniform) {
  int64_t n = g->saved.vocabulary.count, last = 0;
  double total = 0.0, sum = 0.0;
  for (int64_t i = 1; i < n; i++) total += g->weights[i];
  for (int64_t i = 1; i < n; i++) {
    if (g->weights[i] <= 0.0) continue;
    last = i;
    sum += g->weights[i];
    if (g->temperature == 0.0 || uniform * total < sum) break;
  }
  return last;
}

/* Inside the caller's scope: the scores behind the window's last place, into g->weights. */
static void score(generate *g) {
  int64_t length = g->count < g->saved.shape.context ? g->count : g->saved.shape.context;
  const tn_dim sizes[] = {1, length};
  tn_tensor *window = NULL;
  tn_status status = tn_tensor_from_host(g->ids + g->count - length, sizes, 2,
                                         TN_OPTIONS(.dtype = TN_INT64, .has_device = true), &window);
  if (tn_scope_note(status) != TN_OK) return;
  tn_tensor *scores = tns_module_forward(g->model, tni_on_device(tn_scope_add(window), g->device));
  tn_tensor *last = tns_to_dtype(tns_select(tns_select(scores, 0, 0), 0, -1), TN_FLOAT64, false, false,
                                 TN_MEMORY_FORMAT_NONE);
  if (!last) return;
  tn_scope_note(tn_tensor_to_host(last, g->weights, (size_t)g->saved.vocabulary.count * sizeof *g->weights));
}

static tn_status next(generate *g) {
  tn_scope *scope = NULL;
  double uniform = 0.0;
  TN_TRY(tni_interrupt_check());
  TN_TRY(tn_scope_begin(&scope));
  score(g);
  tn_tensor *drawn = tns_rand(NULL, 0, TN_OPTIONS(.dtype = TN_FLOAT64, .has_device = true));
  if (drawn) tn_scope_note(tn_tensor_item_double(drawn, &uniform));
  TN_TRY(tn_scope_end(scope));
  TN_TRY(weigh(g));
  append(g, pick(g, uniform));
  return TN_OK;
}

/* ------------------------------------------------------------------ the command */

/* What is new of the text, at once: a reader sees it grow. */
static void show(const generate *g, size_t *inout_shown) {
  if (g->json) return;
  fwrite(g->text + *inout_shown, 1, g->size_bytes - *inout_shown, stdout);
  fflush(stdout);
  *inout_shown = g->size_bytes;
}

static tn_status run_all(generate *g) {
  size_t shown = 0;
  TN_TRY(tni_saved_open(g->load, NULL, &g->saved));
  if (!tni_model_reads_text(g->saved.model))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s holds the model '%s', which writes no text", g->load,
                   g->saved.model->name);
  TN_TRY(tni_saved_model(&g->saved, g->load, g->device, &g->model));
  tn_module_train(g->model, false);
  TN_TRY(tn_manual_seed((uint64_t)g->seed));
  TN_TRY(begin(g));
  if (!*g->prompt) shown = g->size_bytes; /* nobody asked for the line feed */
  show(g, &shown);
  for (int64_t i = 0; i < g->length; i++) {
    TN_TRY(next(g));
    show(g, &shown);
  }
  return TN_OK;
}

static void tear_down(generate *g) {
  free(g->ids);
  free(g->text);
  free(g->weights);
  free(g->sorted);
  tn_module_release(g->model);
  tni_saved_close(&g->saved);
}

static void report(const generate *g) {
  if (!g->json) {
    putchar('\n');
    return;
  }
  char first[5];
  size_t prompt =
      *g->prompt ? strlen(g->prompt) : tni_utf8_encode(g->saved.vocabulary.points[g->ids[0]], first);
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "prompt", g->prompt);
  tni_json_string(&json, "text", g->text + prompt);
  tni_json_int(&json, "seed", g->seed);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_close(&json, '}');
}

static int run_watched(generate *g) {
  bool grad = tn_grad_mode_set(false);
  tn_status status = run_all(g);
  tn_grad_mode_set(grad);
  if (status == TN_OK) report(g);
  if (status != TN_OK && g->size_bytes && !g->json) putchar('\n');
  int result = status == TN_OK ? TNI_EXIT_OK : tni_run_failed(status);
  tear_down(g);
  return result;
}

static int run_chosen(generate *g, tni_watch *watch) {
  tni_signals_catch();
  int result = tni_watch_begin(watch);
  if (result != TNI_EXIT_OK) return result;
  return tni_watch_end(watch, run_watched(g), g->json ? stderr : stdout);
}

static int run_generate(int argc, char **argv) {
  generate g = {.prompt = "", .length = 500, .temperature = 0.8};
  tni_watch watch = {0};
  const char *device = "cpu", *plugin_layers = NULL;
  int64_t threads = 0;
  double memory = 0;
  const tni_option options[] = {
      {"--load", TNI_OPTION_STRING, &g.load, "FILE", "a checkpoint of --model transformer", 0, 0},
      {"--prompt", TNI_OPTION_STRING, &g.prompt, "TEXT", "what the text begins with (a new line)", 0, 0},
      {"--length", TNI_OPTION_INT, &g.length, "N", "characters to add (500)", 0, 1e8},
      {"--temperature", TNI_OPTION_REAL, &g.temperature, "X",
       "below 1: likelier characters, above 1: all alike, 0: always the best (0.8)", 0, 1e6},
      {"--top-k", TNI_OPTION_INT, &g.top_k, "N", "draw from the best N only; 0: from all (0)", 0, 1e9},
      {"--seed", TNI_OPTION_INT, &g.seed, "N", "of the draws (0)", 0, 9e15},
      {"--device", TNI_OPTION_STRING, &device, "NAMES",
       "a device, or several by commas: the first usable one (cpu)", 0, 0},
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--memory", TNI_OPTION_REAL, &memory, "MIB", "most memory that tensors may take of the device", 1e-6,
       1e12},
      TNI_WATCH_OPTIONS(watch),
      {"--plugin-layers", TNI_OPTION_STRING, &plugin_layers, "NAMES", "layers of plugins to switch on, by commas", 0, 0},
      {"--json", TNI_OPTION_FLAG, &g.json, NULL, "one JSON object", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_generate, options, argc, argv, NULL);
  if (result >= 0) return result;
  if (!g.load) return tni_cli_wrong("generate", "--load FILE was expected");
  result = tni_setting_apply(device, threads, memory, &g.device);
  if (result == TNI_EXIT_OK) result = tni_setting_layers(plugin_layers);
  return result == TNI_EXIT_OK ? run_chosen(&g, &watch) : result;
}

const tni_command tni_cmd_generate = {
    "generate",
    "",
    0,
    0,
    "Writes text with a saved transformer: the prompt and what follows, in UTF-8.\n"
    "A prompt with characters that the model was not trained on is an error.",
    run_generate};
