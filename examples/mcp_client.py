"""An MCP client without a model: it starts `fable-exec mcp` on a directory of its own and does what an agent would.

Needs the extra `mcp`, and a host that can confine commands. Each step says what came; the exit status is 0 only if all was as
expected.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

PROGRAMS = ("sh", "cat", "sleep")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(directory).resolve()
        (workspace / "notes.txt").write_text("remember the milk\n")
        flags = ["--workspace", str(workspace), *(word for name in PROGRAMS for word in ("--allow", name))]
        server = StdioServerParameters(command=sys.executable, args=["-P", "-m", "fable_exec", "mcp", *flags])
        async with Client(server) as client:
            await use(client)


async def use(client: Any) -> None:
    """Look around, run something with progress, be refused, cancel."""
    print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))

    found = await client.call_tool("search_files", {"query": "milk"})
    print("found:", found.structured_content["matches"])
    assert found.structured_content["matches"][0]["line"] == 1

    async def heard(progress: float, _: float | None, message: str | None) -> None:
        print(f"  so far {progress:.0f} bytes: {message!r}")

    text = "for i in 1 2 3; do echo step $i; sleep 0.2; done; cat notes.txt"
    ran = await client.call_tool("run_shell", {"text": text}, progress_callback=heard)
    print("ran:", ran.structured_content["stdout"].splitlines())
    assert ran.structured_content["status"] == 0 and "milk" in ran.structured_content["stdout"]

    late = await client.call_tool("run_shell", {"text": "echo begun; sleep 60", "timeout_seconds": 0.5})
    print("timed out:", late.structured_content["reason"], "with", repr(late.structured_content["stdout"]))
    assert late.structured_content["reason"] == "timed_out"

    for name, arguments in (
        ("execute_command", {"command": ["rm", "-r", "."]}),
        ("write_file", {"path": "notes.txt", "content": ""}),
        ("read_file", {"path": "../secret"}),
    ):
        refused = await client.call_tool(name, arguments)
        print("refused:", refused.content[0].text)
        assert refused.is_error

    waiting = asyncio.ensure_future(client.call_tool("run_shell", {"text": "sleep 60"}))
    await asyncio.sleep(0.3)
    waiting.cancel()
    print("cancelled:", isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError))


if __name__ == "__main__":
    asyncio.run(main())
