#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the device text that the tests of this folder use with compilers that this machine has no device for.

    check_device_text.py TESTS_GPU [--nvcc PATH] [--clang PATH]

TESTS_GPU runs some of its suites with TENON_OPENCL_TEXTS, as a CPU and as a GPU, so that every text is one that really runs.
clang compiles them as OpenCL C for NVIDIA and AMD chips, nvcc as CUDA C.
A machine without an OpenCL platform has no texts: said, and no failure.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

SUITES = ['gpu_copy', 'gpu_random', 'gpu_reduce', 'gpu_linalg', 'gpu_nn', 'gpu_index', 'gpu_optim', 'gpu_values']
GPU_SUITES = ['gpu_values', 'gpu_linalg']
SHARE = 16  # of the maps, which differ in one line each: a compilation takes up to a second
CLANG = ['-x', 'cl', '-cl-std=CL1.2', '-Xclang', '-finclude-default-header', '-O1', '-w', '-S', '-o', os.devnull]
TARGETS = [['-target', 'nvptx64-nvidia-cuda', '-Xclang', '-cl-ext=+cl_khr_fp64'],
           ['-target', 'amdgcn-amd-amdhsa', '-mcpu=gfx90a', '-nogpulib']]


def run_suites(program, suites, folder, **environment):
    # The plain runner takes suites as shell patterns, Criterion one filter a run.
    usage = subprocess.run([program, '--help'], capture_output=True, text=True)
    criterion = '--filter' in usage.stdout + usage.stderr
    for suite in suites:
        arguments = ['--filter', suite + '/*'] if criterion else [suite + '.*']
        result = subprocess.run([program] + arguments, capture_output=True, text=True,
                                env=dict(os.environ, TENON_OPENCL_TEXTS=folder, **environment))
        if result.returncode != 0:
            sys.exit('%s %s failed:\n%s%s' % (program, suite, result.stdout, result.stderr))


def chosen(*folders):
    """One path for each text, and of the maps a share."""
    found = {}
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            with open(path, encoding='utf-8') as f:
                found.setdefault(f.read(), path)
    maps = [path for text, path in found.items() if '#define N_IN' in text]
    return [path for path in found.values() if path not in maps] + maps[::SHARE]


def compile_one(command):
    result = subprocess.run(command, capture_output=True, text=True)
    return None if result.returncode == 0 else '%s\n%s' % (' '.join(command), result.stderr[:2000])


def commands(options, texts, folder):
    for i, path in enumerate(texts):
        if options.clang:
            for target in TARGETS:
                yield [options.clang] + CLANG + target + [path]
        if options.nvcc:
            yield [options.nvcc, '-x', 'cu', '-cubin', '-arch=sm_80', '-fmad=false', '-o', '%s/%d.cubin' % (folder, i), path]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('--nvcc')
    parser.add_argument('--clang')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        as_cpu, as_gpu, objects = (os.path.join(root, name) for name in ('cpu', 'gpu', 'objects'))
        for folder in (as_cpu, as_gpu, objects):
            os.mkdir(folder)
        run_suites(options.program, SUITES, as_cpu)
        run_suites(options.program, GPU_SUITES, as_gpu, TENON_OPENCL_AS_GPU='1')
        texts = chosen(as_cpu, as_gpu)
        if not texts:
            print('not run: there is no OpenCL platform')
            return 0
        work = list(commands(options, texts, objects))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            failures = [f for f in pool.map(compile_one, work) if f]
        for failure in failures[:10]:
            print(failure)
        print('%d texts, %d compilations, %d failed' % (len(texts), len(work), len(failures)))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
