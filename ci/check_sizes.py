#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of at most 100 lines, files of at most 800. Exceptions stand here with their reasons."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

FUNCTION_LIMIT = 100
FILE_LIMIT = 800
LONG_FUNCTIONS = {
    # "path:function": "reason"
}
LONG_FILES = {
    # "path": "reason"
}


def functions(text):
    """(name, first line, number of lines) of each C function. A body is a `{` at depth 0 behind a `)`."""
    text = tree.blank(text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.MULTILINE)
    depth = start = 0
    name = None
    for match in re.finditer(r"[{}]", text):
        if match.group(0) == "{":
            if depth == 0:
                head = re.split(r"[;}]", text[start:match.start()])[-1].lstrip()
                name = function_name(head)
                first = text.count("\n", 0, match.start() - len(head)) + 1
            depth += 1
        elif depth > 0:
            depth -= 1
            if depth == 0:
                if name:
                    yield name, first, text.count("\n", 0, match.start()) + 1 - first + 1
                start = match.end()


def function_name(head):
    """The declared function's name if the text before a `{` is a function's head."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.DOTALL).strip()
    if not head.endswith(")") or "=" in head:
        return None
    return re.search(r"([A-Za-z_]\w*)\s*\(", head).group(1) if "(" in head else None


def main():
    findings = []
    for path in tree.files(".c", ".h", ".inc", ".py"):
        text = tree.read(path)
        lines = text.count("\n")
        if lines > FILE_LIMIT and path not in LONG_FILES:
            findings.append(f"{path}: {lines} lines; {FILE_LIMIT} is the limit")
        if path.endswith(".py"):
            continue
        for name, first, length in functions(text):
            if length > FUNCTION_LIMIT and f"{path}:{name}" not in LONG_FUNCTIONS:
                findings.append(f"{path}:{first}: {name} has {length} lines; {FUNCTION_LIMIT} is the limit")
    tree.finish(findings, "no function and no file is too long")


if __name__ == "__main__":
    main()
