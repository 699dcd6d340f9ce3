"""The tree vectors in tests/data/trees: built as their makers say, with the digests of the reference."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DIRECTORY = Path(__file__).resolve().parent.parent / "data" / "trees"
NAMES = tuple(sorted(path.name.removesuffix(".tree.json") for path in DIRECTORY.glob("*.tree.json")))

_spec = importlib.util.spec_from_file_location("build_tree", DIRECTORY / "build_tree.py")
assert _spec is not None and _spec.loader is not None
_builder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_builder)


class _Socket(socket.socket):
    """Bound by a short name: an address holds 107 bytes (unix(7)), and directories of tests lie deeper."""

    def bind(self, address: Any) -> None:
        directory, name = os.path.split(address)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            super().bind(f"/proc/self/fd/{handle}/{os.fsdecode(name)}")
        finally:
            os.close(handle)


def _run(argv: list[str], **options: Any) -> None:
    """What the builder does with its commands, but that a failure says why."""
    done = subprocess.run(argv, env=options["env"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{argv}: {done.stderr}")


vars(_builder)["subprocess"] = SimpleNamespace(run=_run, DEVNULL=subprocess.DEVNULL)
vars(_builder)["socket"] = SimpleNamespace(socket=_Socket, AF_UNIX=socket.AF_UNIX)


def spec(name: str) -> dict[str, Any]:
    return json.loads((DIRECTORY / f"{name}.tree.json").read_text())  # type: ignore[no-any-return]  # an object, by its form


def expected(name: str) -> dict[str, Any]:
    return json.loads((DIRECTORY / f"{name}.expected.json").read_text())  # type: ignore[no-any-return]  # as above


def build(name: str, root: Path) -> Path:
    """The tree below `root`, which must not exist; returns the directory whose digest is asked for."""
    described = spec(name)
    closed = [entry for entry in described["entries"] if entry["kind"] == "file" and entry.get("mode") == "0000"]
    for entry in closed:  # git could not add them as an ordinary user
        del entry["mode"]
    umask = os.umask(0o022)
    try:
        _builder.build(described, str(root))
        for entry in closed:
            (root / entry["path"]).chmod(0)
        if described.get("post") == "relink_d":
            shutil.rmtree(root / "d")
            (root / "d").symlink_to("bin")
    finally:
        os.umask(umask)
    return root / str(described.get("digest_at", "."))


if __name__ == "__main__":  # `vectors.py NAME DIRECTORY PROFILE`: print the digest, or the name of the error
    sys.path.insert(0, str(DIRECTORY.parents[2]))
    from fable_exec.errors import FableExecError
    from fable_exec.treedigest import tree_digest

    top = build(sys.argv[1], Path(sys.argv[2]))
    try:
        sys.stdout.write(tree_digest(top, sys.argv[3]).sha256)
    except FableExecError as error:
        sys.stdout.write(error.code)
