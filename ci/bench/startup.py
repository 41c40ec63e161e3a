#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What installed plugins cost at start: python3 ci/bench/startup.py build/release

Starts a small program that reads all manifests and opens nothing, in turns with no, 20 and 21 plugins in a search root
of its own: copies of tests/load/plugins/filler.c under other names, the last of them one whose constructor aborts. The
best of the runs counts; bars: 20 plugins add at most 3 ms, a bad one no more than a good one (0.15 ms), and nobody is
probed. One JSON object a line; exit status 1 if a bar is missed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

BAR_MS = {"20 plugins": 3.0, "a bad plugin": 0.15 + 0.1}
RUNS = 60


def fill(folder, build, n):
    with open(os.path.join(build, "tests/load/plugins/filler.so"), "rb") as file:
        filler = file.read()
    for i in range(n):
        with open(os.path.join(folder, f"filler{i:02}.so"), "wb") as file:
            file.write(filler.replace(b"filler-00", b"filler-%02d" % i))


def milliseconds(program, root, cache):
    environment = dict(os.environ, TENON_PLUGIN_PATH=root, XDG_CACHE_HOME=cache)
    start = time.perf_counter()
    subprocess.run([program, "open", "meta"], check=True, stdout=subprocess.DEVNULL, env=environment)
    return 1e3 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("build")
    options = parser.parse_args()
    program = os.path.join(options.build, "bin/tests_load_probe")
    with tempfile.TemporaryDirectory() as base:
        roots = {name: os.path.join(base, name) for name in ("none", "good", "bad")}
        cache = os.path.join(base, "cache")
        for root in list(roots.values()) + [cache]:
            os.mkdir(root, 0o700)
        fill(roots["good"], options.build, 20)
        fill(roots["bad"], options.build, 20)
        os.symlink(os.path.abspath(os.path.join(options.build, "tests/load/plugins/aborts.so")),
                   os.path.join(roots["bad"], "aborts.so"))
        best = {}
        for _ in range(options.runs):
            for name, root in roots.items():
                best[name] = min(best.get(name, 1e9), milliseconds(program, root, cache))
        probed = os.path.exists(os.path.join(cache, "tenon/probe"))
    added = {"20 plugins": best["good"] - best["none"], "a bad plugin": best["bad"] - best["good"]}
    good = not probed
    for name, value in added.items():
        print(json.dumps({"suite": "startup", "name": name, "value": round(value, 3), "unit": "ms", "bar": BAR_MS[name],
                          "without": round(best["none"], 3), "probed": probed}))
        good = good and value <= BAR_MS[name]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
