#!/usr/bin/env python3
"""Reduces settings of InferenceX's servers to profiles/inferencex.toml.

    python3 profiles/import_inferencex.py RECIPES.json POINTS.jsonl POINTS-TO-RECIPES.jsonl >profiles/inferencex.toml

RECIPES.json lists, for each of InferenceX's configurations and the concurrencies it was run at, the flags that its scripts give the server.
Kept are aggregated servers of vLLM and SGLang that do not draft, and the flags that schedules, memory and graphs depend on. POINTS and
the join tell by which names published points call the models. The version is that of the image, where its tag has one.
"""

import json
import re
import sys
from collections import defaultdict

# SGLang: `stream-interval` changes no TTFT and no mean TPOT; other flags choose kernels or are named by `precision`.
FLAGS = {
    "sglang": (
        "mem-fraction-static", "chunked-prefill-size", "max-running-requests", "disable-radix-cache", "scheduler-recv-interval",
        "max-prefill-tokens", "cuda-graph-max-bs", "kv-cache-dtype",
    ),
    "vllm": (
        "gpu-memory-utilization", "max-model-len", "no-enable-prefix-caching", "max-num-seqs", "max-num-batched-tokens",
        "max-cudagraph-capture-size", "kv-cache-dtype", "async-scheduling",
    ),
}


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def value(of):
    return json.dumps(of) if not isinstance(of, bool) else str(of).lower()


def inline(flags):
    return "{ " + ", ".join(f"{key} = {value(flags[key])}" for key in sorted(flags)) + " }"


def version(recipe):
    """The version in the tag of the image: `0.5.3` of `lmsysorg/sglang:v0.5.3rc1-cu129-b200`."""
    found = re.search(r":v(\d+\.\d+\.\d+(\.post\d+)?)", recipe["engine_version_or_image"] or "")
    return found.group(1) if found else ""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        recipes = json.load(file)
    points = {point["id"]: point for point in lines(sys.argv[2])}
    by_id = {recipe["id"]: recipe for recipe in recipes}
    names = defaultdict(set)
    for recipe in recipes:
        if recipe["model"].count("/") == 1 and not recipe["model"].startswith("/"):
            names[recipe["model_prefix"]].add(recipe["model"])
    for joined in lines(sys.argv[3]):
        for recipe in joined["records"]:
            names[by_id[recipe]["model_prefix"]].add(points[joined["point"]]["model"]["name"])
    kept = defaultdict(set)
    for recipe in recipes:
        layout = recipe["layout"]
        if layout["type"] != "aggregated" or recipe["spec_decoding"] != "none" or recipe["engine"] not in FLAGS:
            continue
        flags = {key: recipe["server_flags"][key] for key in FLAGS[recipe["engine"]] if key in recipe["server_flags"]}
        if not flags or any(isinstance(of, (dict, list)) for of in flags.values()):
            continue
        key = (
            recipe["model_prefix"], recipe["gpu"], recipe["engine"], recipe["precision"], tuple(recipe["isl_osl"]), layout["tp"],
            layout["ep"], bool(layout["dp_attention"]), recipe["valid_from"], recipe["valid_to"] or "", version(recipe), inline(flags),
        )
        kept[key] |= set(recipe["concurrency_range"]["values"])
    print("# Flags of the servers of InferenceX's runs: aggregated servers of vLLM and SGLang that do not draft.")
    print("# Source: SemiAnalysisAI/InferenceX (Apache-2.0), its scripts up to 2026-05-05; facts only. Made by profiles/import_inferencex.py.")
    print("\n[models]")
    for prefix in sorted({key[0] for key in kept}):
        print(f"{json.dumps(prefix)} = {json.dumps(sorted(names[prefix]))}")
    print("\n# One line a configuration.\n[servers]\nrecipes = [")
    for key, concurrency in sorted(kept.items()):
        prefix, gpu, engine, precision, lengths, tp, ep, ranks, first, last, version_of, flags = key
        entry = {
            "model": prefix, "gpu": gpu, "engine": engine, "precision": precision, "lengths": list(lengths),
            "concurrency": sorted(concurrency), "tp": tp, "ep": ep, "dp_attention": ranks, "from": first,
        }
        if last:
            entry["until"] = last
        if version_of:
            entry["version"] = version_of
        print(f"  {inline(entry)[:-2]}, flags = {flags} }},")
    print("]")


if __name__ == "__main__":
    main()
