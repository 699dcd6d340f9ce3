"""A workspace as an MCP server: tools with schemas, progress, and cancellation that ends the tree. Needs the extra `mcp`.

`build_server` makes a server of the official SDK, for any transport; `serve_stdio` serves one peer on standard input and output,
as `fable-exec mcp` does. No tool can unlock writes: the administrator's channel is not in this room's reach.
"""

from __future__ import annotations

from fable_exec.errors import ExtraMissing

try:
    import mcp as _sdk  # noqa: F401  # to say early, and in our words, what is missing
except ImportError as _missing:
    raise ExtraMissing.of("mcp", "mcp") from _missing

from fable_exec.adapters.mcp.serving import build_server, serve_stdio

__all__ = ["build_server", "serve_stdio"]
