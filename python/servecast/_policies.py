"""What policies in Python look like.

A policy is a class with one method, an object of such a class, or a function. Each run, and for orders of admission and
schedulers each replica, has an object of its own: a new one of a class, a copy (``copy.deepcopy``) of an object. So runs do
not learn from each other, and equal runs give equal results. Where a cluster serves several models, each has a router of
its own. A function is called as it is, by all runs: it should keep no state.

Policies are told what a policy of a real cluster could know, and never how long an answer will be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Union

if TYPE_CHECKING:
    from ._servecast import Engine, Fleet, Replica, Request, Step


class Router(Protocol):
    """Chooses a replica for each request.

    What is outstanding at each replica the gateway counts itself. Reports of engines are kept only for a router that
    says how old they may grow, in attributes of its class, in seconds; 0 for reports of the moment:

    * ``reports_every_s``: queues and KV memory (``Replica.running``, ``waiting``, ``kv_utilization``)
    * ``caches_every_s``: what caches hold (``Replica.cached_tokens``)
    * ``adapters_every_s``: where adapters lie (``Replica.adapter_place``)
    """

    def choose(self, request: Request, replicas: tuple[Replica, ...], /) -> Replica | int:
        """One of the replicas that requests may be sent to, or its ``index``."""
        ...


class Admission(Protocol):
    """Says which of the requests that wait before an engine it is given next."""

    def choose(self, waiting: list[Request], engine: Engine, now_s: float, /) -> Request | int | None:
        """One of those that wait, in order of arrival, or its place; asked again before the same step until it is ``None``."""
        ...


class Autoscaler(Protocol):
    """Decides how many replicas there should be, in place of the signal of the scenario's autoscaler."""

    def decide(self, fleet: Fleet, now_s: float, /) -> int:
        """The replicas that should serve."""
        ...


class Scheduler(Protocol):
    """Decides each step of an engine."""

    def schedule(self, step: Step, /) -> None:
        """Gives requests shares of the step (``Step.compute``) and takes memory from others (``Step.preempt``)."""
        ...


RouterPolicy = Union[
    Router,
    type[Router],
    Callable[["Request", "tuple[Replica, ...]"], "Replica | int"],
]
AdmissionPolicy = Union[
    Admission,
    type[Admission],
    Callable[["list[Request]", "Engine", float], "Request | int | None"],
]
AutoscalerPolicy = Union[Autoscaler, type[Autoscaler], Callable[["Fleet", float], int]]
SchedulerPolicy = Union[Scheduler, type[Scheduler], Callable[["Step"], None]]
