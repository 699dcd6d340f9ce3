"""What was planted is kept where a person can look at it, in bounds, and in no case left where it would run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement, ExecutionBroker
from fable_exec.laterfiles import carrying, contents_of, quarantine, standard_place
from fable_exec.laterfiles.names import Kind, LaterFile
from fable_exec.policy import Protections
from tests import hosts
from tests.laterfiles.conftest import PINNING, Guarded

_PLAIN = pytest.param("plain", marks=pytest.mark.requires_ability("linux"))
_DEGRADABLE: dict[str, Any] = dict.fromkeys(
    ("workspace_writes", "host_writes", "host_reads", "network", "host_sockets", "whole_tree_end", "kernel_surface"), "degradable"
)
_as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")


def policy_for(workspace: Path, mode: Any) -> BrokerPolicy:
    return BrokerPolicy(
        workspace=workspace,
        allowed_executables=("sh",),
        write_token_digest=hashlib.sha256(b"token").hexdigest(),
        confinement=Confinement(protections=Protections(**_DEGRADABLE)),
        launch=mode,
    )


@pytest.mark.parametrize("mode", [*PINNING, _PLAIN])
def test_what_was_planted_outlives_the_broker_and_its_place_is_told(mode: Any, workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace, mode)) as broker:
        broker.unlock_writes("token")
        result = broker.execute_command(["sh", "-c", "mkdir -p a/.vscode; echo x > a/.vscode/tasks.json"])
    (denial,) = result.denials
    assert denial.operation == "plant editor-tasks"
    found = re.fullmatch(r"quarantined: would run later; kept as (/\S+)", denial.suggestion)
    assert found is not None, denial.suggestion
    kept = Path(found[1])
    assert kept.is_relative_to(standard_place(str(workspace)))
    assert (kept / "tasks.json").read_text() == "x\n"
    about = json.loads((kept.parent / "about.json").read_text())
    assert (about["workspace"], about["path"], about["kind"]) == (str(workspace), "a/.vscode", "editor-tasks")
    assert not (workspace / "a/.vscode").exists()


def test_nothing_that_was_planted_is_lost(guarded: Guarded) -> None:
    _, found = guarded.command(
        "echo one > .envrc; git init -q r; git -C r config core.pager evil; mkdir .idea; echo two > .idea/x"
    )
    kept = {each.path: Path(each.kept) for each in found}
    assert kept[".envrc"].read_text() == "one\n"
    assert (kept[".idea"] / "x").read_text() == "two\n"
    assert "evil" in kept["r/.git/config"].read_text()
    assert [stat.S_IMODE(place.stat().st_mode) for place in (guarded.quarantine, *guarded.quarantine.iterdir())] == [0o700] * 4


@pytest.mark.parametrize("mask", ["0", "022", "077", "0777"])
def test_it_and_what_is_missing_above_it_are_the_users_alone_whatever_the_umask(
    mask: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
    from fable_exec import ExecutionBroker
    from tests.laterfiles.test_quarantine import policy_for
    os.umask(int(sys.argv[2], 8))
    with ExecutionBroker(policy_for(Path(sys.argv[1]), "auto")) as broker:
        broker.unlock_writes("token")
        script = "mkdir -p a/.vscode; echo x > a/.vscode/tasks.json; echo y > .envrc"
        answer([each.suggestion for each in broker.execute_command(["sh", "-c", script]).denials])
    """
    state = tmp_path / "home" / "user" / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    suggestions = hosts.answer_of(program, str(workspace), mask)
    assert len(suggestions) == 2 and all("kept as" in each for each in suggestions)
    made = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made if "planted" not in path.parts}
    assert {modes[path] for path in modes if path.is_dir()} == {0o700}
    assert {modes[path] for path in modes if not path.is_dir()} == {0o600}
    assert len([path for path in made if path.name == "planted"]) == 2


def test_the_mode_of_a_directory_that_was_there_is_left_alone(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    (tmp_path / "state").chmod(0o755)
    quarantine.Quarantine(str(tmp_path / "state" / "fable-exec" / "quarantine"), str(workspace)).keep_copy(
        LaterFile((".envrc",), Kind.SHELL_STARTUP, False), "why", b"x"
    )
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "state" / "fable-exec").stat().st_mode) == 0o700


def test_two_sentries_share_a_quarantine_without_overwriting(workspace: Path, make_guarded: Callable[..., Guarded]) -> None:
    first, second = make_guarded(None), make_guarded(None)
    assert first.planted("echo 1 > .envrc") == {".envrc": "quarantined"}
    assert second.planted("echo 2 > .envrc") == {".envrc": "quarantined"}
    assert sorted(each.read_text() for each in first.quarantine.glob("*/planted")) == ["1\n", "2\n"]


def test_names_that_a_command_chose_are_no_names_here(swept: Guarded) -> None:
    assert len(swept.planted("mkdir -p $'\\033[31m\\n'; echo x > $'\\033[31m\\n/.envrc '; echo y > .ENVRC")) == 2
    (first, second) = (json.loads(each.read_text()) for each in sorted(swept.quarantine.glob("*/about.json")))
    assert {first["path"], second["path"]} == {"\033[31m\n/.envrc ", ".ENVRC"}
    for item in swept.quarantine.iterdir():
        assert re.fullmatch(r"\d{8}T\d{6}\.\d{9}Z-[0-9a-f]{8}", item.name)
        assert sorted(os.listdir(item)) == ["about.json", "planted"]


# Bounds


def test_the_oldest_items_go_first_when_there_are_too_many(swept: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "MAX_ITEMS", 3)
    for number in range(5):
        swept.planted(f"echo {number} > .envrc")
    assert sorted(each.read_text() for each in swept.quarantine.glob("*/planted")) == ["2\n", "3\n", "4\n"]


def test_the_oldest_items_go_first_when_they_are_too_large(swept: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "MAX_BYTES", 500_000)
    swept.planted("mkdir -p .idea/a/b; ln -s / .idea/a/root; head -c 200000 /dev/urandom > .idea/a/b/c; chmod 0 .idea/a/b")
    for _ in range(2):
        swept.planted("head -c 200000 /dev/urandom > .envrc")
    assert len(list(swept.quarantine.iterdir())) == 2
    assert contents_of(str(swept.quarantine)).size_bytes <= 500_000
    assert Path("/etc/passwd").exists()
    swept.planted("head -c 900000 /dev/urandom > .envrc")
    (newest,) = swept.quarantine.glob("*/planted")
    assert newest.stat().st_size == 900_000, "the newest one is kept whatever its size"


def test_an_item_whose_record_was_cut_off_counts_all_the_same(swept: Guarded) -> None:
    swept.planted("head -c 200000 /dev/urandom > .envrc")
    (about,) = swept.quarantine.glob("*/about.json")
    about.write_text("{")
    found = contents_of(str(swept.quarantine))
    assert found.items == 1 and 200_000 <= found.size_bytes <= 300_000


# Another file system


@pytest.fixture
def elsewhere(workspace: Path) -> Iterator[Path]:
    """A directory on another file system than the workspace."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or os.stat(memory).st_dev == os.stat(workspace).st_dev:
        pytest.skip("no second file system at /dev/shm")
    place = memory / f"fable-exec-test-{os.getpid()}-{workspace.parent.name}"
    place.mkdir(mode=0o700)
    yield place
    for directory, directories, names in os.walk(place, topdown=False):
        for name in names:
            os.unlink(os.path.join(directory, name))
        for name in directories:
            link = os.path.join(directory, name)
            os.unlink(link) if os.path.islink(link) else os.rmdir(link)
    place.rmdir()


TREE = "mkdir -p .vscode/a; echo x > .vscode/a/t; ln -s /etc .vscode/l; mkfifo .vscode/p; : > .vscode/e"


def test_a_quarantine_on_another_file_system_gets_a_copy(guarded: Guarded, elsewhere: Path) -> None:
    guarded.quarantine = elsewhere / "quarantine"
    script = f"{TREE}; git init -q r; echo y > r/.git/hooks/update; ln -s nowhere .profile; mkfifo .envrc"
    _, found = guarded.command(script)
    assert {each.path: each.done for each in found} == dict.fromkeys(
        (".vscode", "r/.git/hooks/update", ".profile", ".envrc"), "quarantined"
    )
    kept = {each.path: Path(each.kept) for each in found}
    assert (kept[".vscode"] / "a/t").read_text() == "x\n"
    assert os.readlink(kept[".vscode"] / "l") == "/etc"
    assert stat.S_ISFIFO((kept[".vscode"] / "p").lstat().st_mode)
    assert kept["r/.git/hooks/update"].read_text() == "y\n"
    assert os.readlink(kept[".profile"]) == "nowhere"
    assert not guarded.host("find . -name '*quarantined*' -o -name .vscode -o -name update -o -name .envrc")
    assert guarded.planted("true") == {}


TOO_MUCH = {
    "bytes": "mkdir .vscode; head -c 300000 /dev/zero > .vscode/t",
    "entries": "mkdir .vscode; touch .vscode/{1..50}",
    "depth": "mkdir -p .vscode/$(printf 'd/%.0s' {1..70})",
}


@pytest.mark.parametrize("script", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_what_is_too_large_to_be_copied_stays_under_a_harmless_name(
    swept: Guarded, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(carrying, "MAX_BYTES", 200_000)
    monkeypatch.setattr(carrying, "_MAX_ENTRIES", 40 if "touch" in script else 100)
    swept.quarantine = elsewhere / "quarantine"
    _, (found,) = swept.command(script)
    assert found.done == "renamed" and found.kept.startswith(f"{swept.path}/.vscode.") and found.kept.endswith(".sample")
    assert Path(found.kept).is_dir() and not swept.exists(".vscode")
    assert list((elsewhere / "quarantine").iterdir()) == []
    assert swept.planted("true") == {}


# A quarantine that cannot be had


def broken_by_file(place: Path) -> None:
    place.write_text("")


def broken_by_link(place: Path) -> None:
    (place.parent / "target").mkdir()
    place.symlink_to("target")


def broken_by_owner(place: Path) -> None:
    place.mkdir()
    os.chown(place, 65534, 65534)


@pytest.mark.parametrize("breaking", [broken_by_file, broken_by_link, pytest.param(broken_by_owner, marks=_as_root)])
def test_without_a_quarantine_nothing_is_left_where_it_would_run(guarded: Guarded, breaking: Callable[[Path], None]) -> None:
    _ = guarded.sentry
    breaking(guarded.quarantine)
    found = guarded.planted("echo x > .envrc; git init -q r; echo x > r/.git/hooks/update; git -C r config core.pager evil")
    assert found == {".envrc": "renamed", "r/.git/hooks/update": "renamed", "r/.git/config": "renamed"}
    assert len(guarded.host("find . -name '*.quarantined.sample'").splitlines()) == 3
    assert not (guarded.quarantine.parent / "target").exists() or not os.listdir(guarded.quarantine.parent / "target")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_quarantine_that_may_not_be_made_is_none(swept: Guarded) -> None:
    _ = swept.sentry
    swept.quarantine.parent.chmod(0o500)
    try:
        assert swept.planted("echo x > .envrc; mkdir .idea; chmod 0 .idea") == {".envrc": "renamed", ".idea": "renamed"}
    finally:
        swept.quarantine.parent.chmod(0o700)


def test_a_quarantine_inside_the_workspace_is_refused(workspace: Path, make_guarded: Callable[..., Guarded]) -> None:
    guarded = make_guarded(None)
    guarded.quarantine = workspace / "q"
    with pytest.raises(ValueError, match="outside the workspace"):
        _ = guarded.sentry


# Where it is


def test_the_place_is_the_users_state_directory(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert standard_place(str(workspace)) == str(tmp_path / "state/fable-exec/quarantine")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert standard_place(str(workspace)) == str(home / ".local/state/fable-exec/quarantine")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert standard_place(str(home)) == f"/var/tmp/fable-exec-{os.geteuid()}/quarantine", "a home that is the workspace"
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert standard_place(str(workspace)).startswith("/var/tmp/")
    assert list(tmp_path.rglob("quarantine")) == [], "nothing is made before it is needed"
