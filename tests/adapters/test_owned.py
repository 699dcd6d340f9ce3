"""What a sandbox of any framework owns: its document, its broker, and the directory that goes with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fable_exec import PolicyError
from fable_exec.adapters.owned import overlaid, owned_document, remove_directory, unlocked_broker
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.testing.leaks import nothing_left


@pytest.mark.parametrize("field", ["workspace", "write_token_digest"])
def test_a_document_may_not_say_what_is_the_sandboxs_own(field: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(f'{field} = "x"\n')
    for given in ({field: "x"}, tmp_path / "policy.toml"):
        with pytest.raises(PolicyError, match=field):
            owned_document(given)
    assert owned_document(None) == {}


def test_what_is_given_takes_the_place_of_a_default_table_by_table() -> None:
    defaults = {"a": {"b": 1, "c": 2}, "d": 3}
    assert overlaid(defaults, {"a": {"b": 4, "e": 5}, "f": None}) == {"a": {"b": 4, "c": 2, "e": 5}, "d": 3, "f": None}
    assert overlaid(defaults, {"a": None, "d": {"g": 6}}) == {"a": {"b": 1, "c": 2}, "d": {"g": 6}}
    assert defaults == {"a": {"b": 1, "c": 2}, "d": 3}


def test_a_broker_that_is_made_for_a_sandbox_may_write(workspace: Path) -> None:
    async def act() -> None:
        broker = await unlocked_broker({}, str(workspace))
        try:
            await broker.write_file("file", b"written")
        finally:
            await broker.close()

    with nothing_left():
        asyncio.run(act())
    assert (workspace / "file").read_bytes() == b"written"


@pytest.mark.requires_ability("confinement")
def test_a_broker_whose_writes_cannot_be_unlocked_is_closed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    async def fails(broker: AsyncExecutionBroker, token: str) -> None:
        made.append(broker)
        await broker.execute_command(["true"])
        raise OSError("no")

    monkeypatch.setattr(AsyncExecutionBroker, "unlock_writes", fails)
    with nothing_left(), pytest.raises(OSError, match="no"):
        asyncio.run(unlocked_broker({"allowed_executables": ["true"]}, str(workspace)))
    assert len(made) == 1


def test_a_directory_is_removed_with_what_took_its_own_rights_away_and_through_no_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "closed" / "deep").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").touch()
    (root / "link").symlink_to(outside)
    (root / "closed").chmod(0)
    remove_directory(str(root))
    assert not root.exists() and (outside / "kept").exists()
