#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both runners know the same tests: python3 ci/check_test_lists.py build/release build/minimal ...

Programs that a build does not have (a device's tests where its plugin is not built) are left out.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree


def programs_of(build):
    """The test programs that CTest runs; scripts and helpers are left out."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True,
                           text=True).stdout
    commands = [test["command"][0] for test in json.loads(shown)["tests"] if test.get("command")]
    return sorted({command for command in commands if os.path.basename(command).startswith("tests_")})


def tests_of(build):
    names = {}
    for program in programs_of(build):
        output = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
        for line in output.splitlines():
            names.setdefault(f"{os.path.basename(program)} {line}", 0)
            names[f"{os.path.basename(program)} {line}"] += 1
    return names


def main():
    builds = sys.argv[1:]
    if len(builds) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    first = tests_of(builds[0])
    findings = [f"{builds[0]}: {name} is defined twice" for name, count in first.items() if count > 1]
    if not first:
        findings.append(f"{builds[0]}: CTest knows no test programs")
    for build in builds[1:]:
        names = tests_of(build)
        both = {name.split()[0] for name in first} & {name.split()[0] for name in names}
        findings += [f"{name} is in {builds[0]} only, not in {build}" for name in sorted(set(first) - set(names))
                     if name.split()[0] in both]
        findings += [f"{name} is in {build} only, not in {builds[0]}" for name in sorted(set(names) - set(first))
                     if name.split()[0] in both]
    tree.finish(findings, f"{len(first)} tests, the same in {len(builds)} builds")


if __name__ == "__main__":
    main()
