"""Suites that an embedder subclasses: `broker` and `supervisor`. Each file of checks reads as a list of what is promised."""

from __future__ import annotations

import pytest

# Before they are imported: then a check that fails tells both sides, as a test of the embedder's own does.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("commands", "endings", "files", "locks", "machine", "setting", "supervisor"))
)
