#!/usr/bin/env python3
"""Times the operators of a model's layers with random weights, and writes the tables that
`servecast profile import --from llmservingsim FOLDER` reads.

Needs PyTorch (1.13 or later; before 2.0 attention is two products and a softmax) and nothing else.
Examples:

    python3 profiles/probe_torch.py --config config.json --hardware H100 --output measured
    servecast profile import --from llmservingsim measured --output my-profile.toml

Dense decoder layers with grouped-query attention and a gated MLP are timed, in bfloat16, on one
GPU (or, with --device cpu, on the processor). Kernels are PyTorch's own: an engine's differ.
What each point takes is the least of several repetitions: whatever disturbs one makes it longer.
Weights and keys come from other memory each time, as in a step, where no cache holds them.
Attention of steps that prefill and decode at once is the sum of both alone, not measured together.
The GPU is at its full clock: under load that goes on it may be slower (probe_clocks.py).
"""

import argparse
import csv
import datetime
import itertools
import json
import pathlib
import sys
import time

TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
SEQUENCES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
PREFILLS = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
CONTEXTS = [64, 512, 2048, 8192, 32768]
# More than the cache of any GPU holds: a step finds none of its weights and keys there.
UNCACHED_BYTES = 256e6


def numbers(text):
    values = sorted({int(word) for word in text.split(",")})
    if not values or values[0] < 1:
        raise argparse.ArgumentTypeError(f"must be whole numbers from 1, got {text}")
    return values


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--config", required=True, type=pathlib.Path, help="config.json of the model")
    parser.add_argument("--hardware", required=True, help="the GPU as `servecast profile list` names it")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="folder to make")
    parser.add_argument("--model", help="name of the model [default: the config's _name_or_path]")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu [default: cuda]")
    parser.add_argument("--tensor-parallel-size", type=int, default=1, metavar="GPUS",
                        help="times the share of one of so many GPUs [default: 1]")
    parser.add_argument("--tokens", type=numbers, default=TOKENS, metavar="N,N,…")
    parser.add_argument("--sequences", type=numbers, default=SEQUENCES, metavar="N,N,…")
    parser.add_argument("--prefills", type=numbers, default=PREFILLS, metavar="N,N,…")
    parser.add_argument("--contexts", type=numbers, default=CONTEXTS, metavar="N,N,…")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--no-compile", action="store_true",
                        help="without torch.compile, by which each norm, rotation and activation is one kernel, as in "
                             "engines [default: with it on a GPU, where it works]")
    return parser.parse_args()


class Shape:
    """A layer's sizes on one of `tp` GPUs."""

    def __init__(self, config, tp):
        refuse = [key for key in ("num_experts", "num_local_experts", "n_routed_experts", "kv_lora_rank")
                  if config.get(key)]
        if refuse:
            sys.exit(f"config: `{refuse[0]}` is given; only dense layers with grouped-query attention are timed")
        heads = config["num_attention_heads"]
        kv_heads = config.get("num_key_value_heads", heads)
        self.hidden = config["hidden_size"]
        self.head_dim = config.get("head_dim") or self.hidden // heads
        if heads % tp or config["intermediate_size"] % tp:
            sys.exit(f"--tensor-parallel-size: {tp} does not divide the heads and the MLP")
        self.heads = heads // tp
        self.kv_heads = max(1, kv_heads // tp)
        self.mlp = config["intermediate_size"] // tp
        self.vocabulary = -(-config["vocab_size"] // tp)
        self.has_qk_norm = str(config.get("model_type", "")).startswith("qwen3")
        self.eps = config.get("rms_norm_eps", 1e-6)


class Timer:
    def __init__(self, torch, device, repetitions):
        self.torch, self.cuda, self.repetitions = torch, device.type == "cuda", repetitions

    def us(self, run):
        """The least time of a call, in µs."""
        run()
        return min(self.once(run) for _ in range(self.repetitions))

    def once(self, run):
        if not self.cuda:
            start = time.perf_counter_ns()
            run()
            return (time.perf_counter_ns() - start) / 1e3
        # Enough calls between the events that launching them is hidden behind the device.
        calls = 5
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        # The device is kept busy while the calls are queued.
        self.torch.cuda._sleep(1_000_000)
        start.record()
        for _ in range(calls):
            run()
        end.record()
        self.torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3 / calls


class Operators:
    """The operators of a layer with random weights."""

    def __init__(self, torch, shape, device, compiles):
        self.torch, self.shape, self.device = torch, shape, device
        self.functional = torch.nn.functional
        # PyTorch 2.0 brought the kernel, 2.5 heads that share keys.
        self.kernel = getattr(self.functional, "scaled_dot_product_attention", None)
        self.shares_keys = self.kernel is not None and shares_keys(torch, self.kernel)
        if compiles:
            self.compile()
        s = shape
        self.norm = self.random(s.hidden)
        self.head_norm = self.random(s.head_dim)
        self.qkv = self.copies(self.random((s.heads + 2 * s.kv_heads) * s.head_dim, s.hidden))
        self.o = self.copies(self.random(s.hidden, s.heads * s.head_dim))
        self.gate_up = self.copies(self.random(2 * s.mlp, s.hidden))
        self.down = self.copies(self.random(s.hidden, s.mlp))
        self.table = self.random(s.vocabulary, s.hidden)

    def compile(self):
        """Has one kernel instead of several, where there is a compiler."""
        try:
            x = self.random(2, 2 * self.shape.head_dim)
            self.torch.compile(self.activation)(x)
        except Exception as error:  # Of the compiler, the driver or PyTorch, by version.
            print(f"without torch.compile, which fails: {type(error).__name__}", file=sys.stderr)
            return
        for name in ("rms_norm", "rotary", "activation"):
            setattr(self, name, self.torch.compile(getattr(self, name)))

    def random(self, *size):
        return self.torch.randn(*size, device=self.device, dtype=self.torch.bfloat16).mul_(0.02)

    def copies(self, *tensors):
        """The tensors again and again, each time from other memory."""
        count = 1
        if self.device.type == "cuda":
            size = sum(x.numel() * x.element_size() for x in tensors)
            count = min(32, 1 + int(UNCACHED_BYTES / size))
        kept = [tensors] + [tuple(x.clone() for x in tensors) for _ in range(count - 1)]
        return itertools.cycle(kept if len(tensors) > 1 else [x for (x,) in kept])

    def rms_norm(self, x, weight):
        if hasattr(self.functional, "rms_norm"):
            return self.functional.rms_norm(x, x.shape[-1:], weight, self.shape.eps)
        scale = self.torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.shape.eps)
        return (x.float() * scale).to(x.dtype) * weight

    def rotary(self, x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return self.torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    def activation(self, gates):
        gate, up = gates.chunk(2, dim=-1)
        return self.functional.silu(gate) * up

    def rows(self, tokens):
        """(name, call) of what is computed per token."""
        s, linear = self.shape, self.functional.linear
        x, wide = self.random(tokens, s.hidden), self.random(tokens, s.heads * s.head_dim)
        ids = self.torch.randint(0, s.vocabulary, (tokens,), device=self.device)
        gates, inner = self.random(tokens, 2 * s.mlp), self.random(tokens, s.mlp)
        heads = self.random(tokens, s.heads + s.kv_heads, s.head_dim)
        angle = self.random(tokens, 1, s.head_dim // 2)

        yield "embedding", lambda: self.functional.embedding(ids, self.table)
        yield "layernorm", lambda: self.rms_norm(x, self.norm)
        yield "qkv_proj", lambda: linear(x, next(self.qkv))
        if s.has_qk_norm:
            yield "qk_norm", lambda: self.rms_norm(heads, self.head_norm)
        yield "rotary_emb", lambda: self.rotary(heads, angle, angle)
        yield "o_proj", lambda: linear(wide, next(self.o))
        yield "gate_up_proj", lambda: linear(x, next(self.gate_up))
        yield "act_fn", lambda: self.activation(gates)
        yield "down_proj", lambda: linear(inner, next(self.down))
        yield "final_layernorm", lambda: self.rms_norm(x, self.norm)

    def per_sequence(self, sequences):
        x, logits = self.random(sequences, self.shape.hidden), self.random(sequences, self.shape.vocabulary)
        yield "lm_head", lambda: self.functional.linear(x, self.table)
        yield "sampler", lambda: logits.float().argmax(dim=-1)

    def attend(self, sequences, new, context):
        """A call that attends from `new` tokens of each sequence to those and `context` before."""
        s, torch = self.shape, self.torch
        if self.kernel is not None and new == 1:
            return self.decode_attention(sequences, context + new)
        query = self.random(sequences, s.heads, new, s.head_dim)
        if self.kernel is None:
            keys, values = (self.random(sequences, s.kv_heads, context + new, s.head_dim) for _ in range(2))
            mask = None
            if new > 1:
                mask = torch.ones(new, context + new, dtype=torch.bool, device=self.device).tril(context)
            return self.plain_attention(query, keys, values, mask)
        # Kernels that hide later tokens of a chunk over a context are far slower than those of whole prompts:
        # all of the context, then the chunk by itself. Joining both is left out.
        own = self.attention(query, new, is_causal=True)
        before = self.attention(query, context, is_causal=False) if context > 0 else lambda: None
        return lambda: (before(), own())

    def attention(self, query, length, is_causal):
        """A call that attends to so many tokens."""
        s, groups = self.shape, self.shape.heads // self.shape.kv_heads
        keys, values = (self.random(query.shape[0], s.kv_heads, length, s.head_dim) for _ in range(2))
        more = {}
        if groups > 1 and self.shares_keys:
            more["enable_gqa"] = True
        elif groups > 1:
            # Every head reads keys of its own: the copies are made before, but reading them counts.
            keys, values = (x.repeat_interleave(groups, dim=1) for x in (keys, values))
        pairs = self.copies(keys, values)
        return lambda: self.kernel(query, *next(pairs), is_causal=is_causal, **more)

    def decode_attention(self, sequences, length):
        """A call for one new token, of which the heads that share keys are rows of one query. Few long contexts
        are cut into parts for all of the GPU, as engines do; joining the parts is timed as taking their mean."""
        s, parts = self.shape, 1
        groups = s.heads // s.kv_heads
        if self.device.type == "cuda":
            processors = self.torch.cuda.get_device_properties(self.device).multi_processor_count
            while sequences * s.kv_heads * parts < processors and length // parts >= 512:
                parts *= 2
        query = self.random(sequences, s.kv_heads * parts, groups, s.head_dim)
        size = (sequences, s.kv_heads * parts, length // parts, s.head_dim)
        pairs = self.copies(self.random(*size), self.random(*size))
        if parts == 1:
            return lambda: self.kernel(query, *next(pairs))
        shape = (sequences, s.kv_heads, parts, groups, s.head_dim)
        return lambda: self.kernel(query, *next(pairs)).view(shape).mean(2)

    def plain_attention(self, query, keys, values, mask):
        """Two products and a softmax, for a PyTorch that has no kernel; the heads that share keys are
        rows of one product."""
        s = self.shape
        sequences, new = query.shape[0], query.shape[2]
        groups = s.heads // s.kv_heads
        grouped = query.reshape(sequences, s.kv_heads, groups * new, s.head_dim)
        hidden = None if mask is None else ~mask.repeat(groups, 1)

        def attend():
            scores = grouped @ keys.transpose(-1, -2) * s.head_dim ** -0.5
            if hidden is not None:
                scores = scores.masked_fill(hidden, float("-inf"))
            return scores.softmax(-1) @ values

        return attend


def shares_keys(torch, kernel):
    """Whether the attention kernel takes fewer heads of keys than of queries."""
    query, keys = torch.zeros(1, 2, 1, 8), torch.zeros(1, 1, 1, 8)
    try:
        kernel(query, keys, keys, enable_gqa=True)
    except TypeError:
        return False
    return True


def attention_points(options):
    """(prefill tokens, prefill context, sequences that decode, their context)."""
    contexts = [0] + options.contexts
    for prefill in options.prefills:
        for cached in contexts:
            yield prefill, cached, 0, 0
    for sequences in options.sequences:
        for context in options.contexts:
            yield 0, 0, sequences, context
    # Both together: the two kernels after each other.
    for prefill in options.prefills:
        for cached in contexts:
            for sequences in options.sequences:
                for context in options.contexts:
                    yield prefill, cached, sequences, context


def measure_attention(operators, timer, options):
    prefills, decodes = {}, {}

    def timed(known, key, *what):
        if key not in known:
            try:
                known[key] = timer.us(operators.attend(*what))
            except (MemoryError, RuntimeError) as error:
                # PyTorch says so on a GPU and on the processor, in different words.
                if isinstance(error, RuntimeError) and "memory" not in str(error):
                    raise
                known[key] = None
        return known[key]

    for prefill, cached, sequences, context in attention_points(options):
        one = timed(prefills, (prefill, cached), 1, prefill, cached) if prefill else 0.0
        other = timed(decodes, (sequences, context), sequences, 1, context) if sequences else 0.0
        if one is not None and other is not None:
            yield prefill, cached, sequences, context, f"{one + other:.3f}"


def write(path, header, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        count = 0
        for count, row in enumerate(rows, 1):
            writer.writerow(row)
    print(f"{path}: {count} rows", file=sys.stderr)


def main():
    options = arguments()
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is needed: https://pytorch.org/get-started/locally")
    config = json.loads(options.config.read_text())
    config = config.get("text_config", config)
    shape = Shape(config, options.tensor_parallel_size)
    device = torch.device(options.device)
    model = options.model or config.get("_name_or_path") or options.config.parent.name
    folder = options.output / f"tp{options.tensor_parallel_size}"
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    compiles = device.type == "cuda" and not options.no_compile
    with torch.inference_mode():
        operators, timer = Operators(torch, shape, device, compiles), Timer(torch, device, options.repetitions)

        def points(counts, of):
            for count in counts:
                for name, call in of(count):
                    yield name, count, f"{timer.us(call):.3f}"

        write(folder / "dense.csv", ["layer", "tokens", "time_us"], points(options.tokens, operators.rows))
        write(folder / "per_sequence.csv", ["layer", "sequences", "time_us"],
              points(options.sequences, operators.per_sequence))
        write(folder / "attention.csv",
              ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"],
              measure_attention(operators, timer, options))
    meta = {
        "profiler_version": "1.0.0",
        "source": f"probe_torch.py on {options.device}",
        "licence": "of whoever measured",
        "engine": "pytorch",
        # The importer's key of the engine's version, whichever engine it is.
        "vllm_version": str(torch.__version__),
        "hardware": options.hardware,
        "profiled_at": datetime.datetime.now().isoformat(timespec="seconds"),
        "model": model,
        "variant": "bf16",
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in meta.items()]
    lines += ["skew_fit:", "  enabled: false", ""]
    (options.output / "meta.yaml").write_text("\n".join(lines))
    print(f"servecast profile import --from llmservingsim {options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
