"""Evolves the weights of a router with Optuna until it is better than ``least_outstanding_tokens``.

    pip install optuna
    python evolve_optuna.py --trials 150 --seed 1
"""

from __future__ import annotations

import optuna

from laboratory import RANGES, Fitness, Score, WeightedRouter, search_and_judge


def suggest(trial: optuna.Trial) -> WeightedRouter:
    """A router with the weights of a trial; each may be 0."""
    weights = {}
    for name, (low, high) in RANGES.items():
        counts = trial.suggest_categorical(f"{name} counts", [True, False])
        weight = trial.suggest_float(name, low, high, log=True)
        weights[name] = weight if counts else 0.0
    return WeightedRouter(**weights)


def search(fitness: Fitness, trials: int, seed: int, population: int = 20) -> list[tuple[Score, WeightedRouter]]:
    """Routers of several generations with their scores."""
    tried: list[tuple[Score, WeightedRouter]] = []

    def objective(trial: optuna.Trial) -> float:
        router = suggest(trial)
        tried.append((fitness(router), router))
        return tried[-1][0].mean

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.NSGAIISampler(population_size=population, seed=seed))
    study.optimize(objective, n_trials=trials)
    return tried


if __name__ == "__main__":
    search_and_judge(__doc__.splitlines()[0], 150, search)
