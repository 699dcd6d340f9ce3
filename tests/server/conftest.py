"""Every test here leaves no descriptor, thread or child; and servers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.leaving import nothing_is_left  # noqa: F401  # a fixture that every test here gets
from tests.server.peers import Peer


@pytest.fixture
def peer(workspace: Path) -> Iterator[Callable[..., Peer]]:
    """`peer(*flags)`: a server on the workspace, ended with the test."""
    with ExitStack() as stack:

        def start(*flags: str, **popen: Any) -> Peer:
            started = Peer(workspace, *flags, **popen)
            stack.callback(started.close)
            return started

        yield start
