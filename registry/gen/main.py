# SPDX-License-Identifier: Apache-2.0
"""The generator: reads registry/ops/*.yaml, writes everything that is derived from them into one folder.

    main.py --out FOLDER FILE.yaml...

Build time only. A bad entry ends the build with file:line and a sentence. A file is written only if its text
changed, so that an edit of one entry rebuilds what depends on it and no more.
"""

import argparse
import os
import sys

import composite
import emit_api
import emit_elementwise
import emit_explain
import emit_grads
import emit_samples
import emit_table
import samples
from entry import EntryError, build_registry, header_names, read_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PUBLIC_HEADERS = [os.path.join(ROOT, 'core/include/tenon'), os.path.join(ROOT, 'plugin-sdk/include/tenon'),
                  os.path.join(ROOT, 'plugin-sdk/kit/include/tenon/kit')]

# File in the output folder -> what emits its text.
OUTPUTS = {
    'include/tenon/ops.h': emit_api.emit_ops_h,
    'include/tenon/scoped.h': emit_api.emit_scoped_h,
    'ops_index.h': emit_api.emit_ops_index,
    'ops_api.c': emit_api.emit_ops_api,
    'ops_rules.h': emit_table.emit_ops_rules,
    'ops_table.c': emit_table.emit_ops_table,
    'ops_grads.c': emit_grads.emit_ops_grads,
    'elementwise.inc': emit_elementwise.emit_elementwise,
    'elementwise_ref.inc': emit_elementwise.emit_elementwise_ref,
    'op_samples.c': emit_samples.emit_samples,
    'explain.txt': emit_explain.emit_explain,
}


def shown_path(path):
    """As in words to the user: relative to the repository if it lies there."""
    relative = os.path.relpath(os.path.abspath(path), ROOT)
    return path if relative.startswith('..') else relative


def load(paths, future=False):
    taken = header_names(PUBLIC_HEADERS)
    entries = [e for p in sorted(paths) for e in read_file(p, shown_path(p), taken, future)]
    registry = build_registry(entries)
    emit_grads.compile_all(registry)
    composite.compile_all(registry)
    emit_elementwise.compile_all(registry)
    samples.compile_all(registry)
    return registry


def write_if_changed(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding='utf-8') as f:
            if f.read() == text:
                return
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', required=True, help='folder that the files are written to')
    parser.add_argument('files', nargs='+', help='registry/ops/*.yaml')
    parser.add_argument('--future', action='store_true',
                        help='as a later version could be: each operator has one more argument, with a default, that '
                             'no caller of this tree gives (TN_ABI_FUTURE of tenon/types.h)')
    options = parser.parse_args()
    try:
        registry = load(options.files, options.future)
        texts = {name: emit(registry) for name, emit in OUTPUTS.items()}
    except EntryError as e:
        print(str(e), file=sys.stderr)
        return 1
    except OSError as e:
        print('%s: %s' % (e.filename, e.strerror), file=sys.stderr)
        return 1
    for name, text in texts.items():
        write_if_changed(os.path.join(options.out, name), text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
