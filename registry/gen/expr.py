# SPDX-License-Identifier: Apache-2.0
"""Elementwise expressions: one Python-syntax line to C for floating types, for integers, and for doubles.

The three writers share one walk and differ in operators and function names only. Integers never overflow into
undefined behaviour: + - * and negation go through macros that the consumer defines on unsigned arithmetic;
division and remainder of integers are functions of the consumer (floor semantics, zero divisor gives 0).
Not here: which loops run them (backends), and dtype promotion (meta rules).
"""

import ast
import re

# name -> (number of arguments, defined for integers)
FUNCTIONS = {
    'exp': (1, False), 'exp2': (1, False), 'expm1': (1, False), 'log': (1, False), 'log1p': (1, False),
    'log2': (1, False), 'log10': (1, False), 'sqrt': (1, False), 'rsqrt': (1, False), 'sin': (1, False),
    'cos': (1, False), 'tan': (1, False), 'asin': (1, False), 'acos': (1, False), 'atan': (1, False),
    'atan2': (2, False), 'sinh': (1, False), 'cosh': (1, False), 'tanh': (1, False), 'erf': (1, False),
    'erfc': (1, False), 'ncdf': (1, False), 'sigmoid': (1, False), 'hypot': (2, False),
    'abs': (1, True), 'sign': (1, True), 'floor': (1, True), 'ceil': (1, True), 'round': (1, True),
    'trunc': (1, True), 'min': (2, True), 'max': (2, True), 'pow': (2, True), 'fmod': (2, True),
    'isnan': (1, True), 'isinf': (1, True), 'isfinite': (1, True),
}
COMPARE = {ast.Eq: '==', ast.NotEq: '!=', ast.Lt: '<', ast.LtE: '<=', ast.Gt: '>', ast.GtE: '>='}
ARITHMETIC = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Div: '/'}
BITS = {ast.BitAnd: '&', ast.BitOr: '|', ast.BitXor: '^'}


class ExprError(Exception):
    pass


class FloatOnly(ExprError):
    """The expression has no meaning for integers."""


class Writer:
    """Walks one expression. names: argument name -> C text."""

    def __init__(self, names):
        self.names = names

    def write(self, node):
        method = getattr(self, 'write_' + type(node).__name__, None)
        if not method:
            raise ExprError('%s is not part of elementwise expressions' % type(node).__name__)
        return method(node)

    def write_Name(self, node):
        if node.id not in self.names:
            raise ExprError("'%s' is no argument" % node.id)
        return self.names[node.id]

    def write_Constant(self, node):
        if isinstance(node.value, (bool, int, float)):
            return self.number(node.value)
        raise ExprError('%r is no number' % (node.value,))

    def write_Compare(self, node):
        if len(node.ops) != 1 or type(node.ops[0]) not in COMPARE:
            raise ExprError('one comparison at a time (==, !=, <, <=, >, >=); join several by `and`')
        return '(%s %s %s)' % (self.write(node.left), COMPARE[type(node.ops[0])], self.write(node.comparators[0]))

    def truth(self, node):
        """C text that is 0 or 1."""
        text = self.write(node)
        is_truth = isinstance(node, (ast.Compare, ast.BoolOp)) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        return text if is_truth else '(%s != 0)' % text

    def write_BoolOp(self, node):
        # & and | rather than && and ||: the loops stay free of branches.
        sign = ' & ' if isinstance(node.op, ast.And) else ' | '
        return '(%s)' % sign.join(self.truth(v) for v in node.values)

    def write_IfExp(self, node):
        return '(%s ? %s : %s)' % (self.truth(node.test), self.write(node.body), self.write(node.orelse))

    def write_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return '(%s == 0)' % self.write(node.operand)
        if isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float):
                return self.number(-node.operand.value)
            return self.negate(self.write(node.operand))
        if isinstance(node.op, ast.Invert):
            return self.invert(self.write(node.operand))
        return self.write(node.operand)

    def write_BinOp(self, node):
        op, left, right = type(node.op), self.write(node.left), self.write(node.right)
        if op in ARITHMETIC:
            return self.arithmetic(ARITHMETIC[op], left, right)
        if op is ast.FloorDiv:
            return self.function('floordiv', [left, right])
        if op is ast.Mod:
            return self.function('mod', [left, right])
        if op is ast.Pow:
            return self.function('pow', [left, right])
        if op in BITS:
            return self.bits(BITS[op], left, right)
        raise ExprError('operator %s is not part of elementwise expressions' % op.__name__)

    def write_Call(self, node):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise ExprError("there is no function '%s'" % ast.unparse(node.func))
        name = node.func.id
        if len(node.args) != FUNCTIONS[name][0]:
            raise ExprError('%s takes %d argument(s), %d given' % (name, FUNCTIONS[name][0], len(node.args)))
        return self.call(name, node.args)

    def call(self, name, args):
        return self.function(name, [self.write(a) for a in args])


class FloatWriter(Writer):
    """T is the compute type; functions are F##_exp and so on."""

    def number(self, value):
        return '(T)%r' % (int(value) if isinstance(value, bool) else value)

    def negate(self, x):
        return '(-%s)' % x

    def invert(self, x):
        raise ExprError('~ has no meaning for floating types')

    def bits(self, sign, left, right):
        raise ExprError('%s has no meaning for floating types' % sign)

    def arithmetic(self, sign, left, right):
        return '(%s %s %s)' % (left, sign, right)

    def function(self, name, args):
        return 'F##_%s(%s)' % (name, ', '.join(args))


class IntWriter(Writer):
    """divisors: the operands that an integer is divided by, as they stand in the text."""
    DIVISIONS = ('truncdiv', 'fmod', 'floordiv', 'mod')
    MACROS = {'+': 'TN_INT_ADD', '-': 'TN_INT_SUB', '*': 'TN_INT_MUL'}
    IDENTITY = ('floor', 'ceil', 'round', 'trunc')

    def __init__(self, names):
        super().__init__(names)
        self.divisors = []

    def number(self, value):
        if isinstance(value, float):
            raise FloatOnly('the number %r is for floating types' % value)
        return '(T)%d' % value

    def negate(self, x):
        return 'TN_INT_NEG(T, %s)' % x

    def invert(self, x):
        return 'F##_invert(%s)' % x

    def bits(self, sign, left, right):
        return '(%s %s %s)' % (left, sign, right)

    def arithmetic(self, sign, left, right):
        if sign == '/':
            return self.function('truncdiv', [left, right])
        return '%s(T, %s, %s)' % (self.MACROS[sign], left, right)

    def divisor(self, text):
        if text in self.names.values():
            self.divisors.append(text)
        elif not re.fullmatch(r'\(T\)-?[1-9][0-9]*', text):
            raise ExprError('integers are divided by an argument or a number other than 0: backends look at the divisors first')

    def function(self, name, args):
        if name in self.DIVISIONS:
            self.divisor(args[1])
        return 'F##_%s(%s)' % (name, ', '.join(args))

    def call(self, name, args):
        if not FUNCTIONS[name][1]:
            raise FloatOnly('%s is for floating types' % name)
        texts = [self.write(a) for a in args]
        if name in self.IDENTITY:
            return texts[0]
        if name in ('isnan', 'isinf', 'isfinite'):
            return '(T)%d' % (name == 'isfinite')
        return self.function(name, texts)


class RefWriter(FloatWriter):
    """Plain C on doubles; integer-only operators go through int64_t."""

    def number(self, value):
        return repr(float(value))

    def invert(self, x):
        return '(double)(~(int64_t)%s)' % x

    def bits(self, sign, left, right):
        return '(double)((int64_t)%s %s (int64_t)%s)' % (left, sign, right)

    def function(self, name, args):
        return 'tn_reff_%s(%s)' % (name, ', '.join(args))


# Functions of the reference: C text of the body over x, y.
REFERENCE = {
    'abs': 'fabs(x)', 'rsqrt': '1.0 / sqrt(x)', 'sigmoid': '1.0 / (1.0 + exp(-x))', 'round': 'rint(x)',
    'ncdf': '0.5 * erfc(-x * 0.70710678118654752440)',  # the normal distribution function
    'sign': '(x > 0) - (x < 0)', 'isnan': 'isnan(x) != 0', 'isinf': 'isinf(x) != 0',
    'isfinite': 'isfinite(x) != 0', 'min': 'isnan(x) || x < y ? x : y', 'max': 'isnan(x) || x > y ? x : y',
    'floordiv': 'floor(x / y)', 'mod': 'fmod(x, y) != 0 && (fmod(x, y) < 0) != (y < 0) ? fmod(x, y) + y : fmod(x, y)',
}
EXTRA_FUNCTIONS = {'floordiv': 2, 'mod': 2}


def parse(text):
    try:
        return ast.parse(text.strip(), mode='eval').body
    except SyntaxError as e:
        raise ExprError("'%s' is no expression: %s" % (text, e.msg))
