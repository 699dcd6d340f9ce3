"""Which files are taken for a log, and what is said of those that are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fable_exec.audit import AuditLog
from fable_exec.errors import AuditUnavailable


def test_a_file_that_others_could_have_prepared_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "target").touch(mode=0o600)
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "directory").mkdir()
    os.link(tmp_path / "target", tmp_path / "hard")
    for name in ("open", "link", "fifo", "directory", "hard", "gone/log", "n\0l"):
        with pytest.raises(AuditUnavailable) as caught:
            AuditLog(tmp_path / name, on_failure="continue")
        assert isinstance(caught.value, OSError)
        assert caught.value.errno
    assert (tmp_path / "target").read_bytes() == b""


@pytest.mark.requires_ability("root")
def test_a_file_of_another_user_is_refused(path: Path) -> None:
    path.touch(mode=0o600)
    os.chown(path, 12345, 12345)
    with pytest.raises(AuditUnavailable, match="another user"):
        AuditLog(path)


@pytest.mark.parametrize("content", [b"notes\n", b"notes", b'{"a":1}\n', b"\n", b"x" * 200_000, b'{"sequence":2,'])
def test_a_file_that_is_no_audit_log_is_left_alone(content: bytes, path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(AuditUnavailable, match="does not end like an audit log"):
        AuditLog(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gone/log", "No such file or directory; make its directory, or name a file elsewhere"),
        ("file/log", "Not a directory; what should be its directory is none; name a file elsewhere"),
        ("directory", "Is a directory; name a file in it"),
        ("link", "a symbolic link is not followed; name the file itself"),
        ("fifo", "it is not a regular file; name another one"),
        ("open", "others may open it; its mode must be 0600"),
        ("file", "the file does not end like an audit log; look at it and move it away"),
    ],
)
def test_a_log_that_cannot_be_begun_is_told_with_its_path_and_what_to_do(place: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o600)
    (tmp_path / "file").write_text("notes\n")
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(AuditUnavailable) as caught:
        AuditLog(tmp_path / place)
    assert str(caught.value).startswith(f"the audit log '{tmp_path / place}' cannot be used: ")
    assert str(caught.value).endswith(words)


@pytest.mark.requires_ability("ordinary_user")
def test_a_log_where_this_user_may_not_write_is_told_with_its_path(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(AuditUnavailable, match=r"'.*/closed/log' cannot be used: .*; name a file where this user may write"):
        AuditLog(closed / "log")


def test_the_path_in_a_message_is_bounded_and_addresses_no_terminal(tmp_path: Path) -> None:
    for name in ("\x1b]0;x\x07\n", "n\0l", "/".join(["x" * 200] * 15)):
        with pytest.raises(AuditUnavailable) as caught:
            AuditLog(tmp_path / "gone" / name)
        assert str(caught.value).isprintable() and len(str(caught.value)) < 600
