#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenon against PyTorch on this machine, in one run: python3 ci/bench/compare_torch.py [--tenon BIN] [--suite NAME]

Every contestant is a process of its own that answers `run CASE N` (bench_serve.c); the driver lets them take turns,
block by block, and keeps the best block of each. Small operators, chains and the small network meet libtorch in
C++ (built in a temporary folder, if its headers are there), the rest torch in Python; products also meet OpenBLAS
and oneDNN called directly. Prints a table of ratios and bars; exit status 1 if a bar is missed, 2 if nothing could
be compared. OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are unset: what they do to PyTorch is not PyTorch's doing.
"others" is what other processes took of the machine meanwhile: on a busy one, threads of OpenMP wait for threads that
do not run, and a ratio on 2 threads says little.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK_NS = 3e6  # a block is at least this long
REST_S = 0.004  # between two turns: waiting OpenMP threads go to sleep

# What a case must reach. torch: its time over PyTorch's, at most. ceiling: its share of the ceiling, at least. blas:
# its time over the better library's, at most. ms: at most. memory: its peak over PyTorch's, at most.
BARS = {
    # BUDGETS' nanoseconds over PyTorch C++ as measured beside them: machines differ, ratios less.
    "add_1_nograd": {"torch": 25 / 500}, "add_inplace_1": {"torch": 15 / 337}, "add_1_grad": {"torch": 70 / 1020},
    "view_1": {"torch": 20 / 258}, "empty_1": {"torch": 12 / 266}, "sum_1": {"torch": 35 / 812},
    "mm_2x2": {"torch": 50 / 591}, "mm_16x16": {"torch": 1 / 5},
    "chain_forward": {"torch": 75 / 865}, "chain_backward": {"torch": 120 / 1910}, "mul_backward": {"torch": 500 / 8200},
    "mm_bf16_1024": {"torch": 1.1},  # torch.mm is oneDNN there
    "mlp_adam_batch64": {"torch": 0.33, "memory": 1.0}, "mlp_adam_batch256": {"torch": 0.5, "memory": 1.0},
    "mlp1024_adam_batch256": {"torch": 0.8, "memory": 1.0}, "cnn_adam_batch64": {"torch": 0.65, "memory": 1.0},
    "gpt_adamw_batch16": {"torch": 0.55, "memory": 1.0},
    "devices": {"ms": 10.0},
}
for size in ("4M", "16M"):
    BARS.update({f"{name}_{size}": {"ceiling": 0.9} for name in ("copy", "fill", "add", "relu", "cast_bf16")})
    BARS.update({f"{name}_{size}": {"ceiling": 0.85} for name in ("sum", "sum_dim0", "sum_dim1", "sum_middle")})
    BARS.update({f"{name}_{size}": {"ceiling": 0.7} for name in ("exp", "where", "max_dim1")})
    BARS.update({f"{name}_{size}": {"torch": 1 / 3} for name in ("tanh", "gelu", "copy_permuted")})
    BARS[f"copy_transposed_{size}"] = {"ceiling": 0.5}
for shape in ("4096x1000", "256x32000", "16384x1024"):
    BARS.update({f"{name}_{shape}": {"ceiling": 0.7} for name in ("softmax", "layer_norm")})
BARS.update({f"mm_f32_{shape}": {"blas": 1.03} for shape in ("64x128x784", "512", "1024", "2048", "4096")})
TWO_THREADS = {"gpt_adamw_batch16": {"torch": 0.5, "memory": 1.0}}

SUITES = ["dispatch", "elementwise", "reduction", "gemm", "conv", "autograd", "train", "startup"]
# The suites, and single cases, whose peer is C++.
CPP = {"dispatch", "autograd", "mlp_adam_batch64", "mlp_adam_batch256", "mm_f32_32", "mm_f32_64x128x784", "mm_f32_256"}
BLAS = {"mm_f32_64x128x784", "mm_f32_256x1024x1024", "mm_f32_512", "mm_f32_1024", "mm_f32_2048", "mm_f32_4096"}


class Worker:
    """A contestant: a process on the first so many processors that this one may use."""
    def __init__(self, command, threads, extra=None):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        environment.update(OMP_NUM_THREADS=str(threads), **(extra or {}))
        allowed = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment, preexec_fn=lambda: os.sched_setaffinity(0, allowed))

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": f"ended with status {self.process.wait()}"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---------------------------------------------------------------- who is here

def torch_python(wanted):
    for python in [wanted] if wanted else [sys.executable, "/usr/bin/python3"]:
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def build_cpp(folder):
    """The C++ worker's path, or None with the reason on stderr."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    headers = "/usr/include/torch/csrc/api/include"
    if not compiler or not os.path.isdir(headers):
        print("no libtorch headers or no C++ compiler: Python's torch stands in for C++", file=sys.stderr)
        return None
    program = os.path.join(folder, "torch_worker")
    if os.path.exists(program):
        return program
    built = subprocess.run([compiler, "-std=c++17", "-O2", "-w", os.path.join(HERE, "torch_worker.cpp"), "-o", program,
                            "-I", headers, "-ltorch", "-ltorch_cpu", "-lc10"], capture_output=True, text=True, check=False)
    if built.returncode:
        print(f"libtorch did not build, Python's torch stands in for C++:\n{built.stderr[:800]}", file=sys.stderr)
        return None
    return program


def cpu_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = [line.split(":", 1)[1].split() for line in file if line.startswith("flags")]
    return set(lines[0]) if lines else set()


class Contest:
    """The contestants of one number of threads; processes start when they are first needed."""
    def __init__(self, options, cpp):
        self.options, self.cpp, self.threads, self.workers = options, cpp, options.threads, {}
        core = "SkylakeX" if "avx512f" in cpu_flags() else "Haswell"
        blas = [sys.executable, os.path.join(HERE, "blas_worker.py")]
        count = str(self.threads)
        self.commands = {
            "tenon": ([options.tenon, "bench", "--serve", "--threads", count], None),
            "python": ([options.python, os.path.join(HERE, "torch_worker.py"), count], None),
            "cpp": ([cpp, count], None),
            "openblas": (blas + ["openblas", count], {"OPENBLAS_CORETYPE": core}),
            "onednn": (blas + ["onednn", count], None),
        }

    def fresh(self, who):
        command, extra = self.commands[who]
        return Worker(command, self.threads, extra)

    def worker(self, who):
        if who not in self.workers:
            self.workers[who] = self.fresh(who)
        return self.workers[who]

    def peers(self, suite, case):
        torch = "cpp" if self.cpp and (suite in CPP or case in CPP) else "python"
        return ["tenon", torch] + (["openblas", "onednn"] if case in BLAS else [])

    def close(self):
        for worker in self.workers.values():
            worker.close()
        self.workers = {}


# ---------------------------------------------------------------- who else is running

def busy_ticks():
    """Ticks that all processors have worked since the system's start."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return user + nice + system + irq + softirq + steal


def ticks_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class Others:
    """The share of the processors that neither the contestants nor the driver used, since it was made."""
    def __init__(self, pids):
        self.pids = pids
        self.begun, self.busy, self.own = time.perf_counter(), busy_ticks(), self.own_ticks()

    def own_ticks(self):
        return sum(ticks_of(pid) for pid in self.pids + [os.getpid()])

    def share(self):
        ticks = (time.perf_counter() - self.begun) * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
        return max(0.0, (busy_ticks() - self.busy - (self.own_ticks() - self.own)) / ticks)


# ---------------------------------------------------------------- measuring

def runs_of(worker, case):
    """How many runs fill a block, after a warm-up; or an error."""
    n = 1
    answer = worker.ask(f"run {case} 1")
    while "error" not in answer:
        answer = worker.ask(f"run {case} {n}")
        if "error" in answer or answer["ns"] * n >= BLOCK_NS or n >= 1 << 20:
            break
        n = max(2 * n, min(64 * n, int(BLOCK_NS / max(answer["ns"], 1.0)) + 1))
    return n, answer.get("error")


def measure(contest, who, case):
    """who -> best ns, the best ceiling, the work of a run, who -> error, the others' share."""
    counts, errors, best, ceiling, work = {}, {}, {}, 0.0, 0.0
    for name in who:
        counts[name], error = runs_of(contest.worker(name), case)
        if error:
            errors[name] = error
    others = Others([contest.worker(name).process.pid for name in who if name not in errors])
    for _ in range(contest.options.blocks):
        for name in who:
            if name in errors:
                continue
            answer = contest.worker(name).ask(f"run {case} {counts[name]}")
            if "error" in answer:
                errors[name] = answer["error"]
                continue
            best[name] = min(best.get(name, float("inf")), answer["ns"])
            ceiling = max(ceiling, answer.get("ceiling") or 0.0)
            work = answer.get("work", work)
            time.sleep(REST_S)
    return best, ceiling, work, errors, others.share() if len(errors) == 0 else None


def memory_ratio(contest, case):
    """Peaks above what stood before the model, Tenon's over torch's, each in a fresh process; None: not told."""
    peaks = []
    for who in ("tenon", "python"):
        worker = contest.fresh(who)
        peaks.append(worker.ask(f"memory {case} 20").get("bytes"))
        worker.close()
    return peaks[0] / peaks[1] if peaks[0] and peaks[1] else None


def scaled(ns):
    for limit, unit in ((1e3, "ns"), (1e6, "us"), (1e9, "ms")):
        if ns < limit:
            return f"{ns / limit * 1e3:.4g} {unit}"
    return f"{ns / 1e9:.4g} s"


def judge(bars, found):
    """(words, holds) of every bar that has a figure; a missing figure misses its bar."""
    verdicts = []
    for kind, limit in bars.items():
        value = found.get(kind)
        sign = ">=" if kind == "ceiling" else "<="
        holds = value is not None and (value >= limit if kind == "ceiling" else value <= limit)
        shown = "none" if value is None else f"{value:.3g}"
        verdicts.append((f"{kind} {shown} {sign} {limit:.3g}", holds))
    return verdicts


def compare(contest, suite, case):
    """Prints a row; whether every bar holds."""
    bars = BARS.get(case, {})
    if contest.threads == 2:
        bars = TWO_THREADS.get(case, bars)
    who = contest.peers(suite, case)
    best, ceiling, work, errors, others = measure(contest, who, case)
    found = {}
    if who[0] in best and who[1] in best:
        found["torch"] = best[who[0]] / best[who[1]]
    direct = [best[name] for name in who[2:] if name in best]
    if direct and who[0] in best:
        found["blas"] = best[who[0]] / min(direct)
    if ceiling > 0.0 and who[0] in best:
        found["ceiling"] = work / best[who[0]] / ceiling
    if "memory" in bars:
        found["memory"] = memory_ratio(contest, case)
    verdicts = judge(bars, found)
    times = [scaled(best[name]) if name in best else "-" for name in who[:2]]
    libraries = ", ".join(f"{name} {scaled(best[name])}" for name in who[2:] if name in best)
    row(case, contest.threads, times, "C++" if who[1] == "cpp" else "Python", found, verdicts, others, libraries)
    for name, words in errors.items():
        print(f"    {name}: {words}", flush=True)
    return all(holds for _, holds in verdicts)


def row(case, threads, times, peer, found, verdicts, others=None, note=""):
    torch = f"{found['torch']:.3f}" if "torch" in found else "-"
    share = f"{found['ceiling']:.2f}" if "ceiling" in found else "-"
    bars = "; ".join(words + ("" if holds else " MISSED") for words, holds in verdicts) or "no bar"
    busy = "-" if others is None else f"{100.0 * others:.0f} %"
    cells = [case, str(threads), times[0], f"{times[1]} {peer}", torch, share, busy, bars + (f"; {note}" if note else "")]
    print("| " + " | ".join(cells) + " |", flush=True)


def compare_startup(options):
    """`tenon devices` in a fresh process, median of 30; beside it `import torch`, the median of 3. The ceiling is a
    process that ends at once."""
    def median(command, count):
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
        return sorted(times)[count // 2] * 1e9
    ours, theirs = median([options.tenon, "devices"], 31), median([options.python, "-c", "import torch"], 3)
    found = {"torch": ours / theirs, "ms": ours / 1e6, "ceiling": median(["true"], 31) / ours}
    verdicts = judge(BARS["devices"], found)
    row("devices", 1, [scaled(ours), scaled(theirs)], "import torch", found, verdicts)
    return all(holds for _, holds in verdicts)


# ---------------------------------------------------------------- the command

def cases_of(tenon, suite):
    """The names of a suite, in its order."""
    listed = subprocess.run([tenon, "bench", suite, "--list"], check=True, capture_output=True, text=True)
    return listed.stdout.split()


def versions(python):
    words = "import torch; print('torch', torch.__version__, torch.backends.cpu.get_cpu_capability() " \
            "if hasattr(torch.backends, 'cpu') else '')"
    print(subprocess.run([python, "-c", words], capture_output=True, text=True, check=False).stdout.strip())
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        print(next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU"))
    simd = sorted(flag for flag in cpu_flags() if flag.startswith(("avx", "fma", "f16c", "amx")))
    print(" ".join(simd), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/release/bin/tenon", metavar="BIN")
    parser.add_argument("--suite", action="append", choices=SUITES, help="may be given several times; all if left out")
    parser.add_argument("--case", action="append", help="these cases only")
    parser.add_argument("--threads", type=int, action="append", help="1 and 2 if left out")
    parser.add_argument("--blocks", type=int, default=30, help="turns of each contestant (30)")
    parser.add_argument("--python", help="a Python that has torch")
    parser.add_argument("--build", metavar="DIR", help="keep the C++ program here, and use it if it is there")
    options = parser.parse_args()
    options.python = torch_python(options.python)
    if not options.python:
        print("no Python with torch is here", file=sys.stderr)
        return 2
    options.tenon = os.path.abspath(options.tenon)
    versions(options.python)
    with tempfile.TemporaryDirectory() as folder:
        return run_all(options, build_cpp(options.build or folder))


def run_all(options, cpp):
    print("\n| case | threads | Tenon | torch | ratio | of ceiling | others | bars |\n|---|---|---|---|---|---|---|---|")
    good, counts = True, options.threads or [1, 2]
    for suite in options.suite or SUITES:
        if suite == "startup":
            good = compare_startup(options) and good
            continue
        cases = [case for case in cases_of(options.tenon, suite) if not options.case or case in options.case]
        for options.threads in counts:
            contest = Contest(options, cpp)
            for case in cases:
                good = compare(contest, suite, case) and good
            contest.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
