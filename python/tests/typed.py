"""Type-checked, and run, by ``test_types.py``: what users write."""

from __future__ import annotations

import servecast
from servecast import Engine, Fleet, Replica, Request, Step


class Router:
    reports_every_s = 1.0

    def choose(self, request: Request, replicas: tuple[Replica, ...]) -> Replica:
        return min(replicas, key=lambda replica: replica.waiting + replica.outstanding_requests)


class Admission:
    def choose(self, waiting: list[Request], engine: Engine, now_s: float) -> int | None:
        return None if engine.waiting else 0


class Autoscaler:
    def decide(self, fleet: Fleet, now_s: float) -> int:
        return sum(replica.outstanding_requests for replica in fleet.serving) // 8 + 1


class Scheduler:
    def schedule(self, step: Step) -> None:
        for request in step.requests:
            step.compute(request, request.uncomputed)


def main() -> None:
    scenario = servecast.load(None, {"workload.num_requests": 20, "cluster.replicas": 2})
    run: servecast.Run = scenario.run(seed=7, router=Router, admission=Admission(), progress=print)
    p99: float | None = run.summary.ttft.p99_ms
    rows: int = len(run.requests)
    compared = servecast.compare(scenario, scenario.with_policies(router=Router()), seeds=(3, 3))
    verdict: str = compared.finding("p99_ttft_ms").verdict
    plan = servecast.plan(scenario, slo="p99_ttft_ms<=5000", resamples=0)
    if plan.winner is not None:
        gpus: int | None = plan.winner.gpus
        print(gpus)
    explained = servecast.explain(scenario, metric="ttft", seeds=0, servers="slow")
    longest: float = max(explained.parts_ms.values())
    print(p99, rows, verdict, longest, [change.difference_ms for change in explained.changes])


if __name__ == "__main__":
    main()
