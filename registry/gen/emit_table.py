# SPDX-License-Identifier: Apache-2.0
"""The operator table: ops_table.c, and ops_rules.h with the prototypes of every C function that entries name."""

import ast

from ctypes_map import c_string
from entry import FLAGS, PROMOTE
from text import banner


def flag_words(entry):
    words = [FLAGS[f] for f in entry.flags]
    if entry.elementwise:
        words.append('TN_OP_ELEMENTWISE')
    if 'multi_view' in entry.flags and 'view' not in entry.flags:
        words.append('TN_OP_VIEW')
    return ' | '.join(words) or '0'


def body_name(entry):
    name = entry.c_function('body')
    if name:
        return 'tn_body_' + name
    return 'tn_body_expr_' + entry.functional.ident if entry.body else None


def rng_expression(entry):
    """C text of the `rng:` field: integers, numel and integer arguments under + - * //."""
    text, line = entry.text('rng'), entry.line_of('rng')

    def walk(node):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return 'INT64_C(%d)' % node.value
        if isinstance(node, ast.Name) and node.id == 'numel':
            return 'numel'
        if isinstance(node, ast.Name):
            for i, arg in enumerate(entry.schema.args):
                if arg.name == node.id and arg.type == 'int' and not arg.list and not arg.optional:
                    return 'args[%d].u.i' % i
        ops = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.FloorDiv: '/'}
        if isinstance(node, ast.BinOp) and type(node.op) in ops:
            return '(%s %s %s)' % (walk(node.left), ops[type(node.op)], walk(node.right))
        raise entry.error('rng: numbers, numel and integer arguments under + - * // were expected', line)

    try:
        tree = ast.parse(text.strip(), mode='eval')
    except SyntaxError:
        raise entry.error("rng: '%s' is no expression" % text, line)
    return walk(tree.body)


def form_word(form):
    """An entry that exists in place only (fill_, _fused_adam_) is an in-place form of its own."""
    if form.kind == 'functional' and any(a.writes for a in form.schema.args):
        return 'INPLACE' if form.schema.args[0].writes else 'OUT'
    return {'functional': 'FUNCTIONAL', 'inplace': 'INPLACE', 'out': 'OUT'}[form.kind]


def emit_def(form, with_samples=False):
    """with_samples: the record points to samples_IDENT (operators of plugins; those of libtenon have a library of samples)."""
    entry = form.entry
    rows = ['.struct_size = sizeof(tn_operator_def)', '.flags = ' + flag_words(entry),
            '.schema = ' + c_string(form.schema.text())]
    if form.kind != 'functional':
        rows.append('.functional = ' + c_string(entry.schema.name))
    rows += ['.form = TN_FORM_' + form_word(form), '.promote = ' + PROMOTE[entry.text('promote', 'none')]]
    if 'meta' in entry.fields:
        rows.append('.meta = tn_meta_' + entry.text('meta'))
    if body_name(entry):
        rows.append('.body = ' + body_name(entry))
    if entry.grad:
        rows.append('.grad = &tni_formula_' + entry.functional.ident)
    if 'rng' in entry.fields:
        rows.append('.rng = rng_' + entry.functional.ident)
    if entry.appended:
        rows.append('.n_appended = %d' % entry.appended)
    rows += ['.doc = ' + c_string(entry.text('doc').strip()), '.file = ' + c_string(entry.file),
             '.line = %d' % entry.line]
    if with_samples and form is entry.functional and entry.samples:
        rows.append('.samples = samples_' + form.ident)
    body = ''.join('    %s,\n' % r for r in rows)
    return 'static const tn_operator_def def_%s = {\n%s};\n' % (form.ident, body)


def emit_rng(entry):
    if 'rng' not in entry.fields:
        return ''
    return ('static int64_t rng_%s(const tn_value *args, int64_t numel) {\n  (void)args;\n'
            '  (void)numel;\n  return %s;\n}\n\n' % (entry.functional.ident, rng_expression(entry)))


def emit_ops_table(registry):
    parts = [banner('The operator table that the core builds its records from.'),
             '#include <tenon/operator.h>\n\n#include "core/dispatch/dispatch.h"\n#include "ops_rules.h"\n\n']
    parts += [emit_rng(e) for e in registry.entries]
    parts += [emit_def(f) + '\n' for f in registry.forms]
    parts.append('const tn_operator_def *const tni_builtin_ops[] = {\n')
    parts += ['    &def_%s,\n' % f.ident for f in registry.forms]
    parts.append('    NULL};\n')
    return ''.join(parts)


def rule_prototypes(entries):
    """Prototypes of the meta rules, bodies and gradients that entries name."""
    metas, bodies, grads = set(), set(), set()
    for entry in entries:
        if 'meta' in entry.fields:
            metas.add('tn_meta_' + entry.text('meta'))
        if body_name(entry):
            bodies.add(body_name(entry))
        if entry.grad and entry.grad.c_name:
            grads.add('tn_grad_' + entry.grad.c_name)
    lines = ['tn_status %s(tn_meta *meta, const tn_value *args);\n' % n for n in sorted(metas)]
    lines += ['tn_status %s(tn_call *call, const tn_value *args, tn_value *out);\n' % n for n in sorted(bodies)]
    lines += ['tn_status %s(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins);\n' % n
              for n in sorted(grads)]
    return lines


def emit_ops_rules(registry):
    lines = [banner('C functions that entries name: meta rules, bodies, gradients. Their files include this.'),
             '#ifndef TENON_OPS_RULES_H\n#define TENON_OPS_RULES_H\n\n#include <tenon/operator.h>\n\n']
    lines += rule_prototypes(registry.entries)
    lines += ['extern const tn_grad_def tni_formula_%s;\n' % e.functional.ident for e in registry.entries if e.grad]
    return ''.join(lines) + '\n#endif\n'
