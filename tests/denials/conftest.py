"""A directory and servers of the host that commands must not reach."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory of the host beside the workspace with a file in it, writable for everybody."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "file").write_text("outside\n")
    place.chmod(0o777)
    (place / "file").chmod(0o666)
    yield place
    assert (place / "file").read_text() == "outside\n"
    assert os.listdir(place) == ["file"]


@pytest.fixture
def servers() -> Iterator[tuple[int, str, str]]:
    """The host listens on a port, at a path (which must be short) and under an abstract name."""
    name = f"fable-exec-{os.urandom(4).hex()}"
    path = f"/tmp/{name}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as file,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        for server, address in ((file, path), (abstract, "\0" + name)):
            server.bind(address)
            server.listen()
        yield tcp.getsockname()[1], path, name
    os.unlink(path)
