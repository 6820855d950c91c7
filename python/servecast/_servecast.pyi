"""The extension module."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

from ._policies import AdmissionPolicy, AutoscalerPolicy, RouterPolicy, SchedulerPolicy
from ._summary import Summary

__all__ = [
    "CompareJob",
    "Engine",
    "EngineRequest",
    "Fleet",
    "KeptSweep",
    "Replica",
    "Request",
    "Run",
    "ScaledReplica",
    "Scenario",
    "Step",
    "SweepJob",
    "Table",
    "__version__",
    "bench",
    "calibrate",
    "check",
    "command",
    "compare",
    "explain",
    "load",
    "merge",
    "plan",
    "sweep",
    "validate",
]

__version__: str

_Path = str | os.PathLike[str]
_Progress = Callable[[int, int], object]

@final
class Table:
    """A table, which polars, pandas, pyarrow and DuckDB take without copies.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int:
        """Rows."""

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""

    def __getitem__(self, name: str, /) -> list[Any]:
        """The values of a column; what is absent is ``None``."""

    def __contains__(self, name: object, /) -> bool:
        """Whether it has a column of this name."""

    def __iter__(self) -> Iterator[str]:
        """The names of its columns."""

    def to_dict(self) -> dict[str, list[Any]]:
        """Each column by its name."""

    def __copy__(self) -> Table: ...
    def __deepcopy__(self, memo: object) -> Table: ...

@final
class Run:
    """A run that ended."""

    @property
    def summary(self) -> Summary:
        """All that is said of it, with attributes."""

    @property
    def figures(self) -> dict[str, float]:
        """Its figures by name; latencies in milliseconds, throughputs per second."""

    @property
    def report(self) -> str:
        """The block that the benchmark tool prints."""

    @property
    def resolved_toml(self) -> str:
        """The scenario with every default filled in; it runs again to the same figures."""

    @property
    def requests(self) -> Table:
        """A row per request. Instants are whole nanoseconds since the start of the run, latencies milliseconds."""

    @property
    def steps(self) -> Table | None:
        """A row per step of an engine, where the run kept them (``steps=True``)."""

    @property
    def series(self) -> Table:
        """Queues, KV memory and throughput over time: a row per bin of each series, with its middle in seconds."""

    @property
    def plots(self) -> dict[str, str]:
        """Its figures as drawings in SVG, by name."""

    def __copy__(self) -> Run: ...
    def __deepcopy__(self, memo: object) -> Run: ...
    def _repr_html_(self) -> str: ...

@final
class Scenario:
    """A scenario with its variants, whose settings can still be changed."""

    @property
    def name(self) -> str:
        """Its title."""

    @property
    def seed(self) -> int:
        """The seed of its random streams."""

    @property
    def variants(self) -> list[Scenario]:
        """Its variants, each as a scenario."""

    def with_overrides(
        self, overrides: Mapping[str, Any] | None = None, *, seed: int | None = None
    ) -> Scenario:
        """The same with other values of settings, by their paths, such as ``{"cluster.replicas": 4}``."""

    def with_servers(self, servers: str) -> Scenario:
        """The same with ``typical``, ``slow`` or ``fast`` servers where it does not say how long their steps take.

        Slow ones are slower than 19 of 20 like them, fast ones faster. Raises ``ScenarioError`` where it says what its
        servers are like.
        """

    def __copy__(self) -> Scenario: ...
    def __deepcopy__(self, memo: object) -> Scenario: ...
    def with_policies(
        self,
        *,
        router: RouterPolicy | None = None,
        admission: AdmissionPolicy | None = None,
        autoscaler: AutoscalerPolicy | None = None,
        scheduler: SchedulerPolicy | None = None,
    ) -> Scenario:
        """The same with policies in Python in place of its own, beside those that it has of other roles.

        Studies simulate it with these too.
        """

    @property
    def resolved_toml(self) -> str:
        """The scenario with every default filled in; it runs again to the same figures. Policies in Python are not part of it."""

    def run(
        self,
        *,
        seed: int | None = None,
        servers: str | None = None,
        point: bool = False,
        steps: bool = False,
        router: RouterPolicy | None = None,
        admission: AdmissionPolicy | None = None,
        autoscaler: AutoscalerPolicy | None = None,
        scheduler: SchedulerPolicy | None = None,
        progress: _Progress | None = None,
    ) -> Run:
        """Simulates it.

        ``servers`` are as in ``with_servers``. Where requests come at their own pace and nothing was measured of the servers,
        a fast and a slow one are simulated too, for ``summary["expected"]``; not with ``point`` and not with policies in
        Python. ``steps`` keeps a row for each step. ``progress`` is called with the requests that have left, and with how many
        there will be, or 0 where that is not known. Ctrl-C ends the run.
        """

@final
class Request:
    """What a policy may know of a request: everything but how long its answer will be."""

    @property
    def id(self) -> int:
        """Its number, in the order of arrival."""

    @property
    def arrival_s(self) -> float:
        """When the client wanted to send it, in seconds since the start of the run."""

    @property
    def prompt_tokens(self) -> int:
        """Prompt length in tokens."""

    @property
    def max_tokens(self) -> int:
        """The limit that the client asked for, in tokens."""

    @property
    def priority(self) -> int:
        """Its priority, as the engine reads it (vLLM: smaller first; SGLang: larger first)."""

    @property
    def model(self) -> int:
        """The model it asks for, by its place in the scenario."""

    @property
    def adapter(self) -> int | None:
        """The LoRA adapter it needs, if any."""

    @property
    def session(self) -> int | None:
        """Its conversation, if it is part of one."""

    @property
    def content(self) -> list[tuple[int, int, int]]:
        """Which tokens its prompt is made of: runs of a stream of tokens, each as (stream, start, length).

        Tokens are equal where their stream and their place in it are. Empty for a prompt that shares nothing.
        """

@final
class Replica:
    """A replica, as a router may know it while it chooses."""

    @property
    def index(self) -> int:
        """Its number among the replicas that serve the model; of a single model that is `instance` in `Run.requests`."""

    @property
    def outstanding_requests(self) -> int:
        """Requests that were sent to it and have not left, as the gateway counts them."""

    @property
    def outstanding_tokens(self) -> int:
        """Prompt tokens of these requests."""

    @property
    def running(self) -> int:
        """Requests admitted by its engine, as it reported."""

    @property
    def waiting(self) -> int:
        """Requests that wait in its engine, as it reported."""

    @property
    def kv_utilization(self) -> float:
        """The share of its KV memory that requests hold, from 0 to 1, as it reported."""

    @property
    def kv_blocks_free(self) -> int:
        """Blocks of KV memory that no request holds, as it reported."""

    @property
    def report_age_s(self) -> float:
        """How old its report is, in seconds."""

    @property
    def cached_tokens(self) -> int:
        """How many tokens of the request's prompt its cache holds."""

    @property
    def adapter_place(self) -> str:
        """Where it holds the adapter of the request: ``gpu``, ``host`` or ``disk``."""

@final
class Engine:
    """What an engine has, beside the requests that wait before it."""

    @property
    def waiting(self) -> int:
        """Requests that it was given and that wait."""

    @property
    def running(self) -> int:
        """Requests admitted."""

    @property
    def kv_blocks(self) -> int:
        """Blocks of its KV memory."""

    @property
    def kv_blocks_free(self) -> int:
        """Blocks that no request holds."""

@final
class ScaledReplica:
    """What a rule of autoscaling may know of a replica that serves."""

    @property
    def outstanding_requests(self) -> int:
        """Requests that were sent to it and have not left."""

    @property
    def running(self) -> int:
        """Requests admitted by its engine."""

    @property
    def waiting(self) -> int:
        """Requests that wait in its engine."""

    @property
    def kv_utilization(self) -> float:
        """The share of its KV memory that requests hold, from 0 to 1."""

    @property
    def busy(self) -> float:
        """The share of the time since the last look in which it worked, from 0 to 1."""

    @property
    def is_down(self) -> bool:
        """Whether the gateway knows that it is down."""

@final
class Fleet:
    """What a rule may know when the autoscaler looks."""

    @property
    def replicas(self) -> int:
        """Replicas that serve or start."""

    @property
    def starting(self) -> int:
        """Those of them that start."""

    @property
    def at_gateway(self) -> int:
        """Requests that wait at the gateway."""

    @property
    def serving(self) -> list[ScaledReplica]:
        """The replicas that serve."""

@final
class EngineRequest:
    """A request inside an engine, as its scheduler may know it before a step."""

    @property
    def request(self) -> Request:
        """What was known of it when it came."""

    @property
    def id(self) -> int:
        """Its number, in the order of arrival."""

    @property
    def prompt_tokens(self) -> int:
        """Prompt length in tokens."""

    @property
    def uncomputed(self) -> int:
        """Tokens whose KV is not computed, of its prompt and of its answer as far as that is out; 1 where it decodes."""

    @property
    def generated(self) -> int:
        """Tokens of its answer that are out."""

    @property
    def is_admitted(self) -> bool:
        """Whether it has had a share of a step and has not lost its memory since."""

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV it holds."""

@final
class Step:
    """The step that a scheduler decides next."""

    @property
    def requests(self) -> list[EngineRequest]:
        """The requests inside the engine, in the order of arrival."""

    @property
    def now_s(self) -> float:
        """Seconds since the start of the run."""

    @property
    def block_tokens(self) -> int:
        """Tokens of a block of KV memory."""

    @property
    def kv_blocks_free(self) -> int:
        """Blocks of KV memory that no request holds, after what was decided of this step."""

    def compute(self, request: EngineRequest | int, tokens: int) -> None:
        """Gives a request its share of the step: with its last uncomputed token it gets the next one of its answer.

        Raises ``MemoryError`` where too few blocks are free, and ``ValueError`` where it has a share already or fewer
        tokens to compute.
        """

    def preempt(self, request: EngineRequest | int) -> None:
        """Takes away the memory of a request: it waits again, and computes all its tokens anew."""

def load(
    source: Scenario | _Path | Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    seed: int | None = None,
    calibration: _Path | None = None,
) -> Scenario:
    """Reads a scenario, and checks every rule.

    ``source`` is the path of a file in TOML, YAML or JSON, a text in TOML of several lines, or a dict; the built-in
    scenario if absent. ``overrides`` are values by the paths of their keys. ``calibration`` is a file of fitted
    parameters. Raises ``ScenarioError``.
    """

@final
class SweepJob:
    """A sweep, as its driver and its workers have it."""

    def __new__(
        cls,
        scenario: Scenario,
        vary: dict[str, Any],
        design: str | None,
        points: int | None,
        seeds: int | None,
    ) -> SweepJob: ...
    @property
    def runs(self) -> int:
        """How many runs it has; they are numbered from 0."""

    def compute(self, runs: Sequence[int]) -> list[str]:
        """Simulates these runs, and gives a line for each, with a hash of itself."""

    def open(self, folder: _Path) -> KeptSweep:
        """Opens its folder, to keep runs that are done elsewhere; no other process may write it."""

@final
class CompareJob:
    """A comparison, as its driver and its workers have it."""

    def __new__(
        cls,
        scenarios: Sequence[Scenario],
        seeds: tuple[int, int],
        confidence: float,
        within: float,
        metrics: Sequence[str],
        paired: bool,
        point: bool,
    ) -> CompareJob: ...
    def compute(self, wanted: Sequence[str]) -> list[str]:
        """Does some of the runs, each given in JSON, and gives what came of each in JSON."""

    def run(self, does: Callable[[list[str]], Sequence[str]]) -> tuple[str, str, Table]:
        """Compares, where a callable has runs done: it is given runs in JSON and gives what came of each, in their order."""

@final
class KeptSweep:
    """The folder of a sweep that waits for its runs."""

    def missing(self) -> list[int]:
        """The runs of which no figures are kept."""

    def keep(self, lines: Sequence[str]) -> None:
        """Keeps runs that were done elsewhere."""

    def finish(self) -> tuple[str, Table, int]:
        """Writes the tables; what the points show as JSON, a row per run, and how many were kept before."""

    def close(self) -> None:
        """Lets the folder go; what is kept stays."""

def bench(
    words: Sequence[str],
    steps: bool,
    router: RouterPolicy | None,
    admission: AdmissionPolicy | None,
    autoscaler: AutoscalerPolicy | None,
    scheduler: SchedulerPolicy | None,
    progress: _Progress | None,
) -> Run: ...
def command(arguments: Sequence[str]) -> int: ...
def sweep(
    scenario: Scenario,
    vary: dict[str, Any],
    design: str | None,
    points: int | None,
    seeds: int | None,
    folder: _Path | None,
    shard: tuple[int, int] | None,
    progress: _Progress | None,
) -> tuple[str, Table, int]: ...
def merge(parts: Sequence[_Path], folder: _Path, partial: bool) -> tuple[str, Table, int]: ...
def plan(
    scenario: Scenario,
    slo: Sequence[str],
    gpu: Sequence[str],
    tensor_parallel: Sequence[int],
    vary: dict[str, Any],
    layout: Sequence[str],
    offer: str | None,
    prices: Sequence[tuple[str, float]],
    price_file: _Path | None,
    all: bool,
    max_gpus: int,
    rate: bool,
    resamples: int,
    point: bool,
    window_s: float,
    nic_gb_per_s: float | None,
    warm_up: str,
) -> tuple[str, str]: ...
def compare(
    scenarios: Sequence[Scenario],
    seeds: tuple[int, int],
    confidence: float,
    within: float,
    metrics: Sequence[str],
    paired: bool,
    point: bool,
) -> tuple[str, str, Table]: ...
def explain(
    scenario: Scenario,
    request: int | None,
    metric: str | None,
    percentile: float,
    seeds: int,
    confidence: float,
    point: bool,
) -> tuple[str, str, str]: ...
def calibrate(
    runs: Sequence[_Path],
    hold_out: Sequence[_Path],
    server: _Path | None,
    data: _Path | None,
    overrides: dict[str, Any] | None,
    within: float,
) -> tuple[str, str]: ...
def validate(
    experiment: _Path | None,
    runs: _Path | None,
    calibrate_on: _Path | None,
    family: str | None,
    engine: str | None,
    calibration: _Path | None,
    data: _Path | None,
    overrides: dict[str, Any] | None,
) -> tuple[str, str]: ...
def check(
    folder: _Path | None,
    pattern: str | None,
    router: RouterPolicy | None,
    admission: AdmissionPolicy | None,
    autoscaler: AutoscalerPolicy | None,
    scheduler: SchedulerPolicy | None,
) -> str: ...
