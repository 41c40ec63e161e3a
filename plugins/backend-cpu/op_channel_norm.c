/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm and group_norm with their gradients. Both take statistics of sets of channels (one channel of the whole
 * batch; a group of one image's) and then send every element of a channel through one linear map, so they share
 * the loops of per-isa/channel.c. Images lie row-major, where a channel of an image is one run, or as pixels with
 * the channels innermost (also where an image is one pixel, whatever its strides say).
 *
 * Note [Channels and chunks]
 * Threads share channels where a channel's elements are runs, images in group norm, and chunks of pixels, whose
 * borders come from the sizes alone, in batch norm; the chunks' sums are joined in order. No bits depend on threads.
 */
#include <math.h>

#include "plugins/backend-cpu/images.h"

enum { PIXEL_CHUNK = 1024 };

typedef struct channel_job {
  tn_dtype dtype; /* that computes */
  size_t size;
  const cpu_channel_fns *fns;
  bool pixels;
  int64_t images, channels, area, groups;
  double eps;
  bool train;
  const char *grad, *input;
  const double *weight, *bias; /* NULL: 1, 0 */
  char *out;
  double *mean, *rstd, *var; /* a channel in batch norm, a group of an image in group norm */
  double *sums, *products;   /* of grad and of grad * (x - centre); a channel, or an image's channel */
  double *part;              /* two numbers a channel for each chunk of pixels */
  cpu_channel *map;          /* a channel; in group norm an image's channel */
  void (*pass)(const struct channel_job *job, int64_t begin, int64_t end, double *part);
} channel_job;

static double *part_of(const channel_job *job, int64_t c) { return job->part + 2 * c * job->channels; }

/* centre is rounded to the dtype that computes; what that leaves goes into the shift. */
static cpu_channel forward_map(const channel_job *job, int64_t c, double mean, double rstd) {
  double centre = job->dtype == TN_FLOAT32 ? (double)(float)mean : mean;
  double scale = rstd * (job->weight ? job->weight[c] : 1);
  return (cpu_channel){centre, scale, (job->bias ? job->bias[c] : 0) - (mean - centre) * scale, 0};
}

/* a * (grad - mean_grad - (x - centre) * slope) */
static cpu_channel backward_map(const channel_job *job, double centre, double a, double mean_grad,
                                double slope) {
  if (job->dtype == TN_FLOAT32) centre = (double)(float)centre;
  return (cpu_channel){centre, -a * slope, -a * mean_grad, a};
}

static const char *run_at(const channel_job *job, const char *data, int64_t image, int64_t c) {
  return data + (size_t)((image * job->channels + c) * job->area) * job->size;
}

static void map_run(const channel_job *job, const cpu_channel *map, int64_t image, int64_t c) {
  job->fns->run(map, job->grad ? run_at(job, job->grad, image, c) : NULL, run_at(job, job->input, image, c),
                job->area, job->out + (run_at(job, job->input, image, c) - job->input));
}

static void map_pixels(const channel_job *job, const cpu_channel *map, int64_t begin, int64_t end) {
  size_t at = (size_t)(begin * job->channels) * job->size;
  job->fns->pixels(map, job->grad ? job->grad + at : NULL, job->input + at, end - begin, job->channels,
                   job->out + at);
}

/* CPU_SUM, or CPU_SQUARES about the map's centres, of pixels [begin, end), added to sums. */
static void fold_pixels(const channel_job *job, uint32_t kind, const double *centres, int64_t begin,
                        int64_t end, double *sums) {
  int64_t row = job->channels * (int64_t)job->size;
  for (int64_t c = 0; c < job->channels; c += CPU_FOLD_WIDE) {
    int64_t n = job->channels - c < CPU_FOLD_WIDE ? job->channels - c : CPU_FOLD_WIDE;
    cpu_now->fold_rows(kind, job->dtype, CPU_ROWS_AT_ONCE)(job->input + begin * row + c * (int64_t)job->size,
                                                           row, end - begin, n, centres + c,
                                                           (cpu_acc *)(void *)(sums + c));
  }
}

static double run_fold(const channel_job *job, uint32_t kind, double centre, const char *x, int64_t n) {
  cpu_acc acc = {0};
  cpu_now->fold(kind, job->dtype)(x, n, centre, &acc);
  return acc.f;
}

/* ------------------------------------------------------------------ batch norm over runs: a channel at a time */

static void channel_statistics(const channel_job *job, int64_t c) {
  double n = (double)(job->images * job->area), sum = 0, squares = 0;
  for (int64_t i = 0; i < job->images; ++i)
    sum += run_fold(job, CPU_SUM, 0, run_at(job, job->input, i, c), job->area);
  double mean = sum / n;
  for (int64_t i = 0; i < job->images; ++i)
    squares += run_fold(job, CPU_SQUARES, mean, run_at(job, job->input, i, c), job->area);
  job->mean[c] = mean;
  job->var[c] = squares > 0 || squares != squares ? squares / n : 0;
}

static tn_status batch_runs(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const channel_job *job = ctx;
  for (int64_t c = begin; c < end; ++c) {
    if (job->train) channel_statistics(job, c);
    job->rstd[c] = 1 / sqrt(job->var[c] + job->eps);
    cpu_channel map = forward_map(job, c, job->mean[c], job->rstd[c]);
    for (int64_t i = 0; i < job->images; ++i) map_run(job, &map, i, c);
  }
  return TN_OK;
}

/* The map of channel c from its sums; outside training the statistics are constants. */
static cpu_channel batch_backward_map(const channel_job *job, int64_t c) {
  double n = (double)(job->images * job->area), rstd = job->rstd[c];
  double a = rstd * (job->weight ? job->weight[c] : 1);
  if (!job->train) return backward_map(job, job->mean[c], a, 0, 0);
  return backward_map(job, job->mean[c], a, job->sums[c] / n, rstd * rstd * job->products[c] / n);
}

static tn_status batch_runs_backward(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const channel_job *job = ctx;
  for (int64_t c = begin; c < end; ++c) {
    job->sums[c] = job->products[c] = 0;
    for (int64_t i = 0; i < job->images; ++i)
      job->fns->run_sums(job->mean[c], run_at(job, job->grad, i, c), run_at(job, job->input, i, c), job->area,
                         &job->sums[c], &job->products[c]);
    if (!job->out) continue;
    cpu_channel map = batch_backward_map(job, c);
    for (int64_t i = 0; i < job->images; ++i) map_run(job, &map, i, c);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ batch norm over pixels: chunk by chunk */

static void sum_pass(const channel_job *job, int64_t begin, int64_t end, double *part) {
  fold_pixels(job, CPU_SUM, job->mean, begin, end, part);
}
static void squares_pass(const channel_job *job, int64_t begin, int64_t end, double *part) {
  fold_pixels(job, CPU_SQUARES, job->mean, begin, end, part);
}
static void backward_pass(const channel_job *job, int64_t begin, int64_t end, double *part) {
  size_t at = (size_t)(begin * job->channels) * job->size;
  job->fns->pixel_sums(job->map, job->grad + at, job->input + at, end - begin, job->channels, part,
                       part + job->channels);
}
static void map_pass(const channel_job *job, int64_t begin, int64_t end, double *part) {
  map_pixels(job, job->map, begin, end);
}

static int64_t pixels_of(const channel_job *job) { return job->images * job->area; }
static int64_t chunks_of(const channel_job *job) { return (pixels_of(job) + PIXEL_CHUNK - 1) / PIXEL_CHUNK; }

static tn_status pixel_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const channel_job *job = ctx;
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = i * PIXEL_CHUNK, last = first + PIXEL_CHUNK;
    if (last > pixels_of(job)) last = pixels_of(job);
    if (job->pass != map_pass) memset(part_of(job, i), 0, 2 * (size_t)job->channels * sizeof(double));
    job->pass(job, first, last, part_of(job, i));
  }
  return TN_OK;
}

/* One pass over all pixels; afterwards chunk 0's part holds the sums of all. */
static tn_status over_pixels(channel_job *job,
                             void (*pass)(const channel_job *, int64_t, int64_t, double *)) {
  int64_t chunks = chunks_of(job), grain = CPU_GRAIN / (PIXEL_CHUNK * job->channels) + 1;
  job->pass = pass;
  TN_TRY(tn_kit_host()->parallel_for(chunks, grain, pixel_chunk, job));
  if (pass == map_pass) return TN_OK;
  for (int64_t i = 1; i < chunks; ++i)
    for (int64_t c = 0; c < 2 * job->channels; ++c) job->part[c] += part_of(job, i)[c];
  return TN_OK;
}

static tn_status batch_pixels(channel_job *job) {
  double n = (double)pixels_of(job);
  if (job->train) {
    TN_TRY(over_pixels(job, sum_pass));
    for (int64_t c = 0; c < job->channels; ++c) job->mean[c] = job->part[c] / n;
    TN_TRY(over_pixels(job, squares_pass));
    for (int64_t c = 0; c < job->channels; ++c) job->var[c] = job->part[c] < 0 ? 0 : job->part[c] / n;
  }
  for (int64_t c = 0; c < job->channels; ++c) {
    job->rstd[c] = 1 / sqrt(job->var[c] + job->eps);
    job->map[c] = forward_map(job, c, job->mean[c], job->rstd[c]);
  }
  return over_pixels(job, map_pass);
}

static tn_status batch_pixels_backward(channel_job *job) {
  for (int64_t c = 0; c < job->channels; ++c) job->map[c].centre = job->mean[c];
  TN_TRY(over_pixels(job, backward_pass));
  for (int64_t c = 0; c < job->channels; ++c) {
    job->sums[c] = job->part[c];
    job->products[c] = job->part[job->channels + c];
    job->map[c] = batch_backward_map(job, c);
  }
  return job->out ? over_pixels(job, map_pass) : TN_OK;
}

/* ------------------------------------------------------------------ group norm: an image at a time */

/* Statistics of each group of an image from sums of its channels (pixels) or from its one run. */
static void group_statistics(const channel_job *job, int64_t image, double *channel) {
  int64_t of_group = job->channels / job->groups;
  double n = (double)(of_group * job->area), *mean = job->mean + image * job->groups;
  double *centres = channel, *sums = channel + job->channels;
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t kind = pass ? CPU_SQUARES : CPU_SUM;
    for (int64_t c = 0; c < job->channels; ++c) {
      sums[c] = 0;
      centres[c] = pass ? mean[c / of_group] : 0;
    }
    if (job->pixels) fold_pixels(job, kind, centres, image * job->area, (image + 1) * job->area, sums);
    for (int64_t g = 0; g < job->groups; ++g) {
      double total = 0;
      if (job->pixels)
        for (int64_t c = g * of_group; c < (g + 1) * of_group; ++c) total += sums[c];
      else
        total = run_fold(job, kind, pass ? mean[g] : 0, run_at(job, job->input, image, g * of_group),
                         of_group * job->area);
      if (pass)
        job->rstd[image * job->groups + g] = 1 / sqrt((total < 0 ? 0 : total / n) + job->eps);
      else
        mean[g] = total / n;
    }
  }
}

static void map_image(const channel_job *job, const cpu_channel *map, int64_t image) {
  if (job->pixels)
    map_pixels(job, map, image * job->area, (image + 1) * job->area);
  else
    for (int64_t c = 0; c < job->channels; ++c) map_run(job, &map[c], image, c);
}

static tn_status group_images(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const channel_job *job = ctx;
  int64_t of_group = job->channels / job->groups;
  for (int64_t i = begin; i < end; ++i) {
    cpu_channel *map = job->map + i * job->channels;
    group_statistics(job, i, job->part + 2 * (int64_t)i * job->channels);
    for (int64_t c = 0; c < job->channels; ++c) {
      int64_t g = i * job->groups + c / of_group;
      map[c] = forward_map(job, c, job->mean[g], job->rstd[g]);
    }
    map_image(job, map, i);
  }
  return TN_OK;
}

static void image_sums(const channel_job *job, int64_t image, const cpu_channel *map) {
  double *sums = job->sums + image * job->channels, *products = job->products + image * job->channels;
  memset(sums, 0, (size_t)job->channels * sizeof *sums);
  memset(products, 0, (size_t)job->channels * sizeof *products);
  size_t at = (size_t)(image * job->channels * job->area) * job->size;
  if (job->pixels)
    job->fns->pixel_sums(map, job->grad + at, job->input + at, job->area, job->channels, sums, products);
  else
    for (int64_t c = 0; c < job->channels; ++c)
      job->fns->run_sums(map[c].centre, run_at(job, job->grad, image, c), run_at(job, job->input, image, c),
                         job->area, &sums[c], &products[c]);
}

static tn_status group_images_backward(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const channel_job *job = ctx;
  int64_t of_group = job->channels / job->groups;
  double n = (double)(of_group * job->area);
  for (int64_t i = begin; i < end; ++i) {
    cpu_channel *map = job->map + i * job->channels;
    const double *sums = job->sums + i * job->channels, *products = job->products + i * job->channels;
    for (int64_t c = 0; c < job->channels; ++c) map[c].centre = job->mean[i * job->groups + c / of_group];
    image_sums(job, i, map);
    if (!job->out) continue;
    for (int64_t g = 0; g < job->groups; ++g) {
      double rstd = job->rstd[i * job->groups + g], sum = 0, product = 0;
      for (int64_t c = g * of_group; c < (g + 1) * of_group; ++c) {
        double w = job->weight ? job->weight[c] : 1;
        sum += w * sums[c];
        product += w * products[c];
      }
      for (int64_t c = g * of_group; c < (g + 1) * of_group; ++c) {
        double w = job->weight ? job->weight[c] : 1;
        /* rstd * (w * grad - sum / n - (x - mean) * ...), w drawn into grad's factor alone */
        map[c] = backward_map(job, map[c].centre, rstd, sum / n, rstd * rstd * product / n);
        map[c].g *= w;
      }
    }
    map_image(job, map, i);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ operands and results */

static int64_t sets_of(const channel_job *job) {
  return job->groups ? job->images * job->groups : job->channels;
}

/* n doubles of scratch at *out. */
static tn_status doubles(tn_call *call, int64_t n, double **out) {
  void *data;
  TN_TRY(cpu_scratch(call, (size_t)n * sizeof **out, &data));
  *out = data;
  return TN_OK;
}

/* An operand's elements as doubles, of our own to change; NULL if it is absent. */
static tn_status doubles_of(tn_call *call, const tn_value *v, double **out) {
  const tn_view *view = cpu_view(v);
  cpu_local block;
  *out = NULL;
  if (!view) return TN_OK;
  TN_TRY(doubles(call, view->numel, out));
  cpu_local_contiguous(&block, *out, TN_FLOAT64, view->ndim, view->sizes);
  return cpu_copy(&block.view, view);
}

static tn_status put_doubles(const tn_value *out, double *data) {
  const tn_view *view = cpu_view(out);
  cpu_local block;
  if (!view) return TN_OK;
  cpu_local_contiguous(&block, data, TN_FLOAT64, view->ndim, view->sizes);
  return cpu_copy(view, &block.view);
}

static tn_status fill_results(const tn_value *out, int n) {
  const cpu_scalar none = {0, 0};
  for (int i = 0; i < n; ++i)
    if (cpu_view(&out[i])) TN_TRY(cpu_fill(cpu_view(&out[i]), &none));
  return TN_OK;
}

/* What a job needs beside its operands: the map, and sums of chunks or images. groups 0: batch norm. */
static tn_status begin_job(tn_call *call, const tn_view *input, int64_t groups, channel_job *job,
                           bool *out_last) {
  void *map;
  tn_dtype dtype = cpu_wide(input->dtype);
  *job = (channel_job){.dtype = dtype,
                       .size = tn_kit_dtype_size(dtype),
                       .fns = dtype == TN_FLOAT32 ? cpu_now->channel_f32 : cpu_now->channel_f64,
                       .images = input->sizes[0],
                       .channels = input->sizes[1],
                       .area = 1,
                       .groups = groups};
  for (uint32_t d = 2; d < input->ndim; ++d) job->area *= input->sizes[d];
  *out_last = cpu_channels_last(input);
  job->pixels = *out_last || job->area == 1;
  int64_t maps = groups ? job->images * job->channels : job->channels;
  TN_TRY(cpu_scratch(call, (size_t)maps * sizeof(cpu_channel), &map));
  job->map = map;
  return doubles(call, 2 * job->channels * (groups ? job->images : chunks_of(job)), &job->part);
}

static int64_t channel_grain(const channel_job *job) {
  return CPU_GRAIN_HEAVY / (job->images * job->area) + 1;
}
static int64_t image_grain(const channel_job *job) {
  return CPU_GRAIN_HEAVY / (job->channels * job->area) + 1;
}

static tn_status image_of(tn_call *call, const channel_job *job, const tn_value *v, bool last,
                          const char **out_data) {
  const void *data;
  TN_TRY(cpu_image_data(call, v->u.v, job->dtype, last, &data));
  *out_data = data;
  return TN_OK;
}

/* args: input weight bias mean var eps; out: the result, mean, reciprocal deviation and variance of each channel */
tn_status cpu_op_batch_norm(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[0].u.v;
  channel_job job;
  cpu_image result;
  bool last;
  if (input->numel == 0 && args[3].kind == TN_VAL_NONE) return fill_results(out, 4);
  TN_TRY(begin_job(call, input, 0, &job, &last));
  TN_TRY(image_of(call, &job, &args[0], last, &job.input));
  TN_TRY(cpu_image_begin(call, &out[0], job.dtype, last, &result));
  double *weight, *bias;
  TN_TRY(doubles_of(call, &args[1], &weight));
  TN_TRY(doubles_of(call, &args[2], &bias));
  TN_TRY(doubles_of(call, &args[3], &job.mean));
  TN_TRY(doubles_of(call, &args[4], &job.var));
  TN_TRY(doubles(call, job.channels, &job.rstd));
  job.train = !job.mean;
  if (job.train) TN_TRY(doubles(call, job.channels, &job.mean));
  if (job.train) TN_TRY(doubles(call, job.channels, &job.var));
  job.weight = weight;
  job.bias = bias;
  job.eps = cpu_double(&args[5], 0);
  job.out = result.data;
  if (input->numel == 0)
    for (int64_t c = 0; c < job.channels; ++c) job.rstd[c] = 1 / sqrt(job.var[c] + job.eps);
  else if (job.pixels)
    TN_TRY(batch_pixels(&job));
  else
    TN_TRY(tn_kit_host()->parallel_for(job.channels, channel_grain(&job), batch_runs, &job));
  TN_TRY(cpu_image_end(&result));
  TN_TRY(put_doubles(&out[1], job.mean));
  TN_TRY(put_doubles(&out[2], job.rstd));
  return put_doubles(&out[3], job.var);
}

/* The gradients of weight and bias: sums over the images of what each channel has there. */
static tn_status put_sums(const channel_job *job, tn_value *out) {
  int64_t images = job->groups ? job->images : 1, of_group = job->groups ? job->channels / job->groups : 1;
  for (int64_t c = 0; c < job->channels; ++c) {
    double sum = 0, product = 0;
    for (int64_t i = 0; i < images; ++i) {
      double rstd = job->groups ? job->rstd[i * job->groups + c / of_group] : job->rstd[c];
      sum += job->sums[i * job->channels + c];
      product += job->products[i * job->channels + c] * rstd;
    }
    job->sums[c] = sum; /* image 0's place, read above */
    job->products[c] = product;
  }
  TN_TRY(put_doubles(&out[1], job->products));
  return put_doubles(&out[2], job->sums);
}

static tn_status begin_backward(tn_call *call, channel_job *job, const tn_value *grad, const tn_value *input,
                                const tn_value *weight, bool last, tn_value *out, cpu_image *result) {
  double *numbers;
  int64_t sums = job->channels * (job->groups ? job->images : 1);
  TN_TRY(image_of(call, job, grad, last, &job->grad));
  TN_TRY(image_of(call, job, input, last, &job->input));
  TN_TRY(cpu_image_begin(call, &out[0], job->dtype, last, result));
  TN_TRY(doubles_of(call, weight, &numbers));
  TN_TRY(doubles(call, sums, &job->sums));
  TN_TRY(doubles(call, sums, &job->products));
  job->weight = numbers;
  job->out = result->data;
  return TN_OK;
}

/* args: grad_out input weight running_mean running_var save_mean save_invstd train eps output_mask */
tn_status cpu_op_batch_norm_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[1].u.v;
  channel_job job;
  cpu_image result;
  bool last;
  if (input->numel == 0) return fill_results(out, 3);
  TN_TRY(begin_job(call, input, 0, &job, &last));
  job.train = args[7].u.i;
  TN_TRY(begin_backward(call, &job, &args[0], &args[1], &args[2], last, out, &result));
  TN_TRY(doubles_of(call, &args[job.train ? 5 : 3], &job.mean));
  TN_TRY(doubles_of(call, &args[job.train ? 6 : 4], &job.rstd));
  if (!job.train)
    for (int64_t c = 0; c < job.channels; ++c) job.rstd[c] = 1 / sqrt(job.rstd[c] + cpu_double(&args[8], 0));
  if (job.pixels)
    TN_TRY(batch_pixels_backward(&job));
  else
    TN_TRY(tn_kit_host()->parallel_for(job.channels, channel_grain(&job), batch_runs_backward, &job));
  TN_TRY(cpu_image_end(&result));
  return put_sums(&job, out);
}

/* args: input weight bias N C HxW group eps */
tn_status cpu_op_group_norm(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[0].u.v;
  channel_job job;
  cpu_image result;
  bool last;
  double *weight, *bias;
  if (input->numel == 0) return fill_results(out, 3);
  TN_TRY(begin_job(call, input, args[6].u.i, &job, &last));
  TN_TRY(image_of(call, &job, &args[0], last, &job.input));
  TN_TRY(cpu_image_begin(call, &out[0], job.dtype, last, &result));
  TN_TRY(doubles_of(call, &args[1], &weight));
  TN_TRY(doubles_of(call, &args[2], &bias));
  TN_TRY(doubles(call, sets_of(&job), &job.mean));
  TN_TRY(doubles(call, sets_of(&job), &job.rstd));
  job.weight = weight;
  job.bias = bias;
  job.eps = cpu_double(&args[7], 0);
  job.out = result.data;
  TN_TRY(tn_kit_host()->parallel_for(job.images, image_grain(&job), group_images, &job));
  TN_TRY(cpu_image_end(&result));
  TN_TRY(put_doubles(&out[1], job.mean));
  return put_doubles(&out[2], job.rstd);
}

/* args: grad_out input mean rstd weight N C HxW group output_mask */
tn_status cpu_op_group_norm_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[1].u.v;
  channel_job job;
  cpu_image result;
  bool last;
  if (input->numel == 0) return fill_results(out, 3);
  TN_TRY(begin_job(call, input, args[8].u.i, &job, &last));
  TN_TRY(begin_backward(call, &job, &args[0], &args[1], &args[4], last, out, &result));
  TN_TRY(doubles_of(call, &args[2], &job.mean));
  TN_TRY(doubles_of(call, &args[3], &job.rstd));
  TN_TRY(tn_kit_host()->parallel_for(job.images, image_grain(&job), group_images_backward, &job));
  TN_TRY(cpu_image_end(&result));
  return put_sums(&job, out);
}
