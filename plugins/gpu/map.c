/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps: one result per element of an expression (device/elementwise.h). Every elementwise operator, copies, casts,
 * fills, selections and random numbers are maps. See Note [Ranks] for operands of many dims.
 */
#include <stdio.h>

#include "plugins/gpu/gpu.h"

typedef struct writing {
  const gpu_map *map;
  const uint8_t *types;
  uint32_t n_in;
  bool flat;
} writing;

static void write_defines(gpu_defines *d, const void *ctx) {
  const writing *w = ctx;
  const gpu_map *m = w->map;
  gpu_define(d, "#define NAME %s_%s%s\n", m->name, gpu_type_name(w->types[w->n_in ? 1 : 0]),
             w->flat ? "" : "_strided");
  gpu_define(d, "#define T MEM(%s)\n", gpu_type_name(m->compute));
  gpu_define(d, "#define IS_FLOAT %d\n#define IS_DOUBLE %d\n#define IS_BOOL %d\n",
             gpu_type_is_float(m->compute), m->compute == TN_FLOAT64, m->is_bool);
  gpu_define(d, "#define FROM_FLOAT %d\n#define FLAT %d\n", gpu_type_is_float(m->compute), w->flat);
  gpu_define(d, "#define N_IN %u\n#define N_NUM %u\n#define TO %s\n", w->n_in, m->n_numbers,
             gpu_type_name(w->types[0]));
  for (uint32_t k = 0; k < w->n_in; ++k) gpu_define(d, "#define T%u %s\n", k, gpu_type_name(w->types[1 + k]));
  for (uint32_t k = 0; k < m->n_numbers; ++k)
    gpu_define(d, "#define S%u %s\n", k, gpu_type_name(m->numbers[k].type));
  gpu_define(d, "#define EXPR %s\n", m->expr);
}

static tn_status get_kernel(const tn_call *call, const writing *w, void **out_kernel) {
  gpu_key key = {.family = w->map->family,
                 .flags = {w->flat, w->map->is_bool},
                 .device = (uint16_t)call->device.index,
                 .op = w->map->op,
                 .types = {w->map->compute}};
  for (uint32_t k = 0; k <= w->n_in; ++k) key.types[1 + k] = w->types[k];
  return gpu_kernel_get(&key, write_defines, w, out_kernel);
}

/* One launch over the inner dims of g, at places `at`. */
static tn_status run_part(const tn_call *call, void *kernel, const gpu_map *map, const gpu_geometry *g,
                          bool flat, const tn_view *const *views, const int64_t *at, int64_t first,
                          int64_t numel) {
  int64_t words[3 + GPU_RANK * (1 + GPU_OPERANDS)] = {first, numel, g->ndim}, *end = words + 3;
  gpu_args args = {.n = 0};
  gpu_arg_place(&args, views[0]->mem, at[0]);
  if (flat) {
    gpu_arg_bytes(&args, &words[1], sizeof words[1]);
  } else {
    end = gpu_geometry_sizes(g, end);
    for (uint32_t k = 0; k < g->n; ++k) end = gpu_geometry_strides(g, k, end);
    gpu_arg_bytes(&args, words, (size_t)((char *)end - (char *)words));
  }
  for (uint32_t k = 1; k < g->n; ++k) gpu_arg_place(&args, views[k]->mem, at[k]);
  for (uint32_t k = 0; k < map->n_numbers; ++k)
    gpu_arg_bytes(&args, &map->numbers[k].u, gpu_type_size(map->numbers[k].type));
  return gpu_launch_items(call, kernel, numel, &args);
}

/* Dims beyond GPU_RANK: one launch for each place in them. */
static tn_status run_parts(const tn_call *call, void *kernel, const gpu_map *map, gpu_geometry *g,
                           const tn_view *const *views) {
  uint32_t ndim = g->ndim;
  int64_t inner = 1, outer = 1, at[GPU_OPERANDS];
  for (uint32_t d = 0; d < ndim; ++d) {
    if (d < GPU_RANK)
      inner *= g->sizes[d];
    else
      outer *= g->sizes[d];
  }
  g->ndim = ndim < GPU_RANK ? ndim : GPU_RANK;
  for (int64_t o = 0; o < outer; ++o) {
    int64_t left = o;
    for (uint32_t k = 0; k < g->n; ++k) at[k] = g->at[k];
    for (uint32_t d = GPU_RANK; d < ndim; ++d) {
      for (uint32_t k = 0; k < g->n; ++k) at[k] += left % g->sizes[d] * g->strides[k][d];
      left /= g->sizes[d];
    }
    TN_TRY(run_part(call, kernel, map, g, false, views, at, o * inner, inner));
  }
  return TN_OK;
}

tn_status gpu_map_run(tn_call *call, const gpu_map *map, uint32_t n, const tn_view *const *views) {
  uint8_t types[1 + GPU_INPUTS];
  gpu_geometry g;
  gpu_caps caps;
  void *kernel;
  TN_TRY(gpu_caps_of(call, &caps));
  if (views[0]->numel == 0) return TN_OK;
  for (uint32_t k = 0; k < n; ++k) {
    types[k] = map->types[k] ? map->types[k] : views[k]->dtype;
    if (!gpu_type_fits(types[k], &caps)) return TN_DECLINED;
  }
  if (!gpu_type_fits(map->compute, &caps)) return TN_DECLINED;
  TN_TRY(gpu_geometry_make(&g, views[0]->ndim, views[0]->sizes, n, views, map->in_order));
  writing w = {map, types, n - 1, gpu_geometry_flat(&g)};
  TN_TRY(get_kernel(call, &w, &kernel));
  if (w.flat) return run_part(call, kernel, map, &g, true, views, g.at, 0, g.numel);
  return run_parts(call, kernel, map, &g, views);
}
