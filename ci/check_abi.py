#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ABI's lock: compares the SDK headers with the recorded layout of this major, ci/abi/layout-MAJOR.txt.

A generated C program prints every struct's size, every field's offset and size, every enumerator's value and
the ABI's macros. Allowed is only what an old plugin cannot notice: with a minor step, a field at the end of a
growable struct, a new enumerator, a new struct. Everything else is a finding, one sentence each. An allowed
change is a finding too until it is recorded.

  ci/check_abi.py            compare; exit status 1 if anything differs
  ci/check_abi.py --update   record what is there now, and rewrite the asserts of tenon/layout.h
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

INCLUDE = "plugin-sdk/include"
LAYOUT_HEADER = INCLUDE + "/tenon/layout.h"
HEADERS = ["types.h", "plugin.h", "operator.h", "plugin_backend.h", "plugin_layer.h",
           "plugin_profiler.h", "plugin_compiler.h", "samples.h"]
MACROS = ["TN_ABI_MAJOR", "TN_ABI_MINOR", "TN_MAX_RANK"]
# Structs that may grow at their end. Those with struct_size may by themselves; these are made by the host and
# passed by pointer, so that an old plugin reads the part that it knows. All others are frozen.
GROWABLE_WITHOUT_SIZE = {"tn_meta", "tn_backward"}

# A field's name: `(*name)(`, or the last word before `;`, array brackets passed over.
POINTER_FIELD = re.compile(r"\(\s*\*\s*(\w+)\s*\)\s*\(")
PLAIN_FIELD = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")


def fields_of(body):
    body = re.sub(r"union\s*\{[^}]*\}", "union", body)
    body = re.sub(r"TN_PRINTF\([^)]*\)|TN_FUTURE_FIELD", "", body)
    names = []
    for declaration in body.split(";"):
        if declaration.strip():
            match = POINTER_FIELD.search(declaration) or PLAIN_FIELD.search(declaration.strip())
            names.append(match.group(1))
    return names


def read_headers():
    """(struct -> fields, enumerators), in the order of the headers."""
    structs, enumerators = {}, []
    for header in HEADERS:
        text = tree.blank(tree.read(f"{INCLUDE}/tenon/{header}"))
        text = re.sub(r"^#ifdef TN_ABI_FUTURE\n.*?^#(?:else|endif)", "", text, flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
        for match in re.finditer(r"^(?:typedef )?struct (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            structs[match.group(1)] = fields_of(match.group(2))
        for match in re.finditer(r"\benum(?:\s+\w+)?\s*\{([^}]*)\}", text):
            for entry in match.group(1).split(","):
                if entry.strip():
                    enumerators.append(entry.split("=")[0].strip())
    return structs, enumerators


def program(structs, enumerators):
    lines = ["#include <stdio.h>", "#include <stddef.h>"]
    lines += [f"#include <tenon/{header}>" for header in HEADERS]
    lines += ["int main(void) {"]
    for macro in MACROS:
        lines.append(f'  printf("macro {macro} %lld\\n", (long long)({macro}));')
    for name, fields in structs.items():
        kind = "growable" if "struct_size" in fields or name in GROWABLE_WITHOUT_SIZE else "frozen"
        lines.append(f'  printf("struct {name} %zu {kind}\\n", sizeof(struct {name}));')
        for field in fields:
            where = f"offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field})"
            lines.append(f'  printf("field {name}.{field} %zu %zu\\n", {where});')
    for name in enumerators:
        lines.append(f'  printf("enum {name} %lld\\n", (long long)({name}));')
    return "\n".join(lines + ["  return 0;", "}", ""])


def measure():
    structs, enumerators = read_headers()
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program(structs, enumerators))
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-std=gnu11", "-I", os.path.join(tree.ROOT, INCLUDE), source, "-o", binary],
                       check=True)
        return subprocess.run([binary], check=True, stdout=subprocess.PIPE, text=True).stdout


def parse(text):
    """Lines to {(kind, name): values}; a struct's fields also as {struct: [field, ...]}."""
    table, fields = {}, {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            kind, name, *values = line.split()
            table[kind, name] = values
            if kind == "field":
                fields.setdefault(name.split(".")[0], []).append(name)
    return table, fields


def removed_or_changed(old, new):
    for (kind, name), values in old.items():
        if kind == "macro":
            continue
        now = new.get((kind, name))
        if now is None:
            yield f"{kind} {name} is gone; within one major nothing is removed or renamed"
        elif kind == "field" and now != values:
            yield (f"field {name} was at {values[0]} with {values[1]} bytes, is at {now[0]} with {now[1]}; "
                   "within one major no field moves")
        elif kind == "enum" and now != values:
            yield f"{name} was {values[0]}, is {now[0]}; within one major no number changes its meaning"
        elif kind == "struct" and now[1] != values[1]:
            yield f"struct {name} was {values[1]}, is {now[1]}"
        elif kind == "struct" and now[0] != values[0] and (values[1] == "frozen" or int(now[0]) < int(values[0])):
            yield f"struct {name} had {values[0]} bytes, has {now[0]}; it is {values[1]}"


def appended(old, old_fields, new, new_fields):
    """Findings about new fields, and the names of everything new."""
    fresh = [f"{kind} {name}" for kind, name in new if (kind, name) not in old and kind != "macro"]
    findings = []
    for struct, names in new_fields.items():
        known = old_fields.get(struct)
        if known is None:
            continue
        end = int(old["struct", struct][0])
        for name in names:
            if ("field", name) not in old and int(new["field", name][0]) < end:
                findings.append(f"field {name} is new at {new['field', name][0]}, inside the {end} bytes that "
                                "old plugins know; append it")
    return findings, fresh


def compare(recorded, measured, path):
    old, old_fields = parse(recorded)
    new, new_fields = parse(measured)
    findings = list(removed_or_changed(old, new))
    inside, fresh = appended(old, old_fields, new, new_fields)
    findings += inside
    minor_old, minor_new = (int(table["macro", "TN_ABI_MINOR"][0]) for table in (old, new))
    if new["macro", "TN_MAX_RANK"] != old["macro", "TN_MAX_RANK"]:
        findings.append("TN_MAX_RANK changed; arrays of that length cross the ABI")
    if minor_new < minor_old:
        findings.append(f"TN_ABI_MINOR went back from {minor_old} to {minor_new}")
    if fresh and minor_new == minor_old:
        findings.append(f"new since minor {minor_old}, without a step of TN_ABI_MINOR: {', '.join(fresh)}")
    if not findings and measured != recorded_body(recorded):
        findings.append(f"the change is allowed but not recorded in {path}: run ci/check_abi.py --update")
    return findings


def recorded_body(text):
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("#"))


def update(measured, path):
    head = ("# The ABI of this major as old plugins know it; compared by ci/check_abi.py, written by its --update.\n"
            "# macro NAME VALUE | struct NAME BYTES frozen or growable | field STRUCT.NAME OFFSET BYTES | enum NAME "
            "VALUE\n")
    with open(os.path.join(tree.ROOT, path), "w", encoding="utf-8") as file:
        file.write(head + measured)
    table, fields = parse(measured)
    lines = []
    for kind, name in table:
        if kind == "struct":
            size = "SIZE" if table[kind, name][1] == "frozen" else "GROWS"
            lines.append(f"\nTN_LAYOUT_{size}(struct {name}, {table[kind, name][0]});")
            lines += [f"TN_LAYOUT_AT(struct {name}, {field.split('.')[1]}, {table['field', field][0]});"
                      for field in fields.get(name, [])]
    header = tree.read(LAYOUT_HEADER)
    begin, end = header.index("\n/* asserts */\n"), header.index("\n/* end of asserts */\n")
    with open(os.path.join(tree.ROOT, LAYOUT_HEADER), "w", encoding="utf-8") as file:
        file.write(header[:begin] + "\n/* asserts */\n" + "\n".join(lines) + "\n" + header[end:])
    print(f"recorded {len(table)} facts in {path} and {LAYOUT_HEADER}")


def main():
    if sys.argv[1:] not in ([], ["--update"]):
        print("usage: ci/check_abi.py [--update]", file=sys.stderr)
        sys.exit(2)
    measured = measure()
    major = parse(measured)[0]["macro", "TN_ABI_MAJOR"][0]
    path = f"ci/abi/layout-{major}.txt"
    if sys.argv[1:]:
        update(measured, path)
    elif not os.path.exists(os.path.join(tree.ROOT, path)):
        tree.finish([f"{path} is missing: run ci/check_abi.py --update"], "")
    else:
        tree.finish(compare(tree.read(path), measured, path), f"the ABI is as recorded in {path}")


if __name__ == "__main__":
    main()
