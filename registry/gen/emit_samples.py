# SPDX-License-Identifier: Apache-2.0
"""op_samples.c: a table of tenon/samples.h."""

from ctypes_map import c_string
from samples import LAYOUT_NAMES
from schema import DTYPES, LAYOUTS, MEMORY_FORMATS
from text import banner

SCALAR_KINDS = {bool: ('i', 'BOOL'), int: ('i', 'INT'), float: ('f', 'FLOAT')}
LIST_C = {'int[]': ('int64_t', 'ints', 'INT'), 'float[]': ('double', 'floats', 'FLOAT'),
          'bool[]': ('uint8_t', 'bools', 'BOOL'), 'Scalar[]': ('tn_value', 'p', 'SCALAR')}


def c_number(x):
    if isinstance(x, float):
        if x != x:
            return 'NAN'
        return repr(x) if abs(x) != float('inf') else 'INFINITY' if x > 0 else '-INFINITY'
    return str(int(x))


def scalar(x):
    member, kind = SCALAR_KINDS[type(x)]
    return '{.u = {.%s = %s}, .kind = TN_VAL_%s}' % (member, c_number(x), kind)


class Tables:
    """Static arrays that the samples of all operators share."""

    def __init__(self):
        self.lines, self.known = [], {}

    def array(self, c_type, prefix, items):
        key = (c_type, tuple(items))
        if key not in self.known:
            name = '%s_%d' % (prefix, len(self.known))
            self.known[key] = name
            self.lines.append('static const %s %s[] = {%s};\n' % (c_type, name, ', '.join(items) or '0'))
        return self.known[key]

    def tensor(self, t):
        fields = []
        if t.sizes:
            sizes = self.array('int64_t', 'sizes', [str(s) for s in t.sizes])
            fields += ['.sizes = ' + sizes, '.ndim = %d' % len(t.sizes)]
        if t.layout != 'contiguous':
            fields.append('.layout = %d' % LAYOUT_NAMES[t.layout])
        if t.dtype:
            fields.append('.dtype = ' + DTYPES[t.dtype])
        if t.absent:
            fields.append('.absent = true')
        if t.low is not None:
            fields += ['.has_range = true', '.low = ' + c_number(t.low), '.high = ' + c_number(t.high)]
        if t.diagonal:
            fields.append('.diagonal = ' + c_number(t.diagonal))
        return '{%s}' % (', '.join(fields) or '.ndim = 0')

    def plain(self, kind, x):
        if kind in LIST_C:
            c_type, member, elem = LIST_C[kind]
            items = [scalar(i) if kind == 'Scalar[]' else c_number(i) for i in x]
            name = self.array(c_type, 'list', items)
            text = '{.u = {.%s = %s}, .kind = TN_VAL_LIST, .elem = TN_VAL_%s, .count = %d}'
            return text % (member, name, elem, len(x))
        if kind == 'Scalar':
            return scalar(x)
        if kind == 'str':
            return '{.u = {.s = %s}, .kind = TN_VAL_STRING, .count = %d}' % (c_string(x), len(x.encode()))
        if kind in ('int', 'bool', 'float'):
            return scalar({'int': int, 'bool': bool, 'float': float}[kind](x))
        table, value_kind = {'ScalarType': (DTYPES, 'DTYPE'), 'Layout': (LAYOUTS, 'LAYOUT'),
                             'MemoryFormat': (MEMORY_FORMATS, 'MEMORY_FORMAT')}[kind]
        return '{.u = {.i = %s}, .kind = TN_VAL_%s}' % (table[x], value_kind)

    def arg(self, value):
        if value.kind in ('default', 'none', 'tested_dtype'):
            return '{.kind = TN_SAMPLE_%s}' % value.kind.upper()
        if value.kind in ('tensor', 'tensors'):
            tensors = [value.value] if value.kind == 'tensor' else value.value
            name = self.array('tn_sample_tensor', 'tensors', [self.tensor(t) for t in tensors]) if tensors else 'NULL'
            return '{.kind = TN_SAMPLE_%s, .n_tensors = %d, .tensors = %s}' % (value.kind.upper(), len(tensors), name)
        return '{.kind = TN_SAMPLE_VALUE, .value = %s}' % self.plain(value.kind, value.value)


END = '    {NULL, NULL, NULL, 0, false}};\n'


def emit_rows(tables, entry):
    """An entry's samples as rows of an array of tn_sample; what they point to is added to tables."""
    rows = []
    for sample in entry.samples:
        args = 'NULL'
        if sample.values:
            args = tables.array('tn_sample_arg', 'args', [tables.arg(v) for v in sample.values])
        rows.append('    {%s, %s, %s, %d, %s},\n' % (
            c_string(entry.schema.name), c_string(sample.text), args, len(sample.values),
            'true' if sample.automatic else 'false'))
    return rows


def emit_samples(registry):
    tables = Tables()
    rows = [row for entry in registry.entries for row in emit_rows(tables, entry)]
    return ''.join([banner('Samples of every operator, for tests and for `tenon check`.'),
                    '#include <math.h>\n\n#include "frontends/check/reference/samples.h"\n\n'] + tables.lines +
                   ['\nconst tn_sample tn_op_samples[] = {\n'] + rows + [END])
