# SPDX-License-Identifier: Apache-2.0
"""Values of the gradient language, and how one kind is read as another."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Val:
    """kind: tensor, int, float, bool, scalar, str, dtype, device, layout, memory_format, generator, ints, floats,
    bools, none, tuple; with optional = True where the value may be absent. c: C text; n: C text of a list's
    length; boxed: int, float or bool that may be absent, held as a `const tn_value *`."""
    kind: str
    c: str
    n: str = ''
    const: Any = None
    optional: bool = False
    is_temp: bool = False
    items: list = field(default_factory=list)

    @property
    def is_tensor(self):
        return self.kind == 'tensor'

    @property
    def boxed(self):
        return self.optional and self.kind in ('int', 'float', 'bool')


NONE = Val('none', 'NULL')

BOXED_MEMBER = {'int': '%s->u.i', 'float': '%s->u.f', 'bool': '(%s->u.i != 0)'}


def unwrap(value):
    """A boxed optional number as the number itself: the expression has tested that it is there."""
    if not value.boxed:
        return value
    return Val(value.kind, BOXED_MEMBER[value.kind] % value.c)


def as_double(value):
    value = unwrap(value)
    if value.kind == 'float':
        return value.c
    if value.const is not None:
        return repr(float(value.const))
    return 'scalar_double(%s)' % value.c if value.kind == 'scalar' else '(double)%s' % value.c


def as_scalar(value):
    value = unwrap(value)
    if value.kind == 'none':
        return 'tn_value_none()'
    if value.kind == 'scalar':
        return value.c
    return '%s(%s)' % ({'int': 'tn_int', 'float': 'tn_float', 'bool': 'tn_bool'}[value.kind], value.c)


def present(value):
    """C condition: the value is not None."""
    if value.kind == 'none':
        return 'false'
    if value.boxed:
        return '(%s->kind != TN_VAL_NONE)' % value.c
    if value.kind == 'scalar':
        return '(%s.kind != TN_VAL_NONE)' % value.c
    if value.kind == 'device':
        return '(%s.backend != TN_BACKEND_NONE)' % value.c
    if value.kind in ('dtype', 'layout', 'memory_format'):
        return '(%s != 0)' % value.c
    return '(%s != NULL)' % value.c if value.optional else 'true'


def truth(value):
    """C condition: Python's truth for numbers and lists; for what may be absent, that it is there."""
    if value.optional or value.kind in ('none', 'device', 'dtype', 'layout', 'memory_format', 'tensor', 'str'):
        return present(value)
    if value.kind == 'scalar':
        return '(scalar_double(%s) != 0)' % value.c
    if value.n:
        return '(%s > 0)' % value.n
    return '(%s)' % value.c if value.kind != 'bool' else value.c
