/* SPDX-License-Identifier: Apache-2.0
 *
 * What concerns all tensors of a module tree: the walk, parameter lists, state dicts, moves to another device
 * or dtype. Everything that can be refused is checked before the first tensor is touched.
 */
#include <stdarg.h>

#include "frontends/c/src/module_int.h"

/* ------------------------------------------------------------------ a string that grows */

typedef struct text {
  char *at;
  size_t count, capacity;
} text;

static tn_status text_add(text *t, const char *s, size_t n) {
  while (t->capacity < t->count + n + 1) TN_TRY(tni_nn_grow(&t->at, &t->capacity, t->capacity, 1, "a name"));
  memcpy(t->at + t->count, s, n);
  t->count += n;
  t->at[t->count] = 0;
  return TN_OK;
}

static void text_cut(text *t, size_t count) {
  t->count = count;
  if (t->at) t->at[count] = 0;
}

/* ------------------------------------------------------------------ the walk */

static tn_status walk(tn_module *m, text *name, tni_nn_walk_fn fn, void *ctx) {
  size_t prefix = name->count;
  for (size_t i = 0; i < m->n_entries; i++) {
    if (!m->entries[i].tensor) continue;
    TN_TRY(text_add(name, m->entries[i].name, strlen(m->entries[i].name)));
    TN_TRY(fn(ctx, name->at, &m->entries[i]));
    text_cut(name, prefix);
  }
  for (size_t i = 0; i < m->n_children; i++) {
    TN_TRY(text_add(name, m->children[i].name, strlen(m->children[i].name)));
    TN_TRY(text_add(name, ".", 1));
    TN_TRY(walk(m->children[i].module, name, fn, ctx));
    text_cut(name, prefix);
  }
  return TN_OK;
}

tn_status tni_nn_walk(tn_module *module, tni_nn_walk_fn fn, void *ctx) {
  TN_TRY(tni_nn_not_null(module, "the module"));
  text name = {0};
  tn_status status = walk(module, &name, fn, ctx);
  free(name.at);
  return status;
}

typedef struct visitor {
  tn_module_visit_fn fn;
  void *ctx;
} visitor;

static tn_status visit_entry(void *ctx, const char *name, tni_nn_entry *e) {
  visitor *v = ctx;
  if (e->kind == TNI_NN_BUFFER_TRANSIENT) return TN_OK;
  return v->fn(v->ctx, name, e->tensor, e->kind != TNI_NN_PARAMETER);
}

tn_status tn_module_visit(tn_module *module, tn_module_visit_fn fn, void *ctx) {
  visitor v = {fn, ctx};
  return tni_nn_walk(module, visit_entry, &v);
}

/* ------------------------------------------------------------------ parameters */

typedef struct list {
  tn_tensor **items;
  size_t count, capacity;
} list;

static tn_status collect(void *ctx, const char *name, tni_nn_entry *e) {
  list *l = ctx;
  if (e->kind != TNI_NN_PARAMETER) return TN_OK;
  for (size_t i = 0; i < l->count; i++)
    if (l->items[i] == e->tensor) return TN_OK; /* tied */
  TN_TRY(tni_nn_grow(&l->items, &l->capacity, l->count, sizeof *l->items, "the parameter list"));
  l->items[l->count++] = e->tensor;
  return TN_OK;
}

tn_status tn_module_parameters(tn_module *module, tn_tensor *const **out_parameters, size_t *out_n) {
  *out_parameters = NULL;
  *out_n = 0;
  list l = {0};
  tn_status status = tni_nn_walk(module, collect, &l);
  if (status != TN_OK) {
    free(l.items);
    return status;
  }
  free(module->parameters);
  module->parameters = l.items;
  *out_parameters = l.items;
  *out_n = l.count;
  return TN_OK;
}

static tn_status clear_grad(void *ctx, const char *name, tni_nn_entry *e) {
  return e->kind == TNI_NN_PARAMETER ? tn_set_grad(e->tensor, NULL) : TN_OK;
}

tn_status tn_module_zero_grad(tn_module *module) { return tni_nn_walk(module, clear_grad, NULL); }

/* ------------------------------------------------------------------ state dicts */

static tn_status put_detached(void *ctx, const char *name, tn_tensor *tensor, bool is_buffer) {
  tn_tensor *shared = NULL;
  TN_TRY(tn_detach(tensor, &shared));
  tn_status status = tn_state_dict_put(ctx, name, shared);
  tn_tensor_release(shared);
  return status;
}

tn_status tn_module_state_dict(tn_module *module, tn_state_dict **out_dict) {
  TN_TRY(tn_state_dict_new(out_dict));
  tn_status status = tn_module_visit(module, put_detached, *out_dict);
  if (status != TN_OK) {
    tn_state_dict_release(*out_dict);
    *out_dict = NULL;
  }
  return status;
}

/* One pass over the module collects everything that does not fit. */
typedef struct loading {
  const tn_state_dict *dict;
  bool strict;
  text wrong; /* "missing: a, b; wrong shape: ..." */
  tn_state_dict *seen;
} loading;

static tn_status complain(loading *l, const char *format, ...) TN_PRINTF(2, 3);
static tn_status complain(loading *l, const char *format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (l->wrong.count) TN_TRY(text_add(&l->wrong, "; ", 2));
  return text_add(&l->wrong, line, strlen(line));
}

static tn_status check_entry(void *ctx, const char *name, tn_tensor *tensor, bool is_buffer) {
  loading *l = ctx;
  tn_tensor *source = tn_state_dict_get(l->dict, name);
  TN_TRY(tn_state_dict_put(l->seen, name, tensor));
  if (!source) return l->strict ? complain(l, "missing '%s'", name) : TN_OK;
  if (tni_nn_same_shape(source, tensor)) return TN_OK;
  char want[160], got[160];
  return complain(l, "'%s' must have shape %s, not %s", name, tni_nn_shape(tensor, want, sizeof want),
                  tni_nn_shape(source, got, sizeof got));
}

static tn_status check_all(loading *l, tn_module *module) {
  TN_TRY(tn_module_visit(module, check_entry, l));
  for (size_t i = 0; l->strict && i < tn_state_dict_count(l->dict); i++) {
    const char *name = tn_state_dict_name(l->dict, i);
    if (!tn_state_dict_get(l->seen, name)) TN_TRY(complain(l, "unexpected '%s'", name));
  }
  if (l->wrong.count)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: the state dict does not fit: %s", module->def.name,
                   l->wrong.at);
  return TN_OK;
}

static tn_status copy_in(void *ctx, const char *name, tn_tensor *tensor, bool is_buffer) {
  loading *l = ctx;
  tn_tensor *source = tn_state_dict_get(l->dict, name);
  if (!source) return TN_OK;
  tn_status status = tn_copy_(tensor, source, false);
  return status == TN_OK ? TN_OK : tn_wrap(status, "loading '%s'", name);
}

tn_status tni_nn_state_dict_fits(tn_module *module, const tn_state_dict *dict, bool strict) {
  loading l = {.dict = dict, .strict = strict};
  TN_TRY(tn_state_dict_new(&l.seen));
  tn_status status = check_all(&l, module);
  tn_state_dict_release(l.seen);
  free(l.wrong.at);
  return status;
}

tn_status tn_module_load_state_dict(tn_module *module, const tn_state_dict *dict, bool strict) {
  TN_TRY(tni_nn_not_null(module, "tn_module_load_state_dict: the module"));
  TN_TRY(tni_nn_not_null(dict, "tn_module_load_state_dict: the dict"));
  TN_TRY(tni_nn_state_dict_fits(module, dict, strict));
  loading l = {.dict = dict};
  bool grad = tn_grad_mode_set(false);
  tn_status status = tn_module_visit(module, copy_in, &l);
  tn_grad_mode_set(grad);
  return status;
}

/* ------------------------------------------------------------------ moving */

typedef struct move {
  tn_device device;
  tn_dtype dtype;
  tn_memory_format
      format;    /* NONE: a move to device and dtype; else of tensors with that many dims, where they are */
  list from, to; /* same order; from is borrowed, to owned until installed */
} move;

static size_t position(const list *l, const tn_tensor *t) {
  size_t i = 0;
  while (i < l->count && l->items[i] != t) i++;
  return i;
}

/* What e's tensor becomes; owned. */
static tn_status converted(const move *m, tn_tensor *old, tn_tensor **out_fresh) {
  if (m->format != TN_MEMORY_FORMAT_NONE) return tn_contiguous(old, m->format, out_fresh);
  bool floating = tni_nn_is_floating(old);
  tn_dtype dtype = floating && m->dtype != TN_DTYPE_NONE ? m->dtype : tn_tensor_dtype(old);
  return tn_to_device(old, m->device, dtype, false, false, TN_MEMORY_FORMAT_NONE, out_fresh);
}

static tn_status convert(void *ctx, const char *name, tni_nn_entry *e) {
  move *m = ctx;
  if (m->format == TN_CHANNELS_LAST && tn_tensor_ndim(e->tensor) != 4) return TN_OK;
  if (position(&m->from, e->tensor) < m->from.count) return TN_OK; /* tied */
  TN_TRY(
      tni_nn_grow(&m->from.items, &m->from.capacity, m->from.count, sizeof(tn_tensor *), "a module's move"));
  TN_TRY(tni_nn_grow(&m->to.items, &m->to.capacity, m->to.count, sizeof(tn_tensor *), "a module's move"));
  tn_tensor *fresh = NULL;
  tn_status status = converted(m, e->tensor, &fresh);
  if (status == TN_OK && fresh != e->tensor && tn_requires_grad(e->tensor))
    status = tn_set_requires_grad(fresh, true);
  if (status != TN_OK) {
    tn_tensor_release(fresh);
    return tn_wrap(status, "moving '%s'", name);
  }
  m->from.items[m->from.count++] = e->tensor;
  m->to.items[m->to.count++] = fresh;
  return TN_OK;
}

/* A walk without names, so that nothing in it can fail. Every fresh tensor exists before the first old one is
 * released, so addresses stay distinct. */
static void install(tn_module *module, const move *m) {
  for (size_t i = 0; i < module->n_entries; i++) {
    tn_tensor *old = module->entries[i].tensor;
    size_t at = position(&m->from, old);
    if (!old || at == m->from.count) continue; /* absent, or in a child that was met before */
    module->entries[i].tensor = tn_tensor_retain(m->to.items[at]);
    tn_tensor_release(old);
  }
  for (size_t i = 0; i < module->n_children; i++) install(module->children[i].module, m);
}

/* All or nothing. */
static tn_status run_move(tn_module *module, move *m) {
  bool grad = tn_grad_mode_set(false);
  tn_status status = tni_nn_walk(module, convert, m);
  if (status == TN_OK) install(module, m);
  tn_grad_mode_set(grad);
  for (size_t i = 0; i < m->to.count; i++) tn_tensor_release(m->to.items[i]);
  free(m->from.items);
  free(m->to.items);
  return status;
}

tn_status tn_module_to(tn_module *module, tn_device device, tn_dtype dtype) {
  if (dtype != TN_DTYPE_NONE && !(TN_DTYPE_BIT(dtype) & TN_DTYPES_FLOAT))
    return tn_fail(TN_ERR_DTYPE, "tn_module_to: a floating dtype was expected, %s came",
                   tn_dtype_name(dtype));
  move m = {.device = device, .dtype = dtype};
  return run_move(module, &m);
}

tn_status tn_module_to_format(tn_module *module, tn_memory_format format) {
  if (format != TN_CONTIGUOUS_FORMAT && format != TN_CHANNELS_LAST)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "tn_module_to_format: TN_CONTIGUOUS_FORMAT or TN_CHANNELS_LAST was expected, %d came",
                   (int)format);
  move m = {.format = format};
  return run_move(module, &m);
}
