"""The admin's channels: an inherited descriptor, a private file, a local socket."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import ExecutionBroker, PolicyError
from fable_exec.admin import command_file, open_channels, sockets
from fable_exec.admin.control import AdminControl
from fable_exec.admin.descriptor import DescriptorChannel
from tests.doors import TOKEN
from tests.waiting import until

UNLOCK = json.dumps({"action": "unlock_writes", "token": TOKEN}).encode()
LOCK = b'{"action": "lock_writes"}'
WRONG = json.dumps({"action": "unlock_writes", "token": "wrong"}).encode()


@contextmanager
def listening(broker: ExecutionBroker, **where: Any) -> Iterator[list[int]]:
    ended: list[int] = []
    with open_channels(broker, lambda: ended.append(1), **where):
        yield ended


# Descriptor


def test_a_pipe_is_one_way_and_its_errors_go_to_standard_error(broker: ExecutionBroker, capfd: Any) -> None:
    read, write = os.pipe()
    with listening(broker, descriptor=read):
        os.write(write, WRONG + b"\n\nnonsense\n" + UNLOCK[:10])
        os.write(write, UNLOCK[10:] + b"\n")
        assert until(lambda: broker.writes_enabled)
        os.close(write)
        assert until(lambda: capfd.readouterr().err == "", 0.2)
    assert broker.writes_enabled  # its end is harmless


def test_what_a_pipe_complains_about_is_one_line_each_without_the_token(broker: ExecutionBroker, capfd: Any) -> None:
    read, write = os.pipe()
    with listening(broker, descriptor=read):
        os.write(write, WRONG + b"\n" + b"x" * 70_000 + b"\n" + UNLOCK)
        os.close(write)  # the last line needs no newline
        assert until(lambda: broker.writes_enabled)
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["admin control error"] * 2
    assert "invalid write authorization" in lines[0]
    assert "too long" in lines[1]


def test_a_command_that_another_took_first_is_not_the_end_of_the_channel(broker: ExecutionBroker) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)  # as the event loop of a parent does that shares it
    channel = DescriptorChannel(read, AdminControl(broker, lambda: None))
    channel.ready(read)  # poll(2) had called it readable, and it is empty again
    assert list(channel.watched()) == [read]
    os.write(write, UNLOCK + b"\n")
    channel.ready(read)
    assert broker.writes_enabled
    channel.close()
    os.close(write)


def test_a_socket_descriptor_is_answered(broker: ExecutionBroker) -> None:
    ours, theirs = socket.socketpair()
    with ours, listening(broker, descriptor=theirs.detach()):
        for line, answer in ((WRONG, False), (UNLOCK, True), (LOCK, True)):
            ours.sendall(line + b"\n")
            assert json.loads(ours.recv(4096))["ok"] is answer
        ours.shutdown(socket.SHUT_WR)
    assert not broker.writes_enabled


def test_an_admin_who_never_reads_his_answers_does_no_harm(broker: ExecutionBroker) -> None:
    ours, theirs = socket.socketpair()
    with ours, listening(broker, descriptor=theirs.detach()):
        for _ in range(5000):
            ours.sendall(LOCK + b"\n")
        ours.sendall(UNLOCK + b"\n")
        assert until(lambda: broker.writes_enabled)


@pytest.mark.parametrize("descriptor", [-1, 0, 1, 2, 999, 2**31, 2**80])
def test_a_descriptor_that_is_none_or_the_models_is_refused(broker: ExecutionBroker, descriptor: int) -> None:
    with pytest.raises(PolicyError):
        with listening(broker, descriptor=descriptor):
            pass


def test_a_channel_that_is_refused_takes_those_before_it_with_it(broker: ExecutionBroker, place: Path) -> None:
    ours, theirs = socket.socketpair()
    given = theirs.detach()
    with ours:
        with pytest.raises(PolicyError), listening(broker, descriptor=given, file=broker.policy.workspace / "file"):
            pass
        assert ours.recv(1) == b""  # closed, with its copy
    with pytest.raises(OSError):
        os.fstat(given)


@pytest.mark.requires_ability("confinement")
def test_commands_do_not_inherit_the_descriptor(broker: ExecutionBroker) -> None:
    read, write = os.pipe()
    os.set_inheritable(read, True)
    with listening(broker, descriptor=read):
        broker.unlock_writes(TOKEN)
        program = "import os; print([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 3])"
        assert broker.execute_command(["python3", "-c", program]).stdout == "[]\n"
        os.close(write)


# File


def leave(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write it elsewhere and rename it into place, as the admin should."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.chmod(mode)
    new.rename(path)


def test_a_file_is_read_done_and_removed(broker: ExecutionBroker, place: Path) -> None:
    path = place / "commands"
    with listening(broker, file=path):
        leave(path, LOCK + b"\n\n" + UNLOCK + b"\n")
        assert until(lambda: broker.writes_enabled)
        assert until(lambda: not path.exists())
        leave(path, LOCK)
        assert until(lambda: not broker.writes_enabled)
        leave(path, b"")
        assert until(lambda: not path.exists())


def test_a_file_that_is_still_being_written_is_waited_for(
    broker: ExecutionBroker, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_file, "_UNFINISHED_SECONDS", 30.0)  # a busy machine may stop us between both halves
    path = place / "commands"
    with listening(broker, file=path):
        for _ in range(20):
            broker.lock_writes()
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            os.write(descriptor, UNLOCK[:20])
            os.write(descriptor, UNLOCK[20:] + b"\n")
            os.close(descriptor)
            assert until(lambda: broker.writes_enabled)
            assert until(lambda: not path.exists())


def test_errors_of_a_file_go_to_standard_error(broker: ExecutionBroker, place: Path, capfd: Any) -> None:
    path = place / "commands"
    with listening(broker, file=path):
        leave(path, WRONG + b"\nnonsense\n" + UNLOCK)
        assert until(lambda: not path.exists())
    assert capfd.readouterr().err.count("admin control error: ") == 2
    assert broker.writes_enabled


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602, 0o660, 0o700])
def test_a_file_that_is_not_private_is_left_alone_and_told_of_once(
    broker: ExecutionBroker, place: Path, mode: int, capfd: Any
) -> None:
    path = place / "commands"
    with listening(broker, file=path):
        leave(path, UNLOCK, mode)
        told = []
        assert until(lambda: told.append(capfd.readouterr().err) or "mode must be 0600" in "".join(told))
        time.sleep(0.1)
    assert capfd.readouterr().err == ""
    assert path.exists()
    assert not broker.writes_enabled


def test_a_file_that_becomes_private_later_is_taken_then(broker: ExecutionBroker, place: Path, capfd: Any) -> None:
    # Who writes and then changes the mode is sometimes looked at in between.
    path = place / "commands"
    with listening(broker, file=path):
        leave(path, UNLOCK, 0o644)
        told: list[str] = []
        assert until(lambda: told.append(capfd.readouterr().err) or "mode must be 0600" in "".join(told))
        assert not broker.writes_enabled
        path.chmod(0o600)
        assert until(lambda: not path.exists())
    assert broker.writes_enabled


def test_a_link_a_fifo_a_second_name_or_a_directory_is_left_alone(broker: ExecutionBroker, place: Path, capfd: Any) -> None:
    real = place / "real"
    real.write_bytes(UNLOCK)
    real.chmod(0o600)
    for number, plant in enumerate(
        (
            lambda path: path.symlink_to(real),
            lambda path: os.mkfifo(path, 0o600),
            lambda path: os.link(real, path),
            lambda path: path.mkdir(0o600),
        )
    ):
        path = place / f"commands-{number}"
        plant(path)
        with listening(broker, file=path):
            told = []
            assert until(lambda told=told: told.append(capfd.readouterr().err) or "admin's file" in "".join(told))
        assert path.is_symlink() or path.exists()
    assert not broker.writes_enabled


@pytest.mark.requires_ability("root")
def test_a_file_of_another_user_is_left_alone(broker: ExecutionBroker, place: Path, capfd: Any) -> None:
    path = place / "commands"
    path.write_bytes(UNLOCK)
    path.chmod(0o600)
    os.chown(path, 12345, 12345)
    with listening(broker, file=path):
        told = []
        assert until(lambda: told.append(capfd.readouterr().err) or "another user" in "".join(told))
    assert path.exists()
    assert not broker.writes_enabled


def test_a_file_in_the_workspace_or_nowhere_is_refused(broker: ExecutionBroker, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(workspace)
    for path in (workspace / "commands", tmp_path / "link/commands", tmp_path / "missing/commands"):
        with pytest.raises(PolicyError):
            with listening(broker, file=path):
                pass


# Socket


def said(address: Any, message: bytes, *, end: bool = False) -> bytes:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.connect(address)  # with a time limit it would not wait for room in the queue (unix(7), EAGAIN)
        connection.settimeout(10)
        connection.sendall(message)
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        return answer


@pytest.fixture(params=["unix", "port"])
def address(request: pytest.FixtureRequest, broker: ExecutionBroker, place: Path, capfd: Any) -> Iterator[Any]:
    """Where the admin's socket listens."""
    with ExitStack() as stack:
        if request.param == "unix":
            stack.enter_context(listening(broker, socket=str(place / "socket")))
            yield str(place / "socket")
        else:
            stack.enter_context(listening(broker, socket="127.0.0.1:0"))
            word, _, port = capfd.readouterr().err.strip().partition("=")
            assert word == "ADMIN_PORT"
            yield ("127.0.0.1", int(port))


def test_a_connection_carries_one_message_and_its_answer(broker: ExecutionBroker, address: Any) -> None:
    assert said(address, UNLOCK + b"\n") == b'{"ok": true}\n'
    assert broker.writes_enabled
    assert said(address, LOCK) == b'{"ok": true}\n'  # no newline, and the connection stays open for the answer
    assert not broker.writes_enabled
    assert said(address, UNLOCK, end=True) == b'{"ok": true}\n'
    answer = json.loads(said(address, WRONG + b"\n" + LOCK + b"\n"))
    assert (answer["ok"], answer["error"]) == (False, "invalid write authorization")
    assert broker.writes_enabled  # the second message was not looked at


def test_a_message_may_come_in_pieces_and_nonsense_is_answered(broker: ExecutionBroker, address: Any) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as slow:
        slow.connect(address)
        for byte in UNLOCK:
            slow.sendall(bytes([byte]))
        assert slow.recv(4096) == b'{"ok": true}\n'
    assert json.loads(said(address, b"nonsense\n"))["ok"] is False
    assert said(address, b"", end=True) == b""
    assert broker.writes_enabled


def test_a_message_without_end_is_cut_off_and_the_next_is_heard(broker: ExecutionBroker, address: Any) -> None:
    with pytest.raises(OSError):
        while True:
            said(address, b"x" * 1_000_000)
            raise ConnectionResetError  # it may also have been answered in time
    assert said(address, UNLOCK + b"\n") == b'{"ok": true}\n'


def test_those_who_say_nothing_keep_nobody_out(broker: ExecutionBroker, address: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "PATIENCE_SECONDS", 1.0)
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with ExitStack() as stack:
        for _ in range(20):
            silent = stack.enter_context(socket.socket(family))
            silent.connect(address)
        assert said(address, UNLOCK + b"\n") == b'{"ok": true}\n'


def test_a_unix_socket_is_for_this_user_and_goes_away_with_the_broker(broker: ExecutionBroker, place: Path) -> None:
    path = place / "socket"
    with listening(broker, socket=str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


@pytest.mark.requires_ability("root")
def test_another_user_may_not_command_even_if_he_can_connect(broker: ExecutionBroker) -> None:
    place = Path(tempfile.mkdtemp(prefix="fable-exec-test-"))  # not below tmp_path, which others may not enter
    path = place / "socket"
    place.chmod(0o755)
    program = (
        "import os, socket, sys; os.setgroups([]); os.setgid(12345); os.setuid(12345);"
        " s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(4096).decode())"
    )
    with listening(broker, socket=str(path)):
        path.chmod(0o666)
        done = subprocess.run([sys.executable, "-S", "-c", program, str(path)], capture_output=True, text=True, timeout=20)
    place.rmdir()
    assert json.loads(done.stdout)["error"] == "another user may not command", done.stderr
    assert not broker.writes_enabled


def test_a_stale_socket_is_replaced_and_a_living_one_is_not(broker: ExecutionBroker, place: Path) -> None:
    path = place / "socket"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with listening(broker, socket=str(path)):
        assert said(str(path), LOCK) == b'{"ok": true}\n'
        with pytest.raises(PolicyError):
            with listening(broker, socket=str(path)):
                pass
        assert said(str(path), LOCK) == b'{"ok": true}\n'
    path.write_text("a file")
    with pytest.raises(PolicyError):
        with listening(broker, socket=str(path)):
            pass
    assert path.read_text() == "a file"


OUT_OF_REACH_OR_IN_REACH_OF_OTHERS = (
    "0.0.0.0:0",
    "localhost:0",
    "::1:0",
    "10.0.0.1:80",
    "127.0.0.1:99999",
    "WORKSPACE/socket",
    "/no/such/dir/s",
    "/tmp/" + "x" * 200,
)


@pytest.mark.parametrize("where", OUT_OF_REACH_OR_IN_REACH_OF_OTHERS)
def test_an_address_that_others_could_reach_or_nobody_can_is_refused(
    broker: ExecutionBroker, workspace: Path, where: str
) -> None:
    with pytest.raises(PolicyError):
        with listening(broker, socket=where.replace("WORKSPACE", str(workspace))):
            pass


def test_an_empty_host_is_the_loopback(broker: ExecutionBroker, capfd: Any) -> None:
    with listening(broker, socket=":0"):
        port = int(capfd.readouterr().err.strip().partition("=")[2])
        assert said(("127.0.0.1", port), LOCK) == b'{"ok": true}\n'


# All of them


def test_shutdown_ends_the_server_whatever_channel_it_came_by(broker: ExecutionBroker, place: Path) -> None:
    read, write = os.pipe()
    with listening(broker, descriptor=read, file=place / "file", socket=str(place / "socket")) as ended:
        os.write(write, b'{"action": "shutdown"}\n')
        assert until(lambda: len(ended) == 1)
        leave(place / "file", b'{"action": "shutdown"}\n')
        assert until(lambda: len(ended) == 2)
        assert said(str(place / "socket"), b'{"action": "shutdown"}\n') == b'{"ok": true}\n'
        assert len(ended) == 3
        os.close(write)


def test_trouble_of_one_channel_does_not_silence_the_others(
    broker: ExecutionBroker, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fable_exec.admin import CommandFileChannel

    def fail(_: object) -> None:
        raise RuntimeError("trouble")

    monkeypatch.setattr(CommandFileChannel, "tick", fail)
    with listening(broker, file=place / "file", socket=str(place / "socket")):
        assert said(str(place / "socket"), UNLOCK) == b'{"ok": true}\n'
