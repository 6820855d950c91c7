"""Runs servecast for the notebooks; they read the folders that it leaves behind and nothing else."""

import os
import pathlib
import shutil
import subprocess

repository = pathlib.Path(__file__).resolve().parent.parent


def _binary() -> str:
    """The command named by SERVECAST, else the release build of the repository, else the one installed."""
    named = os.environ.get("SERVECAST")
    built = repository / "target" / "release" / "servecast"
    found = named or (str(built) if built.is_file() else shutil.which("servecast"))
    if not found:
        raise SystemExit("no servecast: run `cargo build --release`, or name it with SERVECAST")
    return found


def servecast(*arguments, allow=(0,)) -> str:
    """Runs a command and returns what it prints; `allow` lists the exit codes that are no failure."""
    words = [_binary(), *map(str, arguments)]
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode not in allow:
        raise RuntimeError(f"{' '.join(words[1:])}: exit code {ran.returncode}\n{ran.stderr}")
    return ran.stdout


def folder(name: str) -> pathlib.Path:
    """A folder for results, `runs/notebooks/NAME` of the repository unless SERVECAST_OUT names another."""
    parent = pathlib.Path(os.environ.get("SERVECAST_OUT", repository / "runs" / "notebooks"))
    path = parent / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def azure_trace():
    """Azure's conversation trace of 2023: AZURE_TRACE, or where SERVECAST_DATA has it; None if nowhere."""
    name = "AzureLLMInferenceTrace_conv.csv"
    data = os.environ.get("SERVECAST_DATA")
    places = [os.environ.get("AZURE_TRACE"), repository / "traces" / name]
    if data:
        places.append(pathlib.Path(data) / "traces" / "azure2023" / name)
    return next((path for path in places if path and pathlib.Path(path).is_file()), None)
