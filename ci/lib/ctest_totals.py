#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the test programs of one CTest run say.

CTest counts programs; each of ours ends with `N passed, N failed` over its tests. A program that failed
without saying which test (a crash, a leak at exit, a time-out) counts as one failed test more. Prints a line a
program, and what those that failed say about it; writes "PASSED FAILED" to the second argument.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
HELD = re.compile(r"^\S+ \.\.\. ok( \([\d.]+ s\))?$")


def counts_of(case):
    output = case.findtext("system-out") or ""
    lines = CLOSING.findall(output)
    passed, failed = (int(n) for n in lines[-1]) if lines else (0, 0)
    if case.get("status") != "run" and failed == 0:
        failed = 1
    elif not lines and case.get("status") == "run":
        passed = 1
    return passed, failed, output


def words_of(output):
    """The end of what a program said, without the lines of tests that held."""
    return [line for line in output.splitlines() if not HELD.match(line)][-80:]


def main():
    try:
        root = ElementTree.parse(sys.argv[1]).getroot()
    except (OSError, ElementTree.ParseError) as problem:
        print(f"no results of CTest: {problem}")
        return 1
    total_passed = total_failed = 0
    for case in root.iter("testcase"):
        passed, failed, output = counts_of(case)
        total_passed += passed
        total_failed += failed
        seconds = float(case.get("time") or 0)
        print(f"  {case.get('name')}: {passed} passed, {failed} failed, {seconds:.1f} s")
        if failed:
            print("\n".join("    " + line for line in words_of(output)))
    if total_passed + total_failed == 0:
        print("CTest ran no test")
        return 1
    with open(sys.argv[2], "w", encoding="utf-8") as counts:
        counts.write(f"{total_passed} {total_failed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
