/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tenon train` is asked for and what it finds, between the commands (cmd_train.c, cmd_eval.c, cmd_generate.c), the
 * loop (train_loop.c), models (train_model.c), their data (train_task.c), tests (train_test.c), checkpoints
 * (train_save.c, train_notes.c), the progress bar (train_progress.c) and what the commands share (train_setting.c).
 */
#ifndef TENON_CLI_TRAIN_H
#define TENON_CLI_TRAIN_H

#include <signal.h>
#include <tenon/data.h>
#include <tenon/files.h>
#include <tenon/optim.h>

#include "frontends/cli/text.h"

/* ------------------------------------------------------------------ models (train_model.c) */

/* More is taken for a slip: of an option or of a damaged file. */
enum { TNI_MOST_CONTEXT = 1 << 20, TNI_MOST_LAYERS = 1000, TNI_MOST_WIDTH = 1 << 16 };

/* What of a transformer can be chosen; 0, or -1 for dropout: not given. Unused by other models. */
typedef struct tni_shape {
  int64_t context, layers, width, heads;
  double dropout;
} tni_shape;

/* A model that the command line knows, and how it is trained where nothing else is asked for. */
typedef struct tni_model {
  const char *name;
  const char *dataset;     /* "fashion-mnist" or "text" */
  tn_memory_format format; /* of its inputs; NONE: as they come */
  bool decoupled;          /* AdamW, else Adam */
  int64_t batch;
  int64_t warmup; /* steps over which the rate rises to its height */
  double clip;    /* most that the gradients' norm may be; 0: any */
  /* Weights are drawn from the CPU's default generator. vocabulary: of a text, else NULL. */
  tn_status (*make)(const tni_shape *shape, const tni_vocabulary *vocabulary, tn_module **out_model);
} tni_model;

const tni_model *tni_model_find(const char *name); /* NULL: no such model */
/* "mlp, cnn, transformer". */
const char *tni_model_names(void);
bool tni_model_reads_text(const tni_model *model);
/* Weights are drawn on the CPU from the seed and then moved, so that every device starts from the same ones. */
tn_status tni_model_make(const tni_model *model, const tni_shape *shape, const tni_vocabulary *vocabulary,
                         uint64_t seed, tn_device device, tn_module **out_model);
/* A batch's inputs on the device, in the model's order of memory; the scope owns them. */
tn_tensor *tni_model_input(const tni_model *model, tn_tensor *input, tn_device device);
/* The tensor on a device; the scope owns it. */
tn_tensor *tni_on_device(tn_tensor *tensor, tn_device device);

/* ------------------------------------------------------------------ a run */

typedef struct tni_train {
  tn_device device;
  const char *dataset, *data, *text; /* NULL: not given */
  const char *model_name;            /* NULL: not given */
  const tni_model *model; /* after tni_train_settle; so are the next ones, if they were not given */
  tni_shape shape;
  int64_t epochs;     /* 0: not given; counted from the first run on, resumed or not */
  int64_t batch;      /* 0: not given */
  double lr;          /* 0: not given */
  double clip;        /* -1: not given */
  int64_t warmup;     /* -1: not given */
  int64_t decay;      /* steps of the cosine behind the warm-up, down to a tenth; -1: not given; 0: none */
  int64_t seed;       /* -1: not given */
  const char *save;   /* where checkpoints go; NULL: nowhere */
  int64_t save_every; /* steps; 0: at the end only */
  const char *resume; /* NULL: from the beginning */
  bool json;
  bool bar; /* stdout is a terminal */
  /* results */
  double accuracy, loss; /* of the test set: 0..1, and nats */
  double bigram_loss;    /* of a text; NAN: none */
  double seconds;        /* of training, without reading files and testing */
  char weights_sha256[65];
  bool unsaved; /* the last save failed, and said so */
} tni_train;

/* Trains and tests. TN_ERR_INTERRUPTED if Ctrl-C came. */
tn_status tni_train_run(tni_train *train);

/* ------------------------------------------------------------------ setting (train_setting.c) */

/* The first Ctrl-C raises a flag, a second one ends the process the usual way. A file that grows too large is a
 * failed write, not a signal. */
void tni_signals_catch(void);
/* TN_ERR_INTERRUPTED once the flag is up. */
tn_status tni_interrupt_check(void);
/* What the commands do before their work: tn_init, threads (0: as they are), the first usable device of a list with
 * commas (says why those before it are not used), a limit for its memory in MiB (0: none). An exit status. */
int tni_setting_apply(const char *devices, int64_t threads, double memory_mib, tn_device *out_device);
/* Switches on the layers of a comma list; NULL: none. An exit status. */
int tni_setting_layers(const char *names);
/* The plugin that serves a device, and its version ("" if unknown). */
void tni_device_plugin(const char *device, const char **out_name, const char **out_version);
/* "device cpu, served by plugin NAME VERSION, N threads" and a line end. */
void tni_print_device(tn_device device);
/* Says "unknown WHAT 'GIVEN'; KNOWN is known". An exit status. */
int tni_cli_unknown(const char *command, const char *what, const char *given, const char *known);
/* Says that the usage is wrong, with words. An exit status. */
int tni_cli_wrong(const char *command, const char *words);
/* After a failed run: words, or "interrupted". An exit status. */
int tni_run_failed(tn_status status);

/* ------------------------------------------------------------------ data (train_task.c) */

/* What a model learns from and is tested with. */
typedef struct tni_task {
  tn_dataset *train_set, *test_set;
  int64_t n_targets;  /* of the test set: images or characters */
  tni_text_data text; /* zeroed: images */
} tni_task;
/* data, text: NULL for the default place. known: the vocabulary to use; NULL: that of the text. with_train false: the
 * training images are not read. */
tn_status tni_task_open(const tni_model *model, const tni_shape *shape, const char *data, const char *text,
                        const tni_vocabulary *known, bool with_train, tni_task *out_task);
void tni_task_close(tni_task *task);

/* ------------------------------------------------------------------ tests (train_test.c) */

typedef struct tni_scores {
  double accuracy; /* the share of targets that the model finds */
  double loss;     /* mean cross entropy, nats */
} tni_scores;
/* The model is in training mode afterwards. */
tn_status tni_test_run(const tni_model *kind, tn_module *model, const tni_task *task, tn_device device,
                       tni_scores *out_scores);
/* Over the bytes of all parameters and buffers in the order of their names. */
tn_status tni_weights_hash(tn_module *model, char out_hex[65]);

/* ------------------------------------------------------------------ notes of checkpoints (train_notes.c) */

/* The value of a note of the file, whose path is for words. Missing: TN_ERR_DATA. */
tn_status tni_note_text(const char *path, tn_safetensors *file, const char *key, const char **out_text);
tn_status tni_note_int(const char *path, tn_safetensors *file, const char *key, int64_t low, int64_t high,
                       int64_t *out_number);
tn_status tni_note_real(const char *path, tn_safetensors *file, const char *key, double low, double high,
                        double *out_number);
/* A transformer's shape. */
tn_status tni_note_shape(const char *path, tn_safetensors *file, tni_shape *out_shape);

/* A model from a file, for eval and generate. */
typedef struct tni_saved {
  tn_safetensors *file;
  const tni_model *model;
  tni_shape shape;
  tni_vocabulary vocabulary; /* of a text's model */
} tni_saved;
/* name: the model that the user gave, NULL for the file's own (mlp if it does not say). */
tn_status tni_saved_open(const char *path, const char *name, tni_saved *out_saved);
void tni_saved_close(tni_saved *saved);
/* The model with the file's weights, on the device. */
tn_status tni_saved_model(const tni_saved *saved, const char *path, tn_device device, tn_module **out_model);

/* ------------------------------------------------------------------ checkpoints (train_save.c) */

/* Where a run is: batches of an epoch that are done, and the sums behind the epoch's line. */
typedef struct tni_position {
  int64_t epoch; /* from 1 */
  int64_t batch;
  int64_t step; /* of all epochs */
  double loss;
  int64_t samples;
} tni_position;

/* Opens what is to be resumed (NULL: nothing) and settles the options: what was not given comes from the file or is
 * the default; what contradicts the file is an error. Also refuses a place where nothing can be saved. Settled texts
 * are the file's: keep it open. */
tn_status tni_train_settle(tni_train *train, tn_safetensors **out_file);
/* TN_ERR_INVALID_ARGUMENT if the text is not the one that the file's model was trained on. */
tn_status tni_train_check_text(const tni_train *train, tn_safetensors *file, const tni_task *task);
/* From a file to model, optimiser and position. */
tn_status tni_train_load(tni_train *train, tn_safetensors *file, tn_module *model, tn_optimizer *optimizer,
                         tni_position *out_position);
/* Writes a checkpoint. A failure is said on stderr and remembered in train->unsaved; training can go on. */
void tni_train_save(tni_train *train, const tni_task *task, tn_module *model, tn_optimizer *optimizer,
                    const tni_position *position);

/* ------------------------------------------------------------------ progress (train_progress.c) */

/* One step done: draws the bar if it is time to. loss is the mean of the epoch so far. */
void tni_progress_step(const tni_train *train, int64_t epoch, int64_t done, int64_t total, double loss,
                       double samples_per_second);
/* One epoch done: the line that stays. */
void tni_progress_epoch(const tni_train *train, int64_t epoch, double loss, double seconds,
                        double samples_per_second);
/* Takes an unfinished bar off the screen. */
void tni_progress_clear(const tni_train *train);

#endif
