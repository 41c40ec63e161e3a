#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""System calls about memory in a steady loop: python3 ci/bench/steady.py build/release [LOOP ...]

`tenon bench --loop NAME N` makes N calls and ends. strace counts the calls of mmap, munmap, mremap, brk and madvise
in two runs, SMALL and LARGE; what a warm call makes is the difference of the counts over the difference of N, and
it must be 0. One JSON object a line; exit status 1 if a loop asked for anything.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

SMALL, LARGE = 100, 200
TRIES = 3
LOOPS = ["mlp_adam_batch64", "mlp_adam_batch256"]
CALLS = "mmap,munmap,mremap,brk,madvise"
LINE = re.compile(r"^(?:\d+\s+)?(\w+)\(")


def system_calls(tenon, loop, calls, threads):
    """Name -> how many."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "strace.out")
        command = ["strace", "-f", "-e", f"trace={CALLS}", "-o", out, tenon, "bench", "--threads", str(threads), "--loop",
                   loop, str(calls)]
        subprocess.run(command, check=True, capture_output=True)
        with open(out, encoding="utf-8") as file:
            return collections.Counter(match.group(1) for match in map(LINE.match, file) if match)


def surplus(tenon, loop, threads):
    """Name -> what the additional calls made. Start-up itself varies by a call or so: the best of TRIES counts."""
    for _ in range(TRIES):
        more = system_calls(tenon, loop, LARGE, threads)
        more.subtract(system_calls(tenon, loop, SMALL, threads))
        extra = {name: n for name, n in sorted(more.items()) if n > 0}
        if not extra:
            break
    return extra


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, action="append", help="1 and 2 if left out")
    parser.add_argument("build")
    parser.add_argument("loops", nargs="*", default=LOOPS)
    options = parser.parse_args()
    tenon = os.path.join(options.build, "bin/tenon")
    good = True
    for loop in options.loops or LOOPS:
        for threads in options.threads or [1, 2]:
            extra = surplus(tenon, loop, threads)
            print(json.dumps({"suite": "steady", "name": loop, "threads": threads, "value": sum(extra.values()),
                              "unit": f"system calls in {LARGE - SMALL} steps", "calls": extra}))
            good = good and not extra
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
