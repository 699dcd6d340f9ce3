"""Entry: `python -I -S <this file> <directory of a library> ... <socket descriptor>`."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> None:
    """Serve the host on the socket that is named last; the library and what it needs lie in the directories named before."""
    sys.path[:0] = arguments[:-1]
    from fable_exec.keeper.zygote import serve

    os.chdir("/")
    serve(int(arguments[-1]))


if __name__ == "__main__":
    main(sys.argv[1:])
