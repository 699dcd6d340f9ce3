"""What no test of a room may leave behind. A conftest, or a module, that imports the fixture has it for every test of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fable_exec.testing.leaks import nothing_left


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No descriptor, thread or child of this process."""
    with nothing_left():
        yield
