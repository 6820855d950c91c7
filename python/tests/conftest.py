"""What several tests take."""

from __future__ import annotations

from typing import Any

import pytest

import servecast


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Cautions of runs are not what these tests are about."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", servecast.ServecastWarning)
        yield


CHAT: dict[str, Any] = {
    "name": "chat",
    "seed": 7,
    "workload": {
        "num_requests": 300,
        "arrivals": {"type": "poisson", "rate_per_s": 24.0},
        "lengths": {
            "type": "sampled",
            "input_tokens": {
                "type": "log_normal",
                "median_tokens": 600.0,
                "sigma": 1.0,
                "max_tokens": 8000,
            },
            "output_tokens": {"type": "uniform", "min_tokens": 20, "max_tokens": 120},
        },
    },
    "cluster": {
        "model": "Qwen/Qwen3-8B",
        "gpu": "H100",
        "replicas": 3,
        "router": {"type": "least_outstanding_requests"},
    },
}


@pytest.fixture
def chat() -> servecast.Scenario:
    """Three replicas that are busy."""
    return servecast.load(CHAT)
