/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin's side of the door: negotiation, and the full-size copy of the host's table. Rows that the host
 * lacks (its table is shorter, because it is older) get functions that say which host is needed; rows that
 * cannot fail answer something harmless.
 */
#include <tenon/kit/plugin.h>

#include <stddef.h>
#include <string.h>

static tn_host table; /* written once, in tn_kit_attach, before the plugin's first kernel runs */

/* ------------------------------------------------------------------ rows that an older host lacks */

static tn_status lacks(const char *row, unsigned needs_minor) {
  if (!table.fail) return TN_ERR_UNSUPPORTED;
  return table.fail(TN_ERR_UNSUPPORTED, "host %u.%u lacks row %s, needs %u.%u", table.abi_major,
                    table.abi_minor, row, (unsigned)TN_ABI_MAJOR, needs_minor);
}

#ifdef TN_ABI_FUTURE
#define FUTURE_ROWS(STATUS) STATUS(future, 3, (int32_t *out_answer))
#else
#define FUTURE_ROWS(STATUS)
#endif
/* STATUS(row, minor that added it, parameters); OTHER(row, minor, type, parameters, what to do). */
#define HOST_ROWS(STATUS, OTHER)                                                               \
  OTHER(fail, 0, tn_status, (tn_status code, const char *format, ...), return code)            \
  OTHER(wrap, 0, tn_status, (tn_status code, const char *format, ...), return code)            \
  OTHER(error_message, 0, const char *, (void), return "")                                     \
  OTHER(log, 0, void, (int32_t level, const char *format, ...), return )                       \
  STATUS(parallel_for, 0, (int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx))            \
  OTHER(num_threads, 0, int32_t, (void), return 1)                                             \
  STATUS(new_output, 0,                                                                        \
         (tn_call * call, uint32_t i, uint32_t ndim, const tn_dim *sizes, tn_view **out_view)) \
  STATUS(scratch, 0, (tn_call * call, size_t size_bytes, tn_memory * out_memory))              \
  OTHER(op_name, 0, const char *, (const tn_op *op), return "?")                               \
  OTHER(backend_name, 0, const char *, (uint8_t backend), return "?")                          \
  OTHER(dtype_name, 0, const char *, (tn_dtype dtype), return "?")                             \
  STATUS(find_op, 0, (const char *name, const tn_op **out_op))                                 \
  STATUS(call, 0, (const tn_op *op, const tn_value *args, tn_value *out))                      \
  STATUS(redispatch, 0, (tn_call * call, const tn_value *args, tn_value *out))                 \
  OTHER(tensor_retain, 0, void, (tn_tensor * tensor), return )                                 \
  OTHER(tensor_release, 0, void, (tn_tensor * tensor), return )                                \
  STATUS(register_kernel, 0, (tn_registration * reg, const tn_kernel_def *def))                \
  STATUS(register_backend, 0, (tn_registration * reg, const struct tn_backend_def *def))       \
  STATUS(register_layer, 0, (tn_registration * reg, const struct tn_layer_def *def))           \
  STATUS(register_operator, 0, (tn_registration * reg, const struct tn_operator_def *def))      \
  STATUS(register_interface, 2,                                                                \
         (tn_registration * reg, const char *name, uint32_t version, const void *functions))       \
  OTHER(op_schema, 2, const char *, (const tn_op *op), return "")                              \
  STATUS(layer_slot, 2, (tn_call * call, void ***out_slot))                                    \
  STATUS(tensor_from_memory, 2, (const tn_foreign_def *desc, tn_tensor **out_tensor))          \
  STATUS(find_interface, 2, (const char *name, uint32_t version, const void **out_table))      \
  OTHER(call_n, 2, tn_status, (const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out), \
        return table.call(op, args, out))                                                      \
  OTHER(redispatch_n, 2, tn_status,                                                            \
        (tn_call * call, const tn_value *args, uint32_t n_args, tn_value *out),                \
        return table.redispatch(call, args, out))                                              \
  OTHER(op_n_args, 2, uint32_t, (const tn_op *op), return 0)                                   \
  STATUS(pinned_alloc, 2, (tn_device device, uint64_t size_bytes, tn_memory *out_memory))      \
  OTHER(pinned_free, 2, void, (tn_device device, const tn_memory *memory), return )            \
  STATUS(profiler_attach, 2, (const struct tn_profiler_def *def, uint64_t *out_handle))        \
  STATUS(profiler_detach, 2, (uint64_t handle))                                                \
  OTHER(range_begin, 2, void, (const char *name), return )                                     \
  OTHER(range_end, 2, void, (void), return )                                                   \
  STATUS(compile, 2, (const struct tn_compile_def *def, struct tn_compiled *out_compiled))     \
  OTHER(compiled_free, 2, void, (struct tn_compiled * compiled), return )                      \
  FUTURE_ROWS(STATUS)

#define DEFINE_STATUS(row, minor, params) \
  static tn_status missing_##row params { return lacks(#row, minor); }
#define DEFINE_OTHER(row, minor, type, params, what) \
  static type missing_##row params { what; }
HOST_ROWS(DEFINE_STATUS, DEFINE_OTHER)

static void fill_missing_rows(void) {
#define FILL_STATUS(row, minor, params) \
  if (!table.row) table.row = missing_##row;
#define FILL_OTHER(row, minor, type, params, what) FILL_STATUS(row, minor, params)
  HOST_ROWS(FILL_STATUS, FILL_OTHER)
}

/* ------------------------------------------------------------------ the door */

tn_status tn_kit_attach(const tn_host *host) {
  if (!host || host->struct_size < offsetof(tn_host, wrap) || host->abi_major != TN_ABI_MAJOR) {
    return TN_ERR_VERSION;
  }
  memset(&table, 0, sizeof table);
  memcpy(&table, host, host->struct_size < sizeof table ? host->struct_size : sizeof table);
  table.struct_size = sizeof table;
  fill_missing_rows();
  tn_kit_host_table = &table;
  return TN_OK;
}

/* What minor 0 put into tn_query: an older host's is this long at least. */
enum { QUERY_BYTES = offsetof(tn_query, shutdown) + sizeof(void (*)(void)) };

/* The first eight words of tn_query are the same for every major, so that strangers can name each other. */
tn_status tn_kit_answer(tn_query *query, const tn_plugin_info *info, uint32_t sanitizer,
                        tn_status (*init)(const tn_host *host, tn_registration *reg)) {
  if (!query || query->struct_size < offsetof(tn_query, name)) return TN_ERR_VERSION;
  query->plugin_major = TN_ABI_MAJOR;
  query->plugin_minor = TN_ABI_MINOR;
  query->needs_minor = info->needs_minor;
  query->sanitizer = sanitizer;
  if (query->host_major != TN_ABI_MAJOR || query->host_minor < info->needs_minor ||
      query->host_minor_min > TN_ABI_MINOR || query->struct_size < QUERY_BYTES) {
    return TN_ERR_VERSION;
  }
  query->name = info->name;
  query->version = info->version;
  query->init = init;
  query->shutdown = info->shutdown;
  return TN_OK;
}
