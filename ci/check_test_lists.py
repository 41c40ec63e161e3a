#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both runners know the same tests: python3 ci/check_test_lists.py build/release build/minimal ..."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree


def tests_of(build):
    names = {}
    for program in sorted(glob.glob(os.path.join(build, "bin/tests_*"))):
        output = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
        for line in output.splitlines():
            names.setdefault(f"{os.path.basename(program)} {line}", 0)
            names[f"{os.path.basename(program)} {line}"] += 1
    return names


def main():
    builds = sys.argv[1:]
    first = tests_of(builds[0])
    findings = [f"{builds[0]}: {name} is defined twice" for name, count in first.items() if count > 1]
    if not first:
        findings.append(f"{builds[0]}: no test programs in bin/")
    for build in builds[1:]:
        names = tests_of(build)
        findings += [f"{name} is in {builds[0]} only, not in {build}" for name in sorted(set(first) - set(names))]
        findings += [f"{name} is in {build} only, not in {builds[0]}" for name in sorted(set(names) - set(first))]
    tree.finish(findings, f"{len(first)} tests, the same in {len(builds)} builds")


if __name__ == "__main__":
    main()
