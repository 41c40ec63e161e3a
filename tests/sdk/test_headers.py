# SPDX-License-Identifier: Apache-2.0
"""The SDK's headers as a stranger's compiler sees them: each alone, in C11 and C++17, without warnings; everything that
they declare exists; the documents that they name are there; a plugin in C++ opens.

Against an installed tree: TENON_SDK_PREFIX=PREFIX; else against the sources and the build tree TENON_BUILD_DIR. A plain
script: each test_ function asserts; the last line says how many passed and failed.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PREFIX = os.environ.get('TENON_SDK_PREFIX')
BUILD = os.environ.get('TENON_BUILD_DIR', os.path.join(ROOT, 'build', 'release'))
CC = os.environ.get('CC', 'cc').split()
CXX = next((c for c in ('c++', 'g++', 'clang++') if shutil.which(c)), None)

if PREFIX:
    INCLUDES = [os.path.join(PREFIX, 'include')]
    KIT, MAP = os.path.join(PREFIX, 'lib', 'libtenon_kit.a'), os.path.join(PREFIX, 'lib/cmake/TenonSDK/tenon_plugin.map')
    TENON = os.path.join(PREFIX, 'bin', 'tenon')
else:
    INCLUDES = [os.path.join(ROOT, p) for p in ('plugin-sdk/include', 'plugin-sdk/kit/include', 'core/include',
                                               'frontends/c/include', 'plugins/gpu/include')] + [os.path.join(BUILD, 'gen', 'include')]
    KIT, MAP = os.path.join(BUILD, 'plugin-sdk', 'libtenon_kit.a'), os.path.join(ROOT, 'cmake', 'tenon_plugin.map')
    TENON = os.path.join(BUILD, 'bin', 'tenon')

FLAGS = ['-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror'] + ['-I' + i for i in INCLUDES]
LINK = ['-shared', '-fPIC', '-fvisibility=hidden', '-Wl,--version-script=' + MAP, '-Wl,--exclude-libs,ALL',
        '-Wl,--no-undefined']
# Steps of other macros: a plugin does not write them.
INNER = re.compile(r'_H$|_$|TN_LOOP_\w+_(BODY|LEFT|RIGHT)$|TN_DTYPE_(PLAIN|VIA_FLOAT)$|TN_MANIFEST_(PLAIN|RETAIN)$'
                   r'|TN_FUTURE_FIELD$')


def headers():
    """<tenon/...> names, all that are given."""
    found = set()
    for folder in INCLUDES:
        for path in glob.glob(os.path.join(folder, 'tenon', '**', '*.h'), recursive=True):
            found.add(os.path.relpath(path, folder))
    assert len(found) > 25, found
    return sorted(found)


def sdk_headers():
    """Those of the contract and the kit: what only programs use is not declared for plugins."""
    with open(os.path.join(HERE, 'every_macro.h'), encoding='utf-8') as file:
        return re.findall(r'<(tenon/\S+)>', file.read())


def text_of(header):
    for folder in INCLUDES:
        path = os.path.join(folder, header)
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                return file.read()
    raise AssertionError(header + ' is not there')


def run(*command, words=None):
    done = subprocess.run(command, input=words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def compiles(language, standard, text, *flags):
    compiler = CC if language == 'c' else [CXX]
    status, _, words = run(*compiler, '-x', language, '-std=' + standard, '-fsyntax-only', *FLAGS, *flags, '-',
                           words=text)
    assert status == 0, words


def test_each_header_stands_alone_in_c11():
    for header in headers():
        compiles('c', 'c11', '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' % (header, header), '-Wpedantic')


def test_each_header_stands_alone_in_cxx17():
    if not CXX:
        print('no C++ compiler: not tried')
        return
    for header in headers():
        compiles('c++', 'c++17', '#include <%s>\n#include <%s>\n' % (header, header),
                 '-Wno-missing-field-initializers')  # of {.lr = 1e-3}, which leaves zeros


def test_documents_that_the_package_names_are_there():
    folder = os.path.join(PREFIX, 'share', 'tenon', 'docs') if PREFIX else os.path.join(ROOT, 'docs')
    texts = {header: text_of(header) for header in headers()}
    share = os.path.join(PREFIX, 'share', 'tenon') if PREFIX else ROOT
    others = [os.path.join(share, 'registry', 'README.md')]
    others += glob.glob(os.path.join(share if PREFIX else os.path.join(ROOT, 'plugin-sdk'), 'template', '*', '*'))
    if PREFIX:
        others += glob.glob(os.path.join(folder, '*.md'))
    for path in filter(os.path.isfile, others):
        with open(path, encoding='utf-8') as file:
            texts[path] = file.read()
    named = {(name, where) for where, text in texts.items() for name in re.findall(r'\bdocs/([\w-]+\.md)', text)}
    missing = sorted((name, where) for name, where in named if not os.path.exists(os.path.join(folder, name)))
    assert len(named) > 5 and not missing, missing


def declared():
    """(functions and variables, types, enumerators) of the SDK's headers, macros expanded."""
    lines = ''.join('#include <%s>\n' % h for h in sdk_headers())
    status, output, words = run(*CC, '-x', 'c', '-std=c11', '-E', *FLAGS, '-', words=lines)
    assert status == 0, words
    ours, text = False, []
    for line in output.split('\n'):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = '/tenon/' in marker[1]
        elif ours and not line.startswith('#'):
            text.append(line)
    text = re.sub(r'__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|_Static_assert\s*\([^;]*;', '', '\n'.join(text))
    values, types, enumerators = set(), set(), set()
    for body in re.findall(r'\benum\s*\w*\s*\{([^}]*)\}', text):
        enumerators.update(e.split('=')[0].strip() for e in body.split(',') if e.strip())
    while re.search(r'\{[^{}]*\}', text):  # bodies, innermost first; what is left stands at file scope
        text = re.sub(r'\{[^{}]*\}', ' ; ', text)
    for piece in text.split(';'):
        piece = ' '.join(piece.split())
        function = re.match(r'(?:static inline |extern )?(?:const )?(?:unsigned )?\w+[ \w]*[ *]+(tn_\w+) ?\(', piece)
        if piece.startswith('typedef'):
            name = re.search(r'\(\s*\*\s*(tn_\w+)\s*\)\s*\(', piece) or re.search(r'(tn_\w+)$', piece)
            if name:
                types.add(name[1])
        elif function:
            values.add(function[1])
        elif piece.startswith('extern'):
            values.update(re.findall(r'(tn_\w+)(?=\[|$)', piece))
        elif re.fullmatch(r'tn_\w+', piece):
            types.add(piece)  # the name behind a struct's closing brace
    return values, types, enumerators


def everything(values, types, enumerators):
    """A C file that needs each of them."""
    lines = ['#include "every_macro.h"']
    lines += ['static %s *type_%d;' % (name, i) for i, name in enumerate(sorted(types))]
    lines += ['void *every_type(int i);', 'void *every_type(int i) {', '  void *const types[] = {']
    lines += ['    (void *)&type_%d,' % i for i in range(len(types))]
    lines += ['  };', '  return types[i];', '}', 'void *every_value(int i);', 'void *every_value(int i) {',
              '  void *const values[] = {']
    lines += ['    (void *)(uintptr_t)&%s,' % name for name in sorted(values)]
    lines += ['  };', '  return values[i];', '}', 'long long every_number(int i);', 'long long every_number(int i) {',
              '  const long long numbers[] = {', ', '.join(sorted(enumerators)), '  };', '  return numbers[i];', '}', '']
    return '\n'.join(lines)


def test_every_declaration_is_there():
    values, types, enumerators = declared()
    for known, name in ((values, 'tn_iter_init'), (values, 'tn_kit_host_table'), (values, 'tn_value_int'),
                        (values, 'tn_to_acc_bfloat16'), (types, 'tn_host'), (types, 'tn_kernel_fn'), (types, 'tn_dim'),
                        (types, 'tn_backend_def'), (enumerators, 'TN_ERR_INTERNAL'), (enumerators, 'TN_OP_VIEW')):
        assert name in known, name
    assert len(values) > 100 and len(types) > 40 and len(enumerators) > 120, (len(values), len(types), len(enumerators))
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, 'every.c')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(everything(values, types, enumerators))
        plugin = os.path.join(folder, 'every.so')
        status, _, words = run(*CC, '-std=c11', *FLAGS, '-I' + HERE, *LINK, source, os.path.join(HERE, 'every_macro.c'), KIT,
                               '-lm', '-o', plugin)
        assert status == 0, words
        environment = dict(os.environ, TENON_PLUGIN_PATH=folder)
        listed = subprocess.run([TENON, 'plugins'], env=environment, capture_output=True, text=True, check=True).stdout
        assert re.search(r'^every +1 +loadable', listed, re.MULTILINE), listed


def test_every_macro_is_used():
    with open(os.path.join(HERE, 'every_macro.c'), encoding='utf-8') as file:
        used = set(re.findall(r'\bTN_\w+', file.read()))
    for header in sdk_headers():
        for name in re.findall(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', text_of(header), re.MULTILINE):
            assert name in used or INNER.search(name), '%s of <%s> is in no line of every_macro.c' % (name, header)


def test_the_list_of_headers_is_whole():
    known = {h for h in headers() if h.startswith('tenon/kit/')} | {'tenon/types.h', 'tenon/layout.h', 'tenon/operator.h'}
    known |= {h for h in headers() if re.match(r'tenon/plugin\w*\.h$', h)}
    assert known <= set(sdk_headers()), sorted(known - set(sdk_headers()))


CXX_PLUGIN = r'''
#include <cstdlib>
#include <cstring>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/plugin_backend.h>

TN_MANIFEST(TN_MANIFEST_HEADER("cxx", "1", "Apache-2.0") "device cxx\n")

static tn_status count(void *, int32_t *out_count) { *out_count = 1; return TN_OK; }
static tn_status alloc(void *, int32_t, uint64_t size, void *, tn_memory *out) {
  void *address = std::aligned_alloc(64, (size + 63) / 64 * 64);
  if (!address) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "cxx: no %llu bytes", static_cast<unsigned long long>(size));
  *out = tn_memory{reinterpret_cast<uint64_t>(address), address, size};
  return TN_OK;
}
static void release(void *, int32_t, const tn_memory *memory, void *) { std::free(memory->address); }
static tn_status from_host(void *, int32_t, uint64_t mem, int64_t offset, const void *host, uint64_t size, void *) {
  std::memcpy(reinterpret_cast<char *>(mem) + offset, host, size);
  return TN_OK;
}
static tn_status to_host(void *, int32_t, uint64_t mem, int64_t offset, void *host, uint64_t size, void *) {
  std::memcpy(host, reinterpret_cast<const char *>(mem) + offset, size);
  return TN_OK;
}
static tn_status init(const tn_host *host, tn_registration *reg) {
  tn_backend_def def{};
  def.struct_size = sizeof def;
  def.device_name = "cxx";
  def.alignment_bytes = 64;
  def.device_count = count;
  def.alloc = alloc;
  def.free = release;
  def.from_host = from_host;
  def.to_host = to_host;
  return host->register_backend(reg, &def);
}
TN_PLUGIN("cxx", "1", init, nullptr, 0)
'''


def test_a_plugin_in_cxx_opens():
    if not CXX:
        print('no C++ compiler: not tried')
        return
    with tempfile.TemporaryDirectory() as folder:
        source, plugin = os.path.join(folder, 'cxx.cc'), os.path.join(folder, 'cxx.so')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(CXX_PLUGIN)
        status, _, words = run(CXX, '-std=c++17', *FLAGS, '-fno-exceptions', '-fno-rtti', *LINK, source, KIT, '-lm', '-o', plugin)
        assert status == 0, words
        environment = dict(os.environ, TENON_PLUGIN_PATH=folder)
        done = subprocess.run([TENON, 'devices', '--open'], env=environment, capture_output=True, text=True, check=False)
        assert re.search(r'^cxx +ready', done.stdout, re.MULTILINE), done.stdout + done.stderr


def run_all():
    failed = passed = 0
    for name, test in sorted(globals().items()):
        if name.startswith('test_'):
            try:
                test()
                passed += 1
                print('sdk.%s ... ok' % name[5:])
            except Exception:  # a test's failure, whatever it is
                failed += 1
                print('sdk.%s ... FAILED\n%s' % (name[5:], traceback.format_exc()))
    print('%d passed, %d failed' % (passed, failed))
    return failed != 0


if __name__ == '__main__':
    sys.exit(run_all())
