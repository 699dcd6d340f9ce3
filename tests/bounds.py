"""How long something may take: on a machine that is slow and busy, and, by `make deep`, with nothing beside it.

A test of `make test` may find that something hangs, never that a machine is slow.
"""

from __future__ import annotations

from typing import Any

import pytest

BUSY_SECONDS = 30.0


def bounds(seconds: float) -> list[Any]:
    """Values of a parameter: BUSY_SECONDS for `make test`, and `seconds`, as it is said somewhere, for `make deep`."""
    alone = [pytest.mark.deep, pytest.mark.alone]
    return [pytest.param(BUSY_SECONDS, id="busy"), pytest.param(seconds, id="alone", marks=alone)]
