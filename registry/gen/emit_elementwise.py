# SPDX-License-Identifier: Apache-2.0
"""elementwise.inc (what backends loop over) and elementwise_ref.inc (the same in double, for tests)."""

import ast
import textwrap
from dataclasses import dataclass
from typing import Optional

import expr
from ctypes_map import c_string
from schema import DTYPES
from text import banner

WORDS = {'all': 'TN_DTYPES_ALL', 'int': 'TN_DTYPES_INT', 'float': 'TN_DTYPES_FLOAT', 'half': 'TN_DTYPES_HALF',
         'bool': 'TN_DTYPE_BIT(TN_BOOL)'}
HAS_FLOAT = ('all', 'float', 'half', 'float16', 'bfloat16', 'float32', 'float64')
HAS_BOOL = ('all', 'bool')


@dataclass
class Elementwise:
    """One compiled expression. float_text or int_text is None where dtypes leaves the class out."""
    tensors: list
    scalars: list
    words: list          # of the dtypes field
    float_text: Optional[str]
    int_text: Optional[str]
    ref_text: str
    returns_bool: bool
    divisors: list       # C texts of the operands that an integer is divided by

    @property
    def mask(self):
        return ' | '.join(WORDS.get(w) or 'TN_DTYPE_BIT(%s)' % DTYPES[w] for w in self.words)

    @property
    def has_bool(self):
        return any(w in HAS_BOOL for w in self.words)


def dtype_words(entry):
    default = 'float' if entry.text('promote') == 'int_to_float' else 'all'
    words = [w.strip() for w in entry.text('dtypes', default).split('+')]
    for word in words:
        if word not in WORDS and word not in DTYPES:
            raise entry.error("dtypes: '%s' is none of %s or a dtype's name" % (word, ', '.join(WORDS)),
                              entry.line_of('dtypes'))
    return words


def slots(entry):
    """Operands: tensors, and numbers. Arguments of other types (a bool, a string) are no operands."""
    tensors = [a for a in entry.schema.args if a.is_tensor]
    scalars = [a for a in entry.schema.args if not a.list and a.type in ('Scalar', 'float')]
    return tensors, scalars


def check_names(entry, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            arg = entry.schema.arg(node.id)
            if arg and arg.optional:
                raise expr.ExprError("'%s' may be absent; an elementwise loop needs its value" % node.id)


def compile_entry(entry):
    tensors, scalars = slots(entry)
    line = entry.line_of('expr')
    words = dtype_words(entry)
    names = {a.name: 'a%d' % i for i, a in enumerate(tensors)}
    names.update((a.name, 's%d' % i) for i, a in enumerate(scalars))
    ref_names = {n: '%s[%s]' % (t[0], t[1:]) for n, t in names.items()}
    has_float = any(w in HAS_FLOAT for w in words)
    has_int = any(w not in HAS_FLOAT or w == 'all' for w in words)
    try:
        tree = expr.parse(entry.text('expr'))
        check_names(entry, tree)
        integers = expr.IntWriter(names)
        return Elementwise(
            tensors, scalars, words,
            expr.FloatWriter(names).write(tree) if has_float else None,
            integers.write(tree) if has_int else None,
            expr.RefWriter(ref_names).write(tree),
            entry.text('promote') in ('compare', 'bool'),
            sorted(set(integers.divisors)))
    except expr.FloatOnly as e:
        raise entry.error('expr: %s, but dtypes is %s' % (e, '+'.join(words)), line)
    except expr.ExprError as e:
        raise entry.error('expr: %s' % e, line)


def compile_all(registry):
    """Sets entry.elementwise_code: None for entries without an expr."""
    for entry in registry.entries:
        entry.elementwise_code = compile_entry(entry) if 'expr' in entry.fields else None


HEAD_WORDS = '''Elementwise expressions, one per operator, for backends and for the fusion compiler.
 *
 * TN_EW_LIST(X) holds X(id, name, n_tensors, n_scalars, dtypes, result, words) for each operator with an
 * expression: dtypes is a tn_dtype_mask of compute dtypes, words the same as a manifest writes it, result
 * is SAME (as the compute dtype) or BOOL.
 * TN_EW_LIST_FLT, _INT and _BOOL hold those whose dtypes include a floating type, an integer or bool, bool.
 * TN_EW_DIVISORS(X) holds X(id, operand) for each operand that the integer expression divides by: its number among
 * the tensors, and then the numbers. An integer divided by 0 has no value: look at these before the loop, and refuse.
 * A file that defines TN_EW before it includes this one gets TN_EW_LIST(TN_EW) expanded at the end.
 *
 * TN_EXPR_FLT_id(T, F, a0, ..., s0, ...) is the value for floating T; TN_EXPR_INT_id for integers, and for
 * bool with T = uint8_t, where the consumer stores (result != 0). a0.. are the tensor arguments in schema
 * order; s0.. the Scalar and float arguments in schema order, converted to T. Arguments of other types are
 * no operands. Operands may be evaluated more than once: pass variables.
 *
 * The consumer defines, for each prefix F that it passes, the functions F_exp(x) and so on of the list
 * below; F_floordiv and F_mod (floor semantics); and for integers F_truncdiv (rounds to 0), F_fmod (sign of
 * the dividend) and F_invert (~; of bool: not). An integer divided by 0 must not trap: whoever looked at the
 * divisors first never sees what it gives. TN_INT_ADD(T, a, b),
 * TN_INT_SUB, TN_INT_MUL and TN_INT_NEG(T, a) wrap: for signed T they compute in unsigned arithmetic.
 * F_min and F_max of floating types return NaN if either operand is NaN; F_round rounds halves to even.
 * Functions in use:%s.'''


def functions_used(entries):
    used = set()
    for entry in entries:
        for node in ast.walk(expr.parse(entry.text('expr'))):
            if isinstance(node, ast.Call):
                used.add(node.func.id)
    return sorted(used)


def fill_lines(words):
    """Words joined by commas, as comment lines."""
    return ','.join(words) and textwrap.fill(' ' + ', '.join(words), 100, subsequent_indent=' * ',
                                             initial_indent='\n *')


def emit_list(name, entries):
    lines = ['#define %s(X)' % name]
    for entry in entries:
        code = entry.elementwise_code
        lines.append('  X(%s, %s, %d, %d, %s, %s, %s)' % (
            entry.functional.ident, c_string(entry.schema.name), len(code.tensors), len(code.scalars),
            code.mask, 'BOOL' if code.returns_bool else 'SAME', c_string(','.join(code.words))))
    return ' \\\n'.join(lines) + '\n\n'


def emit_divisors(entries):
    lines = ['#define TN_EW_DIVISORS(X)']
    for entry in entries:
        code = entry.elementwise_code
        for text in code.divisors:
            place = int(text[1:]) + (0 if text[0] == 'a' else len(code.tensors))
            lines.append('  X(%s, %d)' % (entry.functional.ident, place))
    return ' \\\n'.join(lines) + '\n\n'


def emit_elementwise(registry):
    entries = [e for e in registry.entries if e.elementwise_code]
    parts = [banner(HEAD_WORDS % fill_lines(functions_used(entries))),
             '#ifndef TENON_ELEMENTWISE_INC\n#define TENON_ELEMENTWISE_INC\n\n']
    for entry in entries:
        code = entry.elementwise_code
        params = ['T', 'F'] + ['a%d' % i for i in range(len(code.tensors))]
        params += ['s%d' % i for i in range(len(code.scalars))]
        parts.append('/* %s: %s */\n' % (entry.schema.name, entry.text('expr').strip()))
        for kind, text in (('FLT', code.float_text), ('INT', code.int_text)):
            if text is not None:
                parts.append('#define TN_EXPR_%s_%s(%s) %s\n' % (kind, entry.functional.ident, ', '.join(params), text))
        parts.append('\n')
    parts.append(emit_list('TN_EW_LIST', entries))
    parts.append(emit_list('TN_EW_LIST_FLT', [e for e in entries if e.elementwise_code.float_text is not None]))
    parts.append(emit_list('TN_EW_LIST_INT', [e for e in entries if e.elementwise_code.int_text is not None]))
    parts.append(emit_list('TN_EW_LIST_BOOL', [e for e in entries if e.elementwise_code.has_bool]))
    parts.append(emit_divisors(entries))
    parts.append('#endif\n\n#ifdef TN_EW\nTN_EW_LIST(TN_EW)\n#undef TN_EW\n#endif\n')
    return ''.join(parts)


def reference_functions():
    lines = []
    arities = {n: a for n, (a, _) in expr.FUNCTIONS.items()}
    arities.update(expr.EXTRA_FUNCTIONS)
    for name, arity in arities.items():
        params, args = ('double x', 'x') if arity == 1 else ('double x, double y', 'x, y')
        body = expr.REFERENCE.get(name, '%s(%s)' % (name, args))
        lines.append('__attribute__((unused)) static double tn_reff_%s(%s) { return %s; }\n' % (name, params, body))
    return ''.join(lines)


def emit_elementwise_ref(registry):
    entries = [e for e in registry.entries if e.elementwise_code]
    parts = [banner('Reference of every elementwise expression in double, for tests. a: one value per tensor\n'
                    ' * argument; s: one per Scalar or float argument. BOOL results are 0 or 1.\n'
                    ' * ~ & | ^ work on the value as int64_t.'),
             '#include <math.h>\n#include <stdint.h>\n\n', reference_functions(), '\n']
    for entry in entries:
        code = entry.elementwise_code
        parts.append('static double tn_ref_%s(const double *a, const double *s) {\n%s  return %s;\n}\n\n' % (
            entry.functional.ident, '' if code.scalars else '  (void)s;\n', code.ref_text))
    parts.append('typedef struct tn_ref_entry {\n  const char *op;\n  int n_tensors;\n  int n_scalars;\n'
                 '  double (*fn)(const double *a, const double *s);\n} tn_ref_entry;\n\n'
                 'static const tn_ref_entry tn_ref_entries[] = {\n')
    for entry in entries:
        code = entry.elementwise_code
        parts.append('    {%s, %d, %d, tn_ref_%s},\n' % (c_string(entry.schema.name), len(code.tensors),
                                                       len(code.scalars), entry.functional.ident))
    parts.append('    {0, 0, 0, 0}};\n')
    return ''.join(parts)
