"""The page of state files says what the code says, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fable_exec import statefile
from fable_exec.statefile import MAX_DOCUMENT_BYTES, MAX_OUTCOME_BYTES, RECORD_BYTES, Condition, Unreadable

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "state-files.md").read_text()


def test_the_page_lists_every_reason_and_file_and_the_sizes() -> None:
    section = PAGE.partition("## What cannot be believed")[2]
    assert set(re.findall(r"^\| `([a-z-]+)` \| ", section, re.MULTILINE)) - {"reason"} == {reason.value for reason in Unreadable}
    assert set(re.findall(r"^\| `([a-z.]+)` \| ", PAGE, re.MULTILINE)) >= {
        statefile.STATE_NAME, statefile.LOCK_NAME, statefile.RECORD_NAME,
    }  # fmt: skip
    assert f"{RECORD_BYTES:,}".replace(",", " ") in PAGE and f"{MAX_OUTCOME_BYTES:,}".replace(",", " ") in PAGE
    assert {word for word in Condition.__members__ if word.lower() in PAGE} == set(Condition.__members__)
    assert MAX_DOCUMENT_BYTES == 1 << 20 and "at most 1 MiB" in PAGE


@pytest.mark.parametrize("page", ["state-files.md", "lifecycle.md"])
def test_the_example_runs(page: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (example,) = re.findall(r"^```python\n(.*?)^```$", (REFERENCE / page).read_text(), re.MULTILINE | re.DOTALL)
    exec(example, {"directory": tmp_path, "execution_id": "7f0c2a0e-0000-4000-8000-000000000001"})
