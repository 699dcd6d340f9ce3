"""Say what a broker makes of each of the given confinements on the host that this process is made to believe in.

Standard input: a JSON list of policy documents. Standard output: for each either its states or the error, and what `true` did;
where it was refused for want of confinement, also what the broker is still good for.
"""

from __future__ import annotations

import json
import sys

from fable_exec import BrokerPolicy, ExecutionBroker
from fable_exec.errors import ConfinementUnavailable, FableExecError


def told(document: dict[str, object]) -> dict[str, object]:
    """The error's class and protection, or exit status and states."""
    try:
        with ExecutionBroker(BrokerPolicy.from_mapping(document)) as broker:
            return ran(broker)
    except FableExecError as error:
        return {"error": type(error).__name__, "message": str(error)}


def ran(broker: ExecutionBroker) -> dict[str, object]:
    try:
        result = broker.execute_command(["true"])
    except ConfinementUnavailable as error:
        told = {"error": type(error).__name__, "protection": error.protection, "reason": error.reason, "message": str(error)}
        return {**told, "still": still(broker)}
    return {
        "exit_code": result.exit_code,
        "applied": {each.protection: [each.state, each.means, each.reason] for each in result.confinement},
    }


def still(broker: ExecutionBroker) -> dict[str, object]:
    """What needs no confined command."""
    explained = broker.explain(["true"])
    return {
        "states": {each.protection: each.state for each in broker.probe().confinement},
        "explained": [explained.allowed, explained.rule, explained.code, explained.message],
        "states explained": {each.protection: each.state for each in explained.applied},
        "planned": bool(explained.plan),
        "unlisted": refusal(broker, "not-listed"),
        "read": broker.inspect_files("read-me").content,
    }


def refusal(broker: ExecutionBroker, program: str) -> str:
    try:
        broker.execute_command([program])
    except FableExecError as error:
        return error.code
    return "none"


print(json.dumps([told(document) for document in json.load(sys.stdin)]))
