"""The broker as a child process: how it is started, told its policy, and ended.

It gets a socket for requests, a pipe for answers, a socket for the admin, whose other end only this process has, and a descriptor
of this process. Forked copies of the host keep all of these open: so the end of the requests is said by shutting their socket
down, and the end of the host is seen by its descriptor. The policy travels by a descriptor, so that no other process sees it in a
command line. It leads a session of its own: a Ctrl-C on the terminal is for the host.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import attrs

from fable_exec._sys.inherited import take_standard_numbers
from fable_exec.errors import BrokerGone, FableExecError, LaunchFailed, PolicyError
from fable_exec.interpreter import EXIT_BAD_POLICY, SETTING_PREFIXES, interpreter
from fable_exec.policy import BrokerPolicy, dump_json

__all__ = ["END_SECONDS", "NO_SIGNAL", "Child", "program_environment", "start_child"]

NO_SIGNAL = int(getattr(socket, "MSG_NOSIGNAL", 0))
"""A host that has set SIGPIPE to its default must not die of a broker that is gone."""

END_SECONDS = 3.0
"""How long a broker that is told to end may take before it is killed; it allows itself two."""
_LEFT_OPEN_SECONDS = 0.2
"""The same for one that nobody has any more: whoever dropped it does not expect to wait."""
_DO_NOT_WAIT = int(getattr(socket, "MSG_DONTWAIT", 0))
_MAX_COMPLAINT_BYTES = 4096


@attrs.define
class Child:
    """The process and our ends of its channels. Whoever has it closes it, once, with nobody reading or writing any more."""

    process: subprocess.Popen[bytes]
    requests: socket.socket
    answers: int
    admin: socket.socket
    complaints: IO[bytes]
    _owner: int = attrs.field(factory=os.getpid)

    def send_some(self, data: bytes | bytearray | memoryview) -> int:
        """Write what the broker takes now. Raises BlockingIOError when that is nothing."""
        return self.requests.send(data, _DO_NOT_WAIT | NO_SIGNAL)

    def end_requests(self) -> None:
        """Let the broker see the end of its input: it finishes or ends what runs, and exits. Idempotent."""
        if os.getpid() == self._owner:
            with suppress(OSError):  # ended already, by either side
                self.requests.shutdown(socket.SHUT_WR)
        self.requests.close()

    def wait(self, seconds: float = END_SECONDS) -> None:
        """Wait for the exit, `seconds` at most; then kill it, and with it everything it runs."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Release every descriptor."""
        self.end_requests()
        os.close(self.answers)
        self.admin.close()
        self.complaints.close()

    def let_go(self) -> None:
        """In a forked child: release the copies; the parent's broker hears nothing of it."""
        self.close()
        self.process.poll()  # it is no child of this process: that is all there is to know, and nobody is warned of it later

    def left_open(self) -> None:
        """Nobody has the client any more, and nobody closed it: warn as Python does of an open file, and end all the same."""
        if os.getpid() != self._owner:
            self.let_go()
            return
        try:
            warnings.warn(f"unclosed broker client, process {self.process.pid}", ResourceWarning, stacklevel=3, source=self)
        finally:
            self.end_requests()
            self.wait(_LEFT_OPEN_SECONDS)
            self.close()

    def discard(self) -> None:
        """End it and release everything."""
        self.end_requests()
        self.wait()
        self.close()

    def last_words(self) -> FableExecError:
        """Why a broker that ends by itself does so; waits for its end."""
        self.end_requests()
        self.wait()
        self.complaints.seek(0)
        text = self.complaints.read(_MAX_COMPLAINT_BYTES).decode("utf-8", "replace").strip()
        if self.process.returncode == EXIT_BAD_POLICY:
            return PolicyError(text or "the broker refused its policy")
        told = f": {text}" if text else ""
        return BrokerGone(f"the broker ended with status {self.process.returncode}{told}")


def start_child(policy: BrokerPolicy, python: str | None = None) -> Child:
    """Start `python -m fable_exec.server` with `policy`.

    Raises:
        LaunchFailed: the interpreter could not be started, or this process has no room for what it shares with it.
    """
    try:
        return _started(policy, python or interpreter())
    except LaunchFailed:
        raise
    except OSError as error:
        raise LaunchFailed.at("server", error.errno or 0, "what this process shares with it") from error


def _started(policy: BrokerPolicy, program: str) -> Child:
    with ExitStack() as ours, ExitStack() as theirs:
        for taken in take_standard_numbers():  # a channel with such a number would be the child's standard stream
            theirs.callback(os.close, taken)
        our_admin, its_admin = _socket_pair(ours, theirs)
        document = theirs.enter_context(_unnamed_file())
        document.write(dump_json(policy).encode())
        document.seek(0)
        complaints = ours.enter_context(_unnamed_file())
        our_requests, its_requests = _socket_pair(ours, theirs)
        our_answers, its_answers = _pipe(ours, theirs)
        # Its paths are UTF-8 whatever the locale of this process is.
        argv = [program, "-P", "-X", "utf8", "-m", "fable_exec.server"]
        passed = {"--policy-fd": document.fileno(), "--admin-fd": its_admin.fileno(), **_own_handle(theirs)}
        argv += [f"{option}={descriptor}" for option, descriptor in passed.items()]
        try:
            process = subprocess.Popen(
                argv,
                stdin=its_requests.fileno(),
                stdout=its_answers,
                stderr=complaints,
                pass_fds=tuple(passed.values()),
                env=program_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchFailed.at("server", error.errno or 0, program) from error
        ours.pop_all()
    return Child(process, our_requests, our_answers, our_admin, complaints)


def _unnamed_file() -> IO[bytes]:
    """In memory where the kernel has that, so that a full disk is no reason to start nothing."""
    if sys.platform == "linux":
        with suppress(OSError):  # a filter around this process may refuse the call
            return os.fdopen(os.memfd_create("fable-exec"), "w+b")
    return tempfile.TemporaryFile()


def _own_handle(until_started: ExitStack) -> dict[str, int]:
    """A descriptor of this process, by which the broker sees its death; nothing where the kernel has none."""
    if sys.platform != "linux":
        return {}
    try:
        descriptor = os.pidfd_open(os.getpid())
    except OSError:
        return {}
    until_started.callback(os.close, descriptor)
    return {"--host-fd": descriptor}


def _socket_pair(ours: ExitStack, theirs: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two sockets, each closed by its stack."""
    our_end, their_end = socket.socketpair()
    ours.callback(our_end.close)
    theirs.callback(their_end.close)
    return our_end, their_end


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed by the two stacks."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def program_environment() -> dict[str, str]:
    """For programs of this package: ours, without settings that would change the policy, and with a way to find it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTING_PREFIXES)}
    home = str(Path(__file__).parents[2])
    if home not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (home, environment.get("PYTHONPATH"))))
    return environment
