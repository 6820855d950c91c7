"""Evolves the source code of a router until it is better than ``least_outstanding_tokens``.

    python evolve_source.py --trials 400 --seed 1
    python evolve_source.py --propose my_module:propose

Who writes the sources is a function ``propose(parents, scores)``, which gives a new one. ``parents`` are two sources of
the population, the better one first, and last, if there is one, the latest that failed; ``scores`` say how good each
is, or why it failed. The default changes expressions at random. A function that asks a language model takes its place
with ``--propose``.

A source is Python that defines a class ``Router`` as ``servecast.Router`` says. It is executed with all rights of this
process, without any sandbox or time limit: run sources of others, and of a language model, in a container that may
lose what it holds.
"""

from __future__ import annotations

import ast
import copy
import importlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from laboratory import AnyRouter, Fitness, Score, finals, judge, options, quiet, training, unseen

Propose = Callable[[Sequence[str], Sequence[Score]], str]

SOURCE = '''\
class Router:
    reports_every_s = 0.5
    caches_every_s = 0.5

    def choose(self, request, replicas):
        def score(replica):
            return {score}

        return min(replicas, key=score)
'''

FIRST = [
    SOURCE.format(score=score)
    for score in ("replica.outstanding_tokens", "replica.outstanding_requests", "-1.0 * replica.cached_tokens")
]
"""Where evolution begins: the baseline, and two that look at one other figure."""


@dataclass(frozen=True)
class Attempt:
    """A source and how good it is."""

    source: str
    score: Score


def router_of(source: str) -> AnyRouter:
    """The class ``Router`` of a source, which is executed."""
    names: dict[str, Any] = {}
    exec(compile(source, "<source of a router>", "exec"), names)
    if "Router" not in names:
        raise NameError("the source defines no class Router")
    router: AnyRouter = names["Router"]
    return router


def attempt(source: str, fitness: Fitness) -> Attempt:
    """Scores a source. One that does not compile, or raises, gets the worst score with the reason."""
    try:
        score = fitness(router_of(source))
    except Exception as error:  # Whatever it raises is its own fault.
        score = Score.failed(f"{type(error).__name__}: {error}")
    return Attempt(source, score)


def evolve(propose: Propose, fitness: Fitness, trials: int, seed: int, islands: int = 4) -> Iterator[Attempt]:
    """Tries sources, the first ones and as many as asked for, and keeps the best as parents of others.

    Islands evolve by themselves, since one of them may settle on what is only good at first; three times the worst one
    begins anew from the best source of all (as FunSearch does: Romera-Paredes et al., Nature 2024).
    """
    generator = random.Random(seed)
    first = [attempt(source, fitness) for source in FIRST]
    known = {one.source: one for one in first}
    alive = [survivors(first) for _ in range(islands)]
    failed: Attempt | None = None
    yield from first
    for trial in range(trials):
        island = trial % islands
        # Of three drawn, the two best; so better ones are parents more often.
        drawn = sorted(generator.choices(alive[island], k=3), key=lambda one: one.score.mean)[:2]
        parents = drawn + ([failed] if failed else [])
        source = propose([one.source for one in parents], [one.score for one in parents])
        tried = known.get(source) or attempt(source, fitness)
        known[source] = tried
        yield tried
        if tried.score.reason is not None:
            failed = tried
        else:
            alive[island] = survivors([*alive[island], tried])
        if trial > 0 and trial % max(1, trials // 4) == 0:
            alive.sort(key=lambda one: one[0].score.mean)
            alive[-1] = alive[0][:1]


def survivors(attempts: Sequence[Attempt], population: int = 8) -> list[Attempt]:
    """The best, with different scores: else variants that decide alike would soon be all there is."""
    different: dict[float, Attempt] = {}
    for one in sorted(attempts, key=lambda one: len(one.source)):
        different.setdefault(one.score.mean, one)
    return sorted(different.values(), key=lambda one: one.score.mean)[:population]


REPLICA = ("outstanding_requests", "outstanding_tokens", "waiting", "running", "kv_utilization", "cached_tokens")
OPERATORS: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class Mutation:
    """Proposes the first parent with an expression of its ``score`` changed, from a small grammar.

    An expression is a figure of the replica, the length of the prompt, a number, two of them joined by ``+ - * /``, or
    the larger or smaller of two. So it may divide by 0: such a router raises, and fails.
    """

    def __init__(self, seed: int, nodes: int = 60) -> None:
        self._random = random.Random(seed)
        self._nodes = nodes

    def __call__(self, parents: Sequence[str], scores: Sequence[Score]) -> str:
        living = [source for source, score in zip(parents, scores) if score.reason is None]
        while True:
            tree = ast.parse(living[0])
            place = _score(tree)
            place.value = self._changed(_expression(place), _expression(_score(ast.parse(living[-1]))))
            if sum(1 for _ in ast.walk(place)) <= self._nodes:
                return ast.unparse(ast.fix_missing_locations(tree)) + "\n"

    def _changed(self, whole: ast.expr, other: ast.expr) -> ast.expr:
        target = self._random.choice(_parts(whole))
        kind = self._random.choice(["replace", "wrap", "scale", "shrink", "cross"])
        if kind == "replace":
            new = self._grown(2)
        elif kind == "wrap":
            new = self._joined(target, self._grown(1))
        elif kind == "scale":
            new = self._scaled(target)
        elif kind == "shrink":
            new = self._random.choice(_parts(target))
        else:
            new = self._random.choice(_parts(other))
        return _replaced(whole, target, copy.deepcopy(new))

    def _grown(self, depth: int) -> ast.expr:
        if depth > 0 and self._random.random() < 0.6:
            return self._joined(self._grown(depth - 1), self._grown(depth - 1))
        if self._random.random() < 0.3:
            return self._number()
        if self._random.random() < 0.2:
            return _attribute("request", "prompt_tokens")
        return _attribute("replica", self._random.choice(REPLICA))

    def _joined(self, left: ast.expr, right: ast.expr) -> ast.expr:
        if self._random.random() < 0.2:
            name = self._random.choice(["max", "min"])
            return ast.Call(ast.Name(name, ast.Load()), [left, right], [])
        return ast.BinOp(left, self._random.choice(OPERATORS)(), right)

    def _scaled(self, target: ast.expr) -> ast.expr:
        if isinstance(target, ast.Constant) and isinstance(target.value, (int, float)):
            return ast.Constant(_rounded(target.value * math.exp(self._random.gauss(0.0, 0.7))))
        return ast.BinOp(self._number(), ast.Mult(), target)

    def _number(self) -> ast.expr:
        return ast.Constant(_rounded(math.exp(self._random.uniform(math.log(0.1), math.log(5000.0)))))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _attribute(of: str, name: str) -> ast.expr:
    return ast.Attribute(ast.Name(of, ast.Load()), name, ast.Load())


def _score(tree: ast.Module) -> ast.Return:
    """What the function ``score`` returns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "score" and isinstance(node.body[-1], ast.Return):
            return node.body[-1]
    raise ValueError("a parent has no function score that ends with return")


def _expression(of: ast.Return) -> ast.expr:
    assert of.value is not None
    return of.value


def _parts(whole: ast.expr) -> list[ast.expr]:
    """The expressions in one that are numbers when evaluated."""
    if isinstance(whole, ast.BinOp):
        return [whole, *_parts(whole.left), *_parts(whole.right)]
    if isinstance(whole, ast.Call):
        return [whole, *(part for argument in whole.args for part in _parts(argument))]
    return [whole]


def _replaced(whole: ast.expr, target: ast.expr, new: ast.expr) -> ast.expr:
    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is target else self.generic_visit(node)

    replaced: ast.expr = Replace().visit(whole)
    return replaced


def _named(function: str) -> Propose:
    module, _, name = function.partition(":")
    propose: Propose = getattr(importlib.import_module(module), name)
    return propose


def main() -> None:
    parser = options(__doc__.splitlines()[0], trials=400)
    parser.add_argument("--propose", metavar="MODULE:FUNCTION", help="who writes sources, instead of random changes")
    arguments = parser.parse_args()
    propose = _named(arguments.propose) if arguments.propose else Mutation(arguments.seed)
    with quiet():
        tried = list(evolve(propose, Fitness(training()), arguments.trials, arguments.seed))
        failed = [one for one in tried if one.score.reason is not None]
        if failed:
            print(f"{len(failed)} of {arguments.trials} failed, the last one: {failed[-1].score.reason}")
        # The same source may have been proposed several times.
        scores = {one.source: one.score for one in tried}
        score, source = finals([(score, source) for source, score in scores.items()], router_of, training())
        print(f"Best of {arguments.trials}:\n\n{source}")
        print(f"In training: {score}")
        judge(router_of(source), unseen(arguments.trace), arguments.seeds)


if __name__ == "__main__":
    main()
