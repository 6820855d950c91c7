"""The cluster that a study runs on."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from .._errors import SimulationError


def require() -> Any:
    """The package ``ray``. It is imported by name, so that types are checked where it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        text = "servecast.ray needs Ray: pip install servecast[ray]"
        raise ImportError(text, name=error.name) from None


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to."""

    ray: Any
    """The package."""
    dashboard: str | None = None
    """Where its dashboard is, if it was connected to here and has one."""

    def cores(self) -> int:
        """Its cores as it is now: autoscalers change it."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def cores_of_largest_node(self) -> int:
        """The cores of the node that has most."""
        alive = (node for node in self.ray.nodes() if node["Alive"])
        return max((int(node["Resources"].get("CPU", 0)) for node in alive), default=0)

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Ends tasks whose results nobody waits for."""
        for task in tasks:
            try:
                self.ray.cancel(task, force=True)
            except Exception:  # noqa: BLE001
                # A cluster that is gone has no tasks to end, and what is raised already matters more.
                return


@contextmanager
def connected(address: str | None) -> Iterator[Cluster]:
    """The cluster that this process is connected to already, or the one at an address while this lasts."""
    ray = require()
    if ray.is_initialized():
        if address not in (None, "auto"):
            raise ValueError(
                f"address: this process is connected to a Ray cluster already; leave {address!r} out, "
                "or call ray.shutdown() first"
            )
        yield Cluster(ray)
        return
    try:
        context = ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = "of this machine" if address is None else f"at {address}"
        raise SimulationError(f"the Ray cluster {where} cannot be reached: {error}") from error
    try:
        yield Cluster(ray, context.dashboard_url or None)
    finally:
        ray.shutdown()


def raise_cause(error: Any) -> NoReturn:
    """Raises what was raised in a task, as if it had been raised here."""
    if "No module named 'servecast" in str(error):
        raise SimulationError(
            "a node of the Ray cluster has no servecast: pip install servecast[ray] on every node, with the same "
            "Python and Ray, or name it in the runtime_env of ray.init"
        ) from None
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        raise cause from None
    raise error
