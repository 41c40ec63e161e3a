#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file begins with its licence line, and every folder with sources is described by a README.md."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

SOURCES = (".c", ".h", ".inc", ".py", ".sh", ".yaml")
SPDX = "SPDX-License-Identifier: Apache-2.0"


def has_readme(folder):
    """Its own, or that of the folder above (include/ chains count as their owner) that names it."""
    owner = folder.split("/include")[0]
    if os.path.exists(os.path.join(tree.ROOT, owner, "README.md")):
        return True
    above = os.path.join(tree.ROOT, os.path.dirname(owner), "README.md")
    return os.path.exists(above) and f"{os.path.basename(owner)}/" in tree.read(os.path.relpath(above, tree.ROOT))


def main():
    findings, folders = [], set()
    for path in tree.files(*SOURCES):
        folders.add(os.path.dirname(path))
        if SPDX not in "\n".join(tree.read(path).splitlines()[:3]):
            findings.append(f"{path}: the first lines have no `{SPDX}`")
    for folder in sorted(folders):
        if not has_readme(folder):
            findings.append(f"{folder}: it has no README.md, and that of the folder above does not name it")
    tree.finish(findings, f"{len(folders)} folders have their README.md, all files their licence line")


if __name__ == "__main__":
    main()
