# SPDX-License-Identifier: Apache-2.0
"""Composites of elementwise entries: the body that follows from `expr`, for backends without a kernel of their own.

The expression is read as gradients and bodies are (lang.py), with tensors where C has numbers: `a if c else b` becomes
`where`, `and` becomes `logical_and`, functions become the operators of that name. An entry whose expression would only
call itself has `primitive: yes` (a backend gives a kernel) or a body of its own. The generator holds that composites
end in primitives: a circle among them is an error.
"""

import ast

import emit_grads
import lang
from emit_elementwise import dtype_words

# Functions of expressions that are no operators: as an expression over x.
SPELLED_OUT = {
    'ncdf': '(erf(x * 0.70710678118654752440) + 1) * 0.5',
    'exp2': 'exp(x * 0.69314718055994530942)',
    'tan': 'sin(x) / cos(x)',
}
# name -> (of tensors, of a tensor and a number)
EXTREMES = {'min': ('minimum', 'clamp_max'), 'max': ('maximum', 'clamp_min')}


class Substitute(ast.NodeTransformer):
    def __init__(self, x):
        self.x = x

    def visit_Name(self, node):
        return self.x if node.id == 'x' else node


class ElementBlock(lang.Block):
    """Statements of an elementwise expression over whole tensors."""

    def write_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            value = self.write(node.operand)
            if value.is_tensor:
                return self.operator('logical_not', [value])
        return super().write_UnaryOp(node)

    def write_BoolOp(self, node):
        values = [self.write(v) for v in node.values]
        if not any(v.is_tensor for v in values):
            return super().write_BoolOp(node)
        name = 'logical_and' if isinstance(node.op, ast.And) else 'logical_or'
        result = values[0]
        for value in values[1:]:
            result = self.operator(name, [result, value])
        return result

    def write_IfExp(self, node):
        condition = self.write(node.test)
        if not condition.is_tensor:
            return super().write_IfExp(node)
        yes, no = self.write(node.body), self.write(node.orelse)
        if yes.is_tensor and no.is_tensor:
            return self.operator('where', [condition, yes, no])
        if no.is_tensor:
            return self.operator('masked_fill', [no, condition, yes])
        if yes.is_tensor:
            return self.operator('masked_fill', [yes, self.operator('logical_not', [condition]), no])
        raise lang.LangError('one side of `if` must hold a tensor')

    def write_Call(self, node):
        name = node.func.id
        if name in SPELLED_OUT:
            text = ast.parse(SPELLED_OUT[name], mode='eval').body
            return self.write(Substitute(node.args[0]).visit(text))
        values = [self.write(a) for a in node.args]
        if name in EXTREMES:
            if not values[0].is_tensor:
                values.reverse()
            of_tensors, of_number = EXTREMES[name]
            return self.operator(of_tensors if values[1].is_tensor else of_number, values)
        return self.operator(name, values)


def refusal(entry):
    """The call that refuses tensors of which `dtypes` knows nothing, unless promotion lifts them; '' if it takes all."""
    if 'expr' not in entry.fields:
        return ''
    words = dtype_words(entry)
    if entry.text('meta') != 'elementwise':
        return '' # numbers take part in the promotion
    if entry.text('promote') in ('int_to_float', 'compare', 'bool') or 'all' in words:
        return ''
    if 'int' in words:
        mask = '' if 'bool' in words else 'TN_DTYPES_INT | TN_DTYPES_FLOAT'
    else:
        mask = 'TN_DTYPES_FLOAT'
    tensors = sum(1 << i for i, a in enumerate(entry.schema.args) if a.is_tensor)
    return 'composite_takes(args, 0x%x, %s)' % (tensors, mask) if mask else ''


def compile_composite(entry, registry):
    """C text of the body, or ''. Entries whose expression may run on integers only have none."""
    if 'expr' not in entry.fields or 'body' in entry.fields or 'primitive' in entry.fields:
        return ''
    function = lang.Function(entry.schema, registry, 'args', False)
    block = ElementBlock(function, indent=2)
    if refusal(entry):
        block.try_call(refusal(entry))
    try:
        value = block.write(lang.parse(entry.text('expr')))
    except lang.LangError as e:
        raise entry.error('expr as a composite: %s; give it a body, or `primitive: yes`' % e, entry.line_of('expr'))
    block.put('out[0] = tn_value_tensor(%s);' % block.owned(value))
    return emit_grads.body_code(entry, function, block, True, entry.text('expr'))


def check_primitive(entry):
    """Who reads the entry shall see what a backend without its kernel does."""
    computes = 'meta' in entry.fields and not set(entry.flags) & {'view', 'multi_view', 'no_kernel', 'always_body'}
    has_body = bool(entry.body) or 'body' in entry.fields
    if 'primitive' in entry.fields and (has_body or not computes):
        raise entry.error('primitive: only an operator that has kernels and no body may say so', entry.line_of('primitive'))
    if computes and not has_body and 'primitive' not in entry.fields:
        raise entry.error('it has neither a body nor `primitive: yes`')


def check_ends(entry, state, path):
    """Depth first; state: 1 on the way, 2 done."""
    name = entry.schema.name
    if state.get(name) == 2:
        return
    if state.get(name) == 1:
        raise entry.error('its composite calls itself: %s' % ' -> '.join(path + [name]))
    state[name] = 1
    for form in entry.body_calls:
        check_ends(form.entry, state, path + [name])
    state[name] = 2


def compile_all(registry):
    """Sets entry.body of elementwise entries that have none, and checks that bodies of expressions end."""
    for entry in registry.entries:
        registry.called = {} # what the body calls, without what the gradients do
        entry.body = emit_grads.compile_body(entry, registry, refusal(entry)) or compile_composite(entry, registry)
        entry.body_calls = list(registry.called.values())
        check_primitive(entry)
    state = {}
    for entry in registry.entries:
        check_ends(entry, state, [])
