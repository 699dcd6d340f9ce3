"""The workspace handle by each of its resolvers, beside plain Python that does the same by path, unsafely."""

from __future__ import annotations

import os

from benchmarks import raw
from benchmarks.figure import MICROSECONDS, Figure
from benchmarks.measuring import interleaved, timed
from benchmarks.setting import Setting
from fable_exec.errors import ConfinementUnavailable
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath

KIB, MIB = 1 << 10, 1 << 20
SIZES = ((KIB, "1 KiB"), (MIB, "1 MiB"))
DEEP = "a/b"


def measure(setting: Setting) -> list[Figure]:
    figures = [_parsing(setting)]
    for resolver in ("openat2", "walk"):
        root = setting.workspace()
        (root / DEEP).mkdir(parents=True)
        try:
            workspace = setting.enter(Workspace.open(root, resolver=resolver))
        except ConfinementUnavailable:
            continue
        figures += _files(setting, workspace, str(root / DEEP), resolver)
    return figures


def _files(setting: Setting, workspace: Workspace, directory: str, resolver: str) -> list[Figure]:
    figures = []
    for size_bytes, size in SIZES:
        data, name = os.urandom(size_bytes), f"of-{size_bytes}"
        path, plain = WorkspacePath.parse(f"{DEEP}/{name}"), os.path.join(directory, "plain")
        read = os.path.join(directory, name)
        contestants = [
            timed("write", lambda path=path, data=data: workspace.write_replace(path, data)),  # type: ignore[misc]  # a lambda with defaults has no type
            timed("raw write", lambda plain=plain, data=data: raw.durable_write(plain, data)),  # type: ignore[misc]  # as above
            timed("read", lambda path=path: workspace.read(path)),  # type: ignore[misc]  # as above
            timed("raw read", lambda read=read: raw.read_and_hash(read)),  # type: ignore[misc]  # as above
        ]
        found = interleaved(contestants, setting.rounds(100))
        for act, raw_name in (("write", "write + fsync + rename + fsync(dir)"), ("read", "read + SHA-256")):
            figures.append(
                Figure(
                    key=f"path_safety.{resolver}.{act}.{size_bytes // KIB}k",
                    title=f"Workspace.{'write_replace' if act == 'write' else 'read'} {size}, {resolver}",
                    unit=MICROSECONDS,
                    ours=found[act],
                    reference=found[f"raw {act}"],
                    reference_name=raw_name,
                )
            )
    return figures


def _parsing(setting: Setting) -> Figure:
    text = "src/package/module_name.py"
    found = interleaved([timed("parse", lambda: WorkspacePath.parse(text, PathProfile.PORTABLE), 200)], setting.rounds(50))
    return Figure(key="path_safety.parse", title="WorkspacePath.parse, portable", unit=MICROSECONDS, ours=found["parse"])
