"""`fable-exec mcp`: one workspace for one MCP peer on standard input and output, with the flags of `serve`."""

from __future__ import annotations

import asyncio
import os

import click

from fable_exec.cli.exits import Exit
from fable_exec.cli.showing import at_the_door
from fable_exec.errors import PolicyError
from fable_exec.server.options import Options, read_options

__all__ = ["command"]

_PROGRAM = "fable-exec mcp"
_DESCRIPTION = "Serve one workspace over MCP on standard input and output. Exits 2 when the policy is not valid."


@click.command(
    "mcp",
    short_help="Serve a workspace to an MCP client.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(flags: tuple[str, ...]) -> int:
    """Serve one workspace over MCP on standard input and output; `mcp --help` lists its flags. Needs the extra `mcp`."""
    return at_the_door(lambda: _serve(flags), as_json=False)


def _serve(flags: tuple[str, ...]) -> int:
    options = read_options(flags, os.environ, _PROGRAM, _DESCRIPTION)
    try:
        asyncio.run(_served(options))
    except PolicyError as error:
        raise error.told_by(options.given_by) from None
    return Exit.OK


async def _served(options: Options) -> None:
    """Until the peer closes its end. Asked to end before that, by the administrator or Ctrl-C, it takes the process with it:
    input is waited for in a thread that nothing can wake.
    """
    from fable_exec.adapters.mcp import build_server, serve_stdio  # what is missing is told by us, before anything is opened
    from fable_exec.admin import open_channels
    from fable_exec.broker import AsyncExecutionBroker

    admin, loop, asked = options.admin, asyncio.get_running_loop(), asyncio.Event()
    try:
        async with AsyncExecutionBroker(options.policy) as broker:

            def shut_down() -> None:
                loop.call_soon_threadsafe(asked.set)

            with open_channels(broker.blocking, shut_down, descriptor=admin.descriptor, file=admin.file, socket=admin.socket):
                serving = asyncio.ensure_future(serve_stdio(build_server(broker)))
                await asyncio.wait({serving, asyncio.ensure_future(asked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        os._exit(Exit.INTERRUPTED)
    if not serving.done():
        os._exit(Exit.OK)
    serving.result()
