/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator table: names to records, and the kernels registered for each. All changes happen under the
 * registry lock; calls read rows without it.
 */
#include "core/dispatch/dispatch.h"

#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/row.h"
#include "ops_index.h"

tn_op tni_op_table[TNI_OP_COUNT] = {[0 ... TNI_OP_COUNT - 1] = {.row = &tni_start_row, .own_row = &tni_start_row}};

static struct {
  tni_mutex mutex;
  tni_map names;   /* name -> tn_op* */
  tn_op **added;   /* operators of plugins */
  size_t n_added, capacity;
  _Atomic size_t n; /* built-in + added, published */
} table = {.mutex = TNI_MUTEX_INIT};
TNI_FORK_LOCK(table, TNI_FORK_REGISTRY, table.mutex);

void tni_registry_lock(void) { tni_mutex_lock(&table.mutex); }
void tni_registry_unlock(void) { tni_mutex_unlock(&table.mutex); }

size_t tni_op_count(void) { return atomic_load_explicit(&table.n, memory_order_acquire); }
tn_op *tni_op_at(size_t i) { return i < TNI_OP_COUNT ? &tni_op_table[i] : table.added[i - TNI_OP_COUNT]; }

tn_op *tni_op_find(const char *name) {
  tni_registry_lock();
  tn_op *op = tni_map_get(&table.names, name);
  tni_registry_unlock();
  return op;
}

/* Puts ", add.Tensor, add.Scalar" for "add" into text, if it is not NULL; returns the length with its 0. Lock held. */
static size_t write_overloads(const char *name, char *text) {
  const size_t length = strlen(name);
  size_t n = 1;
  for (size_t i = 0; i < tni_op_count(); ++i) {
    const char *other = tni_op_at(i)->name;
    if (strncmp(other, name, length) != 0 || other[length] != '.') continue;
    if (text) text = stpcpy(stpcpy(text, ", "), other);
    n += strlen(other) + 2;
  }
  return n;
}

tn_status tni_op_unknown(const char *name) {
  tni_registry_lock();
  size_t size = write_overloads(name, NULL);
  char *text = size > 1 ? tni_alloc(size) : NULL;
  if (text) write_overloads(name, text);
  tni_registry_unlock();
  if (!text) return tn_fail(TN_ERR_NOT_FOUND, "there is no operator '%s'; `tenon ops` lists them", name);
  tn_status status = tn_fail(TN_ERR_NOT_FOUND, "there is no operator '%s'; of that name there are%s", name, text + 1);
  tni_free(text);
  return status;
}

/* ------------------------------------------------------------------ records */

/* Note [Appended arguments]: those that an older caller does not give need defaults. */
static tn_status count_appended(tn_op *op, const tn_operator_def *def) {
  uint32_t n = op->functional->n_args;
  for (uint32_t i = n - (def->n_appended < n ? def->n_appended : n); i < n; ++i)
    if (!op->schema->args[i].has_default)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "operator %s: the appended argument '%s' has no default", op->name,
                     op->schema->args[i].name);
  if (def->n_appended > n)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "operator %s: %u of its %u arguments were appended", op->name,
                   def->n_appended, n);
  op->n_appended = (uint8_t)def->n_appended;
  return TN_OK;
}

static tn_status count_masks(tn_op *op) {
  const tni_schema *s = op->schema;
  if (s->n_args > TNI_MAX_ARGS)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "operator %s has %u arguments; at most %d", op->name, s->n_args, TNI_MAX_ARGS);
  op->device_arg = op->pin_arg = 255;
  for (uint32_t i = 0; i < s->n_args; ++i) {
    const tni_arg *a = &s->args[i];
    uint64_t bit = TNI_KEY(i);
    if (a->type == TNI_T_BOOL && strcmp(a->name, "pin_memory") == 0) op->pin_arg = (uint8_t)i;
    if (a->type == TNI_T_TENSOR && !a->list) op->tensor_args |= bit;
    if (a->type == TNI_T_TENSOR && a->list) op->list_args |= bit;
    if (!a->list && a->type != TNI_T_TENSOR && a->type != TNI_T_STR) op->plain_args |= bit;
    if (a->writes) op->write_args |= bit;
    if (a->writes && a->list) op->n_write_lists++;
    if (a->type == TNI_T_DEVICE) op->device_arg = (uint8_t)i;
  }
  op->choose = op->device_arg != 255;
  op->n_args = (uint8_t)s->n_args;
  op->n_outs = op->form == TN_FORM_FUNCTIONAL ? (uint8_t)s->n_results : 0;
  op->list_result = s->n_results == 1 && s->results[0].list && op->form == TN_FORM_FUNCTIONAL;
  const tn_op *f = op->functional;
  op->meta_preset = (tn_meta){.host = tn_kit_host_table,
                              .op = op,
                              .op_name = op->name,
                              .promote = f->promote,
                              .n_args = f->n_args,
                              .n_out = op->list_result ? 0 : 1,
                              .out_capacity = 1};
  if (s->n_results > TNI_MAX_OUTS)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "operator %s has %u results; at most %d", op->name, s->n_results, TNI_MAX_OUTS);
  return TN_OK;
}

/* Entries that a node of this formula saves where all inputs require grad. */
static uint8_t count_saved(const tn_grad_def *grad) {
  tn_saves all = {0};
  for (uint32_t k = 0; k < grad->n_inputs; ++k) {
    all.args |= grad->saves[k].args | grad->saves[k].values;
    all.outs |= grad->saves[k].outs;
  }
  return (uint8_t)(__builtin_popcountll(all.args) + __builtin_popcountll(all.outs));
}

/* Fills a record from its definition; links it to its functional entry, which must be known already. */
static tn_status record_fill(tn_op *op, const tn_operator_def *def) {
  tni_schema *schema;
  TN_TRY(tni_schema_parse(def->schema, &schema));
  op->schema = schema;
  op->name = schema->name;
  op->schema_text = def->schema;
  op->flags = def->flags;
  op->form = def->form;
  op->def = def;
  op->functional = op;
  op->promote = def->promote;
  op->meta = def->meta;
  op->body = def->body;
  op->grad = def->grad;
  op->rng = def->rng;
  if (def->functional && def->form != TN_FORM_FUNCTIONAL && strcmp(def->functional, op->name) != 0) {
    tn_op *f = tni_map_get(&table.names, def->functional);
    if (!f)
      return tn_fail(TN_ERR_NOT_FOUND, "operator %s names %s as its functional form, which does not exist", op->name,
                     def->functional);
    op->functional = f;
    op->flags = f->flags;
    op->promote = f->promote;
    op->meta = f->meta;
    op->grad = f->grad;
  }
  if ((op->flags & TN_OP_VIEW) && !op->meta)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "operator %s is a view operator and has no meta rule", op->name);
  if (op->grad) op->saved_most = count_saved(op->grad);
  TN_TRY(count_masks(op));
  return count_appended(op, def);
}

static void record_clear(tn_op *op) {
  tni_schema_release((tni_schema *)(uintptr_t)op->schema);
  uint32_t index = op->index;
  memset(op, 0, sizeof *op);
  op->index = index;
  atomic_init(&op->row, &tni_start_row);
  atomic_init(&op->own_row, &tni_start_row);
}

static tn_status record_publish(tn_op *op) {
  const tni_row *row;
  TN_TRY(tni_row_first(op, &row));
  tn_status status = tni_map_put(&table.names, op->name, op);
  if (status != TN_OK) return status;
  tni_row_publish(op, row);
  return TN_OK;
}

tn_status tni_ops_init(void) {
  for (size_t i = 0; i < TNI_OP_COUNT; ++i) {
    tn_op *op = &tni_op_table[i];
    if (tni_op_ready(op)) continue;
    op->index = (uint32_t)i;
    tn_status status = record_fill(op, tni_builtin_ops[i]);
    if (status == TN_OK) status = record_publish(op);
    if (status != TN_OK) {
      record_clear(op);
      return status;
    }
  }
  atomic_store_explicit(&table.n, TNI_OP_COUNT + table.n_added, memory_order_release);
  return TN_OK;
}

tn_status tni_op_add(const tn_operator_def *def, const char *plugin, tn_op **out_op) {
  *out_op = NULL;
  TN_TRY(tni_grow(&table.added, &table.capacity, table.n_added, sizeof *table.added));
  tn_op *op = tni_alloc_zero(sizeof *op);
  if (!op) return tni_oom(sizeof *op, "an operator");
  op->index = (uint32_t)(TNI_OP_COUNT + table.n_added);
  op->added = true;
  tn_status status = record_fill(op, def);
  if (status == TN_OK && tni_map_get(&table.names, op->name))
    status = tn_fail(TN_ERR_PLUGIN, "operator %s exists already; plugin %s cannot add it", op->name, plugin);
  if (status == TN_OK) status = record_publish(op);
  if (status != TN_OK) {
    tni_schema_release((tni_schema *)(uintptr_t)op->schema);
    tni_free(op);
    return status;
  }
  table.added[table.n_added++] = op;
  atomic_store_explicit(&table.n, TNI_OP_COUNT + table.n_added, memory_order_release);
  *out_op = op;
  return TN_OK;
}

void tni_op_unlist(tn_op *op) {
  size_t at = op->index - TNI_OP_COUNT;
  tni_map_remove(&table.names, op->name);
  for (size_t i = at + 1; i < table.n_added; ++i) {
    table.added[i - 1] = table.added[i];
    table.added[i - 1]->index--;
  }
  table.n_added--;
  atomic_store_explicit(&table.n, TNI_OP_COUNT + table.n_added, memory_order_release);
}

void tni_op_remove(tn_op *op) {
  size_t at = op->index - TNI_OP_COUNT;
  if (at >= table.n_added || table.added[at] != op) return;
  tni_op_unlist(op);
  tni_row_drop(op);
  tni_schema_release((tni_schema *)(uintptr_t)op->schema);
  tni_free(op);
}

/* ------------------------------------------------------------------ kernels */

tn_status tni_op_add_kernel(tn_op *op, tni_kernel *kernel) {
  kernel->next = op->kernels;
  op->kernels = kernel;
  tn_status status = tni_rows_reset(op, kernel->bit);
  if (status == TN_OK) return TN_OK;
  /* Rows of some of the operator's forms may know the key by now. Should this need memory that is not there either, they
   * go on knowing a layer's key that no thread switches on. */
  op->kernels = kernel->next;
  (void)tni_rows_reset(op, kernel->bit);
  return status;
}

void tni_op_remove_kernel(tn_op *op, tni_kernel *kernel) {
  for (tni_kernel **at = &op->kernels; *at; at = &(*at)->next) {
    if (*at != kernel) continue;
    *at = kernel->next;
    break;
  }
  /* A reset only needs memory where a call has built the cell meanwhile; then the old cell stays, which the
   * transaction's lock makes impossible. */
  (void)tni_rows_reset(op, kernel->bit);
}

bool tni_kernel_before(const tni_kernel *a, const tni_kernel *b) {
  if (a->override_rank != b->override_rank) return a->override_rank > b->override_rank;
  if (a->priority != b->priority) return a->priority > b->priority;
  if (a->root_order != b->root_order) return a->root_order < b->root_order;
  return strcmp(a->plugin, b->plugin) < 0;
}

const char *tni_kernel_refuses(const tni_kernel *kernel, tn_dtype dtype, uint32_t ndim, bool deterministic) {
  if (!(kernel->dtypes & TN_DTYPE_BIT(dtype))) return "does not claim this dtype";
  if (ndim > kernel->max_rank) return "does not claim this rank";
  if (deterministic && (kernel->flags & TN_KERNEL_NONDETERMINISTIC)) return "is not deterministic";
  return NULL;
}
