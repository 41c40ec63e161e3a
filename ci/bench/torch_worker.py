#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of compare_torch.py: the cases of `tenon bench`, under the same names, in eager mode.

Answers on stdout, one JSON object a line, to the requests that bench_serve.c describes: `run CASE N` and
`memory CASE N`. The first argument is the number of threads.
"""
import json
import math
import sys
import time

import torch
import torch.nn.functional as F

M4, M16 = 1 << 22, 1 << 24
GRAPH = 1000
WARM_NS = 4_000_000


def single(call):
    """call, n times; the nanoseconds of all."""
    def run(n):
        begin = time.perf_counter_ns()
        for _ in range(n):
            call()
        return time.perf_counter_ns() - begin
    return run


def warm(call):
    """The same, after WARM_NS of calls that are not timed: as the cases at memory do on the other side."""
    run = single(call)

    def warmed(n):
        passed = 0
        while passed < WARM_NS:
            passed += run(1)
        return run(n)
    return warmed


# ---------------------------------------------------------------- elementwise, reduction

def elementwise(name):
    kind, size = name.rsplit("_", 1)
    n = {"4M": M4, "16M": M16}[size]
    side = math.isqrt(n)
    a, b, out = torch.randn(n), torch.randn(n), torch.zeros(n)
    square, row, square_out = torch.randn(side, side), torch.randn(side), torch.zeros(side, side)
    box = torch.randn(256, 256, n >> 16)
    box_out = torch.zeros(n >> 16, 256, 256)
    half = [torch.full((n,), 0.5, dtype=torch.bfloat16) for _ in range(3)]
    mask = a > 0
    calls = {
        "copy": lambda: out.copy_(b),
        "fill": lambda: out.fill_(0.5),
        "add": lambda: a + b,
        "add_out": lambda: torch.add(a, b, out=out),
        "relu": lambda: torch.relu(a),
        "cast_bf16": lambda: a.to(torch.bfloat16),
        "exp": lambda: torch.exp(a),
        "exp_out": lambda: torch.exp(a, out=out),
        "tanh": lambda: torch.tanh(a),
        "gelu": lambda: F.gelu(a),
        "sigmoid_out": lambda: torch.sigmoid(a, out=out),
        "where": lambda: torch.where(mask, a, b),
        "add_row_out": lambda: torch.add(square, row, out=square_out),
        "add_bf16_out": lambda: torch.add(half[0], half[1], out=half[2]),
        "copy_transposed": lambda: square_out.copy_(square.t()),
        "copy_permuted": lambda: box_out.copy_(box.permute(2, 0, 1)),
    }
    return warm(calls[kind])


def reduction(name):
    kind, size = name.rsplit("_", 1)
    if "x" in size:
        rows, columns = map(int, size.split("x"))
    else:
        rows = columns = {"4M": 2048, "16M": 4096}[size]
    x = torch.randn(rows, columns)
    box = torch.randn(128, 256, 128) if size == "4M" else torch.randn(256, 256, 256)
    weight, bias = torch.ones(columns), torch.zeros(columns)
    calls = {
        "sum": lambda: x.sum(),
        "sum_dim0": lambda: x.sum(0),
        "sum_dim1": lambda: x.sum(1),
        "sum_middle": lambda: box.sum(1),
        "max_dim1": lambda: x.max(1),
        "argmax_dim1": lambda: x.argmax(1),
        "softmax": lambda: torch.softmax(x, 1),
        "log_softmax": lambda: torch.log_softmax(x, 1),
        "layer_norm": lambda: F.layer_norm(x, (columns,), weight, bias),
    }
    return warm(calls[kind])


# ---------------------------------------------------------------- gemm, conv

def gemm(name):
    shapes = {"mm_f32_64x128x784": (64, 128, 784), "mm_f32_256x1024x1024": (256, 1024, 1024)}
    if name == "bmm_f32_64x64x64x32":
        a, b, out = torch.randn(64, 64, 32), torch.randn(64, 32, 64), torch.zeros(64, 64, 64)
        return single(lambda: torch.bmm(a, b, out=out))
    side = 0 if name in shapes else int(name.rsplit("_", 1)[1])
    m, n, k = shapes.get(name, (side, side, side))
    dtype = torch.bfloat16 if "bf16" in name else torch.float32
    a, b, out = (t.to(dtype) for t in (torch.randn(m, k), torch.randn(k, n), torch.zeros(m, n)))
    return single(lambda: torch.mm(a, b, out=out))


def conv(name):
    order = torch.channels_last if "_last" in name else torch.contiguous_format

    def images(*sizes):
        return torch.empty(sizes, memory_format=order).copy_(torch.randn(sizes))
    if name.startswith("max_pool"):
        x = images(64, 64, 24, 24)
        if not name.endswith("backward"):
            return warm(lambda: F.max_pool2d(x, 2))
        y, indices = F.max_pool2d(x, 2, return_indices=True)
        return warm(lambda: torch.ops.aten.max_pool2d_with_indices_backward(
            y, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices))
    inputs, outputs, side = (1, 32, 28) if "1_32" in name else (32, 64, 26)
    x, weight, bias = images(64, inputs, side, side), images(outputs, inputs, 3, 3), torch.randn(outputs)
    grad = images(64, outputs, side - 2, side - 2)
    if not name.endswith("backward"):
        return single(lambda: F.conv2d(x, weight, bias))
    return single(lambda: torch.ops.aten.convolution_backward(
        grad, x, weight, [outputs], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]))


# ---------------------------------------------------------------- dispatch, autograd

def dispatch(name):
    a, b = torch.full((1,), 1.5), torch.full((1,), 1.0)
    grad_a, grad_b = torch.full((1,), 1.5, requires_grad=True), torch.full((1,), 1.0, requires_grad=True)
    side = int(name.split("x")[1]) if name.startswith("mm") else 2
    m, k = torch.full((side, side), 1.5), torch.full((side, side), 0.5)
    calls = {
        "add_1_nograd": lambda: a + b,
        "add_1_grad": lambda: grad_a + grad_b,
        "view_1": lambda: a.view(1),
        "empty_1": lambda: torch.empty(1),
        "add_inplace_1": lambda: a.add_(b),
        "sum_1": lambda: a.sum(),
    }
    return single(calls.get(name, lambda: torch.mm(m, k)))


def autograd(name):
    x, c = torch.full((1,), 1.5, requires_grad=True), torch.full((1,), 1.0)

    def graph():
        y = x
        for _ in range(GRAPH):
            y = y * c if name.startswith("chain") else y + x
        return y

    def run(n):
        total = 0
        for _ in range(n):
            begin = time.perf_counter_ns()
            y = graph()
            middle = time.perf_counter_ns()
            y.backward()
            end = time.perf_counter_ns()
            x.grad = None
            total += end - middle if name.endswith("backward") else middle - begin
        return total
    return single(lambda: (x * c).backward()) if name == "mul_backward" else run


# ---------------------------------------------------------------- train

class Block(torch.nn.Module):
    """A pre-norm layer: 128 wide, 4 heads."""
    def __init__(self, width=128, heads=4, context=64):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(context, context, dtype=torch.bool).triu(1))

    def attention(self, x):
        batch, context, width = x.shape
        q, k, v = self.qkv(x).view(batch, context, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(width // self.heads))
        scores = torch.softmax(scores.masked_fill(self.mask, -math.inf), -1)
        return self.out((scores @ v).permute(0, 2, 1, 3).reshape(batch, context, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(torch.nn.Module):
    def __init__(self, vocabulary=65, width=128, context=64):
        super().__init__()
        self.characters = torch.nn.Embedding(vocabulary, width)
        self.places = torch.nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(4)))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.characters(x) + self.places))).flatten(0, 1)


def train(name):
    nn = torch.nn
    if name.startswith("gpt"):
        model, x, target = Transformer(), torch.randint(65, (16, 64)), torch.randint(65, (16 * 64,))
        optimizer = torch.optim.AdamW(model.parameters())
    else:
        batch = int(name.rsplit("batch", 1)[1])
        if name.startswith("cnn"):
            model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Flatten(), nn.Linear(9216, 10))
            x = torch.randn(batch, 1, 28, 28)
        else:
            widths = [784, 1024, 1024, 10] if name.startswith("mlp1024") else [784, 128, 10]
            layers = [part for pair in zip(widths, widths[1:]) for part in (nn.Linear(*pair), nn.ReLU())][:-1]
            model, x = nn.Sequential(*layers), torch.randn(batch, 784)
        target = torch.randint(10, (batch,))
        optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), target).backward()
        optimizer.step()
    return single(step)


# ---------------------------------------------------------------- requests

def make(name):
    prefixes = [(("mlp", "gpt", "cnn"), train), (("conv", "max_pool"), conv), (("mm_f32", "mm_bf16", "bmm"), gemm),
                (("chain", "fan", "mul_backward"), autograd), (("sum_1", "mm_"), dispatch)]
    if name in ("sum_16M",):
        return reduction(name)
    for starts, maker in prefixes:
        if name.startswith(starts):
            return maker(name)
    if name.startswith(("sum", "max", "argmax", "softmax", "log_softmax", "layer_norm")):
        return reduction(name)
    return elementwise(name) if name.endswith("M") else dispatch(name)


def status_bytes(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def memory(name, n):
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    before = status_bytes("VmRSS")
    make(name)(n)
    return {"bytes": status_bytes("VmHWM") - before}


def main():
    torch.set_num_threads(int(sys.argv[1]))
    current, run = None, None
    for line in sys.stdin:
        try:
            verb, name, n = line.split()
            if verb == "memory":
                answer = memory(name, int(n))
            else:
                if name != current:
                    run = None
                    current, run = name, make(name)
                answer = {"ns": run(int(n)) / int(n)}
        except Exception as error:  # the driver prints it beside the case
            current, answer = None, {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
