# SPDX-License-Identifier: Apache-2.0
"""`tenon new-plugin`: what it writes is the template with names filled in, and whatever is wrong, it says so and leaves
nothing behind. That the projects build and pass is shown by the templates built here (CMakeLists.txt) and, from an
installed prefix, by ci/lib/check_sdk.sh.

A plain script: each test_ function asserts; the last line says how many passed and failed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get('TENON_BUILD_DIR', os.path.join(ROOT, 'build', 'release'))
TENON = os.path.join(BUILD, 'bin', 'tenon')
TEMPLATES = os.path.join(ROOT, 'plugin-sdk', 'template')
KINDS = ('backend', 'layer', 'operators')


def new_plugin(*args, cwd, tenon=TENON):
    done = subprocess.run([tenon, 'new-plugin', *args], cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def read_all(folder):
    texts = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), encoding='utf-8') as file:
                texts[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return texts


def version():
    return subprocess.run([TENON, '--version'], capture_output=True, text=True, check=True).stdout.split()[1]


def filled(text, name, ident):
    for token, value in (('@NAME@', name), ('@IDENT@', ident), ('@UPPER@', ident.upper()), ('@VERSION@', version())):
        text = text.replace(token, value)
    return text


def test_a_project_is_the_template_with_names():
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            status, out, words = new_plugin('My.plug-in_2', '--kind', kind, cwd=folder)
            assert (status, words) == (0, ''), words
            assert 'My.plug-in_2: written' in out
            assert os.listdir(folder) == ['My.plug-in_2']
            wanted = {}
            for path, text in read_all(os.path.join(TEMPLATES, kind)).items():
                path = path.replace('NAME', 'My.plug-in_2').replace('IDENT', 'My_plug_in_2')
                wanted[path] = filled(text, 'My.plug-in_2', 'My_plug_in_2')
            got = read_all(os.path.join(folder, 'My.plug-in_2'))
            assert got == wanted, sorted(set(got) ^ set(wanted))
            assert not [p for p, t in got.items() if re.search(r'@[A-Z]+@', t)]
            assert {'CMakeLists.txt', 'README.md', 'My.plug-in_2.c', 'My.plug-in_2.expected'} <= set(got)


def test_backend_is_the_default_and_dir_says_where():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'in'))
        status, out, words = new_plugin('acme', '--dir', 'in', '--json', cwd=folder)
        assert status == 0, words
        assert json.loads(out) == {'folder': 'in/acme', 'kind': 'backend'}, out
        assert os.path.exists(os.path.join(folder, 'in', 'acme', 'acme.c'))
        mask = os.umask(0)
        os.umask(mask)
        assert os.stat(os.path.join(folder, 'in', 'acme')).st_mode & 0o777 == 0o777 & ~mask


def test_a_backend_is_a_hundred_and_twenty_lines():
    text = read_all(os.path.join(TEMPLATES, 'backend'))['NAME.c']
    lines = [line for line in re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL).split('\n') if line.strip()]
    assert len(lines) <= 120, len(lines)


def test_wrong_usage_writes_nothing():
    with tempfile.TemporaryDirectory() as folder:
        for args, wanted in ((['2fast'], "'2fast' is no name"), (['-x'], 'unknown option'), ([''], "'' is no name"),
                             (['a/b'], "'a/b' is no name"), (['..'], "'..' is no name"), (['a b'], 'is no name'),
                             (['a' * 65], 'is no name'), (['caf\u00e9'], 'is no name'), (['cpu'], 'is taken'),
                             (['autograd', '--kind', 'layer'], 'is taken'), (['install'], 'is taken'),
                             (['acme', '--kind', 'toaster'], "not 'toaster'"), ([], 'NAME was expected')):
            status, out, words = new_plugin(*args, cwd=folder)
            assert status == 2 and out == '' and wanted in words, (args, words)
        assert os.listdir(folder) == []
        status, _, words = new_plugin('a' * 64, cwd=folder)
        assert status == 0, words


def test_what_is_there_stays():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'empty'))
        with open(os.path.join(folder, 'file'), 'w', encoding='utf-8') as file:
            file.write('mine')
        os.symlink('nowhere', os.path.join(folder, 'link'))
        for name in ('empty', 'file', 'link'):
            status, out, words = new_plugin(name, cwd=folder)
            assert status == 1 and out == '' and name + ': is already there' in words, words
        assert sorted(os.listdir(folder)) == ['empty', 'file', 'link']
        assert os.listdir(os.path.join(folder, 'empty')) == []


def installed(folder):
    """A copy of the program and the templates, to be damaged; it finds them by where it lies."""
    os.makedirs(os.path.join(folder, 'share', 'tenon'))
    os.makedirs(os.path.join(folder, 'bin'))
    shutil.copytree(TEMPLATES, os.path.join(folder, 'share', 'tenon', 'template'))
    tenon = os.path.join(folder, 'bin', 'tenon')
    shutil.copy(TENON, tenon)
    os.symlink(os.path.join(BUILD, 'lib'), os.path.join(folder, 'lib'))
    return tenon


def test_a_failure_leaves_nothing():
    with tempfile.TemporaryDirectory() as folder:
        tenon = installed(os.path.join(folder, 'prefix'))
        work = os.path.join(folder, 'work')
        template = os.path.join(folder, 'prefix', 'share', 'tenon', 'template')
        os.mkdir(work)
        status, _, words = new_plugin('acme', cwd=work, tenon=tenon)
        assert status == 0, words
        status, _, words = new_plugin('acme', '--dir', 'nowhere', cwd=work, tenon=tenon)
        assert status == 1 and 'nowhere: no folder can be made in it: No such file' in words, words
        os.symlink('nothing', os.path.join(template, 'backend', 'tests', 'zzz'))  # the copy fails half way
        status, _, words = new_plugin('other', cwd=work, tenon=tenon)
        assert status == 1 and 'zzz: cannot be read' in words, words
        os.remove(os.path.join(template, 'backend', 'tests', 'zzz'))
        os.symlink('.', os.path.join(template, 'backend', 'tests', 'again'))  # folders without end
        status, _, words = new_plugin('other', cwd=work, tenon=tenon)
        assert status == 1 and 'cannot be read' in words, words
        shutil.rmtree(template)
        status, _, words = new_plugin('other', cwd=work, tenon=tenon)
        assert status == 1 and 'template/backend: cannot be read: No such file' in words, words
        assert os.listdir(work) == ['acme'], os.listdir(work)


def test_man_pages_say_what_help_says():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([TENON, '--man', folder], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ''), done.stderr
        pages = {p: t.replace('\\-', '-').replace('\\&', '') for p, t in read_all(folder).items()}
        top = subprocess.run([TENON, '--help'], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r'^  ([a-z][a-z-]*) +[A-Z]', top, re.MULTILINE)
        assert set(pages) == {'tenon.1'} | {'tenon-%s.1' % c for c in commands}, sorted(pages)
        for command in commands:
            page = pages['tenon-%s.1' % command]
            text = subprocess.run([TENON, command, '--help'], capture_output=True, text=True, check=True).stdout
            for option in re.findall(r'^  (--[a-z-]+)', text, re.MULTILINE):
                assert '\\fB%s\\fR' % option in page or '\n  %s ' % option in page, (command, option)
            assert page.startswith('.\\"') and '\n.SH SYNOPSIS\n' in page
        for name in re.findall(r'^  (TENON_[A-Z_0-9]+)', top, re.MULTILINE):
            assert '\\fB%s\\fR' % name in pages['tenon.1'], name
        assert subprocess.run([TENON, '--man', os.path.join(folder, 'none')], capture_output=True, check=False).returncode == 1


def test_help_names_every_setting():
    top = subprocess.run([TENON, '--help'], capture_output=True, text=True, check=True).stdout
    read = set()
    for folder in ('core', 'plugins', 'frontends'):
        for path, text in read_all(os.path.join(ROOT, folder)).items():
            if path.endswith('.c'):
                read |= set(re.findall(r'getenv\("(TENON_[A-Z_0-9]+)"', text))
    told = set(re.findall(r'^  (TENON_[A-Z_0-9]+)', top, re.MULTILINE))
    # TENON_NUM_THREADS is read through a variable; others of that kind would not be found.
    assert len(read) > 8 and read <= told, sorted(read - told)


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
