#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenBLAS or oneDNN called directly, for compare_torch.py: blas_worker.py openblas|onednn THREADS

The float32 products of suite gemm on row-major buffers of their own, 64-byte aligned, results written in
place. Answers `run CASE N` as torch_worker.py does.
"""
import ctypes
import json
import random
import sys
import time

NAMES = {"openblas": "libopenblas.so.0", "onednn": "libdnnl.so.2"}
SHAPES = {"mm_f32_64x128x784": (64, 128, 784), "mm_f32_256x1024x1024": (256, 1024, 1024)}


def buffer(n):
    """n floats, filled; (address, owner)."""
    owner = ctypes.create_string_buffer(4 * n + 64)
    address = (ctypes.addressof(owner) + 63) // 64 * 64
    piece = [random.uniform(-1.0, 1.0) for _ in range(1024)]
    floats = (ctypes.c_float * n).from_address(address)
    for begin in range(0, n, 1024):
        floats[begin:begin + 1024] = piece[:min(1024, n - begin)]
    return ctypes.c_void_p(address), owner


def make(library, kind, name):
    side = 0 if name in SHAPES else int(name.rsplit("_", 1)[1])
    m, n, k = SHAPES.get(name, (side, side, side))
    (a, own_a), (b, own_b), (c, own_c) = buffer(m * k), buffer(k * n), buffer(m * n)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    i64 = ctypes.c_int64
    if kind == "openblas":
        arguments = (101, 111, 111, m, n, k, one, a, k, b, n, zero, c, n)
        call = library.cblas_sgemm
    else:
        no = ctypes.c_char(b"N")
        arguments = (no, no, i64(m), i64(n), i64(k), one, a, i64(k), b, i64(n), zero, c, i64(n))
        call = library.dnnl_sgemm

    def run(count, owners=(own_a, own_b, own_c)):
        begin = time.perf_counter_ns()
        for _ in range(count):
            call(*arguments)
        return time.perf_counter_ns() - begin
    return run


def main():
    kind, threads = sys.argv[1], int(sys.argv[2])
    library = ctypes.CDLL(NAMES[kind])
    if kind == "openblas":
        library.openblas_set_num_threads(threads)
    current, run = None, None
    for line in sys.stdin:
        _, name, n = line.split()
        if name != current:
            run = None
            current, run = name, make(library, kind, name)
        print(json.dumps({"ns": run(int(n)) / int(n)}), flush=True)


if __name__ == "__main__":
    main()
