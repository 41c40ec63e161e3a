#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of one call, counted by callgrind: python3 ci/bench/instructions.py build/release [LOOP ...]

`tenon bench --loop NAME N` makes N calls and ends. Two runs with different N, their instructions subtracted
and divided by the difference of N, leave what one call takes: start-up and tear-down cancel. Counts do not
depend on the machine's load, so this is the number that CI can compare between two commits. Prints the
lines of `tenon bench --json`; the exit status is 1 if a loop takes more than LIMITS says, or --limit LOOP=COUNT.
--device NAME counts on another device, whose plugin TENON_PLUGIN_PATH finds: there only --limit counts.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

SMALL, LARGE = 2000, 12000
LOOPS = ["add_1_nograd", "add_1_grad", "mul_backward", "view_1", "empty_1", "add_inplace_1"]
# What gcc 12.2 reaches, and a little: what was gained is not lost unnoticed. Another compiler may need limits of its own.
LIMITS = {"add_1_nograd": 250, "add_inplace_1": 235, "view_1": 405, "empty_1": 335, "sum_1": 545, "mm_2x2": 810}
TOTAL = re.compile(r"^(?:summary|totals):\s*(\d+)", re.MULTILINE)


def instructions(tenon, loop, calls, device):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", tenon, "bench", "--loop", loop,
                   str(calls), "--device", device]
        # Wide vector units that valgrind does not know are not needed for one element.
        environment = dict(os.environ, TENON_CPU_ISA="avx2", TENON_NUM_THREADS="1")
        subprocess.run(command, check=True, capture_output=True, env=environment)
        with open(out, encoding="utf-8") as file:
            return int(TOTAL.search(file.read()).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", action="append", default=[], metavar="LOOP=COUNT")
    parser.add_argument("--device", default="cpu", metavar="NAME")
    parser.add_argument("build")
    parser.add_argument("loops", nargs="*", default=LOOPS)
    options = parser.parse_args()
    limits = dict(LIMITS) if options.device == "cpu" else {}
    limits |= {loop: int(count) for loop, count in (limit.split("=") for limit in options.limit)}
    good = True
    tenon = os.path.join(options.build, "bin/tenon")
    # A plugin that this machine has not seen is probed and hashed at its first use, which is nothing of a call's.
    subprocess.run([tenon, "bench", "--loop", LOOPS[0], "1", "--device", options.device], check=True)
    for loop in options.loops or LOOPS:
        large, small = (instructions(tenon, loop, calls, options.device) for calls in (LARGE, SMALL))
        value = (large - small) / (LARGE - SMALL)
        print(json.dumps({"suite": "instructions", "name": loop, "threads": 1, "value": round(value, 1),
                          "unit": "instructions"}))
        if value > limits.get(loop, float("inf")):
            print(f"{loop}: {value:.1f} instructions a call, {limits[loop]} is the limit", file=sys.stderr)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
