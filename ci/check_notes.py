#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every "see Note [Title]" leads to one block headed "Note [Title]", and every title is written once."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

NOTE = re.compile(r"Note \[([^\]]+)\]")
# A heading stands alone at the start of a comment line.
HEADING = re.compile(r"^[ \t]*(?:/?\*+|//|#)?[ \t]*Note \[([^\]]+)\][ \t]*(?:\*/)?$", re.MULTILINE)


def clean(title):
    """A title may be broken over two comment lines."""
    return re.sub(r"\s*\n[ \t]*(?:\*|//|#)?\s*", " ", title)


def main():
    headings, references, findings = {}, [], []
    for path in tree.files(".c", ".h", ".inc", ".py", ".md", ".yaml", ".txt"):
        if path in ("ci/check_notes.py", "tests/unit/test_ci.py", "docs/style.md"):  # they explain the form
            continue
        text = tree.read(path)
        starts = set()
        for match in HEADING.finditer(text):
            title, line = match.group(1), text.count("\n", 0, match.start(1)) + 1
            starts.add(match.start(1))
            if title in headings:
                findings.append(f"{path}:{line}: Note [{title}] is headed twice, first in {headings[title]}")
            headings[title] = f"{path}:{line}"
        for match in NOTE.finditer(text):
            if match.start(1) not in starts:
                references.append((path, text.count("\n", 0, match.start()) + 1, clean(match.group(1))))
    for path, line, title in references:
        if title not in headings:
            findings.append(f"{path}:{line}: no block is headed Note [{title}]")
    tree.finish(findings, f"{len(references)} references to {len(headings)} notes, all there")


if __name__ == "__main__":
    main()
