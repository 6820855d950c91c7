"""servecast simulates LLM serving clusters: schedulers, KV caches, step times.

>>> import servecast
>>> run = servecast.load("chat.toml", {"cluster.replicas": 4}).run(seed=7)
>>> run.summary.ttft.p99_ms
>>> polars.DataFrame(run.requests)
"""

from ._answers import (
    Calibration,
    Change,
    Check,
    Comparison,
    Deviation,
    Estimate,
    Explanation,
    Finding,
    Layout,
    Outcome,
    Plan,
    Point,
    Sweep,
    Validation,
)
from ._errors import (
    InternalError,
    Problem,
    ScenarioError,
    ServecastError,
    ServecastWarning,
    SimulationError,
)
from ._policies import Admission, Autoscaler, Router, Scheduler
from ._servecast import (
    Engine,
    EngineRequest,
    Fleet,
    Replica,
    Request,
    Run,
    ScaledReplica,
    Scenario,
    Step,
    Table,
    __version__,
    load,
)
from ._studies import bench, calibrate, check, compare, explain, merge, plan, sweep, validate
from ._summary import Latency, Requests, Summary

__all__ = [
    "Admission",
    "Autoscaler",
    "Calibration",
    "Change",
    "Check",
    "Comparison",
    "Deviation",
    "Engine",
    "EngineRequest",
    "Estimate",
    "Explanation",
    "Finding",
    "Fleet",
    "InternalError",
    "Latency",
    "Layout",
    "Outcome",
    "Plan",
    "Point",
    "Problem",
    "Replica",
    "Request",
    "Requests",
    "Router",
    "Run",
    "ScaledReplica",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "ServecastError",
    "ServecastWarning",
    "SimulationError",
    "Step",
    "Summary",
    "Sweep",
    "Table",
    "Validation",
    "__version__",
    "bench",
    "calibrate",
    "check",
    "compare",
    "explain",
    "load",
    "merge",
    "plan",
    "sweep",
    "validate",
]
