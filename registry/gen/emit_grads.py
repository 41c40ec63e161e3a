# SPDX-License-Identifier: Apache-2.0
"""ops_grads.c: gradient formulas as tn_backward_fn with exact saves, and expression bodies as kernels."""

from dataclasses import dataclass, field
from typing import List, Optional

import ast

import lang
from ctypes_map import c_string
from text import banner


@dataclass
class Input:
    """One differentiable argument."""
    arg_index: int
    text: str
    saves: lang.Saves
    lines: List[str] = field(default_factory=list)


@dataclass
class Gradient:
    inputs: List[Input]
    c_name: Optional[str]     # tn_grad_NAME, if a C function
    code: str                 # the emitted function, '' if a C function
    node_name: str = ''
    nondiff_outs: int = 0


def result_mask(entry, items, line):
    """Bits of the named results: `result1`, or names from the schema."""
    mask = 0
    for name in items:
        index = result_position(entry.schema, name)
        if index is None:
            raise entry.error("'%s' is no result" % name, line)
        mask |= 1 << index
    return mask


def result_position(schema, name):
    if name == 'result' and schema.results:
        return 0
    for i, result in enumerate(schema.results):
        if name in (result.name, 'result%d' % i, str(i)):
            return i
    return None


def as_items(value):
    return [value] if isinstance(value, str) else list(value)


def position(entry, name, line):
    for i, arg in enumerate(entry.schema.args):
        if arg.name == name and arg.type == 'Tensor':
            return i
    raise entry.error("grad: '%s' is no tensor argument" % name, line)


def compile_c_gradient(entry, c_name):
    """`grad: c:NAME` with `saves: {self: [self, other], ...}`: tensors and results by name; every number,
    string and list argument is copied."""
    saves_field = entry.fields.get('saves')
    if not isinstance(saves_field, dict):
        raise entry.error('grad: c:%s needs saves: {argument: [what its gradient reads], ...}' % c_name,
                          entry.line_of('grad'))
    values = sum(1 << i for i, a in enumerate(entry.schema.args) if a.type != 'Tensor')
    inputs = []
    for name, items in saves_field.items():
        line = getattr(items, 'line', entry.line_of('saves'))
        saves = lang.Saves(values=values)
        for item in as_items(items):
            item, _, described = item.partition('.')
            result = result_position(entry.schema, item)
            arg = next((i for i, a in enumerate(entry.schema.args) if a.name == item), None)
            if arg is None and result is None:
                raise entry.error("saves: '%s' is neither an argument nor a result" % item, line)
            if described:  # x.sizes: the descriptor of x
                saves.values |= 1 << arg if arg is not None else 0
            elif arg is None:
                saves.outs |= 1 << result
            elif entry.schema.args[arg].type == 'Tensor':
                saves.args |= 1 << arg
        inputs.append(Input(position(entry, name, line), 'c:' + c_name, saves))
    inputs.sort(key=lambda i: i.arg_index)
    return Gradient(inputs, c_name, '')


def compile_formula(function, entry, k, name, text):
    block = lang.Block(function)
    try:
        tree = lang.parse(text)
        if isinstance(tree, ast.Constant) and tree.value is None:
            return None
        value = block.write(tree)
        if not value.is_tensor:
            raise lang.LangError('a tensor was expected, a value of type %s came' % value.kind)
    except lang.LangError as e:
        raise entry.error('grad of %s: %s' % (name, e), getattr(text, 'line', entry.line_of('grad')))
    block.put('grad_ins[%d] = %s;' % (k, block.owned(value)))
    return Input(0, str(text).strip(), block.saves, block.lines)


def compile_gradient(entry, registry):
    grad = entry.fields.get('grad')
    if grad is None:
        return None
    nondiff = entry.fields.get('nondiff', [])
    nondiff_outs = result_mask(entry, as_items(nondiff), entry.line_of('nondiff'))
    if isinstance(grad, str):
        if not grad.startswith('c:'):
            raise entry.error('grad: {argument: formula, ...} or c:NAME was expected', entry.line_of('grad'))
        gradient = compile_c_gradient(entry, grad[2:].strip())
    else:
        gradient = compile_formulas(entry, registry, grad, nondiff_outs)
    gradient.nondiff_outs = nondiff_outs
    return gradient


def compile_formulas(entry, registry, grad, nondiff_outs):
    diff_results = sum(not nondiff_outs >> i & 1 for i in range(len(entry.schema.results)))
    function = lang.Function(entry.schema, registry, 'ctx->args', True, diff_results, in_plugin=registry.in_plugin)
    order = sorted(grad.items(), key=lambda item: position(entry, item[0], entry.line_of('grad')))
    inputs = []
    for name, text in order:
        if not isinstance(text, str) or text.startswith('c:'):
            raise entry.error('grad of %s: a formula was expected; a C function serves all arguments at once'
                              ' (grad: c:NAME)' % name, getattr(text, 'line', entry.line_of('grad')))
        compiled = compile_formula(function, entry, len(inputs), name, text)
        if compiled:
            compiled.arg_index = position(entry, name, text.line)
            inputs.append(compiled)
    if not inputs:
        raise entry.error('grad: no argument has a gradient; flag nondiff says so', entry.line_of('grad'))
    return Gradient(inputs, None, gradient_code(entry, function, inputs))


def local_lines(function):
    return ['  ' + decl for decls in function.locals.values() for decl in decls]


def gradient_code(entry, function, inputs):
    lines = ['static tn_status backward_%s(const tn_backward *ctx, tn_tensor *const *grad_outs,\n'
             '    tn_tensor **grad_ins) {' % entry.functional.ident]
    lines += local_lines(function)
    if function.n_temps:
        lines.append('  tn_tensor *t[%d] = {NULL};' % function.n_temps)
    if function.uses_status:
        lines.append('  tn_status status = TN_OK;')
    for k, compiled in enumerate(inputs):
        name = entry.schema.args[compiled.arg_index].name
        lines.append('  if (ctx->wanted & %d) { /* %s: %s */' % (1 << k, name, compiled.text))
        lines += compiled.lines + ['  }']
    if not any('grad_outs[' in line for line in lines[1:]):
        lines.insert(1, '  (void)grad_outs;')
    if function.uses_status:
        lines += ['done:', '  return finish(status, t, %d, grad_ins, %d);' % (function.n_temps, len(inputs))]
        if not function.n_temps:
            lines[-1] = '  return finish(status, NULL, 0, grad_ins, %d);' % len(inputs)
    elif function.n_temps:
        lines.append('  return finish(TN_OK, t, %d, grad_ins, %d);' % (function.n_temps, len(inputs)))
    else:
        lines.append('  return TN_OK;')
    return '\n'.join(lines + ['}', ''])


def compile_body(entry, registry, first=''):
    """C text of the body function if the body is an expression, else ''. first: a call that may refuse."""
    text = entry.fields.get('body')
    if text is None or entry.c_function('body'):
        return ''
    function = lang.Function(entry.schema, registry, 'args', False)
    block = lang.Block(function, indent=2)
    if first:
        block.try_call(first)
    results = entry.schema.results if entry.functional.returns_results else []
    try:
        tree = lang.parse(text)
        trees = tree.elts if isinstance(tree, ast.Tuple) else [tree]
        if results and results[0].list:
            raise lang.LangError('a Tensor[] result needs a C function (c:NAME)')
        values = [block.write(t) for t in trees]
        if len(values) == 1 and values[0].kind == 'tuple':
            values = values[0].items
        if results and (len(values) != len(results) or not all(v.is_tensor for v in values)):
            raise lang.LangError('%d tensor(s) expected, as the schema says' % len(results))
    except lang.LangError as e:
        raise entry.error('body: %s' % e, entry.line_of('body'))
    for i in range(len(results)):
        again = any(v.c == values[i].c for v in values[i + 1:])
        owned = 'tn_tensor_retain(%s)' % values[i].c if again else block.owned(values[i])
        block.put('out[%d] = tn_value_tensor(%s);' % (i, owned))
    return body_code(entry, function, block, bool(results))


def body_code(entry, function, block, has_results, text=None):
    n = function.n_temps
    lines = ['/* %s */' % (text or entry.text('body')).strip(),
             'tn_status tn_body_expr_%s(tn_call *call, const tn_value *args, tn_value *out) {'
             % entry.functional.ident, '  (void)call;']
    if not function.locals:
        lines.append('  (void)args;')
    if not has_results:
        lines.append('  (void)out;')
    lines += local_lines(function)
    if n:
        lines.append('  tn_tensor *t[%d] = {NULL};' % n)
    if function.uses_status:
        lines.append('  tn_status status = TN_OK;')
    lines += block.lines
    if function.uses_status:
        lines.append('done:')
    if n:
        lines.append('  release_all(t, %d);' % n)
    return '\n'.join(lines + ['  return %s;' % ('status' if function.uses_status else 'TN_OK'), '}', ''])


def camel(base):
    return ''.join(part[:1].upper() + part[1:] for part in base.split('_') if part)


def compile_all(registry, entries=None):
    """Sets entry.body and entry.grad of the entries (all of the registry's, if None)."""
    counts = {}
    for entry in registry.entries if entries is None else entries:
        entry.body = compile_body(entry, registry)
        entry.grad = compile_gradient(entry, registry)
        if entry.grad:
            name = camel(entry.schema.word)
            entry.grad.node_name = '%sBackward%d' % (name, counts.get(name, 0))
            counts[name] = counts.get(name, 0) + 1


def hex_mask(mask):
    return 'UINT64_C(0x%x)' % mask if mask else '0'


def grad_def(entry):
    grad, ident = entry.grad, entry.functional.ident
    fn = 'tn_grad_' + grad.c_name if grad.c_name else 'backward_' + ident
    saves = ''.join('    {.args = %s, .outs = %s, .values = %s},\n'
                    % tuple(hex_mask(m) for m in (i.saves.args, i.saves.outs, i.saves.values)) for i in grad.inputs)
    return ('static const uint8_t inputs_%s[] = {%s};\n'
            'static const tn_saves saves_%s[] = {\n%s};\n'
            'const tn_grad_def tni_formula_%s = {\n'
            '    .struct_size = sizeof(tn_grad_def),\n    .n_inputs = %d,\n    .input_args = inputs_%s,\n'
            '    .saves = saves_%s,\n    .fn = %s,\n    .nondiff_outs = %s,\n    .node_name = %s,\n};\n'
            % (ident, ', '.join(str(i.arg_index) for i in grad.inputs), ident, saves, ident, len(grad.inputs),
               ident, ident, fn, hex_mask(grad.nondiff_outs), c_string(grad.node_name)))


GRAD_HELPERS = r'''
#define TRY(expr)                               \
  do {                                          \
    if ((status = (expr)) != TN_OK) goto done;  \
  } while (0)
#define MAYBE __attribute__((unused)) static

/* Gives a temporary away. */
MAYBE tn_tensor *take(tn_tensor **t) {
  tn_tensor *taken = *t;
  *t = NULL;
  return taken;
}

MAYBE void release_all(tn_tensor **t, size_t n) {
  for (size_t i = 0; i < n; i++) tn_tensor_release(t[i]);
}

/* End of a backward function: temporaries go; after a failure the gradients made so far go too. */
MAYBE tn_status finish(tn_status status, tn_tensor **t, size_t n, tn_tensor **grad_ins, size_t n_ins) {
  release_all(t, n);
  for (size_t i = 0; status != TN_OK && i < n_ins; i++) {
    tn_tensor_release(grad_ins[i]);
    grad_ins[i] = NULL;
  }
  return status;
}

/* Entry i of a list, from the end if negative; the forward call has checked the range. */
MAYBE int64_t int_at(const int64_t *ints, size_t n, int64_t i) {
  if (i < 0) i += (int64_t)n;
  return i >= 0 && (size_t)i < n ? ints[i] : 0;
}

/* A matrix that lies as a row-major one does whose transpose it is. */
MAYBE bool is_column_major(tn_tensor *t) {
  const tn_view *v = tn_tensor_view(t);
  return v->ndim == 2 && v->sizes[0] > 1 && v->sizes[1] > 1 && v->strides[0] == 1 && v->strides[1] == v->sizes[0];
}

MAYBE int64_t int_floor_div(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

MAYBE int64_t int_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

MAYBE bool same_string(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

MAYBE tn_device value_device(const tn_value *v) {
  tn_device none = {.backend = TN_BACKEND_NONE};
  return v->kind == TN_VAL_DEVICE ? v->u.d : none;
}

MAYBE const int64_t *optional_int(const tn_value *v) { return v->kind == TN_VAL_NONE ? NULL : &v->u.i; }
MAYBE const double *optional_float(const tn_value *v) { return v->kind == TN_VAL_NONE ? NULL : &v->u.f; }
MAYBE const bool *optional_bool(const tn_value *v) {
  static const bool no = false, yes = true;
  return v->kind == TN_VAL_NONE ? NULL : v->u.i ? &yes : &no;
}

/* Arithmetic on Scalars: integers stay integers (and wrap), everything else is a double. */
MAYBE double scalar_double(tn_scalar a) { return a.kind == TN_VAL_FLOAT ? a.u.f : (double)a.u.i; }
MAYBE bool both_ints(tn_scalar a, tn_scalar b) { return a.kind != TN_VAL_FLOAT && b.kind != TN_VAL_FLOAT; }
MAYBE tn_scalar scalar_add(tn_scalar a, tn_scalar b) {
  if (both_ints(a, b)) return tn_int((int64_t)((uint64_t)a.u.i + (uint64_t)b.u.i));
  return tn_float(scalar_double(a) + scalar_double(b));
}
MAYBE tn_scalar scalar_sub(tn_scalar a, tn_scalar b) {
  if (both_ints(a, b)) return tn_int((int64_t)((uint64_t)a.u.i - (uint64_t)b.u.i));
  return tn_float(scalar_double(a) - scalar_double(b));
}
MAYBE tn_scalar scalar_mul(tn_scalar a, tn_scalar b) {
  if (both_ints(a, b)) return tn_int((int64_t)((uint64_t)a.u.i * (uint64_t)b.u.i));
  return tn_float(scalar_double(a) * scalar_double(b));
}
MAYBE tn_scalar scalar_div(tn_scalar a, tn_scalar b) { return tn_float(scalar_double(a) / scalar_double(b)); }
MAYBE tn_scalar scalar_pow(tn_scalar a, tn_scalar b) { return tn_float(pow(scalar_double(a), scalar_double(b))); }

'''


COMPOSITE_HELPERS = r'''/* A composite refuses what no kernel of its operator takes; tensors: bits of arguments, one of which may decide. */
MAYBE tn_status composite_takes(const tn_value *args, uint64_t tensors, tn_dtype_mask dtypes) {
  tn_dtype dtype = TN_FLOAT32;
  for (uint64_t m = tensors; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind != TN_VAL_TENSOR) continue;
    dtype = tn_tensor_dtype(v->u.t);
    if (dtypes & TN_DTYPE_BIT(dtype)) return TN_OK;
  }
  return tn_fail(TN_ERR_DTYPE, "dtype %s is not among those of this operator", tn_dtype_name(dtype));
}

'''


def emit_ops_grads(registry):
    parts = [banner('Gradients and bodies that are expressions of registry/ops: they call operators only. The text\n'
                    ' * of each expression stands above its statements; temporaries t[] are released at the end.'),
             '#include <math.h>\n#include <string.h>\n#include <tenon/ops.h>\n\n'
             '#include "core/autograd/autograd.h"\n#include "ops_rules.h"\n', GRAD_HELPERS, COMPOSITE_HELPERS]
    for entry in registry.entries:
        if entry.body:
            parts.append(entry.body + '\n')
        if entry.grad:
            parts += [entry.grad.code + '\n' if entry.grad.code else '', grad_def(entry) + '\n']
    return ''.join(parts)
