"""What the notebooks share: where things lie, and how cautions of simulations look."""

import os
import pathlib
import warnings

repository = pathlib.Path(__file__).resolve().parent.parent

# Where a caution was raised, a path of this machine, is nothing to show.
warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"


def azure_trace():
    """Azure's conversation trace of 2023: AZURE_TRACE, or where SERVECAST_DATA has it; None if nowhere."""
    name = "AzureLLMInferenceTrace_conv.csv"
    data = os.environ.get("SERVECAST_DATA")
    places = [os.environ.get("AZURE_TRACE"), repository / "traces" / name]
    if data:
        places.append(pathlib.Path(data) / "traces" / "azure2023" / name)
    return next((path for path in places if path and pathlib.Path(path).is_file()), None)
