"""Policies in Python."""

from __future__ import annotations

import os
import pickle
import random
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import servecast
from conftest import CHAT
from servecast import Engine, Fleet, Replica, Request, Step


class Least:
    """As ``least_outstanding_requests``."""

    def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
        return min(replicas, key=lambda replica: replica.outstanding_requests)


def test_a_router_decides_as_its_twin_in_rust(chat: servecast.Scenario) -> None:
    figures = chat.run().figures
    assert chat.run(router=Least).figures == figures
    assert chat.run(router=Least()).figures == figures
    least = lambda request, replicas: Least().choose(request, replicas).index  # noqa: E731
    assert chat.run(router=least).figures == figures
    tokens = chat.with_overrides({"cluster.router.type": "least_outstanding_tokens"})
    by_tokens = lambda _, replicas: min(replicas, key=lambda one: one.outstanding_tokens)  # noqa: E731
    assert chat.run(router=by_tokens).figures == tokens.run().figures


def test_policies_begin_each_run_anew(chat: servecast.Scenario) -> None:
    class Draws:
        def __init__(self) -> None:
            self.random = random.Random(3)

        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            return self.random.choice(replicas)

    one = Draws()
    figures = [chat.run(router=router).figures for router in (Draws, one, one, Draws)]
    assert all(other == figures[0] for other in figures)
    assert figures[0] != chat.run().figures


def test_what_a_policy_sees(chat: servecast.Scenario) -> None:
    seen: list[tuple[Request, list[int]]] = []

    def first(request: Request, replicas: Sequence[Replica]) -> int:
        seen.append((request, [replica.outstanding_requests for replica in replicas]))
        return replicas[0].index

    run = chat.run(router=first)
    assert [request.id for request, _ in seen] == list(range(300))
    assert [request.prompt_tokens for request, _ in seen] == run.requests["prompt_tokens"]
    arrivals = [round(request.arrival_s * 1e9) for request, _ in seen]
    assert arrivals == pytest.approx(run.requests["arrival_ns"], abs=1)
    # All go to the first, so the others have nothing.
    assert max(counts[0] for _, counts in seen) > 1
    assert all(counts[1:] == [0, 0] for _, counts in seen)
    hidden = {name for name in dir(Request) if "output" in name}
    assert not hidden


def test_reports_are_kept_for_who_asks_and_grow_old(chat: servecast.Scenario) -> None:
    def asks(request: Request, replicas: Sequence[Replica]) -> Replica:
        return min(replicas, key=lambda replica: replica.waiting)

    with pytest.raises(AttributeError, match="reports_every_s"):
        chat.run(router=asks)
    ages: list[float] = []

    class Reads:
        reports_every_s = 0.5

        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            ages.append(replicas[0].report_age_s)
            return min(replicas, key=lambda replica: (replica.running + replica.waiting, replica.index))

    chat.run(router=Reads)
    assert 0.3 < max(ages) < 0.5
    Reads.reports_every_s = 0.0
    ages.clear()
    chat.run(router=Reads)
    assert set(ages) == {0.0}
    Reads.reports_every_s = -1.0
    with pytest.raises(ValueError, match="reports_every_s"):
        chat.run(router=Reads)


PREFIXES = {
    "name": "prefixes",
    "workload": {
        "arrivals": {"type": "poisson", "rate_per_s": 16.0},
        "lengths": {
            "type": "generated_shared_prefix",
            "groups": 10,
            "prompts_per_group": 20,
            "system_prompt_tokens": 1000,
            "question_tokens": 200,
            "output_tokens": 40,
        },
    },
    "cluster": {**CHAT["cluster"], "router": {"type": "round_robin"}},
}


def test_caches_are_seen_by_who_asks() -> None:
    class Cached:
        caches_every_s = 0.0

        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            assert 0 <= replicas[0].cached_tokens < request.prompt_tokens
            assert sum(length for _, _, length in request.content) == request.prompt_tokens
            return max(replicas, key=lambda one: (one.cached_tokens, -one.outstanding_requests))

    scenario = servecast.load(PREFIXES)
    turns, cached = scenario.run(), scenario.run(router=Cached)
    assert cached.figures["cache_hit_rate"] > turns.figures["cache_hit_rate"]
    asks = lambda request, replicas: replicas[replicas[0].cached_tokens]  # noqa: E731
    with pytest.raises(AttributeError, match="caches_every_s"):
        scenario.run(router=asks)


def test_errors_arrive_with_their_traceback(chat: servecast.Scenario) -> None:
    class Fails:
        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            if request.id == 5:
                raise LookupError("the fifth")
            return replicas[0]

    with pytest.raises(LookupError, match="the fifth") as error:
        chat.run(router=Fails)
    frames = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert frames[-1] == "choose"


@pytest.mark.parametrize(
    ("router", "error", "text"),
    [
        (lambda request, replicas: 99, ValueError, "replica 99"),
        (lambda request, replicas: None, TypeError, "None"),
        (lambda request, replicas: "first", TypeError, "first"),
        (lambda request: 0, TypeError, "argument"),
        (3, TypeError, "choose"),
        (int, TypeError, "choose"),
    ],
)
def test_what_is_no_choice_is_refused(
    chat: servecast.Scenario, router: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        chat.run(router=router)


def test_an_order_of_admission_overtakes(chat: servecast.Scenario) -> None:
    class InTurn:
        def choose(self, waiting: list[Request], engine: Engine, now_s: float) -> int:
            return 0

    class Shortest:
        def choose(self, waiting: list[Request], engine: Engine, now_s: float) -> Request | None:
            if engine.waiting:
                return None
            return min(waiting, key=lambda request: request.prompt_tokens)

    busy = chat.with_overrides({"workload.arrivals.rate_per_s": 80.0, "cluster.engine": {"type": "vllm_v1", "max_num_seqs": 8}})
    assert busy.run(admission=InTurn).figures == busy.run().figures
    shortest = busy.run(admission=Shortest)
    assert shortest.figures["finished"] == 300
    assert shortest.figures["median_ttft_ms"] < busy.run().figures["median_ttft_ms"]
    with pytest.raises(ValueError, match="none of them"):
        busy.run(admission=lambda waiting, engine, now_s: len(waiting))


SCALED = {
    "cluster.replicas": 1,
    "cluster.autoscaler": {
        "min_replicas": 1,
        "max_replicas": 6,
        "signal": {"type": "outstanding_per_replica", "target": 4.0},
        "interval_s": 1.0,
        "provisioning_s": 1.0,
        "weights_gib_per_s": 20.0,
    },
}


def test_an_autoscaler_decides(chat: servecast.Scenario) -> None:
    settings = {key: value for key, value in SCALED.items() if key != "cluster.replicas"}
    scenario = {**CHAT, "cluster": {key: value for key, value in CHAT["cluster"].items() if key != "replicas"}}
    scaled = servecast.load(scenario, settings)
    looks: list[tuple[float, int, int]] = []

    def all_of_them(fleet: Fleet, now_s: float) -> int:
        looks.append((now_s, fleet.replicas, len(fleet.serving)))
        return 6

    run = scaled.run(autoscaler=all_of_them)
    assert looks[0][1] == 1 and looks[-1][1] == 6
    assert max(run.requests["instance"]) == 5
    with pytest.raises(servecast.SimulationError, match="no autoscaler"):
        chat.run(autoscaler=all_of_them)
    with pytest.raises(TypeError, match="whole number"):
        scaled.run(autoscaler=lambda fleet, now_s: "many")


class Fair:
    """Answers go on; prompts share what is left of 2,048 tokens."""

    def schedule(self, step: Step) -> None:
        left = 2048
        prompts = []
        for request in step.requests:
            if request.uncomputed == 1 and request.is_admitted and left:
                step.compute(request, 1)
                left -= 1
            else:
                prompts.append(request)
        for place, request in enumerate(prompts):
            tokens = min(request.uncomputed, left // (len(prompts) - place))
            if tokens:
                step.compute(request, tokens)
                left -= tokens


def test_a_scheduler_decides_every_step(chat: servecast.Scenario) -> None:
    run = chat.run(scheduler=Fair, steps=True)
    assert run.figures["finished"] == 300
    assert run.steps is not None
    budget = [a + b for a, b in zip(run.steps["prefill_tokens"], run.steps["decode_seqs"])]
    assert max(budget) <= 2048
    assert chat.run(scheduler=Fair).figures == run.figures


def test_a_scheduler_keeps_to_memory_and_preempts() -> None:
    scarce = servecast.load(
        CHAT, {"cluster.engine": {"type": "vllm_v1", "num_gpu_blocks": 600, "max_model_len": 9000}, "cluster.replicas": 1}
    )

    def careful(step: Step) -> None:
        running = [one for one in step.requests if one.is_admitted]
        while running:
            one = running.pop(0)
            try:
                step.compute(one, one.uncomputed)
            except MemoryError:
                # The last to come gives way, at worst this one.
                victim = running.pop() if running else one
                step.preempt(victim)
                preempted.append(victim.id)
                if victim is not one:
                    running.insert(0, one)
        for one in step.requests:
            if not one.is_admitted:
                if one.uncomputed + 64 <= step.kv_blocks_free * step.block_tokens:
                    step.compute(one, one.uncomputed)
                return

    preempted: list[int] = []
    with pytest.raises(MemoryError, match="blocks"):
        scarce.run(scheduler=lambda step: [step.compute(one, one.uncomputed) for one in step.requests])
    run = scarce.run(scheduler=careful)
    assert run.figures["finished"] == 300
    assert run.figures["preemptions"] == len(preempted) > 0
    assert run.steps is None and scarce.run(scheduler=careful, steps=True).steps is not None


class Generator:
    def schedule(self, step: Step) -> Any:
        yield step.compute(step.requests[0], 1)


class Coroutine:
    async def schedule(self, step: Step) -> None:
        step.compute(step.requests[0], 1)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (lambda step: step.compute(step.requests[0], 0), "must compute 1 to"),
        (lambda step: step.compute(99999, 1), "is not there"),
        (lambda step: step.compute("first", 1), "name a request"),
        (lambda step: step.preempt(step.requests[0]), "holds no memory"),
        (lambda step: [step.compute(step.requests[0], 1), step.compute(step.requests[0], 1)], "has a share"),
    ],
)
def test_what_is_no_share_is_refused(chat: servecast.Scenario, share: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        chat.run(scheduler=share)


def test_policies_that_are_not_for_a_scenario_are_refused(chat: servecast.Scenario) -> None:
    ranks = {
        "cluster.model": "Qwen/Qwen3-30B-A3B",
        "cluster.data_parallel_size": 2,
        "cluster.expert_parallel": {},
    }
    with pytest.raises(servecast.SimulationError, match="ranks"):
        chat.with_overrides(ranks).run(scheduler=Fair)
    with pytest.raises(TypeError, match="one of admission and scheduler"):
        chat.run(scheduler=Fair, admission=lambda waiting, engine, now_s: 0)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(chat.with_policies(router=Least))


def test_a_policy_that_cannot_be_copied_says_so(chat: servecast.Scenario) -> None:
    class Locked(Least):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(TypeError, match="give its class"):
        chat.run(router=Locked())
    assert chat.run(router=Locked).figures == chat.run().figures


def test_a_policy_may_simulate(chat: servecast.Scenario) -> None:
    small = chat.with_overrides({"workload.num_requests": 5})

    class Thinks:
        def __init__(self) -> None:
            self.known: float | None = None

        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            if self.known is None:
                self.known = small.run().summary.duration_s
            return Least().choose(request, replicas)

    assert chat.run(router=Thinks).figures == chat.run().figures


def test_a_policy_may_run_a_study_with_policies(chat: servecast.Scenario) -> None:
    small = chat.with_overrides({"workload.num_requests": 5})

    class Fails:
        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            raise KeyError("inside")

    class Thinks(Least):
        def __init__(self) -> None:
            swept = servecast.sweep(small.with_policies(router=Least), {"cluster.replicas": [1, 2, 3, 4]})
            assert len(swept.points) == 4
            with pytest.raises(KeyError, match="inside"):
                small.run(router=Fails)

    assert chat.run(router=Thinks).figures == chat.run().figures


def test_policies_of_other_roles_stay(chat: servecast.Scenario) -> None:
    first = chat.with_policies(router=lambda _, replicas: replicas[0])
    in_turn = lambda waiting, engine, now_s: 0  # noqa: E731
    for both in (first.with_policies(admission=in_turn).run(), first.run(admission=in_turn)):
        assert set(both.requests["instance"]) == {0}
    assert first.run(router=Least).figures == chat.run().figures
    with pytest.raises(TypeError, match="one of admission and scheduler"):
        chat.with_policies(admission=in_turn).run(scheduler=Fair)


def test_methods_and_what_can_be_called_begin_anew_too(chat: servecast.Scenario) -> None:
    class Turns:
        def __init__(self) -> None:
            self.place = 0

        def pick(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            self.place += 7
            return replicas[self.place % 11 % len(replicas)]

        __call__ = pick

    turns = Turns()
    figures = [chat.run(router=router).figures for router in (turns.pick, turns.pick, turns, turns)]
    assert all(one == figures[0] for one in figures) and turns.place == 0


def test_each_model_has_a_router_of_its_own() -> None:
    path = Path(__file__).parents[2] / "scenarios" / "several-models.toml"
    if not path.exists():
        path = Path(os.environ.get("SERVECAST_REPOSITORY", "")) / "scenarios" / "several-models.toml"
    if not path.exists():
        pytest.skip("the tests lie apart from the repository")
    scenario = servecast.load(path, {"workload.num_requests": 300})
    seen: list[tuple[int, int]] = []

    class Watches(Least):
        def __init__(self) -> None:
            self.models: set[int] = set()

        def choose(self, request: Request, replicas: Sequence[Replica]) -> Replica:
            self.models.add(request.model)
            assert len(self.models) == 1
            assert [replica.index for replica in replicas] == list(range(len(replicas)))
            seen.append((request.model, len(replicas)))
            return super().choose(request, replicas)

    scenario.run(router=Watches)
    assert len({model for model, _ in seen}) > 1


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"router": lambda request, replicas: True}, "True"),
        ({"scheduler": Generator}, "generator"),
        ({"scheduler": Coroutine}, "coroutine"),
        ({"admission": lambda waiting, engine, now_s: "x"}, "got x"),
    ],
)
def test_what_decides_nothing_is_refused(chat: servecast.Scenario, given: Any, text: str) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match=text):
            chat.run(**given)


def test_an_error_comes_before_what_should_be_heard(chat: servecast.Scenario) -> None:
    import warnings

    def fails(request: Request, replicas: Sequence[Replica]) -> Replica:
        raise LookupError("first")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LookupError, match="first"):
            servecast.compare(chat, chat.with_policies(router=fails), seeds=(3, 3))


def test_studies_have_them_too(chat: servecast.Scenario) -> None:
    turns = chat.with_overrides({"cluster.router.type": "round_robin"})
    own = turns.with_policies(router=Least)
    assert own.run().figures == chat.run().figures
    compared = servecast.compare(turns, own, chat, seeds=(3, 3))
    b, c = compared.finding("p99_ttft_ms", "B"), compared.finding("p99_ttft_ms", "C")
    assert b.difference == c.difference != 0
    swept = servecast.sweep(own, {"cluster.replicas": [2, 3]})
    assert swept.runs["p99_ttft_ms"] == servecast.sweep(chat, {"cluster.replicas": [2, 3]}).runs["p99_ttft_ms"]
    with pytest.raises(servecast.SimulationError, match="policies"):
        servecast.sweep(own, {"cluster.replicas": [2, 3]}, folder="never-made")


def test_a_check_tells_better_from_worse() -> None:
    same = servecast.check(pattern="router-load")
    assert same.passes and same.outcomes[0].deviations == []
    worse = servecast.check(pattern="router-load", router=lambda request, replicas: replicas[0])
    assert not worse.passes
    assert any(one.fails and one.standing == "worse" for one in worse.outcomes[0].deviations)
    left_out = servecast.check(pattern="data-parallel", scheduler=Fair)
    assert left_out.outcomes[0].left_out
