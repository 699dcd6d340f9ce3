"""`fable-exec supervise start --boundary --provider` as it is typed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.supervising import ended, supervise
from tests.cli.typed import started, the_object
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")


@pytest.fixture
def bounded(tmp_path: Path) -> tuple[Path, Path]:
    """A boundary's file, and a workspace in it. It has a claude that is logged in where a file says so."""
    place = tmp_path.resolve()
    for name in ("projects/ws/one", "tools"):
        (place / name).mkdir(parents=True)
    claude = place / "tools/claude"
    claude.write_text(
        f'#!/bin/sh\n[ $1 = auth ] || exec echo \'{{"is_error": false, "result": "OK"}}\'\n'
        f"[ -e {place}/tools/slow ] && sleep 1\n"
        f'[ -e {place}/tools/in ] && echo \'{{"loggedIn": true}}\' || echo \'{{"loggedIn": false, "key": "sk-marker"}}\'\n'
    )
    claude.chmod(0o755)
    system = dict.fromkeys(str(Path(each).resolve()) for each in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"))
    file = place / "boundary.toml"
    file.write_text(
        f'workspace_roots = ["{place}/projects/ws"]\nprotected_root = "{place}/projects"\n'
        f'runtime_read_paths = ["{place}/tools"]\nchild_path = {json.dumps([f"{place}/tools", *system])}\n'
    )
    return file, place / "projects/ws/one"


def test_a_job_runs_within_a_boundary_if_its_provider_is_ready(root: Path, bounded: tuple[Path, Path]) -> None:
    file, workspace = bounded
    flags = ("--workspace", str(workspace), "--boundary", str(file), "--provider", "claude")
    word, action = "provider_auth_unavailable_in_confinement", "Run `claude auth login`"
    refused = supervise("start", root, *flags, "--", "true")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert f"provider claude: {word}. {action}" in refused.stderr.decode()
    told = the_object(supervise("start", root, "--json", *flags, "--", "true"))
    assert (told["ok"], told["code"], told["message"].partition(". ")[0]) == (
        False,
        "provider-unavailable",
        f"provider claude: {word}",
    )
    assert b"sk-marker" not in refused.stderr and "sk-marker" not in json.dumps(told)
    assert supervise("start", root, "--foreground", *flags, "--", "true").returncode == 125
    assert not root.exists()

    (file.parent / "tools/in").touch()
    state = ended(root, the_object(supervise("start", root, "--json", *flags, "--", "true"))["execution_id"])
    assert (state["termination_reason"], state["provider"], state["boundary"]["kind"]) == ("completed", "claude", "linux-kernel")
    shown = supervise("show", root, state["execution_id"]).stdout.decode()
    assert f"\nboundary      linux-kernel, {state['boundary']['config_sha256']}\n" in shown
    assert "\nprovider      claude\n" in shown


def test_a_boundary_with_faults_and_a_workspace_out_of_it_are_wrong_usage(root: Path, bounded: tuple[Path, Path]) -> None:
    file, workspace = bounded
    whose = ("--boundary", str(file), "--workspace")
    out_of_it = supervise("start", root, *whose, str(workspace.parent), "--", "true")
    unknown = supervise("start", root, *whose, str(workspace), "--provider", "gemini", "--", "true")
    file.write_text("workspace_roots = []\n")
    faulty = supervise("start", root, *whose, str(workspace), "--", "true")
    assert [each.returncode for each in (out_of_it, unknown, faulty)] == [2, 2, 2]
    assert b"--workspace: must lie inside one of workspace_roots" in out_of_it.stderr
    assert b"no provider is called 'gemini'" in unknown.stderr
    assert b"protected_root: is required" in faulty.stderr
    assert not root.exists()


def test_a_signal_while_the_provider_is_asked_keeps_it_from_being_accepted(root: Path, bounded: tuple[Path, Path]) -> None:
    file, workspace = bounded
    for name in ("in", "slow"):
        (file.parent / "tools" / name).touch()
    flags = ("--workspace", str(workspace), "--boundary", str(file), "--provider", "claude", "--foreground", "--json")
    process = started("supervise", "start", "--root", str(root), *flags, "--", "touch", "ran")
    until(lambda: any(workspace.parent.glob(".fable-exec-probe-*")))
    process.send_signal(signal.SIGTERM)
    output, words = process.communicate(timeout=30)
    assert (process.returncode, output) == (143, b""), words
    assert b"interrupted while the provider was asked: nothing was accepted" in words
    assert not root.exists()
    assert [path.name for path in workspace.parent.iterdir()] == ["one"]
