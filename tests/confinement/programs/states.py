"""Say what a broker makes of each of the given confinements on the host that this process is made to believe in.

Standard input: a JSON list of policy documents. Standard output: for each either its states or the error, and what `true` did.
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
            result = broker.execute_command(["true"])
            return {
                "exit_code": result.exit_code,
                "applied": {each.protection: [each.state, each.means, each.reason] for each in result.confinement},
            }
    except ConfinementUnavailable as error:
        return {"error": type(error).__name__, "protection": error.protection, "reason": error.reason}
    except FableExecError as error:
        return {"error": type(error).__name__, "message": str(error)}


print(json.dumps([told(document) for document in json.load(sys.stdin)]))
