"""The directories that a client says a server may work in, held against the workspace.

A client that declares roots and names none that holds the workspace gets no tool: it has another project open than this one.
Roots are asked for with each call, because they may change; in protocols from 2026-07-28 on through the result that asks back.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from fable_exec.errors import Denied

__all__ = ["check_roots"]

_KEY = "roots"
_ANSWER_SECONDS = 5.0


async def check_roots(
    context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams, workspace: str
) -> types.InputRequiredResult | None:
    """None when the call may go on; else what asks the client for its roots first.

    Raises:
        Denied: the client's roots do not hold the workspace, or could not be had.
    """
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return None
    if context.session.can_send_request:
        await asyncio.to_thread(_refuse_others, await _asked(context), workspace)
        return None
    answer = (params.input_responses or {}).get(_KEY)
    if answer is None:
        return types.InputRequiredResult(input_requests={_KEY: types.ListRootsRequest()})
    if not isinstance(answer, types.ListRootsResult):
        raise Denied("the client did not answer with its roots")
    await asyncio.to_thread(_refuse_others, answer, workspace)
    return None


async def _asked(context: ServerRequestContext[Any, Any]) -> types.ListRootsResult:
    try:
        answer: types.ListRootsResult = await context.session.send_request(
            types.ListRootsRequest(), types.ListRootsResult, request_read_timeout_seconds=_ANSWER_SECONDS
        )
    except (MCPError, ValidationError) as error:
        raise Denied("the client declares roots and did not tell them") from error
    return answer


def _refuse_others(told: types.ListRootsResult, workspace: str) -> None:
    roots = [str(root.uri) for root in told.roots]
    if roots and not any(_holds(uri, workspace) for uri in roots):
        raise Denied(
            f"the roots of this client do not hold the workspace {workspace}: open that directory, or start this server with "
            "another workspace"
        )


def _holds(uri: str, workspace: str) -> bool:
    """Whether it is a directory that the workspace is in. The workspace's name has no links in it, that of a root may."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return False
    try:
        return PurePosixPath(workspace).is_relative_to(os.path.realpath(unquote(parts.path)))
    except ValueError:  # a NUL
        return False
