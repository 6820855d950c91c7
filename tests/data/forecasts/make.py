"""Forecasts of pmdarima as the planner of NVIDIA Dynamo 1.6.1 asks for them, of random series.

    python tests/data/forecasts/make.py > tests/data/forecasts/forecasts.json

Needs pmdarima 2.1.1 with statsmodels 0.15.0 and scipy 1.17.1. The planner searches for a model when five values are there
that are not all equal, keeps its order and gives the model each further value. A model without lags gives way to one of the
logarithms (`components/src/dynamo/planner/core/load/predictors.py`).

The first series are asked for a forecast after each value. The others, which drift, are asked once after the last, so that
models are searched for in all of them: there are fewer forecasts than values then.
"""

import json
import math
import sys
import warnings

import numpy as np
import pmdarima

SEED = 20261129
SERIES = 48
DRIFTING = 16


class Planner:
    """One predicted quantity."""

    def __init__(self, log1p):
        self.log1p = log1p
        self.values = []
        self.pending = []
        self.model = None

    def space(self, values):
        return [math.log1p(value) for value in values] if self.log1p else list(values)

    def search(self):
        def of(values):
            return pmdarima.auto_arima(values, suppress_warnings=True, error_action="ignore")

        self.model = of(self.space(self.values))
        ar, _, ma = self.model.order
        if not self.log1p and ar == ma == 0:
            self.log1p = True
            self.model = of(self.space(self.values))

    def see(self, value):
        if value != 0 or self.values:
            self.values.append(value)
            self.pending.append(value)

    def next(self):
        if not self.values:
            return 0.0
        value = self.values[-1]
        if len(self.values) < 5 or len(set(self.values)) == 1:
            return value
        if self.model is None:
            self.search()
        else:
            self.model.update(self.space(self.pending))
        self.pending = []
        forecast = float(self.model.predict(n_periods=1)[0])
        return max(0.0, math.expm1(forecast) if self.log1p else forecast)


def series(rng, at):
    """Counts or lengths; every other one begins with equal values, so that a model is searched for in more of them."""
    steps = np.arange(int(rng.integers(6, 15)))
    values = [
        lambda: rng.poisson(rng.uniform(5, 2000), steps.size),
        lambda: rng.poisson(50 + rng.uniform(1, 60) * steps),
        lambda: rng.poisson(300 * (1.2 + np.sin(steps / rng.uniform(1, 5)))),
        lambda: np.maximum(0, 500 + np.cumsum(rng.normal(0, 40, steps.size))).round(),
        lambda: np.where(rng.random(steps.size) < 0.2, 900, rng.poisson(40, steps.size)),
        lambda: rng.normal(700, 15, steps.size).round(3),
    ][at % 6]()
    still = [] if at % 2 else [values[0]] * int(rng.integers(3, 40))
    return [float(value) for value in [*still, *values]]


def drift(rng, at):
    """Sums, once or twice, of what hangs on what was before."""
    count = int(rng.integers(30, 60))
    noise = rng.normal(0, 20, count)
    values = [noise[0]]
    for one in noise[1:]:
        values.append([0.7, -0.5, 0.2][at % 3] * values[-1] + one)
    for _ in range(at % 3):
        values = np.cumsum(np.asarray(values) + 2.0)
    values = np.asarray(values)
    return [float(value) for value in (values - values.min() + 100.0).round(2)]


def case(values, log1p, is_asked_always):
    planner = Planner(log1p)
    forecasts = []
    for at, value in enumerate(values):
        planner.see(value)
        if is_asked_always or at == len(values) - 1:
            forecasts.append(float(f"{planner.next():.9g}"))
    order = [*planner.model.order, bool(planner.model.with_intercept), planner.log1p]
    return {"log1p": log1p, "order": order, "values": values, "forecasts": forecasts}


def main():
    warnings.filterwarnings("ignore")
    rng = np.random.default_rng(SEED)
    cases = [case(series(rng, at), at % 8 == 7, True) for at in range(SERIES)]
    cases += [case(drift(rng, at), at % 8 == 7, False) for at in range(DRIFTING)]
    print("[" + ",\n".join(json.dumps(case) for case in cases) + "]")


if __name__ == "__main__":
    main()
