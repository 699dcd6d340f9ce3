"""From a call of a peer to a tool and back: validation, refusals as results, schemas that hold.

The SDK's low-level server is used, because its other one sets up the logging of the whole process.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import attrs
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import TypeAdapter, ValidationError

from fable_exec import __version__
from fable_exec.adapters.mcp.roots import check_roots
from fable_exec.adapters.mcp.standard_input import MAX_MESSAGE_BYTES, MessageLines, diverted_input
from fable_exec.adapters.mcp.tools import Call, Tool, tools_for
from fable_exec.adapters.views import View
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.calls import AsyncCalls
from fable_exec.errors import FableExecError
from fable_exec.protocol.encoding import safe_text
from fable_exec.protocol.rules import shown

__all__ = ["NAME", "build_server", "serve_stdio"]

NAME = "fable-exec"
_INSTRUCTIONS = (
    "Programs and files of one workspace, under a policy. A refusal says what was refused and what to do instead; do not repeat "
    "the same call. Unlocking writes is not possible from here: ask your user. describe_workspace tells what can be done."
)
_MOST_FAULTS = 5

_logger = logging.getLogger(__name__)


def build_server(broker: AsyncCalls, *, view: View = "host") -> Server[Any]:
    """A server of the official SDK whose tools work in the broker's workspace. The broker stays the caller's.

    Args:
        broker: an AsyncExecutionBroker or AsyncBrokerClient of the loop that serves.
        view: how paths are called; see AgentWorkspace.
    """
    bound = {tool.name: _Bound.of(tool) for tool in tools_for(broker.policy)}
    desk = _Desk(AgentWorkspace(broker, view=view), bound)
    return Server(
        NAME,
        version=__version__,
        title="Execution broker",
        instructions=_INSTRUCTIONS,
        on_list_tools=desk.list,
        on_call_tool=desk.call,
    )


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one peer on standard input and output until it closes its end; what runs then is ended first.

    Meanwhile both descriptors are diverted, so that nothing else can be taken for a message.
    """
    with diverted_input() as descriptor:
        lines = MessageLines(descriptor, MAX_MESSAGE_BYTES)
        async with stdio_server(stdin=lines) as (messages, answers):
            lines.answer_by(answers)
            await server.run(messages, answers, server.create_initialization_options())


@attrs.frozen
class _Bound:
    """A tool with its schemas made."""

    tool: Tool
    takes: TypeAdapter[Any]
    answers: TypeAdapter[Any]
    listed: types.Tool

    @classmethod
    def of(cls, tool: Tool) -> _Bound:
        takes, answers = TypeAdapter(tool.takes), TypeAdapter(tool.answers)
        listed = types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=takes.json_schema(),
            output_schema=answers.json_schema(mode="serialization"),
            annotations=tool.annotations,
        )
        return cls(tool, takes, answers, listed)


class _Desk:
    """Answers the requests of peers."""

    def __init__(self, workspace: AgentWorkspace, tools: dict[str, _Bound]) -> None:
        self._workspace = workspace
        self._tools = tools
        self._places = asyncio.Semaphore(workspace.policy.limits.max_in_flight)

    async def list(self, _: ServerRequestContext[Any, Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[bound.listed for bound in self._tools.values()])

    async def call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        bound = self._tools.get(params.name)
        if bound is None:
            return _refusal(f"invalid-request: there is no tool {shown(params.name)}; there are {', '.join(self._tools)}")
        try:
            given = bound.takes.validate_json(json.dumps(params.arguments or {}))
            asked_back = await check_roots(context, params, str(self._workspace.policy.workspace))
            if asked_back is not None:
                return asked_back
            async with self._places:
                answer = await bound.tool.act(Call(self._workspace, context.session.report_progress), given)
            return _result(bound.answers.dump_python(answer, mode="json"))
        except ValidationError as error:
            return _refusal(f"invalid-request: {_faults(error)}")
        except FableExecError as error:
            return _refusal(f"{error.code}: {error}")
        except Exception:
            _logger.exception("tool %s failed", bound.tool.name)
            return _refusal("internal-error: the tool failed; its server's log says more")


def _result(members: dict[str, Any]) -> types.CallToolResult:
    """The structured answer, and the same as text for peers that know only that.

    A name that is not UTF-8 is told as a broker's wire tells it: half a surrogate pair cannot be sent, and would end the server.
    """
    text = safe_text(json.dumps(members, ensure_ascii=False))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=json.loads(text))


def _refusal(text: str) -> types.CallToolResult:
    """What the model can read and mend; not an error of the protocol."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=safe_text(text))], is_error=True)


def _faults(error: ValidationError) -> str:
    """What is wrong with which argument, without the values: they may be long, and are the peer's own."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(str(part) for part in each['loc'])[:100] or 'arguments'}: {each['msg'][:200]}" for each in found]
    more = f"; and {len(told) - _MOST_FAULTS} more" if len(told) > _MOST_FAULTS else ""
    return "; ".join(told[:_MOST_FAULTS]) + more
