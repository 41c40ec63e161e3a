# SPDX-License-Identifier: Apache-2.0
"""Schema text to Python objects: the generator's twin of registry/schema.c.

Grammar is ATen's: `name.overload(Type name=default, *, ...) -> results`; operators of plugins may say whose they are,
`acme::name`. Only what the generator emits code
for is accepted: results are Tensor or Tensor[]; a mistake is a SchemaError with the place in words.
"""

import re
from dataclasses import dataclass, field
from typing import Any, List, Optional

BASE_TYPES = {
    'Tensor': 'Tensor', 'Scalar': 'Scalar', 'int': 'int', 'SymInt': 'int', 'float': 'float', 'bool': 'bool',
    'str': 'str', 'ScalarType': 'ScalarType', 'Layout': 'Layout', 'Device': 'Device',
    'MemoryFormat': 'MemoryFormat', 'Generator': 'Generator',
}
LIST_TYPES = ('Tensor', 'Scalar', 'int', 'float', 'bool')

DTYPES = {
    'bool': 'TN_BOOL', 'uint8': 'TN_UINT8', 'int8': 'TN_INT8', 'int16': 'TN_INT16', 'int32': 'TN_INT32',
    'int64': 'TN_INT64', 'float16': 'TN_FLOAT16', 'bfloat16': 'TN_BFLOAT16', 'float32': 'TN_FLOAT32',
    'float64': 'TN_FLOAT64', 'long': 'TN_INT64', 'int': 'TN_INT32', 'short': 'TN_INT16', 'half': 'TN_FLOAT16',
    'float': 'TN_FLOAT32', 'double': 'TN_FLOAT64',
}
MEMORY_FORMATS = {
    'contiguous_format': 'TN_CONTIGUOUS_FORMAT', 'preserve_format': 'TN_PRESERVE_FORMAT',
    'channels_last': 'TN_CHANNELS_LAST', 'channels_last_3d': 'TN_CHANNELS_LAST_3D',
}
LAYOUTS = {'strided': 'TN_STRIDED'}
REDUCTIONS = {'Mean': 1, 'Sum': 2}


class SchemaError(Exception):
    pass


class Name(str):
    """A C constant as a default value (a dtype, a layout, a memory format)."""


@dataclass
class Arg:
    name: str
    type: str                    # a value of BASE_TYPES
    type_text: str               # as written, without the alias set: `SymInt[2]?`
    list: bool = False
    fixed: int = 0
    optional: bool = False
    optional_elem: bool = False
    has_default: bool = False
    default: Any = None
    default_text: str = ''
    keyword_only: bool = False
    alias: str = ''              # 'a', 'a!', 'a -> *'
    of_future: bool = False      # no caller of this tree gives it: see main.py --future

    @property
    def writes(self):
        return '!' in self.alias

    @property
    def is_tensor(self):
        return self.type == 'Tensor' and not self.list

    @property
    def is_tensor_list(self):
        return self.type == 'Tensor' and self.list

    def text(self, with_default=True):
        type_text = self.type_text
        if self.alias:
            type_text = type_text.replace('Tensor', 'Tensor(%s)' % self.alias, 1)
        text = '%s %s' % (type_text, self.name) if self.name else type_text
        return text + ('=' + self.default_text if with_default and self.has_default else '')


@dataclass
class Schema:
    base: str
    overload: str
    args: List[Arg] = field(default_factory=list)
    results: List[Arg] = field(default_factory=list)

    @property
    def word(self):
        """The base as formulas and C names have it: acme::f is acme_f."""
        return self.base.replace('::', '_')

    @property
    def name(self):
        return '%s.%s' % (self.base, self.overload) if self.overload else self.base

    def text(self):
        parts, starred = [], False
        for arg in self.args:
            if arg.keyword_only and not starred:
                parts.append('*')
                starred = True
            parts.append(arg.text())
        results = ', '.join(r.text() for r in self.results)
        if len(self.results) != 1:
            results = '(%s)' % results
        return '%s(%s) -> %s' % (self.name, ', '.join(parts), results)

    def arg(self, name) -> Optional[Arg]:
        return next((a for a in self.args if a.name == name), None)


def split_top(text):
    """Splits at commas outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, '', 0
    for i, c in enumerate(text):
        if quote:
            quote = '' if c == quote else quote
        elif c in '\'"':
            quote = c
        elif c in '([':
            depth += 1
        elif c in ')]':
            depth -= 1
        elif c == ',' and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [] if parts == [''] else parts


ARG = re.compile(r'(?P<base>\w+)(?:\((?P<alias>[^)]*)\))?(?P<q1>\?)?(?P<list>\[(?P<n>\d*)\])?(?P<q2>\?)?'
                 r'(?:\s+(?P<name>[A-Za-z_]\w*))?(?:\s*=\s*(?P<default>.+))?$')


def parse_atom(text, arg_type):
    if text in ('True', 'False'):
        value = text == 'True'
    elif re.fullmatch(r'-?\d+', text):
        value = int(text)
    elif re.fullmatch(r'-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?', text):
        value = float(text)
    elif len(text) >= 2 and text[0] in '\'"' and text[-1] == text[0]:
        value = text[1:-1]
    elif arg_type == 'ScalarType' and text in DTYPES:
        value = Name(DTYPES[text])
    elif arg_type == 'MemoryFormat' and text in MEMORY_FORMATS:
        value = Name(MEMORY_FORMATS[text])
    elif arg_type == 'Layout' and text in LAYOUTS:
        value = Name(LAYOUTS[text])
    elif arg_type == 'int' and text in REDUCTIONS:
        value = REDUCTIONS[text]
    else:
        raise SchemaError("default '%s' is no value of type %s" % (text, arg_type))
    return check_atom(value, text, arg_type)


def check_atom(value, text, arg_type):
    if arg_type == 'float' and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    fits = {'int': int, 'float': float, 'bool': bool, 'str': str, 'Scalar': (bool, int, float),
            'ScalarType': Name, 'MemoryFormat': Name, 'Layout': Name}.get(arg_type, ())
    if not isinstance(value, fits) or (arg_type == 'int' and isinstance(value, bool)):
        raise SchemaError("default '%s' is no value of type %s" % (text, arg_type))
    return value


def parse_default(text, arg):
    if text == 'None':
        if not arg.optional:
            raise SchemaError("argument '%s' has the default None but its type %s is not optional"
                              % (arg.name, arg.type_text))
        return None
    if not arg.list:
        return parse_atom(text, arg.type)
    if text.startswith('[') and text.endswith(']'):
        return [parse_atom(t, arg.type) for t in split_top(text[1:-1])]
    if not arg.fixed:
        raise SchemaError("default '%s' of '%s' is a number; a list needs brackets" % (text, arg.name))
    return [parse_atom(text, arg.type)] * arg.fixed


def parse_arg(text, what):
    m = ARG.match(text)
    if not m:
        raise SchemaError("%s '%s' is not of the form `Type name=default`" % (what, text))
    if m['base'] not in BASE_TYPES:
        raise SchemaError("%s '%s': unknown type '%s'" % (what, text, m['base']))
    is_list = m['list'] is not None
    if m['q2'] and not is_list:
        raise SchemaError("%s '%s': two question marks" % (what, text))
    base = BASE_TYPES[m['base']]
    if is_list and base not in LIST_TYPES:
        raise SchemaError("%s '%s': there are no lists of %s" % (what, text, m['base']))
    type_text = m['base'] + (m['q1'] or '') + (m['list'] or '') + (m['q2'] or '')
    arg = Arg(name=m['name'] or '', type=base, type_text=type_text, list=is_list,
              fixed=int(m['n']) if m['n'] else 0, optional=bool(m['q2'] if is_list else m['q1']),
              optional_elem=bool(is_list and m['q1']), alias=m['alias'] or '')
    if m['default'] is not None:
        arg.has_default, arg.default_text = True, m['default'].strip()
        arg.default = parse_default(arg.default_text, arg)
    return arg


def parse_schema(text):
    m = re.match(r'\s*((?:[A-Za-z_]\w*::)?[A-Za-z_]\w*)(?:\.(\w+))?\s*\(', text)
    if not m:
        raise SchemaError("schema '%s' does not begin with `name.overload(`" % text)
    arrow = text.rfind('->')
    close = text.rfind(')', 0, arrow)
    if arrow < 0 or close < 0 or text[close + 1:arrow].strip():
        raise SchemaError("schema '%s' has no `) -> results`" % text)
    schema = Schema(base=m[1], overload=m[2] or '')
    keyword_only = False
    for part in split_top(text[m.end():close]):
        if part == '*':
            keyword_only = True
            continue
        arg = parse_arg(part, 'argument')
        if not arg.name:
            raise SchemaError("argument '%s' has no name" % part)
        if schema.arg(arg.name):
            raise SchemaError("two arguments are named '%s'" % arg.name)
        arg.keyword_only = keyword_only
        schema.args.append(arg)
    if len(schema.args) > 64:
        raise SchemaError('%d arguments; at most 64 are possible' % len(schema.args))
    results = text[arrow + 2:].strip()
    if results.startswith('(') and results.endswith(')'):
        results = results[1:-1]
    schema.results = [parse_arg(part, 'result') for part in split_top(results)]
    for result in schema.results:
        if result.type != 'Tensor' or (result.list and len(schema.results) > 1):
            raise SchemaError("result '%s': results are Tensors, or one Tensor[]" % result.type_text)
    return schema
