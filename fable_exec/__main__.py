"""`fable-exec` and `python -m fable_exec`: the console entry.

`serve` needs nothing but the library. Everything else is the command line of the extra `cli`; without the extra one line says how
to install it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

__all__ = ["main"]

_NEEDED = ("click", "rich")
_OWN_FAILURE = 125
_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["serve"]:
        from fable_exec.server import main as serve

        return serve(arguments[1:], program="fable-exec serve")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        from fable_exec._sys.inherited import take_standard_streams

        take_standard_streams()
        sys.stderr.write(
            f"fable-exec: {' and '.join(missing)} not installed (only `serve` works without): "
            "pip install '.[cli]' in a checkout, or 'fable-exec[cli]' from an index that has it\n"
        )
        return _OWN_FAILURE if arguments[:1] in (["run"], ["deadline"]) else _FAILED
    from fable_exec.cli import main as command_line

    return command_line(arguments)


if __name__ == "__main__":
    sys.exit(main())
