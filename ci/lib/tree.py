# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the files of the tree, and how a finding is printed."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Never looked into: build output and what git keeps.
SKIPPED = {".git", "build", "__pycache__", ".cache"}


def files(*endings):
    """Paths below the root, from the root, sorted, whose names have one of the endings (all if none given)."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in names:
            if not endings or name.endswith(endings):
                found.append(os.path.relpath(os.path.join(folder, name), ROOT))
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def finish(findings, good):
    """Prints the findings, or the sentence that all is well, and ends the program."""
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings" if findings else good)
    sys.exit(1 if findings else 0)


def blank(text):
    """C text with comments and literals replaced by spaces; lines stay where they are."""
    out = []
    i = 0
    while i < len(text):
        if text.startswith("//", i):
            end = text.find("\n", i)
            end = len(text) if end < 0 else end
        elif text.startswith("/*", i):
            end = text.find("*/", i + 2)
            end = len(text) if end < 0 else end + 2
        elif text[i] in "\"'":
            end = i + 1
            while end < len(text) and text[end] not in (text[i], "\n"):
                end += 2 if text[end] == "\\" else 1
            end = min(end + 1, len(text))
        else:
            out.append(text[i])
            i += 1
            continue
        out.append("".join("\n" if c == "\n" else " " for c in text[i:end]))
        i = end
    return "".join(out)
