#!/usr/bin/env python3
"""Installs benchmark clients from PyPI, each into a virtual environment of its own.

    python3 tests/clients/install.py FOLDER [openai] [sglang-bench] [vllm-bench] [guidellm] [aiperf]

All of them if none is named, smallest first. A client needs little of its package: SGLang and vLLM come without the engine's
dependencies. vLLM's client and guidellm import PyTorch, and PyPI has it with CUDA; they get it without CUDA's 4 GB (`stubs.py`; Linux,
with gcc and binutils).
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time
import venv

from stubs import stand_in_for_cuda

SGLANG = [
    "numpy", "aiohttp", "requests", "tqdm", "transformers==5.24.0", "tokenizers", "pillow", "datasets", "pydantic", "orjson",
    "msgspec", "pybase64", "psutil", "pyzmq", "jinja2",
]
# What `vllm.benchmarks.serve` imports in the end.
VLLM_BARE = ["vllm==0.33.0", "torch==2.14.0", "nvidia-cuda-runtime", "xgrammar==0.2.8", "apache-tvm-ffi==0.1.11", "llguidance==1.7.6"]
VLLM = [
    "transformers<5.21.0,>=5.16.1", "numpy", "regex", "aiohttp", "requests", "tqdm", "pillow", "pybase64", "datasets", "psutil",
    "cloudpickle", "msgspec", "pydantic>=2.12", "pyzmq", "cachetools", "cbor2", "oss-harmony", "openai", "uvloop", "py-cpuinfo",
    "prometheus_client", "fastapi", "partial-json-parser", "einops",
]
# PyTorch's own dependencies, but for CUDA.
TORCH = ["filelock", "sympy", "networkx", "jinja2", "fsspec", "typing_extensions", "setuptools"]


class Venv:
    """A virtual environment."""

    def __init__(self, path):
        if path.exists() and not (path / "pyvenv.cfg").exists():
            sys.exit(f"error: {path}: must be absent or a virtual environment, which is replaced")
        venv.create(path, clear=True, with_pip=True)
        self.path = path
        self.site = next(path.glob("lib/python3*/site-packages"))

    def python(self, *words):
        subprocess.run([str(self.path / "bin" / "python"), *words], check=True)

    def install(self, *packages):
        # What is left out is meant to be.
        self.python("-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-warn-conflicts", *packages)

    def required(self, package, absent):
        """What a package that is there requires without extras, but for those named."""
        metadata = next(self.site.glob(f"{package}-*.dist-info")) / "METADATA"
        lines = re.findall(r"^Requires-Dist: (.*)$", metadata.read_text(), re.MULTILINE)
        return [line for line in lines if "extra ==" not in line and re.match(r"[\w.-]+", line).group() not in absent]


def openai(path):
    Venv(path).install("openai==3.57.0")


def sglang(path):
    made = Venv(path)
    made.install("--no-deps", "sglang==0.5.23")
    made.install(*SGLANG)


def vllm(path):
    made = Venv(path)
    made.install("--no-deps", *VLLM_BARE)
    made.install(*TORCH, *VLLM)
    stand_in_for_cuda(made.site)
    # Kernels, which would look for a GPU.
    for library in [*made.site.glob("vllm/*_C*.so"), *made.site.glob("vllm/vllm_flash_attn/*.so")]:
        library.unlink()
    made.python("-c", "import vllm.benchmarks.serve")


def guidellm(path):
    made = Venv(path)
    made.install("--no-deps", "guidellm==0.8.1", "torch==2.15.0", "nvidia-cuda-runtime")
    made.install(*TORCH, *made.required("guidellm", {"torch"}))
    stand_in_for_cuda(made.site)
    made.python("-c", "import guidellm")


def aiperf(path):
    Venv(path).install("aiperf==0.13.0")


# In the folders that `clients.py` looks for them in.
CLIENTS = {"openai": openai, "sglang-bench": sglang, "aiperf": aiperf, "guidellm": guidellm, "vllm-bench": vllm}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.clients) - set(CLIENTS):
        parser.error(f"CLIENT: must be of {', '.join(CLIENTS)}, got {', '.join(sorted(unknown))}")
    for name, install in CLIENTS.items():
        if name in (arguments.clients or CLIENTS):
            began = time.monotonic()
            install(arguments.folder.resolve() / install.__name__)
            print(f"{name}: installed in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {error}")
