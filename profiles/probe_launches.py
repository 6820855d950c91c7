#!/usr/bin/env python3
"""Times what the host takes to launch kernels one by one, as an engine does for a prompt without a captured graph.

Needs PyTorch 2.4 or later with Triton, an NVIDIA GPU, and for layers with states flash-linear-attention. Example, a
minute on an H100:

    python3 profiles/probe_launches.py --output launches.csv

Each row is a call and what it takes the host, in µs: the median and the least of 15 rounds of 40 calls of which none is
waited for. Inputs are of 64 tokens, so that the device keeps up; the column `device_us` tells that it does.
"""

import argparse
import csv
import platform
import statistics
import sys
import time
import traceback

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

ROUNDS, CALLS, TOKENS, HIDDEN = 15, 40, 64, 2048
HEADS, HEAD = 16, 128


@triton.jit
def copy_4(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def copy_12(a, b, c, d, x, y, n, s0, s1, s2, s3, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) + tl.load(a) + tl.load(b) + tl.load(c) + tl.load(d)
    tl.store(y + at + s0 * 0 + s1 * 0 + s2 * 0 + s3 * 0, value, mask=at < n)


@triton.jit
def copy_23(a, b, c, d, e, f, g, h, x, y, n, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) + tl.load(a) + tl.load(b) + tl.load(c) + tl.load(d)
    value += tl.load(e) + tl.load(f) + tl.load(g) + tl.load(h)
    tl.store(y + at + (s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9) * 0, value, mask=at < n)


def rows():
    """(name, call)"""
    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    x, w = torch.randn(TOKENS, HIDDEN, **bf16), torch.randn(HIDDEN, HIDDEN, **bf16)
    norm = torch.ones(HIDDEN, **bf16)
    y = torch.empty_like(x)
    logits = torch.randn(TOKENS, 128, device="cuda")
    slots = torch.randperm(4096, device="cuda")[:TOKENS]
    cache = torch.zeros(4096, HEADS, HEAD, **bf16)
    heads = torch.randn(TOKENS, HEADS, HEAD, **bf16)
    yield "empty tensor", lambda: torch.empty(TOKENS, HIDDEN, **bf16)
    yield "view", lambda: x.view(TOKENS, HEADS, HEAD)
    yield "element-wise", lambda: x + x
    yield "element-wise, output given", lambda: torch.add(x, x, out=y)
    yield "norm", lambda: F.rms_norm(x, (HIDDEN,), norm)
    yield "linear", lambda: F.linear(x, w)
    yield "activation and product", lambda: F.silu(x) * x
    yield "top 8 of 128", lambda: torch.topk(logits, 8)
    yield "softmax", lambda: torch.softmax(logits, -1)
    yield "keys to the cache", lambda: cache.index_copy_(0, slots, heads)
    query = heads.transpose(0, 1)[None]
    yield "attention", lambda: F.scaled_dot_product_attention(query, query, query, is_causal=True)
    q8 = torch.randn(TOKENS, HIDDEN, device="cuda").to(torch.float8_e4m3fn)
    w8 = torch.randn(HIDDEN, HIDDEN, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    yield "linear in fp8", lambda: torch._scaled_mm(q8, w8.t(), one, one, out_dtype=torch.bfloat16)
    n, grid = x.numel(), (triton.cdiv(x.numel(), 1024),)
    yield "Triton, 4 arguments", lambda: copy_4[grid](x, y, n, BLOCK=1024)
    yield "Triton, 12 arguments", lambda: copy_12[grid](x, x, x, x, x, y, n, 1, 2, 3, 4, BLOCK=1024)
    yield "Triton, 23 arguments", lambda: copy_23[grid](x, x, x, x, x, x, x, x, x, y, n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                                       BLOCK=1024, WIDE=1)


def states():
    """(name, call) of a layer with a gated delta net, of 16 heads of keys and 32 of values."""
    from fla.modules import FusedRMSNormGated
    from fla.modules.convolution import causal_conv1d
    from fla.modules.l2norm import l2norm
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    q, k = (torch.randn(1, TOKENS, 32, HEAD, **bf16) for _ in range(2))
    v = torch.randn(1, TOKENS, 32, HEAD, **bf16)
    g = F.logsigmoid(torch.randn(1, TOKENS, 32, device="cuda"))
    beta = torch.rand(1, TOKENS, 32, **bf16)
    state = torch.zeros(1, 32, HEAD, HEAD, device="cuda")
    ends = torch.tensor([0, TOKENS], device="cuda", dtype=torch.long)
    mixed, kernel = torch.randn(1, TOKENS, 8192, **bf16), torch.randn(8192, 4, **bf16)
    gated = FusedRMSNormGated(HEAD, device="cuda", dtype=torch.bfloat16)
    yield "norm of keys", lambda: l2norm(q)
    yield "convolution", lambda: causal_conv1d(mixed, kernel, activation="silu")
    yield "gated norm", lambda: gated(v, v)
    yield "delta rule in chunks", lambda: chunk_gated_delta_rule(
        q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True, cu_seqlens=ends, use_qk_l2norm_in_kernel=True)
    yield "delta rule, one kernel", lambda: fused_recurrent_gated_delta_rule(
        q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True, cu_seqlens=ends, use_qk_l2norm_in_kernel=True)
    weights = [torch.randn(out, HIDDEN, **bf16) for out in (12288, 64)]
    back = torch.randn(HIDDEN, 4096, **bf16)
    x = torch.randn(1, TOKENS, HIDDEN, **bf16)
    decay, bias = torch.randn(32, device="cuda"), torch.randn(32, device="cuda")

    def layer():
        wide, narrow = (F.linear(x, weight) for weight in weights)
        b, a = narrow.chunk(2, -1)
        conv = causal_conv1d(wide[..., :8192].contiguous(), kernel, activation="silu")
        conv = conv[0] if isinstance(conv, tuple) else conv
        qs, ks, vs = conv.split((2048, 2048, 4096), -1)
        qs, ks = (part.view(1, TOKENS, 16, HEAD).repeat_interleave(2, 2) for part in (qs, ks))
        gate = -decay.exp() * F.softplus(a.float() + bias)
        out, _ = chunk_gated_delta_rule(qs, ks, vs.view(1, TOKENS, 32, HEAD), g=gate, beta=b.sigmoid(), initial_state=state,
                                        output_final_state=True, cu_seqlens=ends, use_qk_l2norm_in_kernel=True)
        out = gated(out, wide[..., 8192:].reshape(1, TOKENS, 32, HEAD))
        return F.linear(out.flatten(-2), back)

    yield "all of the mixer", layer


def host_us(call):
    """The median and the least time of a call on the host, and the time of the device."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter_ns() - start) / 1e3 / CALLS)
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    device = float("nan")
    try:
        with torch.cuda.graph(graph):
            call()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        torch.cuda.synchronize()
        begin.record()
        for _ in range(20):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        device = begin.elapsed_time(end) * 1e3 / 20
    except Exception:  # Of whatever cannot be captured.
        torch.cuda.synchronize()
    return statistics.median(times), min(times), device


def loop_s():
    """A loop in Python, by which CPUs compare."""
    start, total = time.process_time(), 0
    for i in range(10_000_000):
        total += i * 3 & 7
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", default="launches.csv")
    arguments = parser.parse_args()
    with open(arguments.output, "w", newline="") as file, torch.inference_mode():
        out = csv.writer(file)
        out.writerow(["what", "host_us", "host_us_least", "device_us"])
        for part in (rows, states):
            try:
                for name, call in part():
                    row = [name, *(f"{value:.1f}" for value in host_us(call))]
                    out.writerow(row)
                    print(*row, sep=", ", flush=True)
            except Exception:
                traceback.print_exc()
        out.writerow(["loop of 10 million turns in Python, s", f"{min(loop_s() for _ in range(3)):.2f}", "", ""])
    print(torch.cuda.get_device_name(), torch.__version__, triton.__version__, platform.processor(), sys.version.split()[0])


if __name__ == "__main__":
    main()
