# SPDX-License-Identifier: Apache-2.0
"""The `samples:` lines of entries: Python tuples in schema order, checked against the schema.

Elementwise entries get samples by themselves; ranges, dtypes and numbers for those come from the entry's first
written sample, so that `log` stays positive and `where` gets its condition.
"""

import ast
from dataclasses import dataclass, field, replace
from typing import Any, List, Optional

from schema import DTYPES, LAYOUTS, MEMORY_FORMATS, REDUCTIONS

LAYOUT_NAMES = {'contiguous': 0, 'transposed': 1, 'sliced': 2, 'expanded': 3, 'channels_last': 4,
                'flipped': 5}


class SampleError(Exception):
    pass


@dataclass
class Tensor:
    sizes: List[int]
    layout: str = 'contiguous'
    dtype: str = ''
    low: Optional[float] = None
    high: Optional[float] = None
    diagonal: float = 0.0
    absent: bool = False


@dataclass
class Value:
    """kind: default, none, tensor, tensors, tested_dtype, or the type name of a plain value."""
    kind: str
    value: Any = None


@dataclass
class Sample:
    text: str
    values: List[Value] = field(default_factory=list)
    automatic: bool = False


TESTED = object()


def number(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in ('inf', 'nan'):
        return float(node.id)
    raise SampleError('a number was expected, not %s' % ast.unparse(node))


def tensor(node):
    sizes = [number(a) for a in node.args]
    if any(type(s) is not int or s < 0 for s in sizes):
        raise SampleError('T(...): sizes are whole numbers from 0')
    made = Tensor(sizes)
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if keyword.arg == 'dtype' and value in DTYPES:
            made.dtype = value
        elif keyword.arg == 'strides' and value in LAYOUT_NAMES:
            made.layout = value
        elif keyword.arg in ('low', 'high', 'diagonal'):
            setattr(made, keyword.arg, float(number(keyword.value)))
        else:
            raise SampleError('T(...): %s=%s is none of dtype, strides, low, high, diagonal' %
                              (keyword.arg, ast.unparse(keyword.value)))
    if (made.low is None) != (made.high is None):
        made.low, made.high = (0.0 if made.low is None else made.low), (made.low or 0.0) + 1 if made.high is None \
            else made.high
    if made.layout == 'transposed' and len(sizes) < 2 or made.layout != 'contiguous' and not sizes:
        raise SampleError("T(...): strides='%s' needs more dims" % made.layout)
    if made.diagonal and len(sizes) < 2:
        raise SampleError('T(...): diagonal needs a matrix')
    if made.layout == 'channels_last' and len(sizes) < 3:
        raise SampleError("T(...): strides='channels_last' needs at least 3 dims")
    return made


def plain(node):
    """Python value of a node: Tensor, TESTED, None, number, string, list of those."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'T':
        return tensor(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'S' and len(node.args) == 1:
        return number(node.args[0])
    if isinstance(node, ast.Name) and node.id == 'TESTED':
        return TESTED
    if isinstance(node, ast.Name) and node.id in REDUCTIONS:
        return REDUCTIONS[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [plain(e) for e in node.elts]
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
        return node.value
    return number(node)


def fits(kind, x):
    is_int = type(x) is int
    return {'int': is_int, 'float': is_int or isinstance(x, float), 'bool': isinstance(x, bool),
            'Scalar': isinstance(x, (bool, int, float)), 'str': isinstance(x, str), 'ScalarType': x in DTYPES if
            isinstance(x, str) else False, 'Layout': isinstance(x, str) and x in LAYOUTS,
            'MemoryFormat': isinstance(x, str) and x in MEMORY_FORMATS,
            'Tensor': isinstance(x, Tensor)}.get(kind, False)


def typed(arg, x):
    """The Value of x as argument arg."""
    if x is None:
        if not arg.optional:
            raise SampleError("'%s' may not be None" % arg.name)
        return Value('none')
    if x is TESTED:
        if arg.type != 'ScalarType':
            raise SampleError("TESTED is a dtype, '%s' is of type %s" % (arg.name, arg.type_text))
        return Value('tested_dtype')
    if arg.list:
        items = x if isinstance(x, list) else [x] * arg.fixed
        if arg.type == 'Tensor' and arg.optional_elem:
            items = [Tensor([], absent=True) if i is None else i for i in items]
        if not items and not isinstance(x, list) or not all(fits(arg.type, i) for i in items):
            raise SampleError("'%s' is of type %s" % (arg.name, arg.type_text))
        return Value('tensors' if arg.type == 'Tensor' else arg.type + '[]', items)
    if not fits(arg.type, x):
        raise SampleError("'%s' is of type %s" % (arg.name, arg.type_text))
    return Value('tensor' if arg.type == 'Tensor' else arg.type, float(x) if arg.type == 'float' else x)


def parse_sample(schema, text):
    try:
        call = ast.parse('f(%s)' % text, mode='eval').body
    except SyntaxError as e:
        raise SampleError('no Python tuple: %s' % e.msg)
    if len(call.args) > len(schema.args):
        raise SampleError('%d values for %d arguments' % (len(call.args), len(schema.args)))
    given = {a.name: plain(n) for a, n in zip(schema.args, call.args)}
    for keyword in call.keywords:
        if schema.arg(keyword.arg or '') is None or keyword.arg in given:
            raise SampleError("there is no argument '%s' left" % keyword.arg)
        given[keyword.arg] = plain(keyword.value)
    sample = Sample(str(text))
    for arg in schema.args:
        if arg.name in given:
            sample.values.append(typed(arg, given[arg.name]))
        elif arg.has_default:
            sample.values.append(Value('default'))
        else:
            raise SampleError("'%s' is missing" % arg.name)
    return sample


# name, shapes by tensor position (cyclic), memory layouts by tensor position (cyclic)
AUTOMATIC = [
    ('same shapes', [[2, 3]], ['contiguous']),
    ('broadcast', [[2, 3], [3], [2, 1]], ['contiguous']),
    ('broadcast both ways', [[4, 1, 3], [2, 1], [3]], ['contiguous']),
    ('0-d', [[]], ['contiguous']),
    ('0-d with dims', [[2, 3], [], [3]], ['contiguous']),
    ('empty', [[0, 3]], ['contiguous']),
    ('transposed', [[3, 4]], ['transposed', 'contiguous']),
    ('sliced', [[3, 5]], ['sliced', 'sliced']),
    ('expanded', [[2, 3]], ['expanded', 'contiguous']),
    ('transposed and sliced', [[2, 3, 4]], ['transposed', 'sliced']),
    ('flipped', [[3, 4]], ['flipped', 'contiguous']),
    ('more than one vector', [[2, 37]], ['contiguous']),
]
# These differ from the others only if there is more than one tensor.
SEVERAL_TENSORS = ('broadcast', 'broadcast both ways', '0-d with dims', 'transposed and sliced')


def fallback(arg):
    """A value for an argument that neither a sample nor a default gives."""
    if arg.is_tensor:
        return Value('tensor', Tensor([]))
    made = {'Scalar': 2, 'int': 1, 'float': 0.5, 'bool': True}.get(arg.type)
    if arg.list or made is None:
        raise SampleError("automatic samples need a written one that gives '%s'" % arg.name)
    return Value(arg.type, made)


def automatic_samples(schema, written):
    base = written[0].values if written else [Value('default') if a.has_default else fallback(a) for a in schema.args]
    places = [i for i, v in enumerate(base) if v.kind == 'tensor']
    samples = []
    for name, shapes, layouts in AUTOMATIC:
        if len(places) == 1 and name in SEVERAL_TENSORS:
            continue
        values = list(base)
        for k, i in enumerate(places):
            layout, sizes = layouts[k % len(layouts)], shapes[k % len(shapes)]
            values[i] = Value('tensor', replace(base[i].value, sizes=list(sizes), layout=layout))
        samples.append(Sample(name, values, True))
    numbers = [i for i, a in enumerate(schema.args) if a.type == 'Scalar' and base[i].kind == 'default'
               and a.default is not None]
    if numbers:
        values = list(samples[0].values)
        for i in numbers:
            values[i] = Value('Scalar', 2)
        samples.append(Sample('other numbers', values, True))
    return samples


def samples_of(entry):
    written = []
    items = entry.fields.get('samples', [])
    if isinstance(items, str):
        items = [items]
    for item in items:
        try:
            written.append(parse_sample(entry.schema, item))
        except SampleError as e:
            raise entry.error('sample "%s": %s' % (item, e), getattr(item, 'line', entry.line_of('samples')))
    if not entry.elementwise:
        return written
    try:
        return written + automatic_samples(entry.schema, written)
    except SampleError as e:
        raise entry.error(str(e))


def compile_all(registry):
    """Sets entry.samples."""
    for entry in registry.entries:
        entry.samples = samples_of(entry)
