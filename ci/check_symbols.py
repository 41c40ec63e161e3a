#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What built files export: python3 ci/check_symbols.py build/release (or an installed prefix).

A plugin defines one symbol, tenon_plugin_query, and asks for none of the core. A library defines tn_ names
only.
"""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

# What linkers and sanitizers put into any shared object.
LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def symbols(path):
    """(defined names, undefined names) of the dynamic table."""
    output = subprocess.run(["nm", "-D", path], check=True, capture_output=True, text=True).stdout
    defined, undefined = set(), set()
    for line in output.splitlines():
        *front, kind, name = line.split()
        name = name.split("@")[0]
        if kind in "Uvw" and not front:
            undefined.add(name)
        elif kind != "A":
            defined.add(name)
    return defined - LINKER, undefined


def check_plugin(path):
    defined, undefined = symbols(path)
    name = os.path.basename(path)
    if defined != {"tenon_plugin_query"}:
        yield f"{name} defines {', '.join(sorted(defined)) or 'nothing'}; a plugin defines tenon_plugin_query only"
    for symbol in sorted(undefined):
        if symbol.startswith(("tn_", "tni_", "tns_")):
            yield f"{name} asks for {symbol} of the core; a plugin reaches the core through the host's table"


def check_library(path):
    for symbol in sorted(symbols(path)[0]):
        if not symbol.startswith("tn_"):
            yield f"{os.path.basename(path)} exports {symbol}, which does not begin with tn_"


def main():
    build = sys.argv[1]
    plugins = sorted(glob.glob(os.path.join(build, "lib/tenon/plugins/*.so")))
    libraries = sorted(glob.glob(os.path.join(build, "lib/libtenon*.so")))
    findings = []
    if not plugins or not libraries:
        findings.append(f"{build}: no plugins or no libtenon in lib/")
    for path in plugins:
        findings += check_plugin(path)
    for path in libraries:
        findings += check_library(path)
    tree.finish(findings, f"{len(plugins)} plugins and {len(libraries)} libraries export what they should")


if __name__ == "__main__":
    main()
