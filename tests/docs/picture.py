#!/usr/bin/env python3
"""Draws docs/figures/measured-and-predicted.svg: latencies of a measured server over the rate, beside what is predicted.

Usage: tests/docs/picture.py [SERVECAST]

SERVECAST is the program (default: target/release/servecast). It simulates the built-in scenario at each rate. The measured
figures are those of profiles/calibrations/residency-qwen3-14b-h100.csv at 2, 4, 6 and 8 requests per second.
"""

import csv
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CALIBRATED = ROOT / "profiles" / "calibrations" / "residency-qwen3-14b-h100.csv"
RATES = [1 + step / 2 for step in range(17)]
MEASURED = {"mean_ttft_ms": "Mean TTFT (ms)", "mean_tpot_ms": "Mean TPOT (ms)"}
# What the axes show; the range goes on above, where slow servers cannot keep up.
PANELS = {"mean_ttft_ms": (400, 100), "mean_tpot_ms": (80, 20)}
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 220, 50, 44, 60
DARK, BLUE, BAND, GRID = "#333333", "#1f6fb4", "#cfe2f3", "#e4e4e4"


def measured(metric):
    """Measured figures by rate."""
    found = {}
    with CALIBRATED.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            rate = row["run"].removeprefix("Qwen3-14B on H100, ").removesuffix(" req/s")
            if row["figure"] == metric and rate.isdigit():
                found[float(rate)] = float(row["measured"])
    return found


def predicted(program, rate):
    done = subprocess.run(
        [program, "run", "--no-files", "--format", "json", "--set", f"workload.arrivals.rate_per_s={rate}"],
        check=True, capture_output=True, text=True, cwd=ROOT,
    )
    run = json.loads(done.stdout)[0]
    return {m: (run["benchmark"][m], *run["expected"]["interval_90"][m]) for m in MEASURED}


def text(x, y, words, anchor="middle", size=12, weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{DARK}">{words}</text>'
    )


def panel(left, metric, runs):
    top, step = PANELS[metric]

    def at(rate, value):
        return left + WIDTH * rate / 10, TOP + HEIGHT * (1 - value / top)

    def line(points):
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

    yield text(left, TOP - 12, MEASURED[metric], "start", 14, "bold")
    for value in range(0, top + 1, step):
        _, y = at(0, value)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDTH}" y2="{y:.1f}" stroke="{GRID}"/>'
        yield text(left - 8, y + 4, value, "end")
    for rate in range(0, 11, 2):
        yield text(at(rate, 0)[0], TOP + HEIGHT + 18, rate)
    yield text(left + WIDTH / 2, TOP + HEIGHT + 38, "requests per second")
    low = [at(rate, run[metric][1]) for rate, run in runs.items()]
    high = [at(rate, run[metric][2]) for rate, run in runs.items()]
    yield f'<clipPath id="{metric}"><rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}"/></clipPath>'
    yield f'<polygon points="{line(low + high[::-1])}" fill="{BAND}" clip-path="url(#{metric})"/>'
    middle = [at(rate, run[metric][0]) for rate, run in runs.items()]
    yield f'<polyline points="{line(middle)}" fill="none" stroke="{BLUE}" stroke-width="2"/>'
    for rate, value in measured(metric).items():
        x, y = at(rate, value)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{DARK}"/>'


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target" / "release" / "servecast")
    runs = {rate: predicted(program, rate) for rate in RATES}
    wide, tall = LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + 84
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" font-family="sans-serif">',
        f'<rect width="{wide}" height="{tall}" fill="#ffffff"/>',
    ]
    for place, metric in enumerate(MEASURED):
        parts += panel(LEFT + place * (WIDTH + GAP), metric, runs)
    y = TOP + HEIGHT + 66
    parts += [
        f'<circle cx="{LEFT + 6}" cy="{y - 4}" r="4.5" fill="{DARK}"/>',
        text(LEFT + 18, y, "measured: vLLM, Qwen3-14B, one H100", "start"),
        f'<line x1="{LEFT + 270}" y1="{y - 4}" x2="{LEFT + 300}" y2="{y - 4}" stroke="{BLUE}" stroke-width="2"/>',
        text(LEFT + 308, y, "predicted, not calibrated", "start"),
        f'<rect x="{LEFT + 480}" y="{y - 12}" width="30" height="14" fill="{BAND}"/>',
        text(LEFT + 518, y, "nine of ten such servers", "start"),
        "</svg>",
    ]
    (ROOT / "docs" / "figures" / "measured-and-predicted.svg").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
