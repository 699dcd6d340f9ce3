"""What the launcher has in place of `typing`, and that it loads neither that nor anything else it can do without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import fable_exec._launcher.__main__ as program
from fable_exec._launcher import typed

LOADED = """
import importlib, sys
sys.path[:0] = [sys.argv[1]]
for name in sys.argv[2:]:
    importlib.import_module(f"_launcher.{name}")
print(*sys.modules)
"""
SPARED = {"typing", "dataclasses", "inspect", "platform", "base64", "subprocess", "threading", "tempfile", "pathlib", "logging"}


class Original(NamedTuple):
    """Of the standard library."""

    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


class Ours(typed.NamedTuple):
    """Of the launcher."""

    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


def test_a_named_tuple_is_that_of_the_standard_library_but_for_its_annotations() -> None:
    pairs: list[tuple[Any, Any]] = [(Ours(1), Original(1)), (Ours(1, "b"), Original(1, second="b")), (Ours(first=3), Original(3))]
    for made, like in pairs:
        assert made == like and hash(made) == hash(like) and made.both == like.both
        assert made._asdict() == like._asdict() and made._replace(first=9) == like._replace(first=9)
        assert repr(made).replace("Ours", "Original") == repr(like)
        assert not hasattr(made, "__dict__")
    assert Ours._fields == Original._fields and Ours._field_defaults == Original._field_defaults
    assert (Ours.__doc__, Ours.__module__, Ours.__name__) == ("Of the launcher.", __name__, "Ours")


def test_what_serves_a_host_loads_no_more_of_the_standard_library_than_it_uses() -> None:
    package = Path(program.__file__).parent
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADED, str(package.parent), "zygote", "observer"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "_launcher.zygote" in found and "_launcher.observer" in found
    assert not SPARED & set(found)
