"""Every test here leaves no descriptor, thread or child."""

from __future__ import annotations

from tests.leaving import nothing_is_left  # noqa: F401  # a fixture that every test here gets
