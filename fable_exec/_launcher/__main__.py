"""Entry of the launcher program: `python -I -S <this file> <socket descriptor>`, `... deadline <the same>`, or `... probe`.

The library is not importable here on purpose: this package is loaded by its own folder, with only the standard library beside it.
"""

from __future__ import annotations

import importlib.util
import os
import sys

PACKAGE = "fable_exec_launcher"


def _load_package() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[PACKAGE] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def main(word: str, channel: str = "") -> None:
    """Serve the host on the socket with descriptor `word`, or for one command under a deadline, or print what `probe` finds."""
    _load_package()
    import json
    import socket

    steps = importlib.import_module(f"{PACKAGE}.steps")
    steps.default_signals()
    if word == "probe":
        print(json.dumps(importlib.import_module(f"{PACKAGE}.probe").probe(os.geteuid(), os.getegid())))
        return
    if word == "deadline":
        importlib.import_module(f"{PACKAGE}.deadline_program").serve(int(channel))
        return
    kernel = importlib.import_module(f"{PACKAGE}.kernel")
    kernel.close_all_but(int(word))
    os.chdir("/")
    importlib.import_module(f"{PACKAGE}.descriptor_limit").raise_descriptor_limit()
    os.umask(0o077)  # the host's may be anything; commands get theirs from the plan
    zygote = importlib.import_module(f"{PACKAGE}.zygote")
    zygote.Zygote(socket.socket(fileno=int(word))).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
