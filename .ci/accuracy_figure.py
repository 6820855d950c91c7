"""Draws docs/figures/accuracy.svg: predicted over measured, of each published run by engine and GPU."""

import math
import statistics
from collections import defaultdict

PANELS = {"throughput": "Throughput", "tpot": "Mean TPOT", "ttft": "Mean TTFT"}
COLOURS = {"vLLM": "#1f6fb4", "SGLang": "#c2570c"}
OTHER, DARK, GRID, ONE = "#555555", "#333333", "#e4e4e4", "#999999"
# Ends of the axis; what lies beyond is drawn at the end.
WIDEST = 4.0
TICKS = {0.25: "¼", 0.5: "½", 1.0: "1", 2.0: "2", 4.0: "4"}
WIDTH, ROW, LEFT, TOP, GAP = 230, 22, 144, 46, 24


def text(x, y, words, anchor="middle", size=12, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{DARK}">{words}</text>'


def at(ratio):
    inside = min(max(ratio, 1 / WIDEST), WIDEST)
    return WIDTH * (0.5 + math.log(inside) / math.log(WIDEST) / 2)


def panel(left, figure, groups):
    bottom = TOP + ROW * len(groups)
    yield text(left, TOP - 14, PANELS[figure], "start", 14, "bold")
    for ratio, words in TICKS.items():
        x = left + at(ratio)
        colour = ONE if ratio == 1.0 else GRID
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>'
        yield text(x, bottom + 16, words)
    for place, ((engine, _), rows) in enumerate(groups):
        ratios = [float(row[figure]) for row in rows if row[figure]]
        if not ratios:
            continue
        colour, middle = COLOURS.get(engine, OTHER), TOP + ROW * (place + 0.5)
        # Spread over the row so that runs beside each other can be told apart; always in the same way.
        spots = (f"M{left + at(r):.1f} {middle + ROW * 0.6 * ((i * 0.618) % 1 - 0.5):.1f}h0" for i, r in enumerate(ratios))
        yield f'<path d="{"".join(spots)}" stroke="{colour}" stroke-width="4" stroke-linecap="round" stroke-opacity="0.3"/>'
        x = left + at(statistics.median(ratios))
        yield f'<line x1="{x:.1f}" y1="{middle - 9:.1f}" x2="{x:.1f}" y2="{middle + 9:.1f}" stroke="{DARK}" stroke-width="2.5"/>'


def draw(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[row["engine"], row["gpu"]].append(row)
    groups = sorted(groups.items(), key=lambda group: (group[0][0] != "vLLM", group[0]))
    wide = LEFT + len(PANELS) * (WIDTH + GAP)
    tall = TOP + ROW * len(groups) + 62
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" font-family="sans-serif" role="img" '
        'aria-label="Predicted over measured throughput, mean TPOT and mean TTFT of published runs, by engine and GPU">',
        f'<rect width="{wide}" height="{tall}" fill="#ffffff"/>',
    ]
    for place, ((engine, gpu), of) in enumerate(groups):
        parts.append(text(LEFT - 10, TOP + ROW * (place + 0.5) + 4, f"{engine}, {gpu}", "end"))
    for place, figure in enumerate(PANELS):
        parts += panel(LEFT + place * (WIDTH + GAP), figure, groups)
    y = tall - 14
    words = "predicted / measured: one dot a run, a bar at the median; dots at the ends are as far off or further"
    parts += [text(LEFT, y, words, "start"), "</svg>"]
    return "\n".join(parts) + "\n"
