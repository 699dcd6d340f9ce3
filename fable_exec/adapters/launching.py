"""A command line that a framework starts by itself, with its own Popen, and that ends everything all the same.

It is `fable-exec run` with the workspace's policy; docs/reference/cli.md says what that does of signals, output and endings.
"""

from __future__ import annotations

import importlib.util
import json
import os

from fable_exec.adapters.values import LaunchSpec
from fable_exec.broker.environment import command_environment
from fable_exec.client.child import program_environment
from fable_exec.errors import ExtraMissing
from fable_exec.interpreter import interpreter
from fable_exec.policy import BrokerPolicy, to_mapping
from fable_exec.protocol import ExecuteCommand

__all__ = ["POLICY_VARIABLE", "launch_spec"]

POLICY_VARIABLE = "FABLE_EXEC_LAUNCH_POLICY"
"""The variable of the launched process that holds its policy. A command line could be read by every user of the host."""


def launch_spec(policy: BrokerPolicy, request: ExecuteCommand, *, unlocked: bool) -> LaunchSpec:
    """How to start `request` under `policy`. It is checked for its form here, and judged by the process that is started.

    Args:
        unlocked: whether the administrator has said that it may write.

    Raises:
        Denied, InvalidRequest: the policy does not let a request set one of the variables.
        ExtraMissing: the command line's packages are not installed.
        LaunchFailed: this is a frozen application, which has no interpreter to run it with.
    """
    if importlib.util.find_spec("click") is None:
        raise ExtraMissing.of("cli", "click")
    command_environment({}, request.env, policy.environment)
    longest = policy.limits.max_timeout_seconds if request.timeout_seconds is None else request.timeout_seconds
    flags = ["--policy-env", POLICY_VARIABLE, "--end-with", str(os.getpid()), "--stdin", "--timeout", repr(longest)]
    if request.idle_timeout_seconds is not None:
        flags += ["--idle-timeout", repr(request.idle_timeout_seconds)]
    if request.cwd is not None:
        flags += ["--cwd", request.cwd]
    if unlocked:
        flags.append("--unlocked")
    return LaunchSpec(
        argv=(interpreter(), "-P", "-m", "fable_exec", "run", *flags, "--", *request.command),
        env={**program_environment(), POLICY_VARIABLE: _document(policy, request)},
        cwd=os.sep,
    )


def _document(policy: BrokerPolicy, request: ExecuteCommand) -> str:
    """The policy, with the variables of the request among those that it sets: values in a command line could be read by all."""
    document = to_mapping(policy)
    environment = document["environment"]
    document["environment"] = {**environment, "set": {**environment["set"], **request.env}}
    if request.on_output_limit is not None:
        document["on_output_limit"] = request.on_output_limit
    return json.dumps(document, sort_keys=True)
