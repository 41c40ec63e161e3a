# SPDX-License-Identifier: Apache-2.0
"""Reads registry/ops/*.yaml into entries and derives the forms of each.

YAML is composed to nodes, not constructed: every scalar stays the text that was written and knows its line,
so that a mistake is reported as file:line and words like `no` or `1e-5` never change their type on the way.
What an entry may hold is registry/README.md.
"""

import copy
import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

import yaml

from schema import Arg, Schema, SchemaError, parse_arg, parse_schema

FLAGS = {
    'view': 'TN_OP_VIEW', 'multi_view': 'TN_OP_MULTI_VIEW', 'factory': 'TN_OP_FACTORY',
    'cross_device': 'TN_OP_CROSS_DEVICE', 'no_kernel': 'TN_OP_NO_KERNEL', 'always_body': 'TN_OP_ALWAYS_BODY',
    'nondiff': 'TN_OP_NONDIFF', 'pointwise': 'TN_OP_POINTWISE_ALIAS',
    'nondeterministic': 'TN_OP_NONDETERMINISTIC',
}
PROMOTE = {
    'none': 'TN_PROMOTE_NONE', 'default': 'TN_PROMOTE_DEFAULT', 'int_to_float': 'TN_PROMOTE_INT_TO_FLOAT',
    'compare': 'TN_PROMOTE_COMPARE', 'bool': 'TN_PROMOTE_BOOL',
}
FIELDS = ('op', 'appended', 'forms', 'inplace', 'out', 'meta', 'promote', 'expr', 'dtypes', 'flags', 'grad', 'saves',
          'nondiff', 'body', 'primitive', 'rng', 'call', 'samples', 'inverse', 'autocast', 'doc')


class EntryError(Exception):
    """A mistake in an entry; str() begins with file:line."""

    def __init__(self, file, line, words):
        super().__init__('%s:%d: %s' % (file, line, words))


class Text(str):
    """A scalar of the YAML file that knows its line."""
    line = 0

    def __new__(cls, value, line):
        self = super().__new__(cls, value)
        self.line = line
        return self


class Fields(dict):
    line = 0


class Items(list):
    line = 0


@dataclass
class Form:
    """One operator of an entry: functional, in-place or out."""
    entry: 'Entry'
    kind: str            # 'functional', 'inplace', 'out'
    schema: Schema
    c_name: str
    scoped_name: str = ''
    index: int = -1

    @property
    def ident(self):
        return self.schema.name.replace('::', '_').replace('.', '_')

    @property
    def returns_results(self):
        """In-place and out forms hand their argument back; the results are not passed at kernel level."""
        return not any(a.writes for a in self.schema.results) and bool(self.schema.results)


@dataclass
class Entry:
    file: str
    line: int
    fields: Fields
    schema: Schema
    flags: List[str]
    forms: List[Form] = field(default_factory=list)
    grad: Any = None     # lang.Gradient once compiled
    body: str = ''       # C function once compiled, if it is an expression
    elementwise_code: Any = None
    samples: list = field(default_factory=list)
    body_calls: list = field(default_factory=list)  # forms of operators that the body's expression calls
    appended: int = 0    # arguments, all with defaults, since the schema was first published

    def text(self, name, default='') -> str:
        return str(self.fields.get(name, default))

    def line_of(self, name):
        value = self.fields.get(name)
        return getattr(value, 'line', self.line)

    def error(self, words, line=None):
        return EntryError(self.file, line or self.line, '%s: %s' % (self.schema.name, words))

    @property
    def functional(self) -> Form:
        return self.forms[0]

    @property
    def elementwise(self):
        return self.text('meta').startswith('elementwise')

    def c_function(self, name):
        """NAME of a field that says `c:NAME`, else None."""
        value = self.fields.get(name)
        return value[2:].strip() if isinstance(value, str) and value.startswith('c:') else None


def convert(node, file):
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Text(node.value, line)
    if isinstance(node, yaml.SequenceNode):
        items = Items(convert(n, file) for n in node.value)
        items.line = line
        return items
    fields = Fields()
    fields.line = line
    for key_node, value_node in node.value:
        key = key_node.value
        if key in fields:
            raise EntryError(file, key_node.start_mark.line + 1, "field '%s' is given twice" % key)
        fields[key] = convert(value_node, file)
    return fields


def default_out_overload(overload):
    return 'out' if overload in ('', 'Tensor') else overload + '_out'


def inplace_schema(schema):
    new = copy.deepcopy(schema)
    new.base += '_'
    new.args[0].alias = 'a!'
    new.results = [Arg(name='', type='Tensor', type_text='Tensor', alias='a!')]
    return new


def out_schema(schema, overload):
    """Appends one keyword-only target per result: `out`, or `out0`, `out1`, ... """
    new = copy.deepcopy(schema)
    new.overload = overload
    targets = []
    for i in range(len(schema.results)):
        letter = chr(ord('a') + i)
        name = 'out' if len(schema.results) == 1 else 'out%d' % i
        targets.append(Arg(name=name, type='Tensor', type_text='Tensor', alias=letter + '!', keyword_only=True))
        new.results[i] = Arg(name='', type='Tensor', type_text='Tensor', alias=letter + '!')
    new.args += targets
    return new


def natural_c_name(schema):
    suffix = '' if schema.overload in ('', 'Tensor', 'self') else '_' + schema.overload.lower()
    in_place = schema.base.endswith('_') and not schema.base.startswith('__')
    base = schema.word
    return 'tn_' + (base[:-1] + suffix + '_' if in_place else base + suffix)


def overload_of(entry, kind, given, default):
    """Overload of a form: `out=Tensor_out` in forms, or the field `out: eq.Tensor_out`, else the default."""
    name = entry.fields.get(kind)
    if name is None:
        return given or default
    base, _, overload = name.partition('.')
    if base != entry.schema.base + ('_' if kind == 'inplace' else ''):
        raise entry.error("%s: '%s' is no name of that form" % (kind, name), name.line)
    return overload


def inplace_form(entry, overload, call, line):
    first = entry.schema.args[0] if entry.schema.args else None
    if not first or not first.is_tensor or first.optional or len(entry.schema.results) != 1:
        raise entry.error('forms: inplace needs a first argument Tensor and one result', line)
    schema = inplace_schema(entry.schema)
    schema.overload = overload_of(entry, 'inplace', overload, schema.overload)
    return Form(entry, 'inplace', schema, call + '_' if call else natural_c_name(schema))


def out_form(entry, overload, natural, line):
    results = entry.schema.results
    if not results or results[0].list or any(r.alias for r in results):
        raise entry.error('forms: out needs results that are fresh Tensors', line)
    default = default_out_overload(entry.schema.overload)
    schema = out_schema(entry.schema, overload_of(entry, 'out', overload, default))
    return Form(entry, 'out', schema, natural + '_out')


def derive_forms(entry, taken_names):
    schema = entry.schema
    given = entry.fields.get('call')
    natural = str(given) if given else natural_c_name(schema)
    if not re.fullmatch(r'tn_\w+', natural):
        raise entry.error("call: '%s' is no name of the form tn_..." % natural, entry.line_of('call'))
    if given and natural in taken_names:
        raise entry.error('call: %s is taken by a hand-written header' % natural, entry.line_of('call'))
    entry.forms = [Form(entry, 'functional', schema, natural + ('_op' if natural in taken_names else ''))]
    forms = entry.fields.get('forms', Items())
    if not isinstance(forms, list):
        raise entry.error('forms: a list was expected, as in [inplace, out]', entry.line_of('forms'))
    for form in forms:
        kind, _, overload = form.partition('=')
        if kind == 'inplace':
            entry.forms.append(inplace_form(entry, overload, given, form.line))
        elif kind == 'out':
            entry.forms.append(out_form(entry, overload, natural, form.line))
        else:
            raise entry.error("forms: '%s' is neither inplace nor out" % form, form.line)
    for form in entry.forms:
        form.scoped_name = 'tns_' + (natural if form.kind == 'functional' else form.c_name)[3:]


def check_fields(entry):
    for name in entry.fields:
        if name not in FIELDS:
            raise entry.error("unknown field '%s'; an entry has %s" % (name, ', '.join(FIELDS)),
                              getattr(entry.fields[name], 'line', entry.line))
    for flag in entry.flags:
        if flag not in FLAGS:
            raise entry.error("unknown flag '%s'; there are %s" % (flag, ', '.join(FLAGS)), entry.line_of('flags'))
    promote = entry.text('promote', 'none')
    if promote not in PROMOTE:
        raise entry.error("promote: '%s' is none of %s" % (promote, ', '.join(PROMOTE)), entry.line_of('promote'))
    if 'promote' in entry.fields and promote != 'none' and not entry.elementwise:
        raise entry.error('promote is for entries with an elementwise meta rule', entry.line_of('promote'))
    if 'doc' not in entry.fields or '\n' in entry.text('doc').strip():
        raise entry.error('doc: one line of words was expected', entry.line_of('doc'))
    if 'meta' not in entry.fields and 'body' not in entry.fields:
        raise entry.error('neither meta nor body: nothing could run it')
    if 'meta' in entry.fields and not re.fullmatch(r'[A-Za-z_]\w*', entry.text('meta')):
        raise entry.error("meta: '%s' is no rule name" % entry.text('meta'), entry.line_of('meta'))
    if 'expr' in entry.fields and not entry.elementwise:
        raise entry.error('expr is for entries with an elementwise meta rule', entry.line_of('expr'))
    if ('view' in entry.flags or 'multi_view' in entry.flags) and not any(r.alias for r in entry.schema.results):
        raise entry.error('flag view: the schema gives no alias set of its result, as in Tensor(a)')


def appended_arguments(entry):
    """The field `appended: N`, checked."""
    text, line = entry.text('appended', '0'), entry.line_of('appended')
    if not text.isdigit() or int(text) > len(entry.schema.args):
        raise entry.error('appended: the number of arguments that were appended was expected', line)
    for arg in entry.schema.args[len(entry.schema.args) - int(text):]:
        if not arg.has_default:
            raise entry.error("appended: '%s' has no default" % arg.name, line)
    return int(text)


def append_future_argument(schema):
    arg = parse_arg('int? future=None', 'argument')
    arg.keyword_only = bool(schema.args) and schema.args[-1].keyword_only
    arg.of_future = True
    schema.args.append(arg)


def read_entry(fields, file, taken_names, future=False):
    if not isinstance(fields, Fields) or 'op' not in fields:
        raise EntryError(file, getattr(fields, 'line', 1), 'an entry begins with `op: SCHEMA`')
    line = fields.line
    try:
        schema = parse_schema(fields['op'])
    except SchemaError as e:
        raise EntryError(file, fields['op'].line, str(e))
    flags = fields.get('flags', Items())
    if isinstance(flags, str):
        flags = Items([Text(f.strip(), flags.line) for f in flags.split(',')])
    entry = Entry(file, line, fields, schema, [str(f) for f in flags])
    check_fields(entry)
    entry.appended = appended_arguments(entry)
    if future:
        append_future_argument(schema)
        entry.appended += 1
    derive_forms(entry, taken_names)
    return entry


def read_file(path, shown_path, taken_names, future=False):
    with open(path, encoding='utf-8') as f:
        try:
            node = yaml.compose(f, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark or e.context_mark
            raise EntryError(shown_path, mark.line + 1 if mark else 1, 'not YAML: %s' % e.problem)
    if node is None:
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise EntryError(shown_path, 1, 'a list of entries was expected, each beginning with `- op: SCHEMA`')
    return [read_entry(convert(n, shown_path), shown_path, taken_names, future) for n in node.value]


def header_names(folders):
    """Every tn_ name in hand-written public headers, so that no operator call collides with one."""
    names = set()
    for folder in folders:
        if not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            if name.endswith('.h') and name not in ('ops.h', 'scoped.h'):
                with open(os.path.join(folder, name), encoding='utf-8') as f:
                    text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
                names.update(re.findall(r'\btn_\w+', text))
    return names


@dataclass
class Registry:
    entries: List[Entry]
    forms: List[Form] = field(default_factory=list)
    by_base: Dict[str, List[Form]] = field(default_factory=dict)
    called: Dict[str, Form] = field(default_factory=dict)  # operators that gradients and bodies call
    in_plugin: bool = False

    def find(self, name) -> Optional[Form]:
        return next((f for f in self.forms if f.schema.name == name), None)


def build_registry(entries):
    registry = Registry(entries)
    seen_ops, seen_names = {}, {}
    for entry in entries:
        for form in entry.forms:
            form.index = len(registry.forms)
            registry.forms.append(form)
            registry.by_base.setdefault(form.schema.word, []).append(form)
            for key, seen, what in ((form.schema.name, seen_ops, 'operator'), (form.c_name, seen_names, 'C name')):
                if key in seen:
                    other = seen[key].entry
                    raise entry.error('%s %s is also given at %s:%d (%s)'
                                      % (what, key, other.file, other.line, seen[key].schema.name))
                seen[key] = form
    for entry in entries:
        inverse = entry.fields.get('inverse')
        if inverse and not registry.find(inverse) and inverse not in registry.by_base:
            raise entry.error("inverse: there is no operator '%s'" % inverse, entry.line_of('inverse'))
    return registry
