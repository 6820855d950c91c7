"""What follows from a comparison: which scenario to take by a figure, and what else changes with it.

A figure counts as changed where the verdict of all figures together says so (`verdict_of_all_together`). That no difference was found does
not make two scenarios equal: how far they may be apart is printed instead.
"""

import math

import servecast


def change(figure: dict) -> str:
    """The relative change of a figure with its interval, two digits of which are given."""
    half = 100 * figure["relative_half_width"]
    digits = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 0
    return f"{100 * figure['relative']:+.{digits}f} % ± {half:.{digits}f} %"


def _farthest(figure: dict) -> str:
    return f"{100 * (abs(figure['relative']) + figure['relative_half_width']):.1f} %"


def _is_found(figure: dict) -> bool:
    return figure["verdict_of_all_together"] in ("better", "worse")


def _are_apart(one: dict, other: dict) -> bool:
    return abs(one["relative"] - other["relative"]) > one["relative_half_width"] + other["relative_half_width"]


class Decision:
    """The choice between the baseline of a comparison and others of its scenarios, by one figure."""

    def __init__(self, comparison: servecast.Comparison, by: str, among: list[str] | None = None):
        """`among` names the scenarios that are a choice; None: all that serve the baseline's requests."""
        compared = comparison.json
        scenarios = {scenario["letter"]: scenario for scenario in compared["scenarios"]}
        self.by = by
        self.certainty = f"{100 * compared['confidence']:.0f} %, {compared['seeds']} seeds"
        self.others = {}
        for pair in compared["comparisons"]:
            self.baseline = scenarios[pair["baseline"]]["name"]
            scenario = scenarios[pair["scenario"]]
            if (scenario["name"] in among) if among else not scenario["other_requests"]:
                self.others[scenario["name"]] = {figure["metric"]: figure for figure in pair["figures"]}
        if not self.others:
            raise ValueError(f"no scenario to choose from (among: {among})")

    def side_effects(self) -> str:
        """What the other figures do in each scenario that could be taken, against the baseline."""
        lines = []
        for name, figures in self.others.items():
            said = [
                f"{metric} {change(figure)}" if _is_found(figure) else f"{metric} not told, within {_farthest(figure)}"
                for metric, figure in figures.items() if metric != self.by
            ]
            lines.append(f"{name} against {self.baseline}: " + "; ".join(said))
        return "\n".join(lines)

    def __str__(self) -> str:
        judged = {name: figures[self.by] for name, figures in self.others.items()}
        better = {name: f for name, f in judged.items() if f["verdict_of_all_together"] == "better"}
        if better:
            best = max(better, key=lambda name: abs(better[name]["relative"]))
            equals = [name for name, f in judged.items() if name != best and not _are_apart(f, better[best])]
            rest = f"; not told apart from {' and '.join(equals)}" if equals else ""
            return f"Take {best}: {self.by} {change(better[best])} against {self.baseline} ({self.certainty}){rest}."
        unknown = {name: f for name, f in judged.items() if not _is_found(f)}
        if unknown:
            within = " and ".join(f"{name} (within {_farthest(f)})" for name, f in unknown.items())
            return f"Undecided by {self.by} between {self.baseline} and {within} ({self.certainty})."
        worse = ", ".join(f"{change(f)} with {name}" for name, f in judged.items())
        return f"Take {self.baseline}: {self.by} {worse} ({self.certainty})."
