"""All that is said of a run, with attributes."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Latency:
    """A latency over all requests that were answered, in milliseconds; ``None`` where none was."""

    mean_ms: float | None
    median_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Requests:
    """What became of the requests."""

    arrived: int
    finished: int
    rejected: int
    aborted: int
    timed_out: int
    failed: int
    stuck: int
    unfinished: int


class Summary:
    """The content of ``summary.json``, and the usual figures as attributes."""

    def __init__(self, text: str, figures: Mapping[str, float]) -> None:
        self._text = text
        self.figures: dict[str, float] = dict(figures)
        """All figures by name, as ``servecast compare`` and ``sweep`` know them."""
        self.json: dict[str, Any] = json.loads(text)
        """The content of ``summary.json``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Summary, (self._text, self.figures)

    @property
    def name(self) -> str:
        """The title of the scenario."""
        return str(self.json["name"])

    @property
    def requests(self) -> Requests:
        """What became of the requests."""
        counts = self.json["requests"]
        return Requests(**{name: int(counts[name]) for name in Requests.__dataclass_fields__})

    @property
    def ttft(self) -> Latency:
        """Time to first token."""
        return self._latency("ttft")

    @property
    def tpot(self) -> Latency:
        """Time per output token after the first."""
        return self._latency("tpot")

    @property
    def itl(self) -> Latency:
        """Gaps between tokens."""
        return self._latency("itl")

    @property
    def e2e(self) -> Latency:
        """From sending a request to its last token."""
        return self._latency("e2el")

    @property
    def duration_s(self) -> float:
        """From the first request to the last token, in seconds."""
        return self.figures["duration"]

    @property
    def request_throughput(self) -> float:
        """Requests answered per second."""
        return self.figures["request_throughput"]

    @property
    def output_throughput(self) -> float:
        """Output tokens per second."""
        return self.figures["output_throughput"]

    @property
    def total_token_throughput(self) -> float:
        """Prompt and output tokens per second."""
        return self.figures["total_token_throughput"]

    @property
    def slo_attainment(self) -> float | None:
        """The share of requests that keep all SLOs, where there are some."""
        return self.figures.get("slo_attainment")

    @property
    def gpu_hours(self) -> float | None:
        """GPU-hours that the cluster took."""
        return self.figures.get("gpu_hours")

    @property
    def cost_usd(self) -> float | None:
        """What it cost in US dollars, where prices are known."""
        return self.figures.get("cost_usd")

    @property
    def warnings(self) -> list[str]:
        """What the figures hang on."""
        return [str(text) for text in self.json["warnings"]["texts"]]

    def _latency(self, name: str) -> Latency:
        def of(statistic: str) -> float | None:
            return self.figures.get(f"{statistic}_{name}_ms")

        return Latency(of("mean"), of("median"), of("p90"), of("p95"), of("p99"))

    def _rows(self) -> list[tuple[str, ...]]:
        rows = []
        for title, latency in [
            ("TTFT", self.ttft),
            ("TPOT", self.tpot),
            ("ITL", self.itl),
            ("E2E", self.e2e),
        ]:
            cells = (latency.mean_ms, latency.median_ms, latency.p90_ms, latency.p99_ms)
            rows.append((f"{title} (ms)", *("-" if one is None else f"{one:,.1f}" for one in cells)))
        return rows

    def _line(self) -> str:
        counts = self.requests
        return (
            f"{counts.finished:,} of {counts.arrived:,} requests answered in {self.duration_s:,.1f} s, "
            f"{self.output_throughput:,.0f} output tokens/s"
        )

    def __repr__(self) -> str:
        head = ("", "mean", "median", "P90", "P99")
        rows = [head, *self._rows()]
        table = "\n".join(
            f"{first:<10}" + "".join(f"{cell:>12}" for cell in rest) for first, *rest in rows
        )
        return f"{self.name}: {self._line()}\n{table}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{one}</th>" for one in ("", "mean", "median", "P90", "P99"))
        body = "".join(
            "<tr>" + "".join(f"<td style='text-align:right'>{cell}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        warned = "".join(f"<p>⚠ {html.escape(text)}</p>" for text in self.warnings)
        return (
            f"<p><b>{html.escape(self.name)}</b>: {self._line()}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{warned}"
        )
