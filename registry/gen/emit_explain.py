# SPDX-License-Identifier: Apache-2.0
"""explain.txt: everything that is known about each operator, as `tenon explain OPERATOR` prints it.

A block begins with `== NAME` for every form, so that `add_.Tensor` is found too; in-place and out forms point to
the entry that they are derived from and repeat nothing else.
"""

from ctypes_map import prototype
from emit_table import body_name


def names_of(schema, mask, args):
    items = schema.args if args else schema.results
    texts = []
    for i, item in enumerate(items):
        if mask >> i & 1:
            texts.append(item.name or ('result' if len(items) == 1 else 'result%d' % i))
    return texts


def saved_words(schema, saves):
    keeps = names_of(schema, saves.args, True) + names_of(schema, saves.outs, False)
    copies = [n + (' (sizes, dtype, device)' if schema.arg(n).type == 'Tensor' else '')
              for n in names_of(schema, saves.values, True)]
    return 'keeps %s; copies %s' % (', '.join(keeps) or 'nothing', ', '.join(copies) or 'nothing')


def section(title, lines):
    lines = [line for text in lines for line in text.rstrip('\n').split('\n')]
    return ['%s:' % title] + ['  ' + line if line else '' for line in lines]


def grad_section(entry):
    grad = entry.grad
    if not grad:
        if 'nondiff' in entry.flags:
            return ['gradient: none; results never require grad']
        if 'body' in entry.fields:
            return ['gradient: that of its body']
        return ['gradient: none; backward through it is an error']
    lines = []
    for item in grad.inputs:
        lines.append('%s: %s' % (entry.schema.args[item.arg_index].name, item.text))
        lines.append('  ' + saved_words(entry.schema, item.saves))
    out = section('gradient (%s)' % grad.node_name, lines)
    if grad.code:
        out += section('gradient in C', [grad.code])
    else:
        out.append('gradient in C: tn_grad_%s in registry/grads' % grad.c_name)
    return out


def elementwise_section(entry):
    code = entry.elementwise_code
    if not code:
        return []
    lines = ['expression: %s' % entry.text('expr').strip(), 'dtypes: %s' % ', '.join(code.words)]
    lines += section('expression in C', ['%s: %s' % (kind, text) for kind, text in
                                         (('floating', code.float_text), ('integer', code.int_text)) if text])
    return lines


def explain_entry(entry):
    lines = ['== %s' % entry.schema.name, entry.text('doc').strip(), 'entry: %s:%d' % (entry.file, entry.line)]
    lines += section('schema', [f.schema.text() for f in entry.forms])
    lines += section('C calls (tenon/ops.h)', [prototype(f) for f in entry.forms])
    if entry.flags:
        lines.append('flags: %s' % ', '.join(entry.flags))
    lines.append('shape, dtype and strides: %s' % (
        'tn_meta_%s in registry/meta' % entry.text('meta') if 'meta' in entry.fields else 'those of its body'))
    if entry.elementwise:
        lines.append('promotion: %s' % entry.text('promote', 'none'))
    for name, title in (('inverse', 'inverse of the view'), ('rng', 'random counters drawn'),
                        ('autocast', 'autocast class')):
        if name in entry.fields:
            lines.append('%s: %s' % (title, entry.text(name)))
    lines += elementwise_section(entry)
    if entry.body:
        lines += section('body in C', [entry.body])
    elif body_name(entry):
        lines.append('body: %s in registry/bodies' % body_name(entry))
    lines += grad_section(entry)
    lines += section('samples', [s.text + (' (automatic)' if s.automatic else '') for s in entry.samples] or ['none'])
    return '\n'.join(lines) + '\n\n'


def explain_form(form):
    entry = form.entry
    kind = {'inplace': 'In-place form', 'out': 'Out form'}[form.kind]
    lines = ['== %s' % form.schema.name, '%s of %s: %s' % (kind, entry.schema.name, entry.text('doc').strip()),
             'entry: %s:%d' % (entry.file, entry.line)]
    lines += section('schema', [form.schema.text()]) + section('C call (tenon/ops.h)', [prototype(form)])
    return '\n'.join(lines) + '\n\n'


def emit_explain(registry):
    parts = []
    for entry in registry.entries:
        parts.append(explain_entry(entry))
        parts += [explain_form(f) for f in entry.forms[1:]]
    return ''.join(parts)
