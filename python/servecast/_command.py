"""The command ``servecast``."""

from __future__ import annotations


import signal
import sys

from . import _ray_command
from ._servecast import command


def main() -> None:
    arguments = sys.argv[1:]
    if _ray_command.is_asked(arguments):
        sys.exit(_ray_command.sweep(arguments))
    # The command ends itself when it is interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = command(["servecast", *arguments])

    sys.exit(code)


if __name__ == "__main__":
    main()
