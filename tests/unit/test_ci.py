#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of ci/ find what they are there to find: each on a few lines that are wrong in one way."""
import contextlib
import io
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "ci"), os.path.join(ROOT, "ci", "lib")]

import check_heads
import check_includes
import check_names
import check_notes
import check_sizes
import check_words
import ctest_totals
import tree


def findings_of(check, files):
    """What a check prints about a tree that holds only these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        saved, tree.ROOT = tree.ROOT, root
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                check.main()
        except SystemExit:
            pass
        finally:
            tree.ROOT = saved
        return output.getvalue()


def test_blank_keeps_lines():
    text = 'a /* { \n } */ "b\\"{" // }\nc'
    assert tree.blank(text).count("\n") == text.count("\n")
    assert "{" not in tree.blank(text) and "}" not in tree.blank(text)


def test_functions_are_measured():
    body = "static int f(int a,\n             int b) {\n" + "  a++;\n" * 120 + "  return a;\n}\n"
    table = "static const int t[] = {\n" + "  1,\n" * 120 + "};\nstruct s {\n" + "  int x;\n" * 120 + "};\n"
    assert "f has 124 lines" in findings_of(check_sizes, {"core/base/a.c": table + body})
    assert "no function" in findings_of(check_sizes, {"core/base/a.c": table})
    assert "900 lines" in findings_of(check_sizes, {"core/base/a.c": "int x;\n" * 900})


def test_includes_keep_to_the_table():
    files = {"core/base/base.h": "", "core/tensor/tensor.h": "", "core/tensor/x_int.h": "",
             "plugins/p/a.c": '#include "core/base/base.h"\n', "core/base/b.c": '#include "core/tensor/tensor.h"\n',
             "core/dispatch/c.c": '#include "core/tensor/x_int.h"\n#include "core/tensor/tensor.h"\n#include <tenon/nn.h>\n'}
    found = findings_of(check_includes, files)
    assert "plugins/p/a.c:1" in found and "core/base/b.c:1" in found and "core/dispatch/c.c:1" in found
    assert "core/dispatch/c.c:3" in found and "4 findings" in found


def test_notes_resolve():
    head = "/* Note [One]\n * text\n */\n"
    assert "no block is headed Note [Two]" in findings_of(check_notes, {"core/a.c": head + "/* see Note [Two] */\n"})
    assert "all there" in findings_of(check_notes, {"core/a.c": head + "/* See Note [One]. */\n"})
    assert "headed twice" in findings_of(check_notes, {"core/a.c": head, "core/b.c": head})


def test_names_have_their_prefix():
    wrong = "TN_EXPORT int foo(void);\n"
    assert "exported foo" in findings_of(check_names, {"core/include/tenon/x.h": wrong})
    assert "internal bar" in findings_of(check_names, {"core/base/x.h": "int bar(int a);\nint tni_good(void);\n"})
    assert "internal tn_wide" in findings_of(check_names, {"core/base/x.h": "extern int tn_wide;\n"})


def test_heads_and_words():
    found = findings_of(check_heads, {"core/base/x.c": "int x;\n"})
    assert "core/base/x.c" in found and "README.md" in found
    assert "core/x.c:2: for now" in findings_of(check_words, {"core/x.c": "\n/* so it is for " + "now */\n"})


def test_totals_count_crashes():
    case = ctest_totals.ElementTree.fromstring
    ran = '<testcase name="a" status="run"><system-out>x\n3 passed, 0 failed\n</system-out></testcase>'
    crashed = '<testcase name="a" status="fail"><system-out>u.t ... </system-out></testcase>'
    leaked = '<testcase name="a" status="fail"><system-out>3 passed, 0 failed\nleak</system-out></testcase>'
    failed = '<testcase name="a" status="fail"><system-out>3 passed, 2 failed\n</system-out></testcase>'
    script = '<testcase name="a" status="run"><system-out>fine</system-out></testcase>'
    assert ctest_totals.counts_of(case(ran))[:2] == (3, 0)
    assert ctest_totals.counts_of(case(crashed))[:2] == (0, 1)
    assert ctest_totals.counts_of(case(leaked))[:2] == (3, 1)
    assert ctest_totals.counts_of(case(failed))[:2] == (3, 2)
    assert ctest_totals.counts_of(case(script))[:2] == (1, 0)


def test_totals_show_the_test_that_failed():
    held = "".join(f"unit.test_{i} ... ok (0.001 s)\n" for i in range(200))
    said = "unit.x ... x.c:3: in unit.x: a is false\nFAILED (0.1 s)\n"
    assert ctest_totals.words_of(said + held + "200 passed, 1 failed\n") == [
        "unit.x ... x.c:3: in unit.x: a is false", "FAILED (0.1 s)", "200 passed, 1 failed"]


def main():
    tests = [(name, value) for name, value in sorted(globals().items()) if name.startswith("test_")]
    for name, test in tests:
        test()
        print(f"{name} ... ok")
    print(f"{len(tests)} passed, 0 failed")


if __name__ == "__main__":
    main()
