# SPDX-License-Identifier: Apache-2.0
"""Which operator a call of the gradient language means, and its C arguments."""

from ctypes_map import c_string, params_of, wrap
from schema import DTYPES, LAYOUTS, MEMORY_FORMATS, Name
from values import NONE, Val, as_double, as_scalar, unwrap

KIND_OF = {'Tensor': 'tensor', 'Scalar': 'scalar', 'int': 'int', 'float': 'float', 'bool': 'bool', 'str': 'str',
           'ScalarType': 'dtype', 'Layout': 'layout', 'Device': 'device', 'MemoryFormat': 'memory_format',
           'Generator': 'generator'}
LIST_MEMBER = {'int': ('ints', 'const int64_t *'), 'float': ('floats', 'const double *'),
               'bool': ('bools', 'const uint8_t *')}
NAMED = {'dtype': DTYPES, 'layout': LAYOUTS, 'memory_format': MEMORY_FORMATS}
C_TYPE = {'int': 'int64_t', 'float': 'double', 'bool': 'bool'}


def argument(arg, name, place):
    """The value of a schema argument that lies in the tn_value `place`, and declarations of its locals."""
    if arg.list:
        member, c_type = LIST_MEMBER[arg.type] if arg.type in LIST_MEMBER else ('p', 'const tn_scalar *')
        value = Val(member, name, n='n_' + name, optional=arg.optional)
        return value, ['%s%s = %s.u.%s;' % (c_type, name, place, member),
                       'size_t n_%s = %s.count;' % (name, place)]
    kind = KIND_OF[arg.type]
    value = Val(kind, name, optional=arg.optional)
    if value.boxed:
        return value, ['const tn_value *%s = &%s;' % (name, place)]
    read = {'tensor': 'tn_tensor *%s = %s.u.t;', 'scalar': 'tn_scalar %s = %s;', 'int': 'int64_t %s = %s.u.i;',
            'float': 'double %s = %s.u.f;', 'bool': 'bool %s = %s.u.i != 0;', 'str': 'const char *%s = %s.u.s;',
            'dtype': 'tn_dtype %s = (tn_dtype)%s.u.i;', 'layout': 'tn_layout %s = (tn_layout)%s.u.i;',
            'device': 'tn_device %s = value_device(&%s);', 'generator': 'tn_generator *%s = %s.u.g;',
            'memory_format': 'tn_memory_format %s = (tn_memory_format)%s.u.i;'}[kind]
    return value, [read % (name, place)]


def fit(arg, value):
    """Cost of passing value as arg (0 exact, 1 converted), None if it does not fit."""
    if value.kind == 'none':
        return 0 if arg.optional else None
    if arg.list:
        if arg.type in ('int', 'float', 'bool') and value.kind == arg.type + 's':
            return 0
        if value.kind == 'ints' and arg.type == 'float' and value.n == '0':
            return 1
        return 1 if arg.fixed and value.kind == arg.type and not value.optional else None
    kind = KIND_OF[arg.type]
    if value.kind == kind:
        return 0
    if kind == 'scalar' and value.kind in ('int', 'float', 'bool'):
        return 1
    if kind == 'float' and value.kind in ('int', 'scalar') and not value.optional:
        return 1
    if kind in NAMED and value.kind == 'str' and value.const in NAMED[kind]:
        return 1
    return None


def bind(schema, values, keywords):
    """(one Val per schema argument, cost), or words that say why the call does not fit."""
    positional = [a for a in schema.args if not a.keyword_only]
    if len(values) > len(positional):
        return None, 'it takes %d arguments in order, %d given' % (len(positional), len(values))
    given = {a.name: v for a, v in zip(positional, values)}
    for name, value in keywords.items():
        if schema.arg(name) is None or name in given:
            return None, "it has no argument '%s' left" % name
        given[name] = value
    bound, cost = [], 0
    for arg in schema.args:
        if arg.name not in given:
            if not arg.has_default:
                return None, "'%s' is missing" % arg.name
            bound.append(default_value(arg))
            continue
        price = fit(arg, given[arg.name])
        if price is None:
            return None, "'%s' is of type %s, not %s" % (arg.name, arg.type_text, given[arg.name].kind)
        cost += price
        bound.append(given[arg.name])
    return bound, cost


def default_value(arg):
    def atom(x):
        if isinstance(x, Name):
            return Val(KIND_OF[arg.type], str(x))
        if isinstance(x, bool):
            return Val('bool', 'true' if x else 'false')
        if isinstance(x, str):
            return Val('str', c_string(x), const=x)
        return Val('int' if isinstance(x, int) else 'float', repr(x), const=x)

    if arg.default is None:
        return NONE
    if not arg.list:
        return atom(arg.default)
    kind, c_type = LIST_MEMBER[arg.type][0], {'int': 'int64_t', 'float': 'double', 'bool': 'uint8_t'}[arg.type]
    texts = [atom(x).c for x in arg.default]
    return Val(kind, '(const %s[]){%s}' % (c_type, ', '.join(texts) or '0'), n=str(len(texts)))


def resolve(registry, base, over, values, keywords):
    """(form, bound values), or (None, words)."""
    forms = [f for f in registry.by_base.get(base, []) if f.kind != 'out']
    if over is not None:
        forms = [f for f in forms if f.schema.overload == over]
    if not forms:
        return None, "there is no operator '%s'" % (base + ('.' + over if over else ''))
    best, reasons = None, []
    for form in forms:
        bound, cost = bind(form.schema, values, keywords)
        if bound is None:
            reasons.append('%s: %s' % (form.schema.name, cost))
        elif best is None or cost < best[2]:
            best = (form, bound, cost)
    if best is None:
        return None, "no overload of '%s' fits: %s" % (base, '; '.join(reasons))
    return best[0], best[1]


def named_constant(kind, value):
    if value.kind == 'str' and value.const is not None:
        return NAMED[kind][value.const]
    return '0' if value.kind == 'none' else value.c


def pointer_argument(kind, value):
    """An optional number as a pointer."""
    if value.kind == 'none':
        return 'NULL'
    if value.boxed:
        return 'optional_%s(%s)' % (kind, value.c)
    text = as_double(value) if kind == 'float' else value.c
    return '&(%s){%s}' % (C_TYPE[kind], text)


def options_argument(values):
    dtype, layout, device, pin = values
    fields = []
    if dtype.kind != 'none':
        fields.append('.dtype = ' + named_constant('dtype', dtype))
    if layout.kind != 'none':
        fields.append('.layout = ' + named_constant('layout', layout))
    if device.kind != 'none':
        has = '%s.backend != TN_BACKEND_NONE' % device.c if device.optional else 'true'
        fields += ['.has_device = ' + has, '.device = ' + device.c]
    if pin.kind != 'none':
        has = '%s->u.i != 0' % pin.c if pin.boxed else pin.c
        fields.append('.pin_memory = ' + has)
    return '&(const tn_options){%s}' % ', '.join(fields) if fields else 'NULL'


def one_argument(param, value):
    arg = param.args[0]
    if param.kind == 'absent':
        return []
    if param.kind == 'list':
        if value.kind == 'none':
            return ['NULL', '0']
        if not value.n:
            c_type = {'int': 'int64_t', 'float': 'double', 'bool': 'uint8_t'}[arg.type]
            return ['(const %s[]){%s}' % (c_type, unwrap(value).c), '1']
        return [value.c, value.n]
    if param.kind == 'pointer':
        return [pointer_argument(arg.type, value)]
    kind = KIND_OF[arg.type]
    if kind == 'scalar':
        if value.boxed:
            return ['*' + value.c]
        return [as_scalar(value)]
    if kind == 'float':
        return [as_double(value)]
    if kind in NAMED:
        return [named_constant(kind, value)]
    if kind == 'device' and value.kind == 'none':
        return ['(tn_device){.backend = TN_BACKEND_NONE}']
    return [unwrap(value).c]


def c_arguments(form, bound):
    values = {a.name: v for a, v in zip(form.schema.args, bound)}
    texts = []
    for param in params_of(form.schema):
        if param.kind == 'options':
            texts.append(options_argument([values[a.name] for a in param.args]))
        else:
            texts += one_argument(param, values[param.args[0].name])
    return texts


def call_text(form, args, indent):
    start = form.c_name + '('
    return wrap(start, args, ')', min(len(start), 20), 90 - indent)


def compare_plain(sign, a, b):
    from lang import LangError
    if a.kind in ('str',) or b.kind in ('str',):
        if 'dtype' in (a.kind, b.kind):
            left, right = (named_constant('dtype', v) for v in (a, b))
            return Val('bool', '(%s %s %s)' % (left, sign, right))
        if a.kind != b.kind or sign not in ('==', '!='):
            raise LangError('a string is compared by == or != with a string')
        return Val('bool', '%ssame_string(%s, %s)' % ('' if sign == '==' else '!', a.c, b.c))
    if 'scalar' in (a.kind, b.kind):
        return Val('bool', '(%s %s %s)' % (as_double(a), sign, as_double(b)))
    plain = ('int', 'float', 'bool', 'dtype', 'memory_format')
    if a.kind not in plain or b.kind not in plain:
        raise LangError('a %s and a %s cannot be compared' % (a.kind, b.kind))
    return Val('bool', '(%s %s %s)' % (a.c, sign, b.c))


def choose_plain(condition, a, b):
    """`a if condition else b` on plain values of one kind (numbers: of the wider one)."""
    from lang import LangError
    if a.kind == b.kind and not a.boxed and not b.boxed and a.kind != 'none':
        n = '(%s ? %s : %s)' % (condition, a.n, b.n) if a.n else ''
        optional = a.optional or b.optional
        return Val(a.kind, '(%s ? %s : %s)' % (condition, a.c, b.c), n=n, optional=optional)
    a, b = unwrap(a), unwrap(b)
    kinds = {a.kind, b.kind}
    if kinds <= {'int', 'float', 'bool'}:
        kind = 'float' if 'float' in kinds else 'int' if 'int' in kinds else 'bool'
        return Val(kind, '(%s ? %s : %s)' % (condition, a.c, b.c))
    if kinds <= {'int', 'float', 'bool', 'scalar'} or kinds == {'scalar', 'none'}:
        return Val('scalar', '(%s ? %s : %s)' % (condition, as_scalar(a), as_scalar(b)), optional='none' in kinds)
    if 'none' in kinds:
        value = b if a.kind == 'none' else a
        if value.kind in ('ints', 'floats', 'bools'):
            pick = lambda x, y: '(%s ? %s : %s)' % ((condition, x, y) if b.kind == 'none' else (condition, y, x))
            return Val(value.kind, pick(value.c, 'NULL'), n=pick(value.n, '0'), optional=True)
        if value.kind in ('dtype', 'memory_format', 'layout'):
            return Val(value.kind, '(%s ? %s : %s)' % (condition, named_constant(value.kind, a),
                                                     named_constant(value.kind, b)), optional=True)
    raise LangError('the sides of `if` are a %s and a %s' % (a.kind, b.kind))
