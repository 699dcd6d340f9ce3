"""Packages whose names are loaded when they are first asked for: every name is there, and no other."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import fable_exec

PACKAGES = (
    "fable_exec",
    "fable_exec.adapters",
    "fable_exec.assurance.model",
    "fable_exec.broker",
    "fable_exec.client",
    "fable_exec.proofbind",
    "fable_exec.supervisor",
    "fable_exec.testing",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_there_before_and_after_it_was_asked_for_and_no_other_is(name: str) -> None:
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))
    first = {each: getattr(package, each) for each in package.__all__}
    assert all(vars(package)[each] is found for each, found in first.items())
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


def test_a_name_that_is_not_asked_for_loads_nothing() -> None:
    program = "import sys, fable_exec; print(sorted(each for each in sys.modules if each.startswith('fable_exec')))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert told.stdout == "['fable_exec', 'fable_exec.lazynames']\n", told.stderr


def test_a_misspelt_name_is_none_to_a_type_checker_either() -> None:
    """`make lint` fails where the two comments are not needed: then any name would be right to it."""
    with pytest.raises(ImportError, match="BrokrPolicy"):
        from fable_exec import BrokrPolicy  # type: ignore[attr-defined]  # noqa: F401  # that is the fault
    with pytest.raises(AttributeError, match="Brokr"):
        _ = fable_exec.Brokr  # type: ignore[attr-defined]  # that is the fault
