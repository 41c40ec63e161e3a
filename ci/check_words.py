#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that a finished tree does not have: unfinished work, and paths of somebody's machine."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

WORDS = re.compile(r"\b(TODO|FIXME|XXX|for now|placeholder)\b|/(?:work|root|home)/\w", re.IGNORECASE)
# This file names them; docs/style.md forbids them by name.
EXEMPT = {"ci/check_words.py", "tests/unit/test_ci.py", "docs/style.md"}


def main():
    findings = []
    for path in tree.files(".c", ".h", ".inc", ".py", ".sh", ".yaml", ".md", ".txt", ".json", ".cmake"):
        if path in EXEMPT:
            continue
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            match = WORDS.search(line)
            if match:
                findings.append(f"{path}:{number}: {match.group(0)}")
    tree.finish(findings, "nothing is left unfinished, no path of a machine is written down")


if __name__ == "__main__":
    main()
