/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tenon train` is asked for and what it finds, between the command (cmd_train.c), the loop
 * (train_loop.c) and the progress bar (train_progress.c).
 */
#ifndef TENON_CLI_TRAIN_H
#define TENON_CLI_TRAIN_H

#include <signal.h>
#include <tenon/data.h>
#include <tenon/optim.h>

typedef struct tni_train {
  tn_device device;
  const char *data; /* folder; NULL: default */
  int64_t epochs;
  int64_t batch;
  double lr;
  uint64_t seed;
  bool json;
  bool bar; /* stdout is a terminal */
  /* results */
  double accuracy; /* of the test set, 0..1 */
  double seconds;  /* of training, without reading files and testing */
  char weights_sha256[65];
} tni_train;

/* Trains and tests. TN_ERR_INTERRUPTED if the flag was raised. */
tn_status tni_train_run(tni_train *train);
extern volatile sig_atomic_t tni_train_interrupted;

/* One step done: draws the bar if it is time to. loss is the mean of the epoch so far. */
void tni_progress_step(const tni_train *train, int64_t epoch, int64_t done, int64_t total, double loss,
                       double samples_per_second);
/* One epoch done: the line that stays. */
void tni_progress_epoch(const tni_train *train, int64_t epoch, double loss, double seconds,
                        double samples_per_second);
/* Takes an unfinished bar off the screen. */
void tni_progress_clear(const tni_train *train);

#endif
