"""The doors of the other platforms: the same names, the layouts of macOS, and what ps says."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from types import ModuleType

import pytest

from fable_exec._sys import darwin_processes, linux_processes, processes, windows_processes
from fable_exec.errors import IdentityLost
from fable_exec.procident import BirthToken, TokenKind
from fable_exec.procident.ps import birth_by_ps, read_answer


@pytest.mark.parametrize("platform", [linux_processes, darwin_processes, windows_processes])
def test_every_platform_has_the_same_names(platform: ModuleType) -> None:
    assert [name for name in processes.__all__ if not hasattr(platform, name)] == []


@pytest.mark.parametrize(
    ("structure", "size", "offsets"),
    [
        (
            darwin_processes.BsdInfo,
            136,
            {"status": 4, "pid": 12, "parent": 16, "command": 48, "name": 64, "group": 100, "nice": 116, "start_seconds": 120},
        ),
        (darwin_processes.BsdInfo, 136, {"start_microseconds": 128}),
        (
            darwin_processes.ShortBsdInfo,
            64,
            {"pid": 0, "parent": 4, "group": 8, "status": 12, "flags": 32, "ids": 36},
        ),
        (darwin_processes.UniqueInfo, 56, {"unique_id": 16, "parent_unique_id": 24, "version": 32, "parent_version": 36}),
    ],
)
def test_the_structures_of_macos_are_laid_out_as_there(
    structure: type[ctypes.Structure], size: int, offsets: dict[str, int]
) -> None:
    """bsd/sys/proc_info.h and proc_info_private.h of XNU."""
    assert ctypes.sizeof(structure) == size
    assert {name: getattr(structure, name).offset for name in offsets} == offsets


def test_an_answer_of_another_size_is_none() -> None:
    info = darwin_processes.UniqueInfo()
    darwin_processes.require_whole(info, 56, 0)
    for written, number, expected in ((0, errno.ESRCH, errno.ESRCH), (-1, errno.EPERM, errno.EPERM), (0, 0, errno.ESRCH)):
        with pytest.raises(OSError) as caught:
            darwin_processes.require_whole(info, written, number)
        assert caught.value.errno == expected
    for written in (52, 64):
        with pytest.raises(OSError) as caught:
            darwin_processes.require_whole(info, written, 0)
        assert caught.value.errno == errno.ENOSYS


def test_an_answer_about_another_or_a_zombie_is_about_nobody() -> None:
    for kind in (darwin_processes.BsdInfo, darwin_processes.ShortBsdInfo):
        living = kind(pid=4711, status=2)
        darwin_processes.require_living(living, 4711)
        for info, pid in ((living, 4712), (kind(pid=4711, status=5), 4711), (kind(), 4711)):
            with pytest.raises(ProcessLookupError):
                darwin_processes.require_living(info, pid)


@pytest.mark.skipif(sys.platform == "darwin", reason="it has no process descriptors, and says so")
def test_the_descriptor_calls_of_macos_and_windows_are_missing_and_say_so() -> None:
    for module in (darwin_processes, windows_processes):
        for act in (
            lambda module=module: module.open_process(1),
            lambda module=module: module.has_ended(0),
            lambda module=module: module.signal_process(0, 0),
            lambda module=module: module.signal_process_group(0, 0),
            lambda module=module: module.is_child(1),
            lambda module=module: module.time_namespace(),
        ):
            with pytest.raises(OSError) as caught:
                act()
            assert caught.value.errno == errno.ENOSYS


@pytest.mark.requires_ability("ps")
def test_ps_says_the_same_of_a_living_process_each_time_and_nothing_of_others() -> None:
    token = birth_by_ps(os.getpid())
    assert token and token == birth_by_ps(os.getpid())
    assert token.kind is TokenKind.PS and not token.may_authorise
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(IdentityLost, match="zombie") as caught:
            birth_by_ps(process.pid)
        assert caught.value.gone
    assert birth_by_ps(process.pid) is None


def test_without_ps_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fable_exec.procident.ps._ENVIRONMENT", {"PATH": "/nowhere"})
    assert birth_by_ps(os.getpid()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S    Mon Nov 30 03:28:25 2026\n", "ps:Mon Nov 30 03:28:25 2026"),
        ("Ss+  Tue Dec  1 03:28:25 2026    \n", "ps:Tue Dec  1 03:28:25 2026"),
        ("", None),
        ("\n", None),
        ("S\n", None),
        ("S Mon\nS Tue\n", None),
        ("S Lun 30 d\ufffdc\n", None),
    ],
)
def test_what_ps_wrote_is_a_token_or_nothing(text: str, expected: str | None) -> None:
    assert read_answer(4711, text) == (None if expected is None else BirthToken.parse(expected))
