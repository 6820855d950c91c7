"""The studies of servecast on a Ray cluster.

>>> import servecast.ray
>>> swept = servecast.ray.sweep("chat.toml", {"cluster.replicas": "1..16"}, seeds=10, folder="out/replicas")

The runs of sweeps and comparisons are spread over all nodes. The other studies take one node each.
"""

from ._cluster import require

require()

from ._compare import compare  # noqa: E402
from ._studies import calibrate, plan, validate  # noqa: E402
from ._sweep import sweep  # noqa: E402

__all__ = ["calibrate", "compare", "plan", "sweep", "validate"]
