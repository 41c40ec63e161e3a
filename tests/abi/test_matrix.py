#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every host of the version matrix with every plugin: either all works, or it is one specified refusal.

    test_matrix.py PRESENT_BUILD FUTURE_BUILD

The plugin is fossil.c three times: frozen with the first SDK, built now, built as the future.
"""
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILDS = {}
WORKS = ["add 3 6 9", "mul 3 12 27", "cube 1 8 27", "cube's gradient 3 12 27"]


def plugin_file(age):
    if age == "frozen":
        return os.path.join(HERE, "fossil-1.1-x86_64.so")
    return os.path.join(BUILDS[age], "tests/abi/plugins/fossil.so")


def run(host, plugin):
    """(exit status, standard output, log) of a host with that plugin alone in its search root."""
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(plugin_file(plugin), os.path.join(root, "fossil.so"))
        os.chmod(root, 0o700)
        program = next(p for p in (os.path.join(BUILDS[host], "bin/tests_abi_probe"),) if os.path.exists(p))
        done = subprocess.run([program], env={**os.environ, "TENON_PLUGIN_PATH": root}, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr


class Matrix(unittest.TestCase):
    def check_works(self, host, plugin):
        status, lines, log = run(host, plugin)
        self.assertEqual(status, 0, "\n".join(lines) + log)
        for line in WORKS:
            self.assertIn(line, lines)
        return lines, log

    def test_the_present_host_runs_the_present_plugin(self):
        lines, _ = self.check_works("present", "present")
        self.assertIn("plugin ready: ", lines)

    def test_the_future_host_runs_the_future_plugin_whole(self):
        lines, log = self.check_works("future", "future")
        self.assertIn("plugin ready: ", lines)
        self.assertIn("the future answers 42 (status 0: )", log)

    @unittest.skipUnless(platform.machine() == "x86_64", "the frozen plugin is for x86_64")
    def test_the_present_host_runs_the_first_sdks_plugin(self):
        lines, _ = self.check_works("present", "frozen")
        self.assertIn("plugin ready: ", lines)

    @unittest.skipUnless(platform.machine() == "x86_64", "the frozen plugin is for x86_64")
    def test_the_future_host_runs_the_first_sdks_plugin(self):
        self.check_works("future", "frozen")

    def test_the_future_host_runs_the_present_plugin(self):
        self.check_works("future", "present")

    def test_a_kernel_meets_arguments_that_its_schema_lacks_at_their_defaults_only(self):
        for plugin in ("present", "future"):
            lines, _ = self.check_works("future", plugin)
            self.assertIn("mul with one argument more: missing kernel", lines)
        lines, _ = self.check_works("present", "present")
        self.assertIn("mul with one argument more: invalid argument", lines)

    def test_the_present_host_leaves_out_what_only_the_future_knows(self):
        lines, log = self.check_works("present", "future")
        reason = next(line for line in lines if line.startswith("plugin ready: "))
        self.assertIn("1 kernels are not used", reason)
        self.assertIn("sub.Tensor", reason)
        self.assertRegex(log, r"host 1\.\d+ lacks row future, needs 1\.\d+")


if __name__ == "__main__":
    BUILDS.update(present=sys.argv[1], future=sys.argv[2])
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed")
    sys.exit(1 if failed else 0)
