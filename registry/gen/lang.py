# SPDX-License-Identifier: Apache-2.0
"""The language of gradients and bodies: a Python-syntax expression to C statements that call operators.

A value is a tensor (an argument, a gradient, or a temporary t[i] of the emitted function) or a plain C value
(number, string, dtype, list). Tensor operators become typed calls whose overload is chosen by argument types;
every call's result is a temporary that the function releases at its end. What the expression reads of the
forward call is recorded in Block.saves: `x.sizes` and its like read the descriptor and keep nothing.
Not here: the C function around the statements (emit_grads.py), and which types fit (overload.py).
"""

import ast
from dataclasses import dataclass, field
from typing import List, Optional

import overload
from ctypes_map import C_KEYWORDS, c_string
from values import NONE, Val, as_double, as_scalar, present, truth, unwrap

RESERVED = {'ctx', 'grad_outs', 'grad_ins', 't', 'call', 'done', 'out', 'grad', 'grads', 'result'}

COMPARE_OPS = {ast.Eq: ('==', 'eq', 'eq'), ast.NotEq: ('!=', 'ne', 'ne'), ast.Lt: ('<', 'lt', 'gt'),
               ast.LtE: ('<=', 'le', 'ge'), ast.Gt: ('>', 'gt', 'lt'), ast.GtE: ('>=', 'ge', 'le')}
TENSOR_OPS = {ast.Add: 'add', ast.Sub: 'sub', ast.Mult: 'mul', ast.Div: 'div', ast.Pow: 'pow', ast.Mod: 'remainder',
              ast.FloorDiv: 'floor_divide', ast.MatMult: 'matmul', ast.BitAnd: 'bitwise_and',
              ast.BitOr: 'bitwise_or', ast.BitXor: 'bitwise_xor'}
NUMBER_OPS = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*'}
SCALAR_OPS = {ast.Add: 'scalar_add', ast.Sub: 'scalar_sub', ast.Mult: 'scalar_mul', ast.Div: 'scalar_div',
              ast.Pow: 'scalar_pow'}
NUMBERS = ('int', 'float', 'bool', 'scalar')
NUMBER_FUNCTIONS = {'sqrt': 'sqrt', 'exp': 'exp', 'log': 'log', 'abs': 'fabs'}


class LangError(Exception):
    pass


def local_name(name):
    return name + '_' if name in RESERVED or name in C_KEYWORDS else name


@dataclass
class Saves:
    args: int = 0
    outs: int = 0
    values: int = 0


@dataclass
class Function:
    """The C function under construction: its temporaries and the locals that its statements use."""
    schema: object
    registry: object
    args_c: str                   # 'ctx->args' or 'args'
    is_gradient: bool
    diff_results: int = 1         # results that may carry a gradient
    n_temps: int = 0
    locals: dict = field(default_factory=dict)   # name -> list of declarations
    uses_status: bool = False
    in_plugin: bool = False       # no core behind it: zeros for a missing gradient come from the saved result

    def temp(self):
        self.n_temps += 1
        return 't[%d]' % (self.n_temps - 1)


@dataclass
class Block:
    """One expression's statements."""
    function: Function
    saves: Saves = field(default_factory=Saves)
    lines: List[str] = field(default_factory=list)
    indent: int = 4
    memo: dict = field(default_factory=dict)
    made: List[str] = field(default_factory=list)  # temporaries that this block assigns
    wrote: bool = False           # in place, into one of them: what was remembered may be stale

    # ---------------------------------------------------------------- statements

    def put(self, text):
        self.lines.append('\n'.join(' ' * self.indent + line for line in text.split('\n')))

    def try_call(self, text):
        self.function.uses_status = True
        self.put('TRY(%s);' % text)

    def nested(self):
        return Block(self.function, self.saves, [], self.indent + 2, dict(self.memo))

    def new_temp(self):
        self.made.append(self.function.temp())
        return self.made[-1]

    def owned(self, value):
        """C text that gives a count of the tensor away: this block's own temporaries move."""
        return ('take(&%s)' if value.c in self.made else 'tn_tensor_retain(%s)') % value.c

    # ---------------------------------------------------------------- names

    def arg_value(self, index):
        arg = self.function.schema.args[index]
        name, place = local_name(arg.name), '%s[%d]' % (self.function.args_c, index)
        if arg.is_tensor_list:
            raise LangError("'%s' is a list of tensors; its gradient or body must be a C function (c:NAME)" % arg.name)
        value, decls = overload.argument(arg, name, place)
        self.function.locals.setdefault(name, decls)
        return value

    def arg_read(self, index):
        """The argument as a whole: a tensor is kept, a number is copied."""
        value = self.arg_value(index)
        if value.is_tensor:
            self.saves.args |= 1 << index
        else:
            self.saves.values |= 1 << index
        return value

    def result_index(self, name):
        results = self.function.schema.results
        if name == 'result':
            return 0
        if name.startswith('result') and name[6:].isdigit() and int(name[6:]) < len(results):
            return int(name[6:])
        return next((i for i, r in enumerate(results) if r.name == name), None)

    def result_value(self, index):
        self.saves.outs |= 1 << index
        name = 'result' if len(self.function.schema.results) == 1 else 'result%d' % index
        self.function.locals.setdefault(name, ['tn_tensor *%s = ctx->outs[%d];' % (name, index)])
        return Val('tensor', name)

    def grad_value(self, index):
        """Gradient of a result; zeros if others came but this one did not."""
        if not 0 <= index < len(self.function.schema.results):
            raise LangError('grads[%d]: there are %d results' % (index, len(self.function.schema.results)))
        name = 'grad' if len(self.function.schema.results) == 1 else 'grad%d' % index
        self.function.locals.setdefault(name, ['tn_tensor *%s = grad_outs[%d];' % (name, index)])
        if self.function.diff_results > 1 and ('zeros', index) not in self.memo:
            self.memo['zeros', index] = True
            self.put('if (!%s) {' % name)
            self.indent += 2
            zeros = self.zeros_of_result(index)
            self.put('%s = %s;' % (name, zeros.c))
            self.indent -= 2
            self.put('}')
        return Val('tensor', name)

    def zeros_of_result(self, index):
        if self.function.in_plugin:
            return self.operator('zeros_like', [self.result_value(index)])
        temp = self.new_temp()
        self.try_call('tni_materialize_grad(ctx, %d, &%s)' % (index, temp))
        return Val('tensor', temp, is_temp=True)

    def arg_index(self, name):
        return next((i for i, a in enumerate(self.function.schema.args) if a.name == name), None)

    def write_Name(self, node):
        index = self.arg_index(node.id)
        if index is not None:
            return self.arg_read(index)
        if self.function.is_gradient:
            if node.id == 'grad':
                return self.grad_value(0)
            index = self.result_index(node.id)
            if index is not None:
                return self.result_value(index)
        raise LangError("'%s' is neither an argument nor a result" % node.id)

    def tensor_only_described(self, node):
        """A tensor of which only sizes, dtype or device are read: nothing is saved for it."""
        if isinstance(node, ast.Name):
            index = self.arg_index(node.id)
            if index is not None and self.function.schema.args[index].is_tensor:
                self.saves.values |= 1 << index
                return self.arg_value(index)
            index = self.result_index(node.id) if self.function.is_gradient and index is None else None
            if index is not None:
                return self.grad_value(index)
        return self.write(node)

    # ---------------------------------------------------------------- expressions

    def write(self, node) -> Val:
        method = getattr(self, 'write_' + type(node).__name__, None)
        if not method:
            raise LangError('%s is not part of the language' % type(node).__name__)
        key = ast.dump(node)
        if key in self.memo:
            return self.memo[key]
        value = method(node)
        if value.is_temp:
            self.memo[key] = value
        return value

    def write_Constant(self, node):
        if node.value is None:
            return NONE
        if isinstance(node.value, bool):
            return Val('bool', 'true' if node.value else 'false')
        if isinstance(node.value, int):
            return Val('int', str(node.value), const=node.value)
        if isinstance(node.value, float):
            return Val('float', repr(node.value), const=node.value)
        if isinstance(node.value, str):
            return Val('str', c_string(node.value), const=node.value)
        raise LangError('%r is no value of the language' % (node.value,))

    def write_List(self, node):
        values = [unwrap(self.write(e)) for e in node.elts]
        if any(v.kind not in NUMBERS for v in values):
            raise LangError('a list in brackets holds numbers')
        kind, c_type = ('ints', 'int64_t') if all(v.kind == 'int' for v in values) else ('floats', 'double')
        texts = [v.c if kind == 'ints' else as_double(v) for v in values]
        return Val(kind, '(const %s[]){%s}' % (c_type, ', '.join(texts) or '0'), n=str(len(values)))

    write_Tuple = write_List

    def write_Attribute(self, node):
        value = self.tensor_only_described(node.value)
        if not value.is_tensor:
            raise LangError(".%s is read of tensors only" % node.attr)
        c = value.c
        if node.attr in ('sizes', 'shape'):
            return Val('ints', 'tn_tensor_sizes(%s)' % c, n='(size_t)tn_tensor_ndim(%s)' % c)
        if node.attr == 'ndim':
            return Val('int', '(int64_t)tn_tensor_ndim(%s)' % c)
        if node.attr == 'numel':
            return Val('int', 'tn_tensor_numel(%s)' % c)
        if node.attr == 'dtype':
            return Val('dtype', 'tn_tensor_dtype(%s)' % c)
        if node.attr == 'device':
            return Val('device', 'tn_tensor_device(%s)' % c)
        if node.attr == 'column_major':
            return Val('bool', 'is_column_major(%s)' % c)
        raise LangError("a tensor has sizes, ndim, numel, dtype, device, column_major; not '%s'" % node.attr)

    def write_Subscript(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == 'grads' and self.function.is_gradient:
            return self.grad_value(self.constant_index(node.slice))
        value = self.write(node.value)
        if value.kind == 'tuple':
            index = self.constant_index(node.slice)
            if not 0 <= index < len(value.items):
                raise LangError('[%d]: the call has %d results' % (index, len(value.items)))
            return value.items[index]
        if value.kind == 'ints':
            return Val('int', 'int_at(%s, %s, %s)' % (value.c, value.n, self.write(node.slice).c))
        raise LangError('[ ] is for grads, lists of ints and calls with several results')

    @staticmethod
    def constant_index(node):
        if not isinstance(node, ast.Constant) or type(node.value) is not int:
            raise LangError('a plain number was expected in [ ]')
        return node.value

    def write_UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and \
                type(node.operand.value) in (int, float):
            return self.write_Constant(ast.Constant(-node.operand.value))
        value = self.write(node.operand)
        if isinstance(node.op, ast.Not):
            return Val('bool', '!%s' % truth(value))
        if isinstance(node.op, ast.USub):
            if value.is_tensor:
                return self.operator('neg', [value])
            value = unwrap(value)
            if value.kind == 'scalar':
                return Val('scalar', 'scalar_sub(tn_int(0), %s)' % value.c)
            return Val('int' if value.kind == 'bool' else value.kind, '(-%s)' % value.c)
        if isinstance(node.op, ast.Invert) and value.is_tensor:
            return self.operator('bitwise_not', [value])
        raise LangError('that sign is not part of the language')

    def write_BoolOp(self, node):
        sign = ' && ' if isinstance(node.op, ast.And) else ' || '
        return Val('bool', '(%s)' % sign.join(truth(self.write(v)) for v in node.values))

    def write_Compare(self, node):
        if len(node.ops) != 1:
            raise LangError('one comparison at a time; join several by `and`')
        op, left, right = type(node.ops[0]), node.left, node.comparators[0]
        if op in (ast.Is, ast.IsNot):
            if not isinstance(right, ast.Constant) or right.value is not None:
                raise LangError('`is` compares with None only')
            text = present(self.tensor_only_described(left))
            return Val('bool', text if op is ast.IsNot else '!' + text)
        if op not in COMPARE_OPS:
            raise LangError('that comparison is not part of the language')
        sign, name, flipped = COMPARE_OPS[op]
        a, b = self.write(left), self.write(right)
        if a.is_tensor or b.is_tensor:
            return self.operator(name, [a, b]) if a.is_tensor else self.operator(flipped, [b, a])
        return overload.compare_plain(sign, unwrap(a), unwrap(b))

    def write_BinOp(self, node):
        op, a, b = type(node.op), self.write(node.left), self.write(node.right)
        if op not in TENSOR_OPS:
            raise LangError('operator %s is not part of the language' % op.__name__)
        if a.is_tensor:
            return self.operator(TENSOR_OPS[op], [a, b])
        if b.is_tensor:
            return self.number_first(op, unwrap(a), b)
        return self.number_operator(op, unwrap(a), unwrap(b))

    def number_first(self, op, number, tensor):
        if op in (ast.Add, ast.Mult):
            return self.operator(TENSOR_OPS[op], [tensor, number])
        if op is ast.Sub:
            return self.operator('rsub', [tensor, number])
        if op is ast.Div:
            inverse = self.operator('reciprocal', [tensor])
            return inverse if number.const == 1 else self.operator('mul', [inverse, number])
        return self.operator(TENSOR_OPS[op], [number, tensor])

    @staticmethod
    def number_operator(op, a, b):
        for value in (a, b):
            if value.kind not in NUMBERS:
                raise LangError('arithmetic on a %s' % value.kind)
        if 'scalar' in (a.kind, b.kind):
            if op not in SCALAR_OPS:
                raise LangError('+ - * / ** are defined on a Scalar')
            return Val('scalar', '%s(%s, %s)' % (SCALAR_OPS[op], as_scalar(a), as_scalar(b)))
        kind = 'float' if 'float' in (a.kind, b.kind) else 'int'
        if op in NUMBER_OPS:
            return Val(kind, '(%s %s %s)' % (a.c, NUMBER_OPS[op], b.c))
        if op is ast.Div:
            return Val('float', '(%s / %s)' % (as_double(a), as_double(b)))
        if op is ast.Pow:
            return Val('float', 'pow(%s, %s)' % (as_double(a), as_double(b)))
        if kind == 'int' and op in (ast.FloorDiv, ast.Mod):
            return Val('int', '%s(%s, %s)' % ('int_floor_div' if op is ast.FloorDiv else 'int_mod', a.c, b.c))
        raise LangError('that operator is not defined on numbers')

    def write_IfExp(self, node):
        condition = truth(self.write(node.test))
        yes, no = self.nested(), self.nested()
        a, b = yes.write(node.body), no.write(node.orelse)
        if not (a.is_tensor or b.is_tensor):
            if yes.lines or no.lines:
                raise LangError('a number that depends on a condition may not call operators')
            return overload.choose_plain(condition, a, b)
        for value in (a, b):
            if not value.is_tensor and value.kind != 'none':
                raise LangError('one side of `if` is a tensor, the other a %s' % value.kind)
        temp = self.new_temp()
        for block, value in ((yes, a), (no, b)):
            if value.kind != 'none':
                block.put('%s = %s;' % (temp, block.owned(value)))
        self.put('if (%s) {' % strip_parens(condition))
        self.lines += yes.lines
        if no.lines:
            self.put('} else {')
            self.lines += no.lines
        self.put('}')
        if yes.wrote or no.wrote:
            self.memo.clear()
            self.wrote = True
        optional = NONE in (a, b) or a.optional or b.optional
        return Val('tensor', temp, is_temp=True, optional=optional)

    # ---------------------------------------------------------------- calls

    def write_Call(self, node):
        name, over, args = self.callee(node)
        values = args + [self.write(a) for a in node.args]
        keywords = {k.arg: self.write(k.value) for k in node.keywords}
        if name == 'len' and len(values) == 1 and values[0].n:
            return Val('int', '(int64_t)%s' % values[0].n)
        plain = [unwrap(v) for v in values]
        if name == 'size' and len(values) == 2 and values[0].is_tensor:
            return Val('int', 'int_at(tn_tensor_sizes(%s), (size_t)tn_tensor_ndim(%s), %s)'
                       % (values[0].c, values[0].c, plain[1].c))
        if not keywords and name in NUMBER_FUNCTIONS and len(plain) == 1 and plain[0].kind in NUMBERS:
            return Val('float', '%s(%s)' % (NUMBER_FUNCTIONS[name], as_double(plain[0])))
        return self.operator(name, values, keywords, over)

    def callee(self, node):
        """(operator's base name, overload or None, receiver of a method call)"""
        func = node.func
        if isinstance(func, ast.Name):
            return func.id, None, []
        if not isinstance(func, ast.Attribute):
            raise LangError('a name was expected before (')
        known = isinstance(func.value, ast.Name) and self.arg_index(func.value.id) is None
        if known and func.value.id in self.function.registry.by_base:
            return func.value.id, func.attr, []
        receiver = self.tensor_only_described(func.value) if func.attr == 'size' else self.write(func.value)
        return func.attr, None, [receiver]

    def operator(self, name, values, keywords=None, over=None) -> Val:
        """Emits the typed call of operator `name` and gives its result."""
        form, bound = overload.resolve(self.function.registry, name, over, values, keywords or {})
        if form is None:
            raise LangError(bound)
        self.function.registry.called[form.schema.name] = form
        args = overload.c_arguments(form, bound)
        if form.returns_results:
            if form.schema.results[0].list:
                raise LangError('%s returns a list; write a C function (c:NAME)' % form.schema.name)
            temps = [self.new_temp() for _ in form.schema.results]
            self.try_call(overload.call_text(form, args + ['&' + t for t in temps], self.indent))
            results = [Val('tensor', t, is_temp=True) for t in temps]
            return results[0] if len(results) == 1 else Val('tuple', '', items=results)
        self.check_writes(form, bound)
        self.try_call(overload.call_text(form, args, self.indent))
        self.memo.clear()
        self.wrote = True
        return next((v for a, v in zip(form.schema.args, bound) if a.writes), NONE)

    def check_writes(self, form, bound):
        """In place only into own temporaries, or (bodies) into what the schema says is written."""
        writable = {local_name(a.name) for a in self.function.schema.args if a.writes}
        for arg, value in zip(form.schema.args, bound):
            if arg.writes and not value.is_temp and (self.function.is_gradient or value.c not in writable):
                raise LangError('%s writes into %s, which the expression did not make' % (form.schema.name, value.c))


def strip_parens(text):
    """`(a == b)` without its outer pair, if that is one pair."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == '(') - (c == ')')
        if depth == 0 and i + 1 < len(text):
            return text
    return text[1:-1] if text.startswith('(') else text


def parse(text):
    try:
        return ast.parse(text.strip(), mode='eval').body
    except SyntaxError as e:
        raise LangError("'%s' is no expression: %s" % (text.strip(), e.msg))
