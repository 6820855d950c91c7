#!/usr/bin/env python3
"""Times products and attention of large models on a GPU that comes from rest and on one that has
been busy, with its clock, power and reasons to slow down read at the same time.

Needs PyTorch 2.3 or later, NVIDIA's management library for Python (nvidia-ml-py) and an NVIDIA GPU
to itself. It changes no setting of the GPU. Example, about five minutes on an H100:

    python3 profiles/probe_clocks.py --output clocks

Writes a table for each part to the folder:

products.csv   matrix products, bf16 and fp8 (one scale a tensor), of layers of Llama 3.1 and Qwen3;
               weights and inputs random, or weights of zeros, which take less power
attention.csv  attention of prompts and of chunks of prompts
course.csv     products of 8,192 rows for some seconds, from rest
steps.csv      steps that prefill and steps that decode in turn, with more or less of the time idle
recovery.csv   short prefills in a row, after a load that was broken off for a while
launches.csv   kernels launched one by one and by a captured graph

`burst_us` is what a call takes in the first 5 ms after 0.3 s of rest, `sustained_us` in the second half
of the time under load, `collector_us` in six replays of six calls after three to warm up, as
AIConfigurator's collector measures. Weights rotate among copies, so that no cache holds them.
"""

import argparse
import csv
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import traceback

import pynvml
import torch

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
REST_S, BURST_MS, LOAD_S = 0.3, 5.0, 0.7
SPIN_CYCLES = 300_000

# Outputs and inputs of the products of a layer on one GPU.
LAYERS = {
    "llama-3.1-8b": {"qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (28672, 4096), "down": (4096, 14336)},
    "llama-3.1-70b-tp4": {"qkv": (2560, 8192), "o": (8192, 2048), "gate_up": (14336, 8192), "down": (8192, 7168)},
    "llama-3.1-70b-tp8": {"qkv": (1280, 8192), "o": (8192, 1024), "gate_up": (7168, 8192), "down": (8192, 3584)},
    "qwen3-32b": {"qkv": (10240, 5120), "o": (5120, 8192), "gate_up": (51200, 5120), "down": (5120, 25600)},
}


class Gpu:
    """What NVIDIA's management library says of the GPU."""

    def __init__(self):
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    def read(self):
        """Clock of the multiprocessors in MHz, power in W, reasons to slow down, temperature in °C."""
        clock = pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM)
        # The plain figure is a mean over a second.
        field = pynvml.nvmlDeviceGetFieldValues(self.handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle)
        heat = pynvml.nvmlDeviceGetTemperature(self.handle, pynvml.NVML_TEMPERATURE_GPU)
        return clock, field.value.uiVal / 1e3, reasons, heat


def watch_gpu():
    """Prints what the GPU is like, with the time, until nobody reads it."""
    gpu = Gpu()
    while True:
        print(time.monotonic(), *gpu.read(), flush=True)
        time.sleep(0.005)


class Watch(threading.Thread):
    """Another process that reads the GPU's state all the time: here it would wait for Python's lock."""

    def __init__(self):
        super().__init__(daemon=True)
        self.process = subprocess.Popen([sys.executable, __file__, "--watch"], stdout=subprocess.PIPE, text=True)
        self.samples = []

    def run(self):
        for line in self.process.stdout:
            at, clock, power, reasons, heat = line.split()
            self.samples.append((float(at), int(clock), float(power), int(reasons), int(heat)))

    def between(self, start, end):
        """Mean clock, mean power, all reasons, highest temperature, and of how many readings."""
        # What was read may not have come yet.
        deadline = time.monotonic() + 1.0
        while (not self.samples or self.samples[-1][0] < end) and time.monotonic() < deadline:
            time.sleep(0.002)
        rows = [row for row in self.samples if start <= row[0] <= end]
        if not rows:
            return {"sm_mhz": "", "power_w": "", "reasons": "", "celsius": "", "readings": 0}
        reasons = 0
        for row in rows:
            reasons |= row[3]
        return {
            "sm_mhz": round(statistics.mean(row[1] for row in rows)),
            "power_w": round(statistics.mean(row[2] for row in rows)),
            "reasons": hex(reasons),
            "celsius": max(row[4] for row in rows),
            "readings": len(rows),
        }


class Calls:
    """A captured graph of calls, which lasts some milliseconds."""

    def __init__(self, calls, count=None, least_ms=2.0):
        # What they work on lives as long as the graph.
        self.calls = calls
        for call in calls:
            call()
        torch.cuda.synchronize()
        if count is None:
            start, end = event(), event()
            start.record()
            for call in calls:
                call()
            end.record()
            end.synchronize()
            each_ms = max(start.elapsed_time(end) / len(calls), 1e-3)
            count = max(1, min(2000, round(least_ms / each_ms)))
        self.count = count
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for index in range(count):
                calls[index % len(calls)]()
        self.replays(1)
        self.replay_ms = self.replays(1)

    def replays(self, count):
        """Milliseconds of so many replays, one right after the other."""
        torch.cuda.synchronize()
        start, end = event(), event()
        # The device spins while the first replay is launched.
        torch.cuda._sleep(100_000)
        start.record()
        for _ in range(count):
            self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def burst(self):
        """µs of a call in the first milliseconds after a rest."""
        count = max(1, round(BURST_MS / self.replay_ms))
        time.sleep(REST_S)
        return self.replays(count) * 1e3 / (count * self.count)

    def collector(self):
        """µs of a call as AIConfigurator's collector finds it."""
        time.sleep(0.1)
        for _ in range(3):
            self.graph.replay()
        torch.cuda.synchronize()
        start, end = event(), event()
        start.record()
        for _ in range(6):
            self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / (6 * self.count)

    def load(self, seconds):
        """µs of a call in each replay, back to back for so long."""
        begin = time.monotonic()
        marks = [event()]
        marks[0].record()
        while time.monotonic() - begin < seconds:
            self.graph.replay()
            marks.append(event())
            marks[-1].record()
            if len(marks) > 8:
                marks[-8].synchronize()
        done = event()
        # So many cycles of the clock as it is under load.
        torch.cuda._sleep(SPIN_CYCLES)
        done.record()
        torch.cuda.synchronize()
        self.spin_mhz = round(SPIN_CYCLES / (marks[-1].elapsed_time(done) * 1e3))
        return [a.elapsed_time(b) * 1e3 / self.count for a, b in zip(marks, marks[1:])]

    def sustained(self, watch, seconds=LOAD_S):
        """Mean µs of a call in the second half of the load, and what the GPU was like in that half."""
        begin = time.monotonic()
        each = self.load(seconds)
        end = time.monotonic()
        return statistics.mean(each[len(each) // 2:]), watch.between((begin + end) / 2, end)


def event():
    return torch.cuda.Event(enable_timing=True)


def random(*size, scale=1.0):
    return torch.randn(*size, device="cuda", dtype=BF16) * scale


def eight_bit(tensor):
    return tensor.to(FP8)


def products(dtype, outputs, inputs, rows, zeros=False):
    """Calls of one product with other weights each."""
    size = outputs * inputs * (2 if dtype == "bf16" else 1)
    copies = max(2, min(6, int(2e9 // size)))
    x = random(rows, inputs)
    weights = []
    for _ in range(copies):
        weight = torch.zeros(outputs, inputs, device="cuda", dtype=BF16) if zeros else \
            random(outputs, inputs, scale=0.02)
        weights.append(weight if dtype == "bf16" else eight_bit(weight * 50))
    out = torch.empty(rows, outputs, device="cuda", dtype=BF16)
    if dtype == "bf16":
        return [lambda w=w: torch.mm(x, w.t(), out=out) for w in weights]
    one, x8 = torch.ones((), device="cuda"), eight_bit(x)

    def scaled(w):
        return lambda: torch._scaled_mm(x8, w.t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True)

    return [scaled(w) for w in weights]


class Table:
    def __init__(self, folder, name):
        self.path, self.header = folder / f"{name}.csv", None

    def row(self, **values):
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file)
            if self.header is None:
                self.header = list(values)
                writer.writerow(self.header)
            writer.writerow([f"{v:.3f}" if isinstance(v, float) else v for v in values.values()])


def measure_products(watch, table, quick):
    grid = [(dtype, layer, name, rows)
            for dtype in ("bf16", "fp8") for layer, shapes in LAYERS.items() for name in shapes
            for rows in (64, 128, 256, 512, 1024, 2048, 4096, 8192)
            if wanted(dtype, layer, name, rows)]
    for dtype, layer, name, rows in grid[:: 20 if quick else 1]:
        outputs, inputs = LAYERS[layer][name]
        found = {"dtype": dtype, "layer": layer, "product": name, "rows": rows, "outputs": outputs, "inputs": inputs}
        zero = products(dtype, outputs, inputs, rows, zeros=True)
        found["zeros_collector_us"] = Calls(zero, count=6).collector()
        zero = Calls(zero)
        found["zeros_sustained_us"], state = zero.sustained(watch, 0.3)
        found["zeros_mhz"] = state["sm_mhz"]
        del zero
        real = products(dtype, outputs, inputs, rows)
        found["collector_us"] = Calls(real, count=6).collector()
        calls = Calls(real)
        found["burst_us"] = calls.burst()
        found["sustained_us"], state = calls.sustained(watch)
        table.row(**found, spin_mhz=calls.spin_mhz, **state)
        del calls, real


def wanted(dtype, layer, name, rows):
    """All rows of one layer, some of the others."""
    if layer == "llama-3.1-8b" and name in ("gate_up", "down"):
        return dtype == "bf16" or rows >= 256
    few = {"llama-3.1-8b": (64, 512, 2048, 8192), "llama-3.1-70b-tp4": (512, 2048, 8192),
           "llama-3.1-70b-tp8": (2048,), "qwen3-32b": (64, 512, 2048, 8192)}[layer]
    if dtype == "fp8":
        few = {"llama-3.1-8b": (2048, 8192), "qwen3-32b": (512, 2048, 8192)}.get(layer, ())
    return rows in few


def measure_attention(watch, table, quick):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    kernel = torch.nn.functional.scaled_dot_product_attention
    points = [(32, 8, new, 0) for new in (2048, 4096, 8192, 16384)]
    points += [(8, 1, 4096, 0), (32, 8, 512, 8192), (32, 8, 512, 32768), (32, 8, 2048, 8192)]
    for heads, kv_heads, new, context in points[:: 4 if quick else 1]:
        for backend in ("flash", "cudnn"):
            if context and backend == "cudnn":
                continue
            query = random(1, heads, new, 128)
            pairs = [(random(1, kv_heads, context + new, 128), random(1, kv_heads, context + new, 128))
                     for _ in range(2)]
            more = {"attn_mask": causal_lower_right(new, context + new)} if context else {"is_causal": True}
            which = SDPBackend.FLASH_ATTENTION if backend == "flash" else SDPBackend.CUDNN_ATTENTION
            try:
                with sdpa_kernel(which):
                    calls = Calls([lambda k=k, v=v: kernel(query, k, v, enable_gqa=True, **more) for k, v in pairs])
            except Exception as error:
                print(f"attention {backend} {heads} {new} {context}: {error}", file=sys.stderr)
                torch.cuda.synchronize()
                continue
            burst = calls.burst()
            sustained, state = calls.sustained(watch)
            table.row(kernel=backend, heads=heads, kv_heads=kv_heads, new_tokens=new, context_tokens=context,
                      burst_us=burst, sustained_us=sustained, spin_mhz=calls.spin_mhz, **state)


def measure_course(watch, table, quick):
    for dtype, zeros, seconds in [("bf16", False, 20.0), ("bf16", True, 3.0), ("fp8", False, 6.0)]:
        calls = Calls(products(dtype, 28672, 4096, 8192, zeros))
        time.sleep(2.0)
        each = calls.load(0.3 if quick else seconds)
        # `load` began so many seconds before now.
        begin = time.monotonic() - sum(each) * calls.count / 1e6
        at, shown, until, group = 0.0, 0.0, 0.0, []
        for one in each:
            at += one * calls.count / 1e6
            group.append(one)
            if at >= until:
                table.row(dtype=dtype, weights="zeros" if zeros else "random", after_s=at,
                          call_us=statistics.mean(group), **watch.between(begin + shown, begin + at))
                shown, until, group = at, max(at * 1.25, at + 0.01), []


class Model:
    """Thirty-two layers of Llama 3.1 8B with random weights: what a step of it reads and multiplies."""

    def __init__(self, layers):
        self.shapes = LAYERS["llama-3.1-8b"]
        self.layers = [{name: random(*shape, scale=0.02) for name, shape in self.shapes.items()}
                       for _ in range(layers)]

    def step(self, rows, attend):
        x = {inputs: random(rows, inputs) for inputs in (4096, 14336)}
        out = {outputs: torch.empty(rows, outputs, device="cuda", dtype=BF16) for outputs in (6144, 4096, 28672)}

        def run():
            for layer in self.layers:
                for name, (outputs, inputs) in self.shapes.items():
                    torch.mm(x[inputs], layer[name].t(), out=out[outputs])
                    if name == "qkv":
                        attend()

        return Calls([run], count=1)

    def prefill(self, tokens):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        kernel = torch.nn.functional.scaled_dot_product_attention
        q, k, v = random(1, 32, tokens, 128), random(1, 8, tokens, 128), random(1, 8, tokens, 128)
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            return self.step(tokens, lambda: kernel(q, k, v, is_causal=True, enable_gqa=True))

    def decode(self, sequences, context):
        kernel = torch.nn.functional.scaled_dot_product_attention
        q, k, v = random(sequences, 8, 4, 128), *(random(sequences, 8, context, 128) for _ in range(2))
        return self.step(sequences, lambda: kernel(q, k, v))


def measure_steps(watch, table, quick):
    """Prefill's share of the busy time, and the share of the time that is idle."""
    model = Model(2 if quick else 32)
    decode = model.decode(64, 1024)
    for tokens, points in [
        (2048, [(0.0, 0.0), (0.1, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (1.0, 0.0),
                (1.0, 0.5), (1.0, 0.8), (0.5, 0.5), (0.0, 0.5)]),
        (8192, [(0.5, 0.0), (1.0, 0.0)]),
        (512, [(0.5, 0.0), (1.0, 0.0)]),
    ]:
        prefill = model.prefill(tokens)
        for share, idle in points:
            seconds = 0.3 if quick else 3.0
            times, start, end = steps_in_turn(prefill, decode, share, idle, seconds)
            row = {"prefill_tokens": tokens, "prefill_share": share, "idle_share": idle}
            for kind in ("prefill", "decode"):
                row[f"{kind}_ms"] = statistics.mean(times[kind]) if times[kind] else ""
            table.row(**row, **watch.between(start, end))


def steps_in_turn(prefill, decode, share, idle, seconds):
    """Times of both kinds in the second half, in ms, and when it began and ended."""
    graphs = {"prefill": prefill, "decode": decode}
    last = {kind: graph.replay_ms for kind, graph in graphs.items()}
    planned, times, queue = dict.fromkeys(graphs, 0.0), {kind: [] for kind in graphs}, []
    begin = time.monotonic()

    def take():
        kind, start, end, counts = queue.pop(0)
        end.synchronize()
        last[kind] = start.elapsed_time(end)
        if counts:
            times[kind].append(last[kind])
        return last[kind]

    while (now := time.monotonic() - begin) < seconds:
        is_due = share > 0 and planned["prefill"] <= share * sum(planned.values())
        kind = "prefill" if is_due else "decode"
        planned[kind] += last[kind]
        start, end = event(), event()
        start.record()
        graphs[kind].graph.replay()
        end.record()
        queue.append((kind, start, end, now > seconds / 2))
        if idle > 0:
            time.sleep(take() / 1e3 * idle / (1 - idle))
        elif len(queue) > 2:
            take()
    finish = time.monotonic()
    while queue:
        take()
    return times, begin + seconds / 2, finish


def measure_recovery(watch, table, quick):
    """Short prefills one after the other, from rest, and after a load that was broken off for a while."""
    model = Model(2 if quick else 32)
    prefill, decode = model.prefill(512), model.decode(64, 1024)
    gaps = [("rest", 2000)] + [(kind, ms) for kind in ("rest", "decode") for ms in (10, 20, 40, 80, 160, 320)]
    for kind, gap_ms in gaps:
        for _ in range(1 if quick else 2):
            prefill.load(0.1 if quick else 1.5)
            row = {"gap": kind, "gap_ms": gap_ms}
            if kind == "rest":
                torch.cuda.synchronize()
                time.sleep(gap_ms / 1e3)
            else:
                for _ in range(max(1, round(gap_ms / decode.replay_ms))):
                    decode.graph.replay()
            marks = [event()]
            marks[0].record()
            for _ in range(4 if quick else 40):
                prefill.graph.replay()
                marks.append(event())
                marks[-1].record()
            torch.cuda.synchronize()
            for before, after in zip(marks, marks[1:]):
                table.row(**row, after_ms=marks[0].elapsed_time(before), prefill_ms=before.elapsed_time(after))


def measure_launches(watch, table, quick):
    tiny, other = random(64), random(64)
    row, square = random(1, 64), random(64, 64)
    line = torch.empty(1, 64, device="cuda", dtype=BF16)
    kinds = {
        "element-wise": lambda: torch.add(tiny, other, out=tiny),
        "product": lambda: torch.mm(row, square, out=line),
        "linear": lambda: torch.nn.functional.linear(row, square),
        "norm": lambda: torch.nn.functional.rms_norm(row, (64,)),
    }
    for name, call in kinds.items():
        for _ in range(100):
            call()
        wall = min(wall_us(lambda: [call() for _ in range(1000)]) for _ in range(5)) / 1000
        calls = Calls([call], count=1000)
        graph = min(wall_us(calls.graph.replay) for _ in range(10)) / 1000
        table.row(what=name, kernels=1, eager_us=wall, graph_us=graph)
    layers = 2 if quick else 32
    step, kernels = decode_step(Model(layers))
    for _ in range(3):
        step()
    eager = statistics.median(wall_us(step) for _ in range(20))
    calls = Calls([step], count=1)
    graph = statistics.median(wall_us(calls.graph.replay) for _ in range(20))
    start = time.monotonic()
    calls.graph.replay()
    launch = (time.monotonic() - start) * 1e6
    torch.cuda.synchronize()
    table.row(what=f"decode step of one sequence, {layers} layers", kernels=kernels, eager_us=eager, graph_us=graph)
    table.row(what="launch of its graph", kernels=kernels, eager_us="", graph_us=launch)


def decode_step(model):
    """One token after 1024, with the kernels that PyTorch has for it: 13 a layer."""
    x = random(1, 4096)
    gain = random(4096)
    k, v, new = random(1, 8, 1024, 128), random(1, 8, 1024, 128), random(1, 8, 1, 128)
    functional = torch.nn.functional

    def run():
        hidden = x
        for layer in model.layers:
            normed = functional.rms_norm(hidden, (4096,), gain)
            qkv = functional.linear(normed, layer["qkv"])
            q = (qkv[:, :4096] * qkv[:, :4096]).view(1, 8, 4, 128)
            k[:, :, 1023:].copy_(new)
            v[:, :, 1023:].copy_(new)
            found = functional.scaled_dot_product_attention(q, k, v)
            hidden = hidden + functional.linear(found.reshape(1, 4096), layer["o"])
            normed = functional.rms_norm(hidden, (4096,), gain)
            gates = functional.linear(normed, layer["gate_up"])
            inner = functional.silu(gates[:, :14336]) * gates[:, 14336:]
            hidden = hidden + functional.linear(inner, layer["down"])
        return hidden

    return run, 14 * len(model.layers)


def wall_us(call):
    torch.cuda.synchronize()
    start = time.monotonic()
    call()
    torch.cuda.synchronize()
    return (time.monotonic() - start) * 1e6


PARTS = {"course": measure_course, "steps": measure_steps, "products": measure_products,
         "attention": measure_attention, "recovery": measure_recovery, "launches": measure_launches}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--watch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", default=pathlib.Path("clocks"), type=pathlib.Path,
                        help="folder to make [default: clocks]")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts, with commas [default: all]")
    parser.add_argument("--quick", action="store_true", help="a few points, to see that it runs")
    options = parser.parse_args()
    if options.watch:
        watch_gpu()
    options.output.mkdir(parents=True)
    torch.manual_seed(0)
    gpu = Gpu()
    limit = pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu.handle) / 1e3
    most = pynvml.nvmlDeviceGetMaxClockInfo(gpu.handle, pynvml.NVML_CLOCK_SM)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, driver "
          f"{pynvml.nvmlSystemGetDriverVersion()}; limit {limit:.0f} W, at most {most} MHz; at rest {gpu.read()}")
    watch = Watch()
    watch.start()
    while not watch.samples:
        time.sleep(0.1)
    failed = False
    with torch.inference_mode():
        for name in options.parts.split(","):
            start = time.monotonic()
            try:
                PARTS[name](watch, Table(options.output, name), options.quick)
            except Exception:
                # What the other parts find is worth having.
                traceback.print_exc()
                failed = True
            torch.cuda.empty_cache()
            print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    watch.process.kill()
    sys.exit(failed)


if __name__ == "__main__":
    main()
