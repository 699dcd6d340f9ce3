"""Which files the entries of an allow-list mean, and how it is noticed that one is no longer that file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, EnvironmentPolicy, ExecutableDenied, ExecutionBroker, PolicyError
from fable_exec.executables import AllowedExecutables, is_unchanged, resolve_executables, trusted_path
from tests.doors import TOKEN, policy_for


def program(path: Path, text: str = "#!/bin/sh\necho here\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def resolved(workspace: Path) -> Iterator[Any]:
    """`resolved(*entries, path=directories)`: the allow-list looked up, closed when the test ends."""
    with ExitStack() as stack:

        def look_up(*entries: str, path: tuple[Path, ...] = (), **more: Any) -> AllowedExecutables:
            environment = EnvironmentPolicy(path=tuple(map(str, path)) or None)
            policy = BrokerPolicy(workspace=workspace, allowed_executables=entries, environment=environment, **more)
            found = resolve_executables(policy, {"PATH": "/usr/bin:/bin"})
            stack.callback(found.close)
            return found

        yield look_up


def test_the_hosts_path_counts_without_what_is_relative_missing_or_in_the_workspace(workspace: Path, tmp_path: Path) -> None:
    inside, outside = workspace / "bin", tmp_path / "bin"
    inside.mkdir()
    outside.mkdir()
    (tmp_path / "link").symlink_to(inside)
    entries = ["", ".", "bin", str(inside), str(tmp_path / "link"), str(tmp_path / "missing"), str(outside), "/bin", str(outside)]
    policy = BrokerPolicy(workspace=workspace)
    assert trusted_path(policy, {"PATH": os.pathsep.join(entries)}) == (str(outside), "/bin")
    assert trusted_path(policy, {}) == tuple(part for part in os.defpath.split(os.pathsep) if Path(part).is_dir())


def test_the_policys_path_is_taken_as_it_is(workspace: Path) -> None:
    policy = BrokerPolicy(workspace=workspace, environment=EnvironmentPolicy(path=(str(workspace), "/nowhere")))
    assert trusted_path(policy, {"PATH": "/bin"}) == (str(workspace), "/nowhere")


def test_a_bare_name_is_the_first_in_the_path_and_keeps_the_path_it_was_found_by(resolved: Any, tmp_path: Path) -> None:
    first = program(tmp_path / "one/tool")
    program(tmp_path / "two/tool")
    (tmp_path / "zero").mkdir()
    (tmp_path / "zero/tool").symlink_to(first)
    found = resolved("tool", path=(tmp_path / "zero", tmp_path / "two")).by_name["tool"]
    assert (found.registered_path, found.path, found.is_script) == (str(tmp_path / "zero/tool"), str(first), True)
    assert (found.device, found.inode) == (first.stat().st_dev, first.stat().st_ino)


def test_what_cannot_be_found_is_left_out_and_listed(resolved: Any, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("not executable")
    (tmp_path / "directory").mkdir()
    found = resolved("sh", "no-such-program", str(tmp_path / "gone"), str(tmp_path / "plain"), str(tmp_path / "directory"))
    assert (found.names, found.unresolved) == (("sh",), ("no-such-program", "gone", "plain", "directory"))


def test_what_is_missing_says_why_by_its_entry_and_its_name_and_what_is_not_listed_says_nothing(
    resolved: Any, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    found = resolved("sh", "no-such-program", gone)
    assert found.why_missing("no-such-program") == "it was not found in PATH when the broker started"
    for name in ("gone", gone):
        assert found.why_missing(name) == f"there was no executable file {gone} when the broker started"
    for name in ("sh", "rm", "./gone", "/elsewhere/gone", ""):
        assert found.why_missing(name) == ""


def test_nothing_that_can_be_found_is_a_fault_of_the_policy(resolved: Any) -> None:
    with pytest.raises(PolicyError, match="allowed_executables: none of no-such-program could be found"):
        resolved("no-such-program")
    with pytest.raises(PolicyError):
        resolved()


def test_a_program_that_only_the_workspace_offers_is_named_in_the_fault(workspace: Path) -> None:
    tool = workspace / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    with pytest.raises(PolicyError, match=f"none of tool could be found in /bin; {tool} is passed over"):
        resolve_executables(BrokerPolicy(workspace=workspace, allowed_executables=("tool",)), {"PATH": f"{workspace}:/bin"})


def test_two_files_of_one_name_are_ambiguous_and_all_faults_are_listed(resolved: Any, tmp_path: Path) -> None:
    entries = [str(program(tmp_path / directory / name)) for directory in "ab" for name in ("x", "y")]
    with pytest.raises(PolicyError) as caught:
        resolved(*entries)
    assert [(path, text.split(":")[0]) for path, text in caught.value.faults] == [
        ("allowed_executables[2]", "ambiguous"),
        ("allowed_executables[3]", "ambiguous"),
    ]


def test_two_entries_for_one_file_are_one(resolved: Any, tmp_path: Path) -> None:
    real = program(tmp_path / "real/tool")
    (tmp_path / "link").mkdir()
    (tmp_path / "link/tool").symlink_to(real)
    found = resolved(str(tmp_path / "link/tool"), str(real))
    assert found.by_name["tool"].registered_path == str(tmp_path / "link/tool")


def test_a_request_finds_a_bare_name_or_the_very_file(resolved: Any, tmp_path: Path) -> None:
    real = program(tmp_path / "real/tool-1.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").symlink_to(real)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/tool").symlink_to(real)
    stranger = program(tmp_path / "strange/tool")
    found = resolved("tool", path=(tmp_path / "bin",))
    for accepted in ("tool", str(tmp_path / "bin/tool"), str(tmp_path / "other/tool")):
        assert found.find(accepted) is found.by_name["tool"]
    for refused in ("tool-1.2", "./tool", "bin/tool", "tool/", "/tool", str(stranger), str(real), "", "TOOL"):
        assert found.find(refused) is None


@pytest.mark.requires_ability("root")
@pytest.mark.parametrize(
    ("mode", "directory_mode", "owner", "swappable"),
    [
        (0o755, 0o755, 0, False),
        (0o775, 0o755, 0, True),
        (0o757, 0o755, 0, True),
        (0o755, 0o775, 0, True),
        (0o755, 0o755, 1, True),
    ],
)
def test_a_file_that_others_could_swap_is_run_by_its_descriptor(
    resolved: Any, mode: int, directory_mode: int, owner: int, swappable: bool
) -> None:
    home = Path("/opt") / f"fable-exec-test-{os.getpid()}"
    home.mkdir()
    try:
        home.chmod(directory_mode)
        tool = home / "tool"
        shutil.copy("/bin/true", tool)
        os.chown(tool, owner, owner)
        tool.chmod(mode)
        assert resolved(str(tool)).by_name["tool"].by_descriptor is swappable
        program(home / "script").chmod(mode)
        assert resolved(str(home / "script")).by_name["script"].by_descriptor is False
    finally:
        shutil.rmtree(home)


@pytest.mark.requires_ability("confinement")
def test_a_file_of_the_workspace_is_always_run_by_its_descriptor(workspace: Path, resolved: Any) -> None:
    script = program(workspace / "tool")
    assert resolved(str(script)).by_name["tool"].by_descriptor is True
    with ExecutionBroker(policy_for(workspace, allowed_executables=(str(script),))) as broker:
        assert broker.execute_command(["tool"]).stdout == "here\n"


def test_a_swapped_file_is_refused_and_a_changed_one_where_the_digest_is_pinned(resolved: Any, tmp_path: Path) -> None:
    tool = program(tmp_path / "bin/tool")
    loose, pinned = (resolved(str(tool), pin_executable_digest=pin).by_name["tool"] for pin in (False, True))
    assert is_unchanged(loose) and is_unchanged(pinned)
    tool.write_text("#!/bin/sh\necho other\n")
    assert is_unchanged(loose) and not is_unchanged(pinned)
    os.replace(program(tmp_path / "bin/new"), tool)
    assert not is_unchanged(loose)
    tool.unlink()
    assert not is_unchanged(loose)
    tool.symlink_to("/bin/true")
    assert not is_unchanged(loose)


@pytest.mark.requires_ability("confinement")
def test_a_swapped_file_does_not_run(workspace: Path, tmp_path: Path) -> None:
    tool = program(tmp_path / "bin/tool")
    with ExecutionBroker(policy_for(workspace, allowed_executables=(str(tool),))) as broker:
        broker.unlock_writes(TOKEN)
        assert broker.execute_command(["tool"]).stdout == "here\n"
        os.replace(program(tmp_path / "bin/new", "#!/bin/sh\ntouch planted\n"), tool)
        with pytest.raises(ExecutableDenied, match="no longer the file"):
            broker.execute_command(["tool"])
    assert list(workspace.iterdir()) == []


@pytest.mark.requires_ability("confinement")
def test_a_program_sees_the_path_it_was_registered_by(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/busy").symlink_to(shutil.which("bash", path="/usr/bin:/bin") or "/bin/bash")
    with ExecutionBroker(policy_for(workspace, allowed_executables=(str(tmp_path / "bin/busy"),))) as broker:
        broker.unlock_writes(TOKEN)
        result = broker.execute_command(["busy", "-c", "echo $0"])
        assert result.stdout == f"{tmp_path}/bin/busy\n"
        assert result.command[0] == os.path.realpath(tmp_path / "bin/busy")


@pytest.mark.requires_ability("confinement")
def test_a_link_with_an_honest_name_to_a_shell_is_a_shell_while_locked(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/format").symlink_to(shutil.which("bash", path="/usr/bin:/bin") or "/bin/bash")
    policy = policy_for(workspace, allowed_executables=(str(tmp_path / "bin/format"),), locked_commands="deny")
    with ExecutionBroker(policy) as broker:
        with pytest.raises(PermissionError, match="interpreter or shell"):
            broker.execute_command(["format", "-c", "touch x"])


def test_a_number_that_is_given_to_another_file_is_not_taken_for_the_old_one(resolved: Any, tmp_path: Path) -> None:
    tool = program(tmp_path / "bin/tool")
    found = resolved(str(tool)).by_name["tool"]
    for _ in range(200):  # without the file being held its number comes back at once on most file systems
        tool.unlink()
        program(tool, "#!/bin/sh\necho other\n")
        assert not is_unchanged(found)
