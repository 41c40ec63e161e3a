/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tenon train` is asked for and what it finds, between the commands (cmd_train.c, cmd_eval.c), the loop
 * (train_loop.c), checkpoints (train_save.c), the progress bar (train_progress.c), and what training and testing
 * share (train_setting.c, train_test.c).
 */
#ifndef TENON_CLI_TRAIN_H
#define TENON_CLI_TRAIN_H

#include <signal.h>
#include <tenon/data.h>
#include <tenon/files.h>
#include <tenon/optim.h>

#define TNI_TRAIN_DATASET "fashion-mnist"

typedef struct tni_train {
  tn_device device;
  const char *data;   /* folder; NULL: default */
  const char *model;  /* NULL: not given, until tni_train_settle; so for the next four */
  int64_t epochs;     /* 0: not given; counted from the first run on, resumed or not */
  int64_t batch;      /* 0: not given */
  double lr;          /* 0: not given */
  int64_t seed;       /* -1: not given */
  const char *save;   /* where checkpoints go; NULL: nowhere */
  int64_t save_every; /* steps; 0: at the end only */
  const char *resume; /* NULL: from the beginning */
  bool json;
  bool bar; /* stdout is a terminal */
  /* results */
  double accuracy; /* of the test set, 0..1 */
  double seconds;  /* of training, without reading files and testing */
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
/* Opens the first usable device of a list with commas; says why those before it are not used. An exit status. */
int tni_device_choose(const char *names, tn_device *out_device);
/* The plugin that serves a device, and its version ("" if unknown). */
void tni_device_plugin(const char *device, const char **out_name, const char **out_version);
/* Says "unknown WHAT 'GIVEN'; KNOWN is known". An exit status. */
int tni_cli_unknown(const char *command, const char *what, const char *given, const char *known);
/* After a failed run: words, or "interrupted". An exit status. */
int tni_run_failed(tn_status status);

/* ------------------------------------------------------------------ models and tests (train_test.c) */

/* The same name, for the life of the process; NULL: no such model. */
const char *tni_model_find(const char *name);
/* Weights are drawn on the CPU from the seed and then moved, so that every device starts from the same ones. */
tn_status tni_model_make(const char *name, uint64_t seed, tn_device device, tn_module **out_model);
/* The share of samples whose class the model finds; it is in training mode afterwards. */
tn_status tni_test_run(tn_module *model, tn_dataset *set, tn_device device, double *out_accuracy);
/* Over the bytes of all parameters in the order of their names. */
tn_status tni_weights_hash(tn_module *model, char out_hex[65]);
/* The tensor on a device; the scope owns it. */
tn_tensor *tni_on_device(tn_tensor *tensor, tn_device device);

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
 * the default; what contradicts the file is an error. Also refuses a place where nothing can be saved. */
tn_status tni_train_settle(tni_train *train, tn_safetensors **out_file);
/* From a file to model, optimiser and position. */
tn_status tni_train_load(const tni_train *train, tn_safetensors *file, tn_module *model,
                         tn_optimizer *optimizer, tni_position *out_position);
/* Writes a checkpoint. A failure is said on stderr and remembered in train->unsaved; training can go on. */
void tni_train_save(tni_train *train, tn_module *model, tn_optimizer *optimizer,
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
