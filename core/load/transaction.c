/* SPDX-License-Identifier: Apache-2.0
 *
 * What one init registers: checked against the manifest and the operator table, and kept in a journal that
 * nobody else sees. commit.c publishes the journal; until then dropping it is the whole rollback.
 *
 * A kernel for an operator, key or schema that this host does not have is counted and left out: a plugin built
 * with a newer registry still serves what both sides know.
 */
#include <stdlib.h>

#include "core/load/load_int.h"

/* Flags that this host knows. */
#ifdef TN_ABI_FUTURE
#define LAST_KERNEL_FLAG TN_KERNEL_FUTURE
#else
#define LAST_KERNEL_FLAG TN_KERNEL_LAYER_FALLBACK
#endif
#define KNOWN_KERNEL_FLAGS ((LAST_KERNEL_FLAG << 1) - 1)
#define KNOWN_OPERATOR_FLAGS ((TN_OP_MULTI_VIEW << 1) - 1)

/* Bits of dtypes that this host knows: what both sides of a comparison are cut to. */
static tn_dtype_mask known_dtypes(void) {
  tn_dtype_mask mask = 0;
  for (unsigned code = TN_BOOL; code < TN_DTYPE_LIMIT; ++code)
    if (tn_dtype_size((tn_dtype)code)) mask |= TN_DTYPE_BIT(code);
  return mask;
}

static tn_registration *active; /* the open transaction; loader lock held */

void tni_copy_sized(void *to, size_t size, const void *from) {
  uint32_t given;
  memcpy(&given, from, sizeof given);
  memset(to, 0, size);
  memcpy(to, from, given < size ? given : size);
}

/* Keeps the first failure, so that an init that drops a status cannot succeed. */
static tn_status note(tn_registration *reg, tn_status status) {
  if (status == TN_OK || reg->failed != TN_OK) return status;
  reg->failed = status;
  tni_words words = tni_words_aside();
  reg->failed_words = tni_strdup(words.text ? words.text : "");
  tni_words_back(words);
  return status;
}

static tn_status check_open(tn_registration *reg, const void *def, const char *what) {
  if (!reg || reg != active)
    return TN_FAIL(TN_ERR_STATE, "%s: things are registered inside init, with the registration it was given",
                   what);
  if (!def) return note(reg, TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: the definition is NULL", what));
  return TN_OK;
}

/* A definition says how long it is; one that nobody filled in would read as one of NULLs. */
static tn_status check_def(tn_registration *reg, const void *def, const char *what) {
  uint32_t size = 0;
  TN_TRY(check_open(reg, def, what));
  memcpy(&size, def, sizeof size);
  if (size > sizeof size) return TN_OK;
  return note(reg, TN_FAIL(TN_ERR_PLUGIN, "%s: struct_size of the definition is %u: set it to the struct's sizeof", what,
                           size));
}

/* ------------------------------------------------------------------ kernels */

/* Finds the manifest's entry and marks the dtypes as registered. */
static tn_status claim_kernel(tn_registration *reg, const tn_kernel_def *def, const char **out_op_name) {
  const tni_manifest *m = reg->plugin->manifest;
  const tni_manifest_kernel *entry = tni_manifest_find(m, def->key, def->op);
  if (!entry)
    return TN_FAIL(TN_ERR_PLUGIN, "manifest contradicts registration: it lists no kernel of %s on %s",
                   def->op, def->key);
  const tni_manifest_kernel *end = m->kernels.items + m->kernels.count;
  const tni_manifest_kernel *first = entry;
  while (entry < end && entry->priority != def->priority && strcmp(entry->op, def->op) == 0 &&
         strcmp(entry->key, def->key) == 0)
    ++entry;
  if (entry == end || strcmp(entry->op, def->op) != 0 || strcmp(entry->key, def->key) != 0)
    return TN_FAIL(TN_ERR_PLUGIN,
                   "manifest contradicts registration: %s on %s has priority %d there, %d here", def->op,
                   def->key, (int)first->priority, (int)def->priority);
  tn_dtype_mask dtypes = (def->dtypes ? def->dtypes : TN_DTYPES_ALL) & known_dtypes();
  tn_dtype_mask more = dtypes & ~entry->dtypes;
  if (more)
    return TN_FAIL(TN_ERR_PLUGIN, "manifest contradicts registration: it does not list %s for %s on %s",
                   tn_dtype_name((tn_dtype)__builtin_ctzll(more)), def->op, def->key);
  reg->seen[entry - m->kernels.items] |= dtypes;
  *out_op_name = entry->op;
  return TN_OK;
}

/* The name as a manifest has it, which lives as long as the process. */
static const char *offered_device(const char *name) {
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *p = tni_plugin_at(i);
    if (!p->manifest || tni_plugin_state(p) == TN_PLUGIN_REJECTED) continue;
    for (size_t k = 0; k < p->manifest->devices.count; ++k)
      if (strcmp(p->manifest->devices.items[k].name, name) == 0) return p->manifest->devices.items[k].name;
  }
  return NULL;
}

/* *out_bit: -1 if nobody has this key. */
static tn_status find_key(const char *key, int *out_bit) {
  if (tni_key_reserved(key)) return TN_FAIL(TN_ERR_PLUGIN, "kernels under the key %s are the core's", key);
  *out_bit = tni_key_find(key);
  const char *lasting = *out_bit < 0 ? offered_device(key) : NULL;
  if (!lasting) return TN_OK;
  uint8_t id;
  TN_TRY(tni_key_backend(lasting, &id));
  *out_bit = id;
  return TN_OK;
}

static size_t name_length(const char *schema) { return strcspn(schema, "( "); }

static bool adds_operator(const tn_registration *reg, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < reg->operators.count; ++i) {
    const char *schema = reg->operators.items[i].def->schema;
    if (name_length(schema) == n && strncmp(schema, name, n) == 0) return true;
  }
  return false;
}

/* May a kernel built with this schema text serve op, and how many arguments does it know? */
static tn_status fit_schema(const tn_op *op, const char *text, uint32_t *out_max_args, bool *out_fits) {
  *out_max_args = op->n_args;
  *out_fits = !text || strcmp(text, op->schema_text) == 0;
  if (*out_fits) return TN_OK;
  tni_schema *schema;
  TN_TRY(tni_schema_parse(text, &schema));
  uint32_t extra;
  *out_fits = tni_schema_extends(op->schema, schema, &extra);
  *out_max_args = schema->n_args;
  tni_schema_release(schema);
  return TN_OK;
}

static tn_status check_takes_kernel(const tn_op *op, int bit) {
  if (op->functional != op)
    return TN_FAIL(TN_ERR_PLUGIN, "%s is served by the kernel of %s: register that name", op->name,
                   op->functional->name);
  if (bit < TN_BACKEND_LIMIT && (op->flags & (TN_OP_VIEW | TN_OP_NO_KERNEL | TN_OP_ALWAYS_BODY)))
    return TN_FAIL(TN_ERR_PLUGIN, "%s takes no kernel of a backend: the core does it", op->name);
  return TN_OK;
}

/* Strings of the def are borrowed: the copy carries the file name behind it. */
static tni_kernel *copy_kernel(const tni_plugin *p, const tn_kernel_def *def, int bit, uint32_t max_args) {
  size_t file = def->file ? strlen(def->file) + 1 : 0;
  tni_kernel *k = tni_alloc(sizeof *k + file);
  if (!k) return NULL;
  char *copy = (char *)(k + 1);
  if (file) memcpy(copy, def->file, file);
  *k = (tni_kernel){.fn = def->fn,
                    .user = def->user,
                    .dtypes = def->dtypes ? def->dtypes : ~(tn_dtype_mask)0,
                    .max_rank = def->max_rank ? def->max_rank : TN_MAX_RANK,
                    .min_numel = def->min_numel,
                    .max_numel = def->max_numel ? def->max_numel : INT64_MAX,
                    .flags = def->flags,
                    .priority = def->priority,
                    .root_order = p->root_order,
                    .max_args = max_args,
                    .plugin = p->name,
                    .file = file ? copy : NULL,
                    .line = def->line,
                    .bit = (uint8_t)bit,
                    .override_rank = p->override_rank};
  return k;
}

static tn_status journal_kernel(tn_registration *reg, const tn_kernel_def *def, const char *op_name) {
  tni_pending_kernel pending = {.op_name = op_name};
  uint32_t max_args = UINT32_MAX;
  int bit = -1;
  bool fits = !(def->flags & ~KNOWN_KERNEL_FLAGS);
  TN_TRY(find_key(def->key, &bit));
  bool fallback = strcmp(op_name, "*") == 0;
  if (fallback && bit >= 0 && bit < TN_BACKEND_LIMIT)
    return TN_FAIL(TN_ERR_PLUGIN, "\"*\" is a layer's fallback; %s is a device", def->key);
  if (fallback != ((def->flags & TN_KERNEL_LAYER_FALLBACK) != 0))
    return TN_FAIL(TN_ERR_PLUGIN, "the operator name \"*\" and TN_KERNEL_LAYER_FALLBACK go together");
  pending.op = fallback ? NULL : tni_op_find(op_name);
  if (pending.op && fits) {
    TN_TRY(check_takes_kernel(pending.op, bit));
    TN_TRY(fit_schema(pending.op, def->schema, &max_args, &fits));
  }
  if (bit >= 0 && fits && (fallback || pending.op || adds_operator(reg, op_name))) {
    pending.kernel = copy_kernel(reg->plugin, def, bit, max_args);
    if (!pending.kernel) return tni_oom(sizeof *pending.kernel, "a kernel's record");
  } else if (!reg->n_skipped++) {
    reg->first_skipped = op_name;
  }
  tn_status status =
      tni_grow(&reg->kernels.items, &reg->kernels.capacity, reg->kernels.count, sizeof pending);
  if (status == TN_OK)
    reg->kernels.items[reg->kernels.count++] = pending;
  else
    tni_free(pending.kernel);
  return status;
}

static tn_status add_kernel(tn_registration *reg, const tn_kernel_def *given) {
  tn_kernel_def def;
  tni_copy_sized(&def, sizeof def, given);
  if (!def.op || !def.key || !def.fn)
    return TN_FAIL(TN_ERR_PLUGIN, "a kernel needs op, key and fn; got op %s, key %s, fn %s",
                   def.op ? def.op : "NULL", def.key ? def.key : "NULL", def.fn ? "given" : "NULL");
  if (def.max_rank > TN_MAX_RANK)
    return TN_FAIL(TN_ERR_PLUGIN, "kernel %s on %s: max_rank %u is above %d", def.op, def.key, def.max_rank,
                   TN_MAX_RANK);
  const char *op_name = NULL;
  TN_TRY(claim_kernel(reg, &def, &op_name));
  tn_status status = journal_kernel(reg, &def, op_name);
  return status == TN_OK ? TN_OK : TN_WRAP(status, "kernel %s on %s", def.op, def.key);
}

/* ------------------------------------------------------------------ backends, layers, operators */

static tn_status add_backend(tn_registration *reg, const tn_backend_def *given) {
  tn_backend_def def;
  tni_copy_sized(&def, sizeof def, given);
  if (!def.device_name) return TN_FAIL(TN_ERR_PLUGIN, "a backend needs a device_name");
  if (!tni_manifest_has_device(reg->plugin->manifest, def.device_name))
    return TN_FAIL(TN_ERR_PLUGIN, "manifest contradicts registration: it lists no device %s",
                   def.device_name);
  for (size_t i = 0; i < reg->backends.count; ++i)
    if (strcmp(reg->backends.items[i]->name, def.device_name) == 0)
      return TN_FAIL(TN_ERR_PLUGIN, "device %s is registered twice", def.device_name);
  TN_TRY(tni_grow(&reg->backends.items, &reg->backends.capacity, reg->backends.count, sizeof(tni_backend *)));
  def.device_name = offered_device(def.device_name);
  tn_status status = tni_backend_copy(&def, reg->plugin, &reg->backends.items[reg->backends.count]);
  if (status != TN_OK) return TN_WRAP(status, "device %s", def.device_name);
  ++reg->backends.count;
  return TN_OK;
}

static const tni_manifest_layer *listed_layer(const tni_manifest *m, const char *name) {
  for (size_t i = 0; i < m->layers.count; ++i)
    if (strcmp(m->layers.items[i].name, name) == 0) return &m->layers.items[i];
  return NULL;
}

static tn_status add_layer(tn_registration *reg, const tn_layer_def *given) {
  tn_layer_def def;
  tni_copy_sized(&def, sizeof def, given);
  const tni_manifest_layer *listed = def.name ? listed_layer(reg->plugin->manifest, def.name) : NULL;
  if (!listed)
    return TN_FAIL(TN_ERR_PLUGIN, "manifest contradicts registration: it lists no layer %s",
                   def.name ? def.name : "NULL");
  if (!def.state_dup != !def.state_free)
    return TN_FAIL(TN_ERR_PLUGIN, "layer %s: state_dup and state_free are given together or not at all",
                   def.name);
  for (size_t i = 0; i < reg->layers.count; ++i)
    if (strcmp(reg->layers.items[i]->name, def.name) == 0)
      return TN_FAIL(TN_ERR_PLUGIN, "layer %s is registered twice", def.name);
  TN_TRY(tni_grow(&reg->layers.items, &reg->layers.capacity, reg->layers.count, sizeof(tn_layer_def *)));
  tni_layer_record *copy = tni_alloc_zero(sizeof *copy);
  if (!copy) return tni_oom(sizeof *copy, "a layer's record");
  copy->def = def;
  copy->def.name = listed->name;
  reg->layers.items[reg->layers.count++] = &copy->def;
  return TN_OK;
}

static tn_status add_operator(tn_registration *reg, const tn_operator_def *given) {
  tn_operator_def def;
  tni_copy_sized(&def, sizeof def, given);
  if (!def.schema) return TN_FAIL(TN_ERR_PLUGIN, "an operator needs a schema");
  if (!tni_strings_have(&reg->plugin->manifest->operators, def.schema))
    return TN_FAIL(TN_ERR_PLUGIN, "manifest contradicts registration: it lists no operator %s", def.schema);
  if (def.flags & ~KNOWN_OPERATOR_FLAGS)
    return TN_FAIL(TN_ERR_VERSION, "operator %s: flags 0x%x are of a newer ABI than this host's %d.%d", def.schema,
                   def.flags & ~KNOWN_OPERATOR_FLAGS, TN_ABI_MAJOR, TN_ABI_MINOR);
  tni_schema *schema;
  TN_TRY(tni_schema_parse(def.schema, &schema));
  bool exists = tni_op_find(schema->name) || adds_operator(reg, schema->name);
  tn_status status = exists ? TN_FAIL(TN_ERR_PLUGIN, "operator %s exists already", schema->name) : TN_OK;
  tni_schema_release(schema);
  TN_TRY(status);
  TN_TRY(tni_grow(&reg->operators.items, &reg->operators.capacity, reg->operators.count,
                  sizeof(tni_pending_operator)));
  tni_pending_operator pending = {0};
  TN_TRY(tni_operator_copy(&def, &pending.def));
  reg->operators.items[reg->operators.count++] = pending;
  return TN_OK;
}

tn_status tni_register_kernel(tn_registration *reg, const tn_kernel_def *def) {
  TN_TRY(check_def(reg, def, "register_kernel"));
  return note(reg, add_kernel(reg, def));
}
tn_status tni_register_backend(tn_registration *reg, const tn_backend_def *def) {
  TN_TRY(check_def(reg, def, "register_backend"));
  return note(reg, add_backend(reg, def));
}
tn_status tni_register_layer(tn_registration *reg, const tn_layer_def *def) {
  TN_TRY(check_def(reg, def, "register_layer"));
  return note(reg, add_layer(reg, def));
}
tn_status tni_register_operator(tn_registration *reg, const tn_operator_def *def) {
  TN_TRY(check_def(reg, def, "register_operator"));
  return note(reg, add_operator(reg, def));
}

tn_status tni_register_interface(tn_registration *reg, const char *name, uint32_t version, const void *table) {
  TN_TRY(check_open(reg, name, "register_interface"));
  return note(reg, tni_interface_add(reg, name, version, table));
}

/* ------------------------------------------------------------------ begin, check, end */

tn_status tni_transaction_begin(tni_plugin *p, tn_registration *out_reg) {
  *out_reg = (tn_registration){.plugin = p};
  size_t bytes = p->manifest->kernels.count * sizeof *out_reg->seen;
  out_reg->seen = tni_alloc_zero(bytes ? bytes : sizeof *out_reg->seen);
  out_reg->tables = tni_alloc_zero((p->manifest->interfaces.count + 1) * sizeof *out_reg->tables);
  if (!out_reg->seen || !out_reg->tables) {
    tni_free(out_reg->seen);
    tni_free(out_reg->tables);
    return tni_oom(bytes, "a registration");
  }
  out_reg->keys = tni_keys_named();
  active = out_reg;
  return TN_OK;
}

static tn_status check_kernels(const tn_registration *reg) {
  const tni_manifest *m = reg->plugin->manifest;
  for (size_t i = 0; i < m->kernels.count; ++i) {
    const tni_manifest_kernel *k = &m->kernels.items[i];
    tn_dtype_mask missing = k->dtypes & ~reg->seen[i];
    if (missing)
      return TN_FAIL(TN_ERR_PLUGIN,
                     "manifest contradicts registration: it lists %s on %s for %s (priority %d), init "
                     "did not register that",
                     k->op, k->key, tn_dtype_name((tn_dtype)__builtin_ctzll(missing)), (int)k->priority);
  }
  return TN_OK;
}

static tn_status fail_omitted(const char *what, const char *name) {
  return TN_FAIL(TN_ERR_PLUGIN,
                 "manifest contradicts registration: it lists the %s %s, init did not register it", what,
                 name);
}

tn_status tni_transaction_check(tn_registration *reg) {
  const tni_manifest *m = reg->plugin->manifest;
  if (reg->failed != TN_OK)
    return TN_FAIL(reg->failed, "%s", reg->failed_words ? reg->failed_words : "a registration failed");
  TN_TRY(check_kernels(reg));
  for (size_t i = 0; i < m->operators.count; ++i) {
    bool found = false;
    for (size_t k = 0; k < reg->operators.count && !found; ++k)
      found = strcmp(reg->operators.items[k].def->schema, m->operators.items[i]) == 0;
    if (!found) return fail_omitted("operator", m->operators.items[i]);
  }
  for (size_t i = 0; i < m->devices.count; ++i) {
    bool found = false;
    for (size_t k = 0; k < reg->backends.count && !found; ++k)
      found = strcmp(reg->backends.items[k]->name, m->devices.items[i].name) == 0;
    if (!found) return fail_omitted("device", m->devices.items[i].name);
  }
  for (size_t i = 0; i < m->layers.count; ++i) {
    bool found = false;
    for (size_t k = 0; k < reg->layers.count && !found; ++k)
      found = strcmp(reg->layers.items[k]->name, m->layers.items[i].name) == 0;
    if (!found) return fail_omitted("layer", m->layers.items[i].name);
  }
  return tni_interfaces_check(reg);
}

void tni_transaction_end(tn_registration *reg) {
  active = NULL;
  if (!reg->committed) tni_keys_restore(reg->keys);
  for (size_t i = 0; i < reg->kernels.count; ++i) tni_free(reg->kernels.items[i].kernel);
  for (size_t i = 0; i < reg->operators.count; ++i) tni_operator_free(reg->operators.items[i].def);
  for (size_t i = 0; i < reg->backends.count; ++i) tni_backend_free(reg->backends.items[i]);
  for (size_t i = 0; i < reg->layers.count; ++i) tni_free(reg->layers.items[i]);
  tni_free(reg->kernels.items);
  tni_free(reg->operators.items);
  tni_free(reg->backends.items);
  tni_free(reg->layers.items);
  tni_free(reg->seen);
  tni_free(reg->tables);
  tni_free(reg->failed_words);
}
