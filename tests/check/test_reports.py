#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The machine forms of `tenon check plugin`, read by parsers that know nothing of Tenon."""
import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as tree

BUILD = os.environ["TENON_BUILD_DIR"]
PLUGINS = os.path.join(BUILD, "tests/check/plugins")


def check(plugin, *options):
    """(exit status, JSON report, root of the JUnit report)"""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("report.json", "report.xml")]
        done = subprocess.run([os.path.join(BUILD, "bin/tenon"), "check", "plugin", os.path.join(PLUGINS, plugin + ".so"),
                               "--json", paths[0], "--junit", paths[1], *options], capture_output=True, text=True)
        with open(paths[0], encoding="utf-8") as file:
            report = json.load(file)
        root = tree.parse(paths[1]).getroot()
        assert sorted(os.listdir(folder)) == ["report.json", "report.xml"], "nothing else is left behind"
        return done.returncode, report, root


class Reports(unittest.TestCase):
    def test_a_green_report(self):
        status, report, root = check("reference", "--only", "memory.alloc,streams.*")
        self.assertEqual(status, 0)
        self.assertEqual((report["format"], report["plugin"], report["version"]), (1, "acme", "1.0"))
        self.assertEqual(report["failed"], 0)
        self.assertEqual([c["name"] for c in report["checks"]], ["memory.alloc", "streams.order"])
        for one in report["checks"]:
            for outcome in ("passed", "failed", "expected", "skipped"):
                self.assertEqual(one[outcome], sum(i["outcome"] == outcome for i in one["items"]))
        self.assertEqual(root.tag, "testsuites")
        self.assertEqual(int(root.get("tests")), report["passed"] + report["skipped"])
        self.assertEqual(root.get("failures"), "0")

    def test_a_finding(self):
        status, report, root = check("oom_code", "--only", "memory.alloc")
        self.assertEqual(status, 1)
        failed = [i for i in report["checks"][0]["items"] if i["outcome"] == "failed"]
        self.assertEqual([i["item"] for i in failed], ["acme:0 more than there is", "acme:1 more than there is"])
        self.assertIn("2^60 bytes were answered", failed[0]["words"])
        suite = root.find("testsuite")
        self.assertEqual(suite.get("failures"), "2")
        self.assertEqual(len(suite.findall("testcase")), int(suite.get("tests")))
        messages = [f.get("message") for f in suite.iter("failure")]
        self.assertEqual(messages, [i["words"] for i in failed])

    def test_expected_failures_do_not_turn_a_build_red(self):
        with tempfile.NamedTemporaryFile("w", suffix=".expected") as file:
            file.write("memory.alloc acme:* more than*  # the <driver> & its \"manual\"\n")
            file.flush()
            status, report, root = check("oom_code", "--only", "memory.alloc", "--expected", file.name)
        self.assertEqual((status, report["failed"], report["expected"]), (0, 0, 2))
        skipped = [s.get("message") for s in root.iter("skipped")]
        self.assertEqual(sum("the <driver> & its \"manual\"" in s for s in skipped), 2)

    def test_a_report_that_cannot_be_written(self):
        done = subprocess.run([os.path.join(BUILD, "bin/tenon"), "check", "plugin", os.path.join(PLUGINS, "reference.so"),
                               "--only", "abi.door", "--json", "/nowhere/report.json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/report.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
