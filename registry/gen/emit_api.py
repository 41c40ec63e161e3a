# SPDX-License-Identifier: Apache-2.0
"""Typed calls: include/tenon/ops.h, include/tenon/scoped.h, ops_index.h, ops_api.c.

The bodies in ops_api.c are the hot path of every application: fixed arguments are packed without loops, every
check is one compare whose failure is a cold call, and nothing is cleared that will be written.
"""

from ctypes_map import c_ident, c_string, params_of, prototype, result_names, wrap
from text import banner

VALUE_PACK = {
    'int': ('i', 'INT'), 'float': ('f', 'FLOAT'), 'bool': ('i', 'BOOL'), 'Generator': ('g', 'GENERATOR'),
    'Tensor': ('t', 'TENSOR'), 'Layout': ('i', 'LAYOUT'), 'MemoryFormat': ('i', 'MEMORY_FORMAT'),
    'ScalarType': ('i', 'DTYPE'),
}
ELEM = {'int': ('ints', 'INT'), 'float': ('floats', 'FLOAT'), 'bool': ('bools', 'BOOL'), 'Scalar': ('p', 'SCALAR'),
        'Tensor': ('ts', 'TENSOR')}


def literal(member, value, kind, elem='0', count='0'):
    """tn_value_make of a member and a tag; kind may be an expression."""
    if member in ('s', 't', 'p', 'g', 'ts', 'ints', 'floats', 'bools'):
        bits = '(uint64_t)(uintptr_t)%s' % value
    elif member == 'i':
        bits = '(uint64_t)(%s)' % value
    else:
        bits = 'bits_of_%s(%s)' % (member, value)
    return 'tn_value_make(%s, TN_VALUE_TAG(%s, %s, %s))' % (bits, kind, elem, count)


def pack_value(arg, name):
    if arg.type == 'Scalar':
        return name
    if arg.is_tensor and not arg.optional:
        return 'packed(%s)' % name
    if arg.type == 'str':
        count = '(uint32_t)(%s ? strlen(%s) : 0)' % (name, name)
        return literal('s', name, '(%s ? TN_VAL_STRING : TN_VAL_NONE)' % name, '0', count)
    if arg.type == 'Device':
        return 'tn_value_device(%s)' % name
    member, kind = VALUE_PACK[arg.type]
    absent_possible = arg.type in ('Generator', 'Layout', 'MemoryFormat', 'ScalarType') or arg.optional
    kind = 'TN_VAL_' + kind
    return literal(member, name, '(%s ? %s : TN_VAL_NONE)' % (name, kind) if absent_possible else kind)


def pack_param(param):
    """C initialisers of the tn_values of one parameter."""
    arg = param.args[0]
    if param.kind == 'absent':
        return ['tn_value_none()']
    if param.kind == 'options':
        return ['option_dtype(options)', 'option_layout(options)', 'option_device(options)', 'option_pin(options)']
    if param.kind == 'list':
        member, elem = ELEM[arg.type]
        elem = 'OPTIONAL_TENSOR' if arg.optional_elem else elem
        count = '(uint32_t)n_' + param.name
        if not arg.optional:
            return [literal(member, param.name, 'TN_VAL_LIST', 'TN_VAL_' + elem, count)]
        return ['(%s ? %s : tn_value_none())' % (
            param.name, literal(member, param.name, 'TN_VAL_LIST', 'TN_VAL_' + elem, count))]
    if param.kind == 'pointer':
        member, kind = VALUE_PACK[arg.type]
        return ['(%s ? %s : tn_value_none())' % (param.name, literal(member, '*' + param.name, 'TN_VAL_' + kind))]
    return [pack_value(arg, param.name)]


def checks_of(form, fail):
    """Statements that refuse what no caller may pass; `fail` formats (call) into the failing return."""
    lines, op = [], c_string(form.schema.name)

    def check(condition, call):
        line = '  if (UNLIKELY(%s)) ' % condition
        lines.append(line + fail(call) if len(line + fail(call)) <= 100 else line.rstrip() + '\n    ' + fail(call))

    for param in params_of(form.schema):
        arg, name = param.args[0], param.name
        if param.kind == 'list':
            n = 'n_' + name
            check('(!%s && %s) || %s > UINT32_MAX' % (name, n, n), 'bad_list(%s, "%s", %s)' % (op, arg.name, n))
            if arg.is_tensor_list and not arg.optional_elem:
                check('null_at(%s, %s) < %s' % (name, n, n),
                      'no_element(%s, "%s", null_at(%s, %s))' % (op, arg.name, name, n))
        elif param.kind == 'value' and arg.is_tensor and not arg.optional:
            check('!' + name, 'no_tensor(%s, "%s")' % (op, arg.name))
        elif param.kind == 'value' and arg.type == 'Scalar':
            bad = '%s.kind > TN_VAL_COMPLEX' if arg.optional else '(uint8_t)(%s.kind - 1) > 3'
            check(bad % name, 'no_number(%s, "%s")' % (op, arg.name))
        elif param.kind == 'value' and not arg.optional and arg.type == 'str':
            check('!' + name, 'no_value(%s, "%s", "a string")' % (op, arg.name))
        elif param.kind == 'value' and not arg.optional and arg.type == 'ScalarType':
            check('!' + name, 'no_value(%s, "%s", "a dtype")' % (op, arg.name))
        elif param.kind == 'value' and not arg.optional and arg.type == 'Device':
            check('%s.backend == TN_BACKEND_NONE' % name, 'no_value(%s, "%s", "a device")' % (op, arg.name))
    return lines


def keys_of(form):
    parts = []
    for arg in form.schema.args:
        name = c_ident(arg.name)
        if arg.is_tensor:
            parts.append('(%s ? %s->keys : 0)' % (name, name) if arg.optional else name + '->keys')
        elif arg.is_tensor_list:
            parts.append('list_keys(%s, n_%s)' % (name, name))
    return ' | '.join(parts) or '0'


def expansions(form):
    """`int[2]` given as one number stands for two equal ones."""
    lines = []
    for param in params_of(form.schema):
        arg = param.args[0]
        if param.kind != 'list' or arg.fixed < 2:
            continue
        c_type = {'int': 'int64_t', 'float': 'double', 'bool': 'uint8_t'}[arg.type]
        name, all_name = param.name, 'all_' + param.name
        lines += ['  %s %s[%d];' % (c_type, all_name, arg.fixed),
                  '  if (%s && n_%s == 1) {' % (name, name),
                  '    for (n_%s = 0; n_%s < %d; n_%s++) %s[n_%s] = %s[0];'
                  % (name, name, arg.fixed, name, all_name, name, name),
                  '    %s = %s;' % (name, all_name), '  }']
    return lines


def emit_call(form, call_head, before=''):
    """The definition of one typed call; call_head(form, args) begins the call of the packed form."""
    schema = form.schema
    results = result_names(schema) if form.returns_results else []
    is_list = bool(results) and schema.results[0].list
    outs = ['out', 'out_n'] if is_list else ['out_' + n for n in results]
    lines = [prototype(form, head=before, tail=' {')]
    op = c_string(schema.name)
    for out in (['out_n'] if is_list else outs):
        lines.append('  if (UNLIKELY(!%s)) return no_result(%s, "%s");' % (out, op, out))
    if is_list:
        lines.append('  if (UNLIKELY(!out && capacity)) return no_result(%s, "out");' % op)
        fail = lambda call: '{\n    *out_n = 0;\n    return %s;\n  }' % call
    elif len(outs) == 1:
        fail = lambda call: 'return *%s = NULL, %s;' % (outs[0], call)
    elif outs:
        fail = lambda call: 'return %s = NULL, %s;' % (' = '.join('*' + o for o in outs), call)
    else:
        fail = lambda call: 'return %s;' % call
    lines += checks_of(form, fail) + expansions(form)
    values = [v for p in params_of(schema) for v in pack_param(p)]
    if values:
        lines.append('  const tn_value args[%d] = {' % len(values))
        lines += ['      %s%s' % (v, ',' if i + 1 < len(values) else '};') for i, v in enumerate(values)]
    call = call_head(form, 'args' if values else 'NULL')
    lines += emit_results(outs, is_list, call)
    return '\n'.join(lines + ['}', ''])


def emit_results(outs, is_list, call):
    if not outs:
        return ['  return %sNULL);' % call.replace(' ' * 21, ' ' * 9)]
    if is_list:
        return ['  tn_value list = {.u = {.p = out}, .kind = TN_VAL_LIST, .elem = TN_VAL_TENSOR,',
                '                   .count = capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity};',
                '  tn_status status = %s&list);' % call,
                '  *out_n = LIKELY(status == TN_OK) ? list.count : 0;',
                '  return status;']
    if len(outs) == 1:
        return ['  tn_value returned;', '  tn_status status = %s&returned);' % call,
                '  *%s = LIKELY(status == TN_OK) ? returned.u.t : NULL;' % outs[0], '  return status;']
    lines = ['  tn_value returned[%d] = {0};' % len(outs), '  tn_status status = %sreturned);' % call]
    for i, out in enumerate(outs):
        lines.append('  *%s = LIKELY(status == TN_OK) ? returned[%d].u.t : NULL;' % (out, i))
    return lines + ['  return status;']


PACK_HELPERS = r'''
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Failures: out of line, so that a good call pays one compare for each. */
#define COLD __attribute__((cold, noinline, unused))

COLD static tn_status no_tensor(const char *op, const char *arg) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: argument '%s' is NULL; a tensor was expected", op, arg);
}

COLD static tn_status no_result(const char *op, const char *arg) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: '%s' is NULL; a place for the result was expected", op, arg);
}

COLD static tn_status no_number(const char *op, const char *arg) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "%s: argument '%s' holds no number; tn_int, tn_float or tn_bool make one", op, arg);
}

COLD static tn_status no_value(const char *op, const char *arg, const char *expected) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: argument '%s' is absent; %s was expected", op, arg, expected);
}

COLD static tn_status bad_list(const char *op, const char *arg, size_t n) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: argument '%s' says %zu entries; %s", op, arg, n,
                 n > UINT32_MAX ? "a list holds fewer than 2^32" : "but the list is NULL");
}

COLD static tn_status no_element(const char *op, const char *arg, size_t i) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: entry %zu of '%s' is NULL; a tensor was expected", op, i, arg);
}

/* Position of the first NULL, n if there is none. */
__attribute__((unused)) static inline size_t null_at(tn_tensor *const *ts, size_t n) {
  size_t i = 0;
  while (i < n && ts[i]) i++;
  return i;
}

__attribute__((unused)) static inline uint64_t bits_of_f(double f) {
  uint64_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}
/* A required tensor. */
__attribute__((unused)) static inline tn_value packed(tn_tensor *t) {
  return tn_value_make((uint64_t)(uintptr_t)t, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
}

/* The four arguments that tn_options stands for. */
__attribute__((unused)) static inline tn_value option_dtype(const tn_options *options) {
  return tn_value_dtype(options ? options->dtype : TN_DTYPE_NONE);
}
__attribute__((unused)) static inline tn_value option_layout(const tn_options *options) {
  const tn_layout layout = options ? options->layout : TN_LAYOUT_NONE;
  return tn_value_make((uint64_t)layout, layout ? TN_VALUE_TAG(TN_VAL_LAYOUT, 0, 0) : 0);
}
__attribute__((unused)) static inline tn_value option_device(const tn_options *options) {
  return options && options->has_device ? tn_value_device(options->device) : tn_value_none();
}
__attribute__((unused)) static inline tn_value option_pin(const tn_options *options) {
  return options && options->pin_memory ? tn_value_bool(true) : tn_value_none();
}

'''


KEY_HELPER = r'''__attribute__((unused)) static inline uint64_t list_keys(tn_tensor *const *ts, size_t n) {
  uint64_t keys = 0;
  for (size_t i = 0; i < n; i++) keys |= ts[i] ? ts[i]->keys : 0;
  return keys;
}

'''


def core_call(form, args):
    """How libtenon itself runs a packed call; the results' place follows."""
    sure = any(a.is_tensor and not a.list and not a.optional for a in form.schema.args)
    keys, device = keys_of(form), [i for i, a in enumerate(form.schema.args) if a.type == 'Device']
    if device:
        keys, sure = 'tni_keys_on(%s, &args[%d])' % (keys, device[0]), True
    call = 'tni_call_inline(&tni_op_table[TNI_OP_%s], %s, %s,\n%s%s, '
    return call % (form.ident, keys, 'true' if sure else 'false', ' ' * 35, args)


def emit_ops_api(registry):
    head = banner('Bodies of the typed calls: check handles, pack the arguments, call the operator.')
    head += ('#include <string.h>\n#include <tenon/kit/status.h>\n#include <tenon/ops.h>\n\n'
             '#include "core/dispatch/dispatch.h"\n#include "ops_index.h"\n')
    return head + PACK_HELPERS + KEY_HELPER + '\n'.join(emit_call(f, core_call) for f in registry.forms)


def emit_ops_h(registry):
    parts = [banner('Every operator as a typed call. Tensor arguments are borrowed; results are owned by the\n'
                    ' * caller and NULL on failure. In-place (`_`) and `_out` forms write into their argument.\n'
                    ' * `tenon explain OPERATOR` prints everything that is known about one.'),
             '#ifndef TENON_OPS_H\n#define TENON_OPS_H\n\n#include <tenon/tensor.h>\n\n'
             '#ifdef __cplusplus\nextern "C" {\n#endif\n\n']
    for entry in registry.entries:
        parts.append('/* %s\n' % entry.text('doc').strip())
        parts += [' * %s\n' % f.schema.text() for f in entry.forms]
        parts.append(' */\n')
        parts += [prototype(f, head='TN_EXPORT ') + '\n' for f in entry.forms]
        parts.append('\n')
    parts.append('#ifdef __cplusplus\n}\n#endif\n#endif\n')
    return ''.join(parts)


def scoped_call(form):
    """The tns_ form, or None if the operator does not return exactly one tensor."""
    functional = form.kind == 'functional' and form.returns_results
    in_place = len(form.schema.results) == 1 and form.schema.args and form.schema.args[0].writes
    if functional and (len(form.schema.results) != 1 or form.schema.results[0].list):
        return None
    if not functional and (not in_place or form.kind == 'out' or form.schema.results[0].list):
        return None
    params = params_of(form.schema)
    decls = [d for p in params for d in p.decls] or ['void']
    names = [n for p in params if p.kind != 'absent' for n in ([p.name, 'n_' + p.name] if p.kind == 'list' else [p.name])]
    required = [p.name for p in params if p.kind == 'value' and p.args[0].is_tensor and not p.args[0].optional]
    lists = [p.name for p in params if p.kind == 'list' and p.args[0].is_tensor_list and not p.args[0].optional_elem]
    start = 'static inline tn_tensor *%s(' % form.scoped_name
    lines = [wrap(start, decls, ') {', 40)]
    if required:
        lines.append('  if (%s) return NULL;' % ' || '.join('!' + n for n in required))
    for name in lists:
        lines.append('  for (size_t i = 0; %s && i < n_%s; i++) {\n    if (!%s[i]) return NULL;\n  }'
                     % (name, name, name))
    if functional:
        lines.append('  tn_tensor *made = NULL;')
        names.append('&made')
    call = wrap('  if (tn_scope_note(%s(' % form.c_name, names, ')) != TN_OK) return NULL;', 6)
    lines += [call, '  return tn_scope_add(made);' if functional else '  return %s;' % names[0], '}']
    return '\n'.join(lines) + '\n'


def emit_scoped_h(registry):
    parts = [banner('Operators for use inside a scope (tn_scope_begin): the scope owns what they return. A NULL\n'
                    ' * tensor goes through silently and the first failure is kept, so a chain is checked once, at\n'
                    ' * its end. In-place forms return their argument.'),
             '#ifndef TENON_SCOPED_H\n#define TENON_SCOPED_H\n\n#include <tenon/ops.h>\n\n'
             '#ifdef __cplusplus\nextern "C" {\n#endif\n\n']
    parts += [c + '\n' for c in (scoped_call(f) for f in registry.forms) if c]
    parts.append('#ifdef __cplusplus\n}\n#endif\n#endif\n')
    return ''.join(parts)


def emit_ops_index(registry):
    lines = [banner('Numbers of the built-in operators: positions in tni_builtin_ops and tni_op_table.'),
             '#ifndef TENON_OPS_INDEX_H\n#define TENON_OPS_INDEX_H\n\nenum {\n']
    lines += ['  TNI_OP_%s = %d,\n' % (f.ident, f.index) for f in registry.forms]
    return ''.join(lines) + '  TNI_OP_COUNT = %d\n};\n\n#endif\n' % len(registry.forms)
