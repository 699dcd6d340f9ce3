"""Every test here leaves no descriptor, thread or child."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fable_exec.testing.leaks import nothing_left


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield
