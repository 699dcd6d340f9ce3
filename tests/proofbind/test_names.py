"""What the package gives out, and what is loaded for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fable_exec.proofbind
from tests.cli.typed import PROJECT

LOOKS_FOR_A_RUN = (
    "import os; from fable_exec.keeper.runs import RunOfJob; root = os.stat('/');"
    " RunOfJob({'path': '/', 'device': root.st_dev, 'inode': root.st_ino}, 'nothing').look()"
)
SIGNS = "import fable_exec.attest"


@pytest.mark.parametrize("use", [LOOKS_FOR_A_RUN, SIGNS])
def test_who_waits_for_a_run_or_signs_loads_nothing_that_judges(use: str) -> None:
    judging = {"fable_exec.proofbind.binding", "fable_exec.proofbind.drift", "fable_exec.proofbind.signatures"}
    program = f"import sys; {use}; print({judging!r} & {{*sys.modules}})"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT, timeout=30)
    assert told.stdout == "set()\n", told.stderr


def test_every_public_name_is_there_and_no_other() -> None:
    package = fable_exec.proofbind
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert set(package.__all__) == {name for names in package._MODULES.values() for name in names} <= set(dir(package))
    assert not hasattr(package, "nothing")
