/* SPDX-License-Identifier: Apache-2.0
 *
 * How training looks while it runs: a bar that redraws itself on a terminal, a plain line per epoch
 * elsewhere, a JSON object per epoch with --json.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"
#include "frontends/cli/train.h"

enum { BAR_WIDTH = 30 };

void tni_progress_step(const tni_train *train, int64_t epoch, int64_t done, int64_t total, double loss,
                       double samples_per_second) {
  static double drawn;
  if (!train->bar || train->json) return;
  double now = tni_cli_seconds();
  if (now - drawn < 0.1 && done < total) return; /* a redraw costs as much as a step */
  drawn = now;
  char bar[BAR_WIDTH + 1];
  int64_t filled = done * BAR_WIDTH / total;
  for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
  bar[BAR_WIDTH] = 0;
  printf("\repoch %lld/%lld [%s] %3lld%%  loss %.4f  %.0f samples/s\x1b[K", (long long)epoch,
         (long long)train->epochs, bar, (long long)(done * 100 / total), loss, samples_per_second);
  fflush(stdout);
}

void tni_progress_epoch(const tni_train *train, int64_t epoch, double loss, double seconds,
                        double samples_per_second) {
  if (train->json) {
    tni_json json = {.file = stdout};
    tni_json_open(&json, NULL, '{');
    tni_json_int(&json, "epoch", epoch);
    tni_json_real(&json, "loss", loss);
    tni_json_real(&json, "seconds", seconds);
    tni_json_real(&json, "samples_per_second", samples_per_second);
    tni_json_close(&json, '}');
    return;
  }
  tni_progress_clear(train);
  printf("epoch %lld/%lld  loss %.4f  %.0f samples/s  %.2f s\n", (long long)epoch, (long long)train->epochs,
         loss, samples_per_second, seconds);
  fflush(stdout);
}

void tni_progress_clear(const tni_train *train) {
  if (train->bar && !train->json) printf("\r\x1b[K");
}
