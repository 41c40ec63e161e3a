# SPDX-License-Identifier: Apache-2.0
"""Operators of a plugin: entries as in registry/ops to C that registers them.

    add_operators.py --out FOLDER --name NAME --builtin registry/ops FILE.yaml

Writes NAME_operators.h, which has the manifest's lines as the literal NAME_OPERATORS (in capitals), and
NAME_operators.c: NAME_register_operators(host, reg) gives every entry's schema,
meta rule, body, gradient and samples to host->register_operator. Formulas and expression bodies may call the built-in
operators and the plugin's own; the calls go through host->find_op and host->call_n, so the file links nothing of
the core. Meta rules (tn_meta_NAME), `c:` bodies and `c:` gradients are functions of the plugin.
Elementwise expressions are not served here: such an entry has kernels like any other of a plugin.
"""

import argparse
import os
import re
import sys

import emit_grads
import samples
from ctypes_map import c_string
from emit_api import PACK_HELPERS, emit_call
from emit_samples import END, Tables, emit_rows
from emit_table import emit_def, emit_rng, rule_prototypes
from entry import EntryError, build_registry, read_file
from main import shown_path, write_if_changed
from text import banner

# What formulas use of the application's headers, which a plugin does not have.
PREAMBLE = r'''
typedef struct tn_options {
  tn_dtype dtype;
  bool has_device;
  bool pin_memory;
  tn_device device;
  tn_layout layout;
} tn_options;

#define HERE __attribute__((unused)) static inline

HERE const tn_view *view_of(const tn_tensor *t) { return (const tn_view *)(const void *)t; }
HERE int32_t tn_tensor_ndim(const tn_tensor *t) { return view_of(t)->ndim; }
HERE const tn_dim *tn_tensor_sizes(const tn_tensor *t) { return view_of(t)->sizes; }
HERE int64_t tn_tensor_numel(const tn_tensor *t) { return view_of(t)->numel; }
HERE tn_dtype tn_tensor_dtype(const tn_tensor *t) { return view_of(t)->dtype; }
HERE tn_device tn_tensor_device(const tn_tensor *t) { return tn_view_device(view_of(t)); }
HERE void tn_tensor_release(tn_tensor *t) { tn_kit_host()->tensor_release(t); }
HERE tn_tensor *tn_tensor_retain(tn_tensor *t) {
  if (t) tn_kit_host()->tensor_retain(t);
  return t;
}

/* Calls an operator by name; it is looked up at its first call, when every operator is registered. */
HERE tn_status call_by_name(_Atomic(const tn_op *) *known, const char *name, const tn_value *args,
                            uint32_t n_args, tn_value *out) {
  const tn_op *op = atomic_load_explicit(known, memory_order_acquire);
  if (!op) {
    TN_TRY(tn_kit_host()->find_op(name, &op));
    atomic_store_explicit(known, op, memory_order_release);
  }
  return tn_kit_host()->call_n(op, args, n_args, out);
}
'''


def host_call(form, args):
    n_args = len(form.schema.args)
    return 'call_by_name(&op_%s, %s, %s, %d, ' % (form.ident, c_string(form.schema.name), args, n_args)


def emit_caller(form):
    return 'static _Atomic(const tn_op *) op_%s;\n%s' % (form.ident, emit_call(form, host_call, 'static '))


def emit_register(name, entries):
    lines = ['tn_status %s_register_operators(const tn_host *host, tn_registration *reg) {' % name]
    lines += ['  TN_TRY(host->register_operator(reg, &def_%s));' % f.ident for e in entries for f in e.forms]
    return '\n'.join(lines + ['  return TN_OK;', '}', ''])


def emit_plugin_samples(entries):
    """What `tenon check` tries the operators on: one array an entry."""
    tables, arrays = Tables(), []
    for entry in entries:
        if entry.samples:
            arrays += ['static const tn_sample samples_%s[] = {\n' % entry.functional.ident] + emit_rows(tables, entry) + [END]
    return ''.join(tables.lines + arrays) + '\n'


def emit_manifest(name, entries):
    """The lines of the plugin's manifest, so that they are the registered schemas letter for letter."""
    lines = [c_string('operator %s\n' % f.schema.text()) for e in entries for f in e.forms]
    return ('/* For TN_MANIFEST: a line for each operator that is registered. */\n#define %s_OPERATORS \\\n  %s\n\n'
            % (name.upper(), ' \\\n  '.join(lines)))


def emit_header(name, entries):
    guard = name.upper() + '_OPERATORS_H'
    head = banner('Operators of the plugin %s: their registration, and the functions that it provides for them.' % name)
    return ''.join([head, '#ifndef %s\n#define %s\n\n#include <tenon/operator.h>\n\n' % (guard, guard),
                    emit_manifest(name, entries),
                    '/* Registers every entry; call it from the init of the plugin. */\n',
                    'tn_status %s_register_operators(const tn_host *host, tn_registration *reg);\n\n' % name] +
                   rule_prototypes(entries) + ['\n#endif\n'])


def emit_source(name, registry, entries):
    parts = [banner('Operators of the plugin %s. Everything goes through the host.' % name),
             '#include <math.h>\n#include <stdatomic.h>\n#include <string.h>\n#include <tenon/kit/status.h>\n\n',
             '#include "%s_operators.h"\n' % name, PREAMBLE, PACK_HELPERS]
    parts += [emit_caller(f) + '\n' for f in sorted(registry.called.values(), key=lambda f: f.index)]
    parts += [emit_grads.GRAD_HELPERS, emit_plugin_samples(entries)]
    for entry in entries:
        parts.append(entry.body + '\n' if entry.body else '')
        if entry.grad:
            parts.append(entry.grad.code + '\n' if entry.grad.code else '')
            parts.append(emit_grads.grad_def(entry).replace('\nconst tn_grad_def', '\nstatic const tn_grad_def') + '\n')
        parts.append(emit_rng(entry))
        parts += [emit_def(f, with_samples=True) + '\n' for f in entry.forms]
    # In libtenon the records are tni_ symbols that the table refers to; here everything is static.
    return ''.join(parts).replace('tni_formula_', 'grad_') + emit_register(name, entries)


def load(builtin, path):
    """(registry of built-in and own entries, own entries)"""
    files = sorted(os.path.join(builtin, f) for f in os.listdir(builtin) if f.endswith('.yaml'))
    entries = [e for f in files for e in read_file(f, shown_path(f), set())]
    own = read_file(path, os.path.basename(path), set())
    for entry in own:
        if 'expr' in entry.fields:
            raise entry.error('expr: operators of a plugin have kernels, not expressions', entry.line_of('expr'))
    registry = build_registry(entries + own)
    registry.in_plugin = True
    emit_grads.compile_all(registry, own)
    for entry in own:
        entry.samples = samples.samples_of(entry)
    return registry, own


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', required=True, help='folder that the two files are written to')
    parser.add_argument('--name', required=True, help='prefix of the files and of the registering function')
    parser.add_argument('--builtin', required=True, help='folder of the built-in entries (registry/ops)')
    parser.add_argument('file', help='entries of the plugin')
    options = parser.parse_args()
    if not re.fullmatch(r'[A-Za-z_]\w*', options.name):
        parser.error("--name '%s' is no C name" % options.name)
    try:
        registry, own = load(options.builtin, options.file)
        texts = {'.h': emit_header(options.name, own), '.c': emit_source(options.name, registry, own)}
    except EntryError as e:
        print(str(e), file=sys.stderr)
        return 1
    except OSError as e:
        print('%s: %s' % (e.filename, e.strerror), file=sys.stderr)
        return 1
    for suffix, text in texts.items():
        write_if_changed(os.path.join(options.out, options.name + '_operators' + suffix), text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
