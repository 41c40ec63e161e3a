/* SPDX-License-Identifier: Apache-2.0
 *
 * The ABI's layout, asserted at compile time: every offset and size of the structs that cross between host and
 * plugin, on the 64-bit targets that ABI major 1 covers. The kit's layout.c includes it, so that no library is
 * built from headers that moved; a plugin may include it too.
 *
 * Hot structs never change within major 1. Structs with a struct_size may grow at their end, with a minor step.
 * The asserts are written by `ci/check_abi.py --update`, together with the record that CI compares
 * (ci/abi/layout-1.txt), which says what may be changed.
 */
#ifndef TENON_LAYOUT_H
#define TENON_LAYOUT_H

#include <tenon/operator.h>
#include <tenon/plugin.h>
#include <tenon/plugin_backend.h>
#include <tenon/plugin_compiler.h>
#include <tenon/plugin_layer.h>
#include <tenon/plugin_profiler.h>

#ifdef __cplusplus
#define TN_LAYOUT_ASSERT static_assert
#else
#define TN_LAYOUT_ASSERT _Static_assert
#endif
/* Structs that may grow do so in the future's build; nothing may move. */
#ifdef TN_ABI_FUTURE
#define TN_LAYOUT_GROWS(type, bytes)                                                               \
  TN_LAYOUT_ASSERT(sizeof(type) >= (bytes), #type " has shrunk: see ci/check_abi.py")
#else
#define TN_LAYOUT_GROWS(type, bytes) TN_LAYOUT_SIZE(type, bytes)
#endif
#define TN_LAYOUT_SIZE(type, bytes)                                                                \
  TN_LAYOUT_ASSERT(sizeof(type) == (bytes), #type " has another size: see ci/check_abi.py")
#define TN_LAYOUT_AT(type, field, bytes)                                                           \
  TN_LAYOUT_ASSERT(offsetof(type, field) == (bytes), #type "." #field " moved: see ci/check_abi.py")

TN_LAYOUT_SIZE(void *, 8);
TN_LAYOUT_SIZE(size_t, 8);

/* asserts */

TN_LAYOUT_SIZE(struct tn_device, 4);
TN_LAYOUT_AT(struct tn_device, backend, 0);
TN_LAYOUT_AT(struct tn_device, reserved, 1);
TN_LAYOUT_AT(struct tn_device, index, 2);

TN_LAYOUT_SIZE(struct tn_view, 80);
TN_LAYOUT_AT(struct tn_view, data, 0);
TN_LAYOUT_AT(struct tn_view, mem, 8);
TN_LAYOUT_AT(struct tn_view, offset_bytes, 16);
TN_LAYOUT_AT(struct tn_view, storage, 24);
TN_LAYOUT_AT(struct tn_view, sizes, 32);
TN_LAYOUT_AT(struct tn_view, strides, 40);
TN_LAYOUT_AT(struct tn_view, numel, 48);
TN_LAYOUT_AT(struct tn_view, dtype, 56);
TN_LAYOUT_AT(struct tn_view, ndim, 57);
TN_LAYOUT_AT(struct tn_view, itemsize, 58);
TN_LAYOUT_AT(struct tn_view, backend, 59);
TN_LAYOUT_AT(struct tn_view, device_index, 60);
TN_LAYOUT_AT(struct tn_view, reserved0, 62);
TN_LAYOUT_AT(struct tn_view, flags, 64);
TN_LAYOUT_AT(struct tn_view, reserved1, 68);
TN_LAYOUT_AT(struct tn_view, reserved2, 72);

TN_LAYOUT_SIZE(struct tn_value, 16);
TN_LAYOUT_AT(struct tn_value, u, 0);
TN_LAYOUT_AT(struct tn_value, kind, 8);
TN_LAYOUT_AT(struct tn_value, elem, 9);
TN_LAYOUT_AT(struct tn_value, reserved, 10);
TN_LAYOUT_AT(struct tn_value, count, 12);

TN_LAYOUT_SIZE(struct tn_call, 104);
TN_LAYOUT_AT(struct tn_call, host, 0);
TN_LAYOUT_AT(struct tn_call, cell, 8);
TN_LAYOUT_AT(struct tn_call, op, 16);
TN_LAYOUT_AT(struct tn_call, user, 24);
TN_LAYOUT_AT(struct tn_call, stream, 32);
TN_LAYOUT_AT(struct tn_call, rng_seed, 40);
TN_LAYOUT_AT(struct tn_call, rng_offset, 48);
TN_LAYOUT_AT(struct tn_call, device, 56);
TN_LAYOUT_AT(struct tn_call, flags, 60);
TN_LAYOUT_AT(struct tn_call, keys, 64);
TN_LAYOUT_AT(struct tn_call, core, 72);
TN_LAYOUT_AT(struct tn_call, reserved, 80);

TN_LAYOUT_GROWS(struct tn_kernel_def, 96);
TN_LAYOUT_AT(struct tn_kernel_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_kernel_def, priority, 4);
TN_LAYOUT_AT(struct tn_kernel_def, op, 8);
TN_LAYOUT_AT(struct tn_kernel_def, key, 16);
TN_LAYOUT_AT(struct tn_kernel_def, schema, 24);
TN_LAYOUT_AT(struct tn_kernel_def, fn, 32);
TN_LAYOUT_AT(struct tn_kernel_def, user, 40);
TN_LAYOUT_AT(struct tn_kernel_def, dtypes, 48);
TN_LAYOUT_AT(struct tn_kernel_def, max_rank, 56);
TN_LAYOUT_AT(struct tn_kernel_def, flags, 60);
TN_LAYOUT_AT(struct tn_kernel_def, file, 64);
TN_LAYOUT_AT(struct tn_kernel_def, line, 72);
TN_LAYOUT_AT(struct tn_kernel_def, reserved, 76);
TN_LAYOUT_AT(struct tn_kernel_def, min_numel, 80);
TN_LAYOUT_AT(struct tn_kernel_def, max_numel, 88);

TN_LAYOUT_SIZE(struct tn_memory, 24);
TN_LAYOUT_AT(struct tn_memory, mem, 0);
TN_LAYOUT_AT(struct tn_memory, address, 8);
TN_LAYOUT_AT(struct tn_memory, size_bytes, 16);

TN_LAYOUT_GROWS(struct tn_foreign_def, 72);
TN_LAYOUT_AT(struct tn_foreign_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_foreign_def, dtype, 4);
TN_LAYOUT_AT(struct tn_foreign_def, ndim, 5);
TN_LAYOUT_AT(struct tn_foreign_def, read_only, 6);
TN_LAYOUT_AT(struct tn_foreign_def, reserved, 7);
TN_LAYOUT_AT(struct tn_foreign_def, device, 8);
TN_LAYOUT_AT(struct tn_foreign_def, reserved2, 12);
TN_LAYOUT_AT(struct tn_foreign_def, mem, 16);
TN_LAYOUT_AT(struct tn_foreign_def, address, 24);
TN_LAYOUT_AT(struct tn_foreign_def, offset_bytes, 32);
TN_LAYOUT_AT(struct tn_foreign_def, sizes, 40);
TN_LAYOUT_AT(struct tn_foreign_def, strides, 48);
TN_LAYOUT_AT(struct tn_foreign_def, deleter, 56);
TN_LAYOUT_AT(struct tn_foreign_def, ctx, 64);

TN_LAYOUT_GROWS(struct tn_host, 312);
TN_LAYOUT_AT(struct tn_host, struct_size, 0);
TN_LAYOUT_AT(struct tn_host, abi_major, 4);
TN_LAYOUT_AT(struct tn_host, abi_minor, 8);
TN_LAYOUT_AT(struct tn_host, reserved, 12);
TN_LAYOUT_AT(struct tn_host, version, 16);
TN_LAYOUT_AT(struct tn_host, fail, 24);
TN_LAYOUT_AT(struct tn_host, wrap, 32);
TN_LAYOUT_AT(struct tn_host, error_message, 40);
TN_LAYOUT_AT(struct tn_host, log, 48);
TN_LAYOUT_AT(struct tn_host, parallel_for, 56);
TN_LAYOUT_AT(struct tn_host, num_threads, 64);
TN_LAYOUT_AT(struct tn_host, new_output, 72);
TN_LAYOUT_AT(struct tn_host, scratch, 80);
TN_LAYOUT_AT(struct tn_host, op_name, 88);
TN_LAYOUT_AT(struct tn_host, backend_name, 96);
TN_LAYOUT_AT(struct tn_host, dtype_name, 104);
TN_LAYOUT_AT(struct tn_host, find_op, 112);
TN_LAYOUT_AT(struct tn_host, call, 120);
TN_LAYOUT_AT(struct tn_host, redispatch, 128);
TN_LAYOUT_AT(struct tn_host, tensor_retain, 136);
TN_LAYOUT_AT(struct tn_host, tensor_release, 144);
TN_LAYOUT_AT(struct tn_host, register_kernel, 152);
TN_LAYOUT_AT(struct tn_host, register_backend, 160);
TN_LAYOUT_AT(struct tn_host, register_layer, 168);
TN_LAYOUT_AT(struct tn_host, register_operator, 176);
TN_LAYOUT_AT(struct tn_host, register_interface, 184);
TN_LAYOUT_AT(struct tn_host, op_schema, 192);
TN_LAYOUT_AT(struct tn_host, layer_slot, 200);
TN_LAYOUT_AT(struct tn_host, tensor_from_memory, 208);
TN_LAYOUT_AT(struct tn_host, find_interface, 216);
TN_LAYOUT_AT(struct tn_host, call_n, 224);
TN_LAYOUT_AT(struct tn_host, redispatch_n, 232);
TN_LAYOUT_AT(struct tn_host, op_n_args, 240);
TN_LAYOUT_AT(struct tn_host, pinned_alloc, 248);
TN_LAYOUT_AT(struct tn_host, pinned_free, 256);
TN_LAYOUT_AT(struct tn_host, profiler_attach, 264);
TN_LAYOUT_AT(struct tn_host, profiler_detach, 272);
TN_LAYOUT_AT(struct tn_host, range_begin, 280);
TN_LAYOUT_AT(struct tn_host, range_end, 288);
TN_LAYOUT_AT(struct tn_host, compile, 296);
TN_LAYOUT_AT(struct tn_host, compiled_free, 304);

TN_LAYOUT_GROWS(struct tn_query, 64);
TN_LAYOUT_AT(struct tn_query, struct_size, 0);
TN_LAYOUT_AT(struct tn_query, host_major, 4);
TN_LAYOUT_AT(struct tn_query, host_minor, 8);
TN_LAYOUT_AT(struct tn_query, host_minor_min, 12);
TN_LAYOUT_AT(struct tn_query, plugin_major, 16);
TN_LAYOUT_AT(struct tn_query, plugin_minor, 20);
TN_LAYOUT_AT(struct tn_query, needs_minor, 24);
TN_LAYOUT_AT(struct tn_query, sanitizer, 28);
TN_LAYOUT_AT(struct tn_query, name, 32);
TN_LAYOUT_AT(struct tn_query, version, 40);
TN_LAYOUT_AT(struct tn_query, init, 48);
TN_LAYOUT_AT(struct tn_query, shutdown, 56);

TN_LAYOUT_SIZE(struct tn_desc, 1040);
TN_LAYOUT_AT(struct tn_desc, dtype, 0);
TN_LAYOUT_AT(struct tn_desc, ndim, 1);
TN_LAYOUT_AT(struct tn_desc, layout, 2);
TN_LAYOUT_AT(struct tn_desc, absent, 3);
TN_LAYOUT_AT(struct tn_desc, unknown, 4);
TN_LAYOUT_AT(struct tn_desc, reserved, 5);
TN_LAYOUT_AT(struct tn_desc, offset, 8);
TN_LAYOUT_AT(struct tn_desc, sizes, 16);
TN_LAYOUT_AT(struct tn_desc, strides, 528);

TN_LAYOUT_GROWS(struct tn_meta, 64);
TN_LAYOUT_AT(struct tn_meta, host, 0);
TN_LAYOUT_AT(struct tn_meta, op, 8);
TN_LAYOUT_AT(struct tn_meta, op_name, 16);
TN_LAYOUT_AT(struct tn_meta, default_dtype, 24);
TN_LAYOUT_AT(struct tn_meta, compute_dtype, 25);
TN_LAYOUT_AT(struct tn_meta, promote, 26);
TN_LAYOUT_AT(struct tn_meta, n_args, 27);
TN_LAYOUT_AT(struct tn_meta, n_out, 28);
TN_LAYOUT_AT(struct tn_meta, out_capacity, 32);
TN_LAYOUT_AT(struct tn_meta, out, 40);
TN_LAYOUT_AT(struct tn_meta, keep_args, 48);
TN_LAYOUT_AT(struct tn_meta, grow, 56);

TN_LAYOUT_SIZE(struct tn_saves, 24);
TN_LAYOUT_AT(struct tn_saves, args, 0);
TN_LAYOUT_AT(struct tn_saves, outs, 8);
TN_LAYOUT_AT(struct tn_saves, values, 16);

TN_LAYOUT_GROWS(struct tn_backward, 40);
TN_LAYOUT_AT(struct tn_backward, host, 0);
TN_LAYOUT_AT(struct tn_backward, args, 8);
TN_LAYOUT_AT(struct tn_backward, outs, 16);
TN_LAYOUT_AT(struct tn_backward, wanted, 24);
TN_LAYOUT_AT(struct tn_backward, n_grad_outs, 32);
TN_LAYOUT_AT(struct tn_backward, n_grad_ins, 36);

TN_LAYOUT_GROWS(struct tn_grad_def, 48);
TN_LAYOUT_AT(struct tn_grad_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_grad_def, n_inputs, 4);
TN_LAYOUT_AT(struct tn_grad_def, input_args, 8);
TN_LAYOUT_AT(struct tn_grad_def, saves, 16);
TN_LAYOUT_AT(struct tn_grad_def, fn, 24);
TN_LAYOUT_AT(struct tn_grad_def, nondiff_outs, 32);
TN_LAYOUT_AT(struct tn_grad_def, node_name, 40);

TN_LAYOUT_GROWS(struct tn_operator_def, 104);
TN_LAYOUT_AT(struct tn_operator_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_operator_def, flags, 4);
TN_LAYOUT_AT(struct tn_operator_def, schema, 8);
TN_LAYOUT_AT(struct tn_operator_def, functional, 16);
TN_LAYOUT_AT(struct tn_operator_def, form, 24);
TN_LAYOUT_AT(struct tn_operator_def, promote, 25);
TN_LAYOUT_AT(struct tn_operator_def, reserved, 26);
TN_LAYOUT_AT(struct tn_operator_def, meta, 32);
TN_LAYOUT_AT(struct tn_operator_def, body, 40);
TN_LAYOUT_AT(struct tn_operator_def, grad, 48);
TN_LAYOUT_AT(struct tn_operator_def, rng, 56);
TN_LAYOUT_AT(struct tn_operator_def, doc, 64);
TN_LAYOUT_AT(struct tn_operator_def, file, 72);
TN_LAYOUT_AT(struct tn_operator_def, line, 80);
TN_LAYOUT_AT(struct tn_operator_def, reserved2, 84);
TN_LAYOUT_AT(struct tn_operator_def, n_appended, 88);
TN_LAYOUT_AT(struct tn_operator_def, reserved3, 92);
TN_LAYOUT_AT(struct tn_operator_def, samples, 96);

TN_LAYOUT_GROWS(struct tn_memory_info, 24);
TN_LAYOUT_AT(struct tn_memory_info, struct_size, 0);
TN_LAYOUT_AT(struct tn_memory_info, reserved, 4);
TN_LAYOUT_AT(struct tn_memory_info, total_bytes, 8);
TN_LAYOUT_AT(struct tn_memory_info, free_bytes, 16);

TN_LAYOUT_GROWS(struct tn_backend_def, 208);
TN_LAYOUT_AT(struct tn_backend_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_backend_def, flags, 4);
TN_LAYOUT_AT(struct tn_backend_def, device_name, 8);
TN_LAYOUT_AT(struct tn_backend_def, alignment_bytes, 16);
TN_LAYOUT_AT(struct tn_backend_def, fork, 20);
TN_LAYOUT_AT(struct tn_backend_def, ctx, 24);
TN_LAYOUT_AT(struct tn_backend_def, device_count, 32);
TN_LAYOUT_AT(struct tn_backend_def, alloc, 40);
TN_LAYOUT_AT(struct tn_backend_def, free, 48);
TN_LAYOUT_AT(struct tn_backend_def, from_host, 56);
TN_LAYOUT_AT(struct tn_backend_def, to_host, 64);
TN_LAYOUT_AT(struct tn_backend_def, memory_info, 72);
TN_LAYOUT_AT(struct tn_backend_def, synchronize, 80);
TN_LAYOUT_AT(struct tn_backend_def, describe, 88);
TN_LAYOUT_AT(struct tn_backend_def, locality, 96);
TN_LAYOUT_AT(struct tn_backend_def, event_new, 104);
TN_LAYOUT_AT(struct tn_backend_def, event_free, 112);
TN_LAYOUT_AT(struct tn_backend_def, event_record, 120);
TN_LAYOUT_AT(struct tn_backend_def, event_query, 128);
TN_LAYOUT_AT(struct tn_backend_def, event_wait, 136);
TN_LAYOUT_AT(struct tn_backend_def, stream_new, 144);
TN_LAYOUT_AT(struct tn_backend_def, stream_free, 152);
TN_LAYOUT_AT(struct tn_backend_def, stream_synchronize, 160);
TN_LAYOUT_AT(struct tn_backend_def, event_elapsed, 168);
TN_LAYOUT_AT(struct tn_backend_def, host_alloc, 176);
TN_LAYOUT_AT(struct tn_backend_def, host_free, 184);
TN_LAYOUT_AT(struct tn_backend_def, copy, 192);
TN_LAYOUT_AT(struct tn_backend_def, reinit, 200);

TN_LAYOUT_GROWS(struct tn_layer_def, 32);
TN_LAYOUT_AT(struct tn_layer_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_layer_def, flags, 4);
TN_LAYOUT_AT(struct tn_layer_def, name, 8);
TN_LAYOUT_AT(struct tn_layer_def, state_dup, 16);
TN_LAYOUT_AT(struct tn_layer_def, state_free, 24);

TN_LAYOUT_GROWS(struct tn_profile_event, 88);
TN_LAYOUT_AT(struct tn_profile_event, struct_size, 0);
TN_LAYOUT_AT(struct tn_profile_event, kind, 4);
TN_LAYOUT_AT(struct tn_profile_event, name, 8);
TN_LAYOUT_AT(struct tn_profile_event, id, 16);
TN_LAYOUT_AT(struct tn_profile_event, parent, 24);
TN_LAYOUT_AT(struct tn_profile_event, time_ns, 32);
TN_LAYOUT_AT(struct tn_profile_event, thread, 40);
TN_LAYOUT_AT(struct tn_profile_event, device, 48);
TN_LAYOUT_AT(struct tn_profile_event, n_args, 52);
TN_LAYOUT_AT(struct tn_profile_event, args, 56);
TN_LAYOUT_AT(struct tn_profile_event, status, 64);
TN_LAYOUT_AT(struct tn_profile_event, reserved, 68);
TN_LAYOUT_AT(struct tn_profile_event, bytes, 72);
TN_LAYOUT_AT(struct tn_profile_event, current_bytes, 80);

TN_LAYOUT_GROWS(struct tn_profile_device_time, 48);
TN_LAYOUT_AT(struct tn_profile_device_time, struct_size, 0);
TN_LAYOUT_AT(struct tn_profile_device_time, device, 4);
TN_LAYOUT_AT(struct tn_profile_device_time, name, 8);
TN_LAYOUT_AT(struct tn_profile_device_time, id, 16);
TN_LAYOUT_AT(struct tn_profile_device_time, begin_ns, 24);
TN_LAYOUT_AT(struct tn_profile_device_time, ns, 32);
TN_LAYOUT_AT(struct tn_profile_device_time, stream, 40);

TN_LAYOUT_GROWS(struct tn_profiler_def, 48);
TN_LAYOUT_AT(struct tn_profiler_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_profiler_def, flags, 4);
TN_LAYOUT_AT(struct tn_profiler_def, ctx, 8);
TN_LAYOUT_AT(struct tn_profiler_def, begin, 16);
TN_LAYOUT_AT(struct tn_profiler_def, end, 24);
TN_LAYOUT_AT(struct tn_profiler_def, memory, 32);
TN_LAYOUT_AT(struct tn_profiler_def, device_time, 40);

TN_LAYOUT_GROWS(struct tn_compile_def, 48);
TN_LAYOUT_AT(struct tn_compile_def, struct_size, 0);
TN_LAYOUT_AT(struct tn_compile_def, timeout_ms, 4);
TN_LAYOUT_AT(struct tn_compile_def, compiler, 8);
TN_LAYOUT_AT(struct tn_compile_def, options, 16);
TN_LAYOUT_AT(struct tn_compile_def, name, 24);
TN_LAYOUT_AT(struct tn_compile_def, source, 32);
TN_LAYOUT_AT(struct tn_compile_def, source_bytes, 40);

TN_LAYOUT_GROWS(struct tn_compiled, 32);
TN_LAYOUT_AT(struct tn_compiled, struct_size, 0);
TN_LAYOUT_AT(struct tn_compiled, cached, 4);
TN_LAYOUT_AT(struct tn_compiled, object, 8);
TN_LAYOUT_AT(struct tn_compiled, object_bytes, 16);
TN_LAYOUT_AT(struct tn_compiled, log, 24);

TN_LAYOUT_GROWS(struct tn_compiler, 32);
TN_LAYOUT_AT(struct tn_compiler, struct_size, 0);
TN_LAYOUT_AT(struct tn_compiler, reserved, 4);
TN_LAYOUT_AT(struct tn_compiler, ctx, 8);
TN_LAYOUT_AT(struct tn_compiler, compile, 16);
TN_LAYOUT_AT(struct tn_compiler, release, 24);

TN_LAYOUT_SIZE(struct tn_sample_tensor, 40);
TN_LAYOUT_AT(struct tn_sample_tensor, sizes, 0);
TN_LAYOUT_AT(struct tn_sample_tensor, ndim, 8);
TN_LAYOUT_AT(struct tn_sample_tensor, layout, 9);
TN_LAYOUT_AT(struct tn_sample_tensor, dtype, 10);
TN_LAYOUT_AT(struct tn_sample_tensor, absent, 11);
TN_LAYOUT_AT(struct tn_sample_tensor, has_range, 12);
TN_LAYOUT_AT(struct tn_sample_tensor, low, 16);
TN_LAYOUT_AT(struct tn_sample_tensor, high, 24);
TN_LAYOUT_AT(struct tn_sample_tensor, diagonal, 32);

TN_LAYOUT_SIZE(struct tn_sample_arg, 32);
TN_LAYOUT_AT(struct tn_sample_arg, kind, 0);
TN_LAYOUT_AT(struct tn_sample_arg, n_tensors, 4);
TN_LAYOUT_AT(struct tn_sample_arg, tensors, 8);
TN_LAYOUT_AT(struct tn_sample_arg, value, 16);

TN_LAYOUT_SIZE(struct tn_sample, 32);
TN_LAYOUT_AT(struct tn_sample, op, 0);
TN_LAYOUT_AT(struct tn_sample, text, 8);
TN_LAYOUT_AT(struct tn_sample, args, 16);
TN_LAYOUT_AT(struct tn_sample, n_args, 24);
TN_LAYOUT_AT(struct tn_sample, automatic, 28);

/* end of asserts */

#endif
