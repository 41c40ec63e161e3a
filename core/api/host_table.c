/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of services that every plugin gets, and that the kit inside libtenon uses itself. Each row is one
 * call into the core; what a row promises stands in tenon/plugin.h. Rows that a plugin may not use inside init
 * check for that here, once, at the door.
 */
#include "core/load/load.h"
#include "core/profile/profile.h"
#include "core/tensor/stream.h"

/* ------------------------------------------------------------------ words */

static tn_status row_fail(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tni_vfail(code, format, args);
  va_end(args);
  return code;
}

static tn_status row_wrap(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  code = tni_vwrap(code, format, args);
  va_end(args);
  return code;
}

static void row_log(int32_t level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tni_vlog(level, format, args);
  va_end(args);
}

/* ------------------------------------------------------------------ operators */

static tn_status row_find_op(const char *name, const tn_op **out_op) {
  *out_op = name ? tni_op_find(name) : NULL;
  if (*out_op) return TN_OK;
  if (!name) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "find_op: the name is NULL");
  if (tni_may_dispatch() == TN_OK)
    TN_TRY(tni_open_operator(name)); /* inside init: no other plugin is opened */
  *out_op = tni_op_find(name);
  return *out_op ? TN_OK : tni_op_unknown(name);
}

static tn_status row_call(const tn_op *op, const tn_value *args, tn_value *out) {
  TN_TRY(tni_may_dispatch());
  return tni_call_first(op, args, out);
}

static tn_status row_call_n(const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out) {
  TN_TRY(tni_may_dispatch());
  return tni_call_n(op, args, n_args, out);
}

static uint32_t row_op_n_args(const tn_op *op) { return op ? op->n_args : 0; }

static const char *row_op_name(const tn_op *op) { return op ? op->name : "?"; }

static const char *row_op_schema(const tn_op *op) { return op ? op->schema_text : ""; }

static void row_tensor_retain(tn_tensor *tensor) { tn_tensor_retain(tensor); }

#ifdef TN_ABI_FUTURE
static tn_status row_future(int32_t *out_answer) {
  *out_answer = 42;
  return TN_OK;
}
#endif

/* ------------------------------------------------------------------ the table */

static const tn_host host = {.struct_size = sizeof host,
                             .abi_major = TN_ABI_MAJOR,
                             .abi_minor = TN_ABI_MINOR,
                             .version = TN_VERSION_TEXT,
                             .fail = row_fail,
                             .wrap = row_wrap,
                             .error_message = tn_error_message,
                             .log = row_log,
                             .parallel_for = tni_parallel_for,
                             .num_threads = tni_parallel_tell_threads,
                             .new_output = tni_call_new_output,
                             .scratch = tni_call_scratch,
                             .op_name = row_op_name,
                             .backend_name = tni_backend_name,
                             .dtype_name = tn_dtype_name,
                             .find_op = row_find_op,
                             .call = row_call,
                             .redispatch = tni_redispatch_first,
                             .tensor_retain = row_tensor_retain,
                             .tensor_release = tn_tensor_release,
                             .register_kernel = tni_register_kernel,
                             .register_backend = tni_register_backend,
                             .register_layer = tni_register_layer,
                             .register_operator = tni_register_operator,
                             .register_interface = tni_register_interface,
                             .op_schema = row_op_schema,
                             .layer_slot = tni_layer_slot,
                             .tensor_from_memory = tni_foreign_tensor,
                             .find_interface = tni_interface_find,
                             .call_n = row_call_n,
                             .redispatch_n = tni_redispatch_n,
                             .op_n_args = row_op_n_args,
                             .pinned_alloc = tni_pinned_alloc,
                             .pinned_free = tni_pinned_free,
                             .profiler_attach = tni_profile_attach,
                             .profiler_detach = tni_profile_detach,
                             .range_begin = tni_range_begin,
                             .range_end = tni_range_end,
                             .compile = tni_compile,
#ifdef TN_ABI_FUTURE
                             .future = row_future,
#endif
                             .compiled_free = tni_compiled_free};

const tn_host *tni_host(void) { return &host; }

/* The registry, the kit and the core itself make statuses through the same pointer as a plugin does. */
__attribute__((constructor)) static void attach_kit(void) { tn_kit_host_table = &host; }
