#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. The table below is the law; docs/style.md tells the reason.

A private include is written from the root of the tree ("core/base/base.h") or names a file of the same folder;
a public one stands in angle brackets (<tenon/...>). Headers of the C library, POSIX, the compiler and zlib are
free. core/autograd/autograd.h and core/load/load.h are seams: they are written for the floors below them.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tree

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)

SDK = {"tenon/types.h", "tenon/plugin.h", "tenon/plugin_backend.h", "tenon/plugin_layer.h", "tenon/plugin_profiler.h", "tenon/plugin_compiler.h", "tenon/operator.h", "tenon/samples.h",
       "tenon/layout.h"}
APP = {"tenon/profile.h", "tenon/stream.h", "tenon/tensor.h", "tenon/error.h", "tenon/autograd.h", "tenon/layer.h", "tenon/load.h", "tenon/memory.h", "tenon/fallback.h", "tenon/tenon.h"}
GENERATED = {"tenon/ops.h", "tenon/scoped.h"}
GPU = {"tenon/gpu_kernels.h"}
FRONTEND = {"tenon/trace.h", "tenon/nn.h", "tenon/optim.h", "tenon/data.h", "tenon/dlpack.h", "tenon/files.h"}

SEAMS = ["core/autograd/autograd.h", "core/load/load.h", "core/profile/profile.h"]

# (folder, public headers: sets or "kit", private folders). The longest matching folder counts. A folder's own
# files are always allowed, except that nobody else may include its *_int.h.
RULES = [
    ("plugin-sdk/include", [SDK], []),
    ("plugin-sdk/kit", [SDK, "kit"], ["plugin-sdk/kit"]),
    ("plugin-sdk", [SDK, "kit"], []),
    ("plugin-sdk/template/backend/tests", [{"tenon/types.h"}, APP, GENERATED, FRONTEND], []),
    ("plugin-sdk/template/layer/tests", [{"tenon/types.h"}, APP, GENERATED, FRONTEND], []),
    ("plugin-sdk/template/operators/tests", [{"tenon/types.h"}, APP, GENERATED, FRONTEND], []),
    ("registry", [SDK, "kit", APP, GENERATED], ["registry", "core/autograd/autograd.h"]),
    ("core/include", [{"tenon/types.h", "tenon/plugin_profiler.h"}, APP, GENERATED], []),
    ("core/base", [SDK, "kit", APP], ["core/base"]),
    ("core/memory", [SDK, "kit", APP], ["core/base"] + SEAMS),
    ("core/tensor", [SDK, "kit", APP], ["core/base", "core/memory"] + SEAMS),
    ("core/dispatch", [SDK, "kit", APP, GENERATED], ["core/base", "core/memory", "core/tensor", "registry"] + SEAMS),
    ("core/autograd", [SDK, "kit", APP, GENERATED], ["core/base", "core/tensor", "core/dispatch", "core/load/load.h", "core/profile/profile.h",
                                                     "registry"]),
    ("core/profile", [SDK, "kit", APP], ["core/base", "core/memory", "core/tensor", "core/dispatch", "core/load/load.h"]),
    ("core/load", [SDK, "kit", APP], ["core/base", "core/memory", "core/tensor", "core/dispatch", "core/profile/profile.h", "registry"]),
    ("core/libexec", [SDK, "kit", APP, GENERATED], []),
    ("core/api", [SDK, "kit", APP, GENERATED], ["core", "registry"]),
    ("plugins", [SDK, "kit"], ["OWN PLUGIN"]),
    ("plugins/gpu", [SDK, "kit", GPU], ["OWN PLUGIN"]),
    ("plugins/opencl", [SDK, "kit", GPU], ["OWN PLUGIN", "plugins/gpu/driver.h", "plugins/gpu/kernels.inc"]),
    ("frontends", [{"tenon/types.h", "tenon/plugin_profiler.h"}, APP, GENERATED, FRONTEND], ["OWN FRONTEND"]),
    ("frontends/cli", [{"tenon/types.h", "tenon/kit/sha256.h"}, APP, GENERATED, FRONTEND], ["OWN FRONTEND"]),
    ("frontends/check", [SDK, "kit", APP, GENERATED, FRONTEND], ["OWN FRONTEND", "registry/schema.h"]),
    ("frontends/check/second", [SDK, "kit"], []),
    ("frontends/check/reference", [{"tenon/types.h", "tenon/samples.h"}], []),
    ("examples/backend-memory", [SDK, "kit"], []),
    ("examples/backend-primitives", [SDK, "kit"], []),
    ("examples", [{"tenon/types.h"}, APP, GENERATED, FRONTEND], []),
    ("examples/layer-nan-finder", [SDK, "kit"], []),
    ("examples/layer-call-log", [SDK, "kit"], []),
    ("examples/operators-softmax", [SDK, "kit", GPU], []),
    ("tests/load", [SDK, "kit", APP, GENERATED, FRONTEND], ["tests/support", "core/base", "core/load"]),
    ("tests/backends", [{"tenon/types.h"}, APP, GENERATED, FRONTEND], ["tests/support"]),
    ("tests/frontends", [SDK, APP, GENERATED, FRONTEND], ["tests/support", "frontends"]),
    ("tests/ops", [SDK, "kit", APP, GENERATED], ["tests", "core", "registry", "frontends/check/reference"]),
    ("tests/gpu", [SDK, "kit", GPU, APP, GENERATED], ["tests", "core", "registry", "plugins"]),
    ("tests", [SDK, "kit", APP, GENERATED], ["tests", "core", "registry", "plugins"]),
]
# Files that the generator writes into the build tree: bare names, for the folders that consume them.
BUILD_FILES = {"row_softmax_operators.h", "ops_index.h", "@NAME@.h", "@IDENT@_operators.h", "ops_rules.h", "elementwise.inc", "elementwise_ref.inc", "op_samples.c"}
# May be included by name alone from these folders (their include path has it).
BARE = {"tests": {"tn_test.h", "tn_stress.h"}}
EXCEPTIONS = {
    # ("file", "include"): "reason"
}


def rule_of(path):
    best = None
    for rule in RULES:
        if path.startswith(rule[0] + "/") and (best is None or len(rule[0]) > len(best[0])):
            best = rule
    return best


def public_allowed(name, sets):
    if name.startswith("tenon/kit/") and "kit" in sets:
        return True
    return any(name in names for names in sets if names != "kit")


def own_folder(path, private):
    """The private folders of a rule, with the markers replaced by the file's own top folder."""
    own = "/".join(path.split("/")[:2])
    return [own if folder.startswith("OWN ") else folder for folder in private]


def private_allowed(path, target, private):
    folder = os.path.dirname(path)
    if os.path.dirname(target) == folder:
        return True
    if target.endswith("_int.h"):
        # Tests of internals stand for the folder that they test; core/api is the face of the whole core.
        inside = path.startswith(("tests/unit/", "tests/autograd/", "tests/load/", "core/api/"))
        if not inside:
            return False
    return any(target == place or target.startswith(place + "/") for place in own_folder(path, private))


def judge(path, bracket, name, rule):
    """None, or why the include is wrong."""
    top = path.split("/")[0]
    if bracket == "<":
        if not name.startswith("tenon/"):
            return None
        return None if public_allowed(name, rule[1]) else f"<{name}> is not for {rule[0]}"
    if name in BUILD_FILES or name in BARE.get(top, ()):
        return None
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    target = beside if os.path.exists(os.path.join(tree.ROOT, beside)) else name
    if not os.path.exists(os.path.join(tree.ROOT, target)):
        return f'"{name}" is neither a file beside it nor a path from the root'
    return None if private_allowed(path, target, rule[2]) else f'"{target}" is not for {rule[0]}'


def main():
    findings = []
    for path in tree.files(".c", ".h", ".inc"):
        rule = rule_of(path)
        text = tree.read(path)
        if rule is None:
            findings.append(f"{path}: no rule says what this folder may include")
            continue
        for match in INCLUDE.finditer(text):
            why = judge(path, match.group(1), match.group(2), rule)
            if why and (path, match.group(2)) not in EXCEPTIONS:
                line = text.count("\n", 0, match.start()) + 1
                findings.append(f"{path}:{line}: {why}")
    tree.finish(findings, "every include keeps to the table")


if __name__ == "__main__":
    main()
