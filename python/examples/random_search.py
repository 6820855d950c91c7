"""Searches at random for a router that is better than ``least_outstanding_tokens``.

    python random_search.py --trials 150 --seed 1
"""

from __future__ import annotations

import math
import random

from laboratory import RANGES, Fitness, Score, WeightedRouter, search_and_judge


def draw(generator: random.Random) -> WeightedRouter:
    """A router with weights drawn at random; each is 0 in one case of three."""
    weights = {
        name: 0.0 if generator.random() < 1 / 3 else math.exp(generator.uniform(math.log(low), math.log(high)))
        for name, (low, high) in RANGES.items()
    }
    return WeightedRouter(**weights)


def search(fitness: Fitness, trials: int, seed: int) -> list[tuple[Score, WeightedRouter]]:
    """Routers with their scores."""
    generator = random.Random(seed)
    routers = [draw(generator) for _ in range(trials)]
    return [(fitness(router), router) for router in routers]


if __name__ == "__main__":
    search_and_judge(__doc__.splitlines()[0], 150, search)
