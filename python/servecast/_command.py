"""The command ``servecast``."""

from __future__ import annotations


import signal
import sys

from ._servecast import command


def main() -> None:
    # The command ends itself when it is interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = command(["servecast", *sys.argv[1:]])

    sys.exit(code)


if __name__ == "__main__":
    main()
