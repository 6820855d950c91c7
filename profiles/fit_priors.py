#!/usr/bin/env python3
"""Fits profiles/priors.toml: what servers take beyond their kernels, by classes of servers, and how far they differ.

    python3 profiles/fit_priors.py [--servecast PROGRAM] [--without TEXT] [--left-out FILE] RUNS.jsonl... >profiles/priors.toml
    python3 profiles/fit_priors.py --hosts [--servecast PROGRAM] [--without TEXT] RUNS.jsonl...

RUNS are published runs as `servecast validate --runs` reads them, each line once; lines with TEXT are left out. Every
combination of a class's factors in GRID is simulated. Of each class the least combination is taken whose error is within
half a standard error of the smallest. The error is that of throughput, mean TPOT and mean TTFT together: the median over the
runs of a family, then means over families and over sources. `tuned_experts` is fitted to the runs of `experts` too. stderr
tells how well each source is predicted by factors that were fitted without it ("left out"), and how many figures lie within
the intervals; FILE gets each of these predictions, one JSON object a line. Intervals are quantiles of measured /
simulated of sources that were left out.
Families of a source err alike: n of them count as much as √n of different sources.

What the program itself expects of servers is overridden.

With --hosts, it fits the CPU of a host (`cluster.host.cpu`) and what its threads take to wake (`cluster.host.wakes`) instead, each by
itself, with everything else as the program has it: the error of each source with each value of HOSTS, and which value is best over all sources
and over all but each one.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

# The factors that are tried of each class: the others have no effect on it, or too few runs tell.
PRODUCTS = {"products_compute": (1.0, 1.15, 1.3, 1.5)}
# The roofline has two small kernels in a layer, engines five and more; what these read and write is counted as it is, so that a larger
# factor would make long prompts too slow.
SMALL = {"elementwise": (1.0, 2.0)}
EXPERTS = PRODUCTS | {"elementwise": (1.0, 3.0)}
# Ranks wait for each other at each all-reduce, which is measured of ranks that do not. Beyond what is tried a factor would
# say more of other things.
GRID = {
    # Their products are measured on the GPU that they run on. Servers of 4 and 8 GPUs differ: some take their all-reduces
    # as measured, others more than twice as long, in decodes that their hosts slow down too.
    "dense": SMALL | {"all_reduce": (1.0, 1.5)},
    "dense_without_fp8": PRODUCTS | SMALL,
    # Most of all for the one with the busiest experts; and engines by themselves fuse no all-reduce with what follows.
    "experts": EXPERTS | {"all_reduce": (1.0, 1.5, 2.5, 4.0)},
    "tuned_experts": EXPERTS | {"all_reduce": (1.0, 1.5, 2.5)},
    "unpacked_experts": PRODUCTS | {"experts_compute": (1.0, 1.5, 2.0, 2.5)},
    "narrow_experts": {},
    "unmeasured": {},
}
# Factors of hosts that are tried.
HOSTS = {"cpu": (0.6, 0.8, 1.0, 1.2), "wakes": (0.0, 0.25, 0.5, 1.0)}
# What takes the place of all that the program expects.
NEUTRAL = {"products_compute": 1.0}
# Tuned servers are all of one source: their factors are fitted to the others too, and so without any of that source.
ALSO_FITTED_TO = {"tuned_experts": "experts"}
# Figures that are fitted: the first that a run has.
FITTED = {
    "throughput": ("output_throughput", "total_token_throughput"),
    "tpot": ("mean_tpot_ms", "median_tpot_ms"),
    "ttft": ("mean_ttft_ms", "median_ttft_ms"),
}
FIGURES = FITTED | {"tail_ttft": ("p99_ttft_ms",)}
# The share of families below an interval, and above it.
TAIL = 0.05
FEWEST_FAMILIES = 3
# Log ratios beyond which a family is no further off, and a range of them that tells nothing.
FAR = 0.5
WIDEST = math.log(20.0)


def lines(files, without):
    """The records of all files; of those that tell the same figures of the same family one."""
    kept = {}
    for file in files:
        with open(file, encoding="utf-8") as text:
            for line in text:
                if line.strip() and not (without and without in line):
                    record = json.loads(line)
                    kept[record.get("family"), json.dumps(record.get("metrics"))] = line.strip()
    return kept.values()


def validated(program, records, factors):
    """What `validate --runs` tells of the runs that have a class, with these factors alone."""
    calibration = {f"step_time.calibration.{key}": value for key, value in (NEUTRAL | factors).items()}
    return [run for run in runs_with(program, records, calibration) if "class" in run]


def runs_with(program, records, settings):
    """What `validate --runs` tells of runs, with these settings of a cluster."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(records) + "\n")
        file.flush()
        command = [program, "validate", "--runs", file.name, "--format", "json"]
        for key, value in settings.items():
            command += ["--set", f"cluster.{key}={value}"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    if not told.stdout:
        sys.exit(told.stderr)
    return json.loads(told.stdout)["runs"]


def first_of(run, figure):
    """The first of the metrics that tell a figure which a run has."""
    return next((run["metrics"][name] for name in FIGURES[figure] if name in run["metrics"]), None)


def figures(run):
    """Measured and simulated, of each figure that a run has."""
    found = {}
    for figure in FIGURES:
        metric = first_of(run, figure)
        if metric and metric["error_pct"] is not None and metric["simulated"] > 0:
            found[figure] = (metric["measured"], metric["simulated"])
    return found


def simulated(program, records, factors):
    """Of each run with these factors: id, family, what was measured, and log(measured / simulated), of each figure."""
    return compared(validated(program, records, factors))


def compared(runs):
    """Of each run: id, family, what was measured, and log(measured / simulated), of each figure."""
    found = []
    for run in runs:
        both = figures(run)
        measured = {figure: m for figure, (m, _) in both.items()}
        ratios = {figure: math.log(m / s) for figure, (m, s) in both.items()}
        found.append((run["id"], run["family"], measured, ratios))
    return found


def grid(kind):
    """All combinations of the factors of a class, each as pairs."""
    keys = GRID[kind]
    return [tuple(zip(keys, values)) for values in itertools.product(*keys.values())]


def by_class(program, records):
    """The records of each class."""
    kinds = {run["id"]: run["class"] for run in validated(program, records, {})}
    found = {kind: [] for kind in GRID}
    for record in records:
        kind = kinds.get(json.loads(record).get("id"))
        if kind:
            found[kind].append(record)
    return found


def source(family):
    """Who measured: InferenceX's runs come by several ways."""
    name = family.split("/")[0]
    return "inferencex" if name.startswith(("inferencex", "silicon-sample", "nebius")) else name


def by_family(runs):
    families = defaultdict(list)
    for _, family, _, ratios in runs:
        families[family].append(ratios)
    return families


def error(families, figure):
    """The median over families of the median absolute log ratio."""
    medians = []
    for ratios in families.values():
        values = [abs(one[figure]) for one in ratios if figure in one]
        if values:
            medians.append(statistics.median(values))
    return statistics.median(medians) if medians else 0.0


def costs(results, factors, without):
    """Of each source but one the error of a class with these factors."""
    total = defaultdict(float)
    for figure in FITTED:
        sources = defaultdict(list)
        for family, runs in by_family(results[factors]).items():
            values = [abs(one[figure]) for one in runs if figure in one]
            if values and source(family) != without:
                # A family that something else makes slow says little of factors.
                sources[source(family)].append(min(statistics.median(values), FAR))
        for name, errors in sources.items():
            total[name] += statistics.mean(errors)
    return total


def best(results, without=None):
    """
    The factors of a class: of those whose error over sources, but one, is within half a standard error of the smallest,
    the least, as few sources do not tell more (after the rule of Breiman et al. 1984).
    """
    cost = {factors: costs(results, factors, without) for factors in results}
    smallest = min(cost.values(), key=lambda of: sum(of.values()))

    def is_as_good(factors):
        more = [cost[factors][name] - error for name, error in smallest.items()]
        if len(more) < 2:
            return sum(more) <= 0.0
        return statistics.mean(more) <= statistics.stdev(more) / math.sqrt(len(more)) / 2

    def size(factors):
        return (sum(math.log(value) for _, value in factors), sum(cost[factors].values()))

    return min(filter(is_as_good, cost), key=size)


def quantile(weighted, share):
    weighted = sorted(weighted)
    total, so_far = sum(weight for _, weight in weighted), 0.0
    for value, weight in weighted:
        so_far += weight
        if so_far >= share * total:
            return value
    return weighted[-1][0]


def interval(families, figure):
    """Quantiles over families, of which those of a source tell less together; nothing of too few."""
    told = {name: [one[figure] for one in ratios if figure in one] for name, ratios in families.items()}
    told = {name: values for name, values in told.items() if values}
    if len(told) < FEWEST_FAMILIES:
        return None
    of_source = Counter(map(source, told))
    weights = {name: 1.0 / math.sqrt(of_source[source(name)]) for name in told}
    weighted = [(value, weights[name] / len(values)) for name, values in told.items() for value in values]
    low, high = quantile(weighted, TAIL), quantile(weighted, 1.0 - TAIL)
    return (low, high) if high - low < WIDEST else None


def left_out(results):
    """Runs of each source as they come out with factors fitted without it."""
    runs = []
    for name in sorted({source(family) for _, family, _, _ in next(iter(results.values()))}):
        factors = best(results, without=name)
        runs += [run for run in results[factors] if source(run[1]) == name]
    return runs


def interval_without(families, figure, name):
    """The interval that the sources but one make."""
    return interval({family: of for family, of in families.items() if source(family) != name}, figure)


def covered(families, figure):
    """Of each family the share of figures within intervals of the other sources."""
    shares = []
    for name in sorted({source(family) for family in families}):
        ends = interval_without(families, figure, name)
        for family, runs in families.items():
            values = [one[figure] for one in runs if figure in one]
            if source(family) == name and ends and values:
                inside = sum(ends[0] <= value <= ends[1] for value in values)
                shares.append(inside / len(values))
    return shares


def predictions(kind, runs):
    """Each run as it is predicted without any of its source, with where nine of ten such servers are."""
    families = by_family(runs)
    for run, family, measured, ratios in runs:
        told = {}
        for figure, ratio in ratios.items():
            simulated_one = measured[figure] / math.exp(ratio)
            told[figure] = {"measured": measured[figure], "simulated": simulated_one}
            ends = interval_without(families, figure, source(family))
            if ends:
                told[figure]["interval_90"] = [simulated_one * math.exp(end) for end in ends]
        yield {"id": run, "family": family, "source": source(family), "class": kind, "figures": told}


def table(entries):
    """An inline table of TOML."""
    inside = ", ".join(entries)
    return f"{{ {inside} }}" if inside else "{}"


def percent(log_ratio):
    return 100.0 * (math.exp(log_ratio) - 1.0)


def hosts(program, records):
    """Prints how far each source is off with each value of each factor of a host."""
    for factor, values in HOSTS.items():
        results = {value: compared(runs_with(program, records, {f"host.{factor}": value})) for value in values}
        cost = {value: costs(results, value, None) for value in values}

        def smallest(without=None):
            return min(cost, key=lambda value: sum(error for name, error in cost[value].items() if name != without))

        print("source", *(f"{factor}={value}" for value in values), "best without it", sep="\t")
        for name in sorted(cost[values[0]]):
            print(name, *(f"{cost[value][name]:.3f}" for value in values), smallest(name), sep="\t")
        print("all", *(f"{sum(cost[value].values()):.3f}" for value in values), smallest(), sep="\t")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servecast", default="target/release/servecast")
    parser.add_argument("--without", metavar="TEXT")
    parser.add_argument("--left-out", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("runs", nargs="+")
    arguments = parser.parse_args()
    if arguments.hosts and arguments.left_out:
        parser.error("--left-out is not for --hosts")
    records = list(lines(arguments.runs, arguments.without))
    if arguments.hosts:
        hosts(arguments.servecast, records)
        return
    told = []
    print("# What servers take beyond the kernels that they are priced by, where nothing of the server was measured,")
    print("# by classes of servers. Made by profiles/fit_priors.py of published runs.")
    everything, results = {}, {}
    for kind, of_class in by_class(arguments.servecast, records).items():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            own = dict(zip(grid(kind), pool.map(lambda it: simulated(arguments.servecast, of_class, dict(it)), grid(kind))))
        results[kind] = own
        also = results.get(ALSO_FITTED_TO.get(kind), {})
        known = {factors: runs + also.get(factors, []) for factors, runs in own.items()}
        factors = best(known)
        runs = left_out(known)
        ids = {run[0] for run in own[factors]}
        runs = [run for run in runs if run[0] in ids]
        told += predictions(kind, runs)
        families = by_family(runs)
        everything |= {f"{kind} {name}": runs for name, runs in families.items()}
        sources = sorted({source(family) for family in families})
        print(f"\n# {len(families)} families of {', '.join(sources)}.\n[{kind}]")
        kept = {key: value for key, value in factors if value != 1.0}
        print(f"factors = {table(f'{k} = {v}' for k, v in kept.items())}")
        ends = {figure: interval(families, figure) for figure in FIGURES}
        inside = [
            f"{figure} = [{math.exp(of[0]):.3f}, {math.exp(of[1]):.3f}]"
            for figure, of in ends.items()
            if of
        ]
        print(f"ratios = {table(inside)}")
        print(f"{kind}: {kept}", file=sys.stderr)
        for figure in FIGURES:
            shares = covered(families, figure)
            held = statistics.mean(shares) if shares else math.nan
            print(
                f"  {figure}: left out, median error {percent(error(families, figure)):.1f} %, "
                f"{100 * held:.0f} % within intervals of other sources",
                file=sys.stderr,
            )
    for figure in FIGURES:
        signed = [
            statistics.median(one[figure] for one in runs if figure in one)
            for runs in everything.values()
            if any(figure in one for one in runs)
        ]
        bias = -statistics.median(signed) if signed else 0.0
        print(
            f"all, {figure}: {len(signed)} families, left out, median error "
            f"{percent(error(everything, figure)):.1f} %, bias {percent(bias):+.1f} %",
            file=sys.stderr,
        )
    if arguments.left_out:
        arguments.left_out.write_text("\n".join(json.dumps(run) for run in told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
