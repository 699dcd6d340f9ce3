"""The server as a program: options, broker, admin channels, the loop, and the exit status.

The launcher program is started before the broker's rooms are loaded, so that the two get ready at the same time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING

from fable_exec._sys.inherited import take_standard_streams, write_all
from fable_exec.errors import FableExecError, PolicyError
from fable_exec.interpreter import EXIT_BAD_POLICY
from fable_exec.server.options import PROGRAM, AdminOptions, Options, read_options

if TYPE_CHECKING:
    from fable_exec.broker import ExecutionBroker
    from fable_exec.server.loop import Server

__all__ = ["main", "serve"]

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, *, program: str = PROGRAM) -> int:
    """Serve until standard input ends; returns the exit status. What cannot be served is told in one line on standard error.

    Args:
        program: how the user calls it, for help and complaints.
    """
    take_standard_streams()
    with ExitStack() as stack:
        try:
            options = read_options(sys.argv[1:] if arguments is None else arguments, os.environ, program)
            broker = stack.enter_context(_opened_broker(options))
            server = stack.enter_context(_opened(broker, options.admin, 0, 1, options.host))
        except FableExecError as error:
            with suppress(OSError):  # nobody listens
                write_all(2, " ".join(str(error).split()).encode("utf-8", "backslashreplace") + b"\n")
            return EXIT_BAD_POLICY
        try:
            server.run()
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
    return 0


def serve(broker: ExecutionBroker, *, admin: AdminOptions | None = None, stdin: int = 0, stdout: int = 1) -> None:
    """Serve one peer on two descriptors until it ends its side, stops reading, or the admin says `shutdown`.

    The broker stays the caller's, who closes it and thereby ends what still runs.

    Raises:
        PolicyError: an admin channel cannot be had as asked.
    """
    with _opened(broker, admin or AdminOptions(), stdin, stdout) as server:
        server.run()


def _opened_broker(options: Options) -> ExecutionBroker:
    from fable_exec.runner.launchers import Launchers

    launchers = Launchers.begun(str(options.policy.workspace))
    from fable_exec.broker import ExecutionBroker

    try:
        return ExecutionBroker(options.policy, launchers=launchers)
    except PolicyError as error:
        raise error.told_by(options.given_by) from None


@contextmanager
def _opened(broker: ExecutionBroker, admin: AdminOptions, stdin: int, stdout: int, host: int | None = None) -> Iterator[Server]:
    """A server with its admin channels, ready to run."""
    from fable_exec.admin import open_channels
    from fable_exec.server.loop import Server

    server = Server(broker, stdin, stdout, host)
    with (
        closing(server),
        open_channels(broker, server.request_end, descriptor=admin.descriptor, file=admin.file, socket=admin.socket),
    ):
        yield server
