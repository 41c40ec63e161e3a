# SPDX-License-Identifier: Apache-2.0
"""How a schema argument looks in C: parameter declarations, checks, and packing into a tn_value.

The table is in registry/README.md. One Param may stand for several schema arguments: the four of a factory
(dtype, layout, device, pin_memory) are one `const tn_options *`.
"""

from dataclasses import dataclass
from typing import List

C_KEYWORDS = set('''auto break case char const continue default do double else enum extern float for goto if
inline int long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while class new delete this template operator namespace private public protected virtual bool true
false try catch throw using typename status args out_n capacity returned made list'''.split())

OPTION_NAMES = ['dtype', 'layout', 'device', 'pin_memory']


def c_ident(name):
    return name + '_' if name in C_KEYWORDS else name


def c_string(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') + '"'


@dataclass
class Param:
    """C parameters (`decls`) for the schema arguments `args`; kind says how they are packed."""
    kind: str
    name: str
    decls: List[str]
    args: list


def is_options(args):
    types = ['ScalarType', 'Layout', 'Device', 'bool']
    return [a.name for a in args] == OPTION_NAMES and [a.type for a in args] == types


LIST_C = {'int': 'const int64_t *', 'float': 'const double *', 'bool': 'const uint8_t *',
          'Scalar': 'const tn_scalar *', 'Tensor': 'tn_tensor *const *'}
VALUE_C = {'int': 'int64_t ', 'float': 'double ', 'bool': 'bool ', 'str': 'const char *', 'Scalar': 'tn_scalar ',
           'ScalarType': 'tn_dtype ', 'Layout': 'tn_layout ', 'Device': 'tn_device ',
           'MemoryFormat': 'tn_memory_format ', 'Generator': 'tn_generator *', 'Tensor': 'tn_tensor *'}
POINTER_IF_OPTIONAL = {'int': 'const int64_t *', 'float': 'const double *', 'bool': 'const bool *'}


def params_of(schema) -> List[Param]:
    params, i = [], 0
    while i < len(schema.args):
        if is_options(schema.args[i:i + 4]):
            params.append(Param('options', 'options', ['const tn_options *options'], schema.args[i:i + 4]))
            i += 4
            continue
        arg = schema.args[i]
        name = c_ident(arg.name)
        if arg.of_future:
            params.append(Param('absent', name, [], [arg]))
        elif arg.list:
            params.append(Param('list', name, [LIST_C[arg.type] + name, 'size_t n_' + name], [arg]))
        elif arg.optional and arg.type in POINTER_IF_OPTIONAL:
            params.append(Param('pointer', name, [POINTER_IF_OPTIONAL[arg.type] + name], [arg]))
        else:
            params.append(Param('value', name, [VALUE_C[arg.type] + name], [arg]))
        i += 1
    return params


def result_names(schema):
    names = []
    for i, result in enumerate(schema.results):
        fallback = 'result' if len(schema.results) == 1 else 'result%d' % i
        names.append(result.name or fallback)
    return names


def result_decls(form):
    if not form.returns_results:
        return []
    if form.schema.results[0].list:
        return ['tn_tensor **out', 'size_t capacity', 'size_t *out_n']
    return ['tn_tensor **out_' + n for n in result_names(form.schema)]


def decls_of(form):
    decls = [d for p in params_of(form.schema) for d in p.decls] + result_decls(form)
    return decls or ['void']


def wrap(head, parts, tail, indent, width=100):
    """head + parts joined by commas + tail, broken before `width`."""
    lines, line = [], head
    for i, part in enumerate(parts):
        piece = part + (', ' if i + 1 < len(parts) else tail)
        if len(line) + len(piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ' ' * indent
        line += piece
    if not parts:
        line += tail
    return '\n'.join(lines + [line])


def prototype(form, head='', tail=';'):
    start = '%stn_status %s(' % (head, form.c_name)
    return wrap(start, decls_of(form), ')' + tail, min(len(start), 44))
