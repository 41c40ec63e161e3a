#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names that the linker sees: public functions tn_ (or tns_), internal ones tni_; nothing else is external.

Looks at the declarations in headers: exported ones (TN_EXPORT) must be tn_..., and a header below core/ or
registry/ that is not public declares tni_... (generated families: tn_meta_, tn_body_, tn_grad_). What the
built libraries really export is check_symbols.py's business.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

EXPORTED = re.compile(r"TN_EXPORT\b[^;{]*?\b(\w+)\s*\(")
# A prototype or an extern variable at the start of a line; static ones are free.
DECLARED = re.compile(r"^(?!static|_Static_assert|typedef|#|enum|struct \w+ \{|return|else|case|/|\s)(?:extern\s+)?[A-Za-z_][\w\s\*,\(\)]*?"
                      r"\b([A-Za-z_]\w*)\s*(?:\([^;{]*\)|\[[^\]]*\])?\s*(?:TN_\w+(?:\([^)]*\))?\s*)*;", re.MULTILINE)
INTERNAL_OK = re.compile(r"^(tni_|tn_meta_|tn_body_|tn_grad_|tn_kit_)")
PUBLIC_OK = re.compile(r"^(tn_|tns_)")
EXCEPTIONS = {
    # (path, name): reason
    ("plugin-sdk/kit/include/tenon/kit/plugin.h", "tenon_plugin_query"): "the one symbol that a plugin shows",
}


def main():
    findings = []
    for path in tree.files(".h"):
        public = "/include/tenon" in path
        text = re.sub(r"^[ \t]*#[^\n]*", "", tree.blank(tree.read(path)), flags=re.MULTILINE)
        for match in EXPORTED.finditer(text):
            name = match.group(1)
            line = text.count("\n", 0, match.start(1)) + 1
            if not PUBLIC_OK.match(name) and (path, name) not in EXCEPTIONS:
                findings.append(f"{path}:{line}: exported {name} does not begin with tn_")
        if public or not path.startswith(("core/", "registry/")):
            continue
        for match in DECLARED.finditer(text):
            name = match.group(1)
            line = text.count("\n", 0, match.start(1)) + 1
            exempt = "TN_EXPORT" in match.group(0) or (path, name) in EXCEPTIONS
            if not INTERNAL_OK.match(name) and not exempt:
                findings.append(f"{path}:{line}: internal {name} does not begin with tni_")
    tree.finish(findings, "all declared names have their prefix")


if __name__ == "__main__":
    main()
