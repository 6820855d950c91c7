"""On PYTHONPATH, lets `python -m sglang.bench_serving` run where PyTorch is not installed.

Packages of SGLang 0.5.23 import PyTorch in their `__init__`, of which the benchmark client uses nothing. So they are empty here, with
the path of the real ones, and their modules are SGLang's own. One module is a stand-in: the client takes a constant from it, for
`--fake-prefill` alone.
"""

import importlib.machinery
import pathlib
import sys
import sysconfig
import types

EMPTY = ["sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.disaggregation"]
STAND_IN = "sglang.srt.disaggregation.utils"


def enter(name, module):
    sys.modules[name] = module
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, module)


def empty_package(name, folder):
    module = types.ModuleType(name)
    module.__file__ = str(folder / "__init__.py")
    module.__path__ = [str(folder)]
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=module.__file__, is_package=True)
    module.__spec__.submodule_search_locations = module.__path__
    return module


site = pathlib.Path(sysconfig.get_paths()["purelib"])
if (site / "sglang").is_dir():
    for package in EMPTY:
        enter(package, empty_package(package, site.joinpath(*package.split("."))))
    enter(STAND_IN, types.ModuleType(STAND_IN))
    sys.modules[STAND_IN].FAKE_BOOTSTRAP_HOST = ""
