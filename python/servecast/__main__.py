"""``python -m servecast``: the command."""

from ._command import main

main()
