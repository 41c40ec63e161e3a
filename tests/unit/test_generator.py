# SPDX-License-Identifier: Apache-2.0
"""The generator (registry/gen): mistakes in entries are refused with file:line and a sentence, what gradients
save is exact, names and schemas of forms are ATen's, and the whole registry generates the same text twice.

A plain script: each test_ function asserts; the last line says how many passed and failed.
"""

import glob
import os
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GEN = os.path.join(ROOT, 'registry', 'gen')
sys.path.insert(0, GEN)

import emit_api  # noqa: E402
import emit_elementwise  # noqa: E402
import emit_explain  # noqa: E402
import emit_grads  # noqa: E402
import emit_samples  # noqa: E402
import emit_table  # noqa: E402
import samples  # noqa: E402
from entry import EntryError, build_registry, read_file  # noqa: E402
from schema import SchemaError, parse_schema  # noqa: E402

BASE = '''
- op: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  forms: [inplace, out]
  meta: elementwise
  promote: default
  expr: self + alpha * other
  grad:
    self: grad
    other: grad if alpha == 1 else grad * alpha
  doc: Sum.
- op: mul.Tensor(Tensor self, Tensor other) -> Tensor
  meta: elementwise
  promote: default
  expr: self * other
  grad:
    self: grad * other
    other: grad * self
  doc: Product.
- op: mul.Scalar(Tensor self, Scalar other) -> Tensor
  meta: elementwise_scalar
  promote: default
  expr: self * other
  doc: Product with a number.
- op: exp(Tensor self) -> Tensor
  meta: elementwise
  promote: int_to_float
  expr: exp(self)
  grad:
    self: grad * result
  doc: Exponential.
- op: expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
  flags: [view]
  meta: expand
  doc: Expansion.
- op: sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
  forms: [out=IntList_out]
  meta: sum_dim
  call: tn_sum_dim
  grad:
    self: expand(grad, self.sizes)
  samples: ["T(2, 3), [0]", "T(2, 3), None, True, dtype='float64'"]
  doc: Sum over dims.
- op: max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
  meta: max_dim
  nondiff: [indices]
  grad:
    self: grad * self
  samples: ["T(2, 3), -1"]
  doc: Largest.
- op: two(Tensor self) -> (Tensor a, Tensor b)
  meta: two
  grad:
    self: grads[0] + grads[1] * b
  samples: ["T(2)"]
  doc: Two results.
- op: both(Tensor self) -> (Tensor a, Tensor b)
  body: (self * self, self * self)
  samples: ["T(2)"]
  doc: The same twice.
- op: fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
  meta: fill
  samples: ["T(2), 3"]
  doc: Fill.
'''


def load_text(text, with_base=True):
    """The compiled registry of BASE plus text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'test.yaml')
        with open(path, 'w', encoding='utf-8') as f:
            f.write((BASE if with_base else '') + text)
        registry = build_registry(read_file(path, 'test.yaml', {'tn_log'}))
    emit_grads.compile_all(registry)
    emit_elementwise.compile_all(registry)
    samples.compile_all(registry)
    return registry


def entry_of(registry, name):
    return registry.find(name).entry


def refuse(text, words, with_base=True, line=None):
    """text is refused; the message begins with file:line and holds words."""
    try:
        registry = load_text(text, with_base)
        emit_table.emit_ops_table(registry)
    except EntryError as e:
        message = str(e)
        assert message.startswith('test.yaml:'), message
        assert words in message, '%r lacks %r' % (message, words)
        if line is not None:
            assert message.startswith('test.yaml:%d:' % line), message
        return
    raise AssertionError('accepted: %s' % text)


def saves(registry, name):
    grad = entry_of(registry, name).grad
    return [(i.saves.args, i.saves.outs, i.saves.values) for i in grad.inputs]


def test_schema_text_survives():
    for text in ('mul.Tensor(Tensor self, Tensor other) -> Tensor',
                 'add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)',
                 'split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]',
                 'f(Tensor?[] x, SymInt[2]? y=[1, 2], str s=\'a, b\', bool? b=None) -> (Tensor a, Tensor b)',
                 '_fused_sgd_(Tensor(a!)[] self, *, float lr, ScalarType t=long) -> ()'):
        assert parse_schema(text).text() == text, parse_schema(text).text()


def test_schema_mistakes():
    for text, words in (('f(Tenso a) -> Tensor', "unknown type 'Tenso'"), ('f(Tensor a)', 'no `) -> results`'),
                        ('f(Tensor a, int a) -> Tensor', "two arguments are named 'a'"),
                        ('f(int a=1.5) -> Tensor', "no value of type int"), ('f(int a=None) -> Tensor', 'not optional'),
                        ('f(int[] a=1) -> Tensor', 'a list needs brackets'), ('f(int a) -> int', 'results are Tensors'),
                        ('f(str[] a) -> Tensor', 'no lists of str')):
        try:
            parse_schema(text)
        except SchemaError as e:
            assert words in str(e), '%r lacks %r' % (str(e), words)
        else:
            raise AssertionError('accepted: %s' % text)


def test_forms_and_names():
    registry = load_text('''
- op: log(Tensor self) -> Tensor
  forms: [inplace, out]
  meta: elementwise
  promote: int_to_float
  expr: log(self)
  doc: Logarithm.
''')
    names = {f.schema.name: (f.c_name, f.scoped_name) for f in registry.forms}
    assert names['add.Tensor'] == ('tn_add', 'tns_add')
    assert names['add_.Tensor'][0] == 'tn_add_' and names['add.out'][0] == 'tn_add_out'
    assert names['sum.dim_IntList'][0] == 'tn_sum_dim' and names['sum.IntList_out'][0] == 'tn_sum_dim_out'
    assert names['log'] == ('tn_log_op', 'tns_log') and names['log_'][0] == 'tn_log_'
    assert registry.find('add_.Tensor').schema.text() == \
        'add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)'
    assert registry.find('add.out').schema.text() == \
        'add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)'
    table = emit_table.emit_ops_table(registry)
    part = table[table.index('def_fill__Scalar = {'):]
    assert '.form = TN_FORM_INPLACE' in part[:part.index('};')]


def test_saves_are_exact():
    registry = load_text('')
    assert saves(registry, 'mul.Tensor') == [(2, 0, 0), (1, 0, 0)]
    assert saves(registry, 'add.Tensor') == [(0, 0, 0), (0, 0, 4)]
    assert saves(registry, 'exp') == [(0, 1, 0)]
    assert saves(registry, 'sum.dim_IntList') == [(0, 0, 1)]      # the descriptor of self only
    assert saves(registry, 'two') == [(0, 2, 0)]


def test_gradient_code():
    registry = load_text('')
    code = entry_of(registry, 'two').grad.code
    assert 'tni_materialize_grad(ctx, 0' in code and 'tni_materialize_grad(ctx, 1' in code
    assert 'materialize' not in entry_of(registry, 'max.dim').grad.code  # one result can have a gradient
    assert entry_of(registry, 'max.dim').grad.nondiff_outs == 2
    code = entry_of(registry, 'mul.Tensor').grad.code
    assert 'if (ctx->wanted & 1)' in code and 'if (ctx->wanted & 2)' in code
    assert code.count('tn_mul(') == 2
    assert entry_of(registry, 'mul.Tensor').grad.node_name == 'MulBackward0'


def test_body_code():
    code = entry_of(load_text(''), 'both').body
    assert code.count('tn_mul(') == 1  # computed once, given away twice
    assert 'out[0] = tn_value_tensor(tn_tensor_retain(t[0]));' in code
    assert 'out[1] = tn_value_tensor(take(&t[0]));' in code


def test_bad_entries():
    refuse('- op: f(Tensor a) -> Tensr\n  doc: d\n', "unknown type 'Tensr'", line=64)
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  docs: d\n', "unknown field 'docs'")
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n', 'doc: one line')
    refuse('- op: f(Tensor a) -> Tensor\n  doc: d\n', 'neither meta nor body')
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  flags: [vew]\n  doc: d\n', "unknown flag 'vew'", line=66)
    refuse('- op: exp(Tensor self) -> Tensor\n  meta: f\n  doc: d\n', 'is also given at test.yaml:')
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  meta: g\n  doc: d\n', "field 'meta' is given twice")
    refuse('- op: f(int a) -> Tensor\n  meta: f\n  forms: [inplace]\n  doc: d\n', 'first argument Tensor')
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  rng: a * 2\n  doc: d\n', 'rng: numbers, numel')
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  call: tn_log\n  doc: d\n', 'taken by a hand-written header')
    refuse('op: [', 'not YAML', with_base=False)
    refuse('op: x', 'a list of entries', with_base=False)


def refuse_grad(formula, words, name='f(Tensor self, Tensor? w, int n, Tensor[] xs) -> Tensor'):
    refuse('- op: %s\n  meta: f\n  grad:\n    self: %s\n  doc: d\n' % (name, formula), words, line=67)


def test_bad_gradients():
    refuse_grad('grad * nothing', "'nothing' is neither an argument nor a result")
    refuse_grad('frobnicate(grad)', "there is no operator 'frobnicate'")
    refuse_grad('exp(grad, 2)', 'it takes 1 arguments in order, 2 given')
    refuse_grad("mul(grad, 'x')", "'other' is of type Scalar, not str")
    refuse_grad('n', 'a tensor was expected, a value of type int came')
    refuse_grad('fill_(grad, 0)', 'writes into grad, which the expression did not make')
    refuse_grad('grad * xs', 'must be a C function')
    refuse_grad('grad if n > 0 else n', 'one side of `if` is a tensor')
    refuse_grad('grad.colour', "not 'colour'")
    refuse_grad('grads[3]', 'there are 1 results')
    refuse_grad('max(grad)', "no overload of 'max' fits: max.dim: 'dim' is missing")
    refuse_grad('grad +', 'is no expression')
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  grad: c:f\n  doc: d\n', 'needs saves')
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  grad: c:f\n  saves: {a: [b]}\n  doc: d\n',
           "'b' is neither an argument nor a result")
    refuse('- op: f(Tensor a) -> Tensor\n  meta: f\n  grad:\n    b: grad\n  doc: d\n', "'b' is no tensor argument")


def refuse_expr(expression, words, dtypes='all'):
    refuse('- op: f(Tensor self, Scalar? s=None) -> Tensor\n  meta: elementwise\n  promote: default\n  expr: %s\n'
           '  dtypes: %s\n  doc: d\n' % (expression, dtypes), words)


def test_bad_expressions():
    refuse_expr('self + s', "'s' may be absent")
    refuse_expr('exp(self)', 'exp is for floating types, but dtypes is all')
    refuse_expr('self * 0.5', 'the number 0.5 is for floating types', 'int')
    refuse_expr('self < 0 < 1', 'one comparison at a time')
    refuse_expr('foo(self)', "there is no function 'foo'")
    refuse_expr('min(self)', 'min takes 2 argument(s), 1 given')
    refuse_expr('self ** other', "'other' is no argument", 'float')
    refuse_expr('~self', '~ has no meaning for floating types')
    refuse_expr('self', "dtypes: 'quaternion' is none of", 'quaternion')


def test_expressions():
    code = entry_of(load_text(''), 'add.Tensor').elementwise_code
    assert code.float_text == '(a0 + (s0 * a1))', code.float_text
    assert code.int_text == 'TN_INT_ADD(T, a0, TN_INT_MUL(T, s0, a1))', code.int_text
    assert code.ref_text == '(a[0] + (s[0] * a[1]))', code.ref_text
    registry = load_text('''
- op: pick(Tensor self, Scalar low) -> Tensor
  meta: elementwise
  promote: default
  expr: self if self > low and not isnan(self) else -low
  dtypes: int+float
  doc: d
''')
    code = entry_of(registry, 'pick').elementwise_code
    assert code.float_text == '(((a0 > s0) & (F##_isnan(a0) == 0)) ? a0 : (-s0))', code.float_text
    assert code.int_text == '(((a0 > s0) & ((T)0 == 0)) ? a0 : TN_INT_NEG(T, s0))', code.int_text
    assert code.mask == 'TN_DTYPES_INT | TN_DTYPES_FLOAT'


def test_divisors_of_integers_are_listed():
    registry = load_text('''
- op: rest(Tensor self, Tensor other, Scalar scale) -> Tensor
  meta: elementwise
  promote: default
  expr: (self + other) % scale // 2 + fmod(scale, other)
  dtypes: int+float
  doc: d
''')
    assert entry_of(registry, 'rest').elementwise_code.divisors == ['a1', 's0']
    text = emit_elementwise.emit_elementwise(registry)
    assert 'X(rest, 1)' in text and 'X(rest, 2)' in text
    refuse_expr('self % (self + 1)', 'integers are divided by an argument or a number', 'int')
    refuse_expr('self // 0', 'integers are divided by an argument or a number', 'int')


def refuse_sample(sample, words):
    refuse('- op: f(Tensor self, int n, str? s=None, ScalarType? t=None) -> Tensor\n  meta: f\n'
           '  samples: ["%s"]\n  doc: d\n' % sample, words)


def test_samples():
    registry = load_text('')
    text = emit_samples.emit_samples(registry)
    assert '"sum.dim_IntList", "T(2, 3), None, True, dtype=\'float64\'"' in text
    texts = [s.text for s in entry_of(registry, 'add.Tensor').samples]
    for needed in ('broadcast', '0-d', 'empty', 'transposed', 'sliced', 'expanded', 'other numbers'):
        assert needed in texts, texts
    refuse_sample('T(2)', "'n' is missing")
    refuse_sample('T(2), 1.5', "'n' is of type int")
    refuse_sample('T(-2), 1', 'sizes are whole numbers from 0')
    refuse_sample("T(2, dtype='int63'), 1", 'none of dtype, strides, low, high')
    refuse_sample('T(2), 1, 2', "'s' is of type str?")
    refuse_sample('T(2), TESTED', 'TESTED is a dtype')
    refuse_sample('T(2), 1, x=3', "there is no argument 'x' left")
    refuse_sample('T(2, 1', 'no Python tuple')


def test_typed_calls():
    registry = load_text('')
    header, source = emit_api.emit_ops_h(registry), emit_api.emit_ops_api(registry)
    assert 'TN_EXPORT tn_status tn_mul(tn_tensor *self, tn_tensor *other, tn_tensor **out_result);' in header
    assert 'tn_status tn_max_dim(tn_tensor *self, int64_t dim, bool keepdim, tn_tensor **out_values,' in header
    body = source[source.index('tn_status tn_mul('):]
    body = body[:body.index('\n}\n')]
    assert 'self->keys | other->keys' in body and 'for (' not in body
    scoped = emit_api.emit_scoped_h(registry)
    assert 'tns_mul(tn_tensor *self, tn_tensor *other)' in scoped
    assert 'tns_max_dim' not in scoped and 'tns_add_out' not in scoped  # two results; out form
    assert 'return self;' in scoped[scoped.index('*tns_add_('):]


def run(script, *args):
    done = subprocess.run([sys.executable, os.path.join(GEN, script)] + list(args), capture_output=True, text=True)
    return done.returncode, done.stderr


def read_all(folder):
    texts = {}
    for path in glob.glob(os.path.join(folder, '**', '*'), recursive=True):
        if os.path.isfile(path):
            with open(path, encoding='utf-8') as f:
                texts[os.path.relpath(path, folder)] = f.read()
    return texts


def test_the_registry_generates_the_same_text_twice():
    files = sorted(glob.glob(os.path.join(ROOT, 'registry', 'ops', '*.yaml')))
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        for folder, order in ((a, files), (b, files[::-1])):
            status, words = run('main.py', '--out', folder, *order)
            assert status == 0, words
        first, second = read_all(a), read_all(b)
        times = {n: os.stat(os.path.join(a, n)).st_mtime_ns for n in first}
        assert run('main.py', '--out', a, *files)[0] == 0
        assert times == {n: os.stat(os.path.join(a, n)).st_mtime_ns for n in first}  # unchanged files stay untouched
    assert len(first) == 11 and first == second
    for name in first:
        assert first[name], name + ' is empty'
    for line in first['ops_table.c'].split('\n'):
        if line.strip().startswith('.file = '):
            assert line.strip().startswith('.file = "registry/ops/'), line


def test_explain_holds_every_form():
    registry = load_text('')
    text = '\n' + emit_explain.emit_explain(registry)
    for form in registry.forms:
        assert '\n== %s\n' % form.schema.name in text, form.schema.name
    block = text[text.index('\n== mul.Tensor\n'):]
    for words in ('entry: test.yaml:11', 'self: grad * other', 'keeps other', 'tn_status tn_mul(', 'samples:'):
        assert words in block[:block.index('\n== ', 4)], words


PLUGIN = '''
- op: acme_twice(Tensor self) -> Tensor
  forms: [inplace]
  body: self + self
  doc: Twice.
- op: acme_pair(Tensor self, Scalar scale=1) -> (Tensor y, Tensor z)
  meta: acme_pair
  grad:
    self: grads[0] * scale + grads[1]
  samples: ["T(2, 3)", "T(3), S(0.5)"]
  doc: Two results.
- op: acme::clip.Two(Tensor self, float low) -> Tensor
  forms: [inplace]
  body: acme_twice(self) * low
  doc: Says whose it is.
- op: acme::again(Tensor self) -> Tensor
  body: acme_clip(self, 2.0)
  doc: Calls another one.
'''


def test_operators_of_a_plugin():
    builtin = os.path.join(ROOT, 'registry', 'ops')
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'acme.yaml')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(PLUGIN)
        status, words = run('add_operators.py', '--out', folder, '--name', 'acme', '--builtin', builtin, path)
        assert status == 0, words
        texts = read_all(folder)
        source, header = texts['acme_operators.c'], texts['acme_operators.h']
        assert 'tn_status acme_register_operators(const tn_host *host, tn_registration *reg);' in header
        assert 'tn_status tn_meta_acme_pair(tn_meta *meta, const tn_value *args);' in header
        assert source.count('host->register_operator(') == 6
        assert 'def_acme_clip_Two' in source and 'call_by_name(&op_acme_clip_Two, "acme::clip.Two"' in source
        assert source.count('.samples = samples_acme_pair,') == 1 and source.count('.samples =') == 1
        assert source.count('{"acme_pair", ') == 2 and '"T(3), S(0.5)"' in source
        for schema in ('acme_twice(Tensor self) -> Tensor', 'acme::clip_.Two(Tensor(a!) self, float low) -> Tensor(a!)'):
            assert '"operator %s\\n"' % schema in header, header
        for word in ('tni_', 'core/', 'tenon/ops.h', 'tenon/tensor.h', 'tn_fail('):
            assert word not in source, word
        with open(path, 'w', encoding='utf-8') as f:
            f.write(PLUGIN.replace('body: self + self', 'body: self + nothing'))
        status, words = run('add_operators.py', '--out', folder, '--name', 'acme', '--builtin', builtin, path)
        assert status == 1 and 'acme.yaml:4: acme_twice: body:' in words, words


def test_the_command_says_what_is_wrong():
    with tempfile.TemporaryDirectory() as folder:
        status, words = run('main.py', '--out', folder, os.path.join(folder, 'none.yaml'))
        assert status == 1 and 'No such file' in words and 'Traceback' not in words, words
        path = os.path.join(folder, 'bad.yaml')
        with open(path, 'w', encoding='utf-8') as f:
            f.write('- op: f(Tensor a) -> Tensor\n  meta: f\n  doc: d\n  samples: ["1"]\n  primitive: yes\n')
        status, words = run('main.py', '--out', os.path.join(folder, 'out'), path)
        assert status == 1 and "bad.yaml:4: f: sample" in words and 'Traceback' not in words, words
        assert not os.path.exists(os.path.join(folder, 'out'))  # nothing half written


def main():
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith('test_'):
            continue
        try:
            test()
            passed += 1
            print('generator.%s ... ok' % name[5:])
        except Exception:
            failed += 1
            print('generator.%s ... FAILED' % name[5:])
            traceback.print_exc(file=sys.stdout)
    print('%d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
