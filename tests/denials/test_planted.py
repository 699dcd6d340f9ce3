"""A file that runs later is told of under the name that the command gave it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.confinement.places import confined, in_modes
from tests.denials.told import PROGRAMS, python

pytestmark = pytest.mark.requires_ability("linux")


@in_modes()
def test_what_a_planted_file_is_called_is_made_safe_too(mode: str, workspace: Path) -> None:
    text = "import os; os.makedirs('two\\nlines\\x1b/.vscode'); open('two\\nlines\\x1b/.vscode/tasks.json', 'w').close()"
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
    (denial,) = result.denials
    assert (denial.operation, denial.path) == ("plant editor-tasks", "two\\nlines\\x1b/.vscode")
    assert denial.suggestion.isprintable()
